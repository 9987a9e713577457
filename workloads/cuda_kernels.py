"""Three small kernels as PTX, so that a pod needs no compiler: fill and verify memory, and keep every SM busy.

Knows no limit and no torch. PTX ISA 6.4 for sm_50: every later GPU's driver compiles it when it is loaded.
"""

from __future__ import annotations

import ctypes
from typing import Any, List

from workloads.cuda_driver import Driver

BLOCK = 256
_INDEX = """
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mov.u32 %r6, %tid.x;
    mul.wide.u32 %d1, %r0, %r1;
    cvt.u64.u32 %d2, %r6;
    add.u64 %d1, %d1, %d2;
    mov.u32 %r0, %nctaid.x;
    mul.wide.u32 %d2, %r0, %r1;
"""
_OF_WORDS = """
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %d<8>;
    ld.param.u64 %d0, [memory];
    cvta.to.global.u64 %d0, %d0;
    ld.param.u64 %d3, [words];
    ld.param.u32 %r2, [seed];
"""
_EACH_WORD = """
NEXT:
    setp.ge.u64 %p0, %d1, %d3;
    @%p0 bra DONE;
    cvt.u32.u64 %r3, %d1;
    shr.u64 %d4, %d1, 32;
    cvt.u32.u64 %r5, %d4;
    mad.lo.u32 %r3, %r5, 2654435761, %r3;
    add.u32 %r4, %r3, %r2;
    shr.u32 %r5, %r4, 16;
    xor.b32 %r4, %r4, %r5;
    mul.lo.u32 %r4, %r4, 2146121005;
    shr.u32 %r5, %r4, 15;
    xor.b32 %r4, %r4, %r5;
    mul.lo.u32 %r4, %r4, 2221713035;
    shr.u32 %r5, %r4, 16;
    xor.b32 %r4, %r4, %r5;
    shl.b64 %d4, %d1, 2;
    add.u64 %d4, %d0, %d4;
"""
"""The head of the loop over a thread's words: what belongs into the next of them (r4), and where it is (d4)."""
PTX = (
    """
.version 6.4
.target sm_50
.address_size 64

.visible .entry fill32(.param .u64 memory, .param .u64 words, .param .u32 seed)
"""
    + _OF_WORDS
    + _INDEX
    + _EACH_WORD
    + """
    st.global.u32 [%d4], %r4;
    add.u64 %d1, %d1, %d2;
    bra NEXT;
DONE:
    ret;
}

.visible .entry verify32(.param .u64 memory, .param .u64 words, .param .u32 seed, .param .u64 wrong)
"""
    + _OF_WORDS
    + """
    ld.param.u64 %d5, [wrong];
    cvta.to.global.u64 %d5, %d5;
    mov.u64 %d6, 0;
"""
    + _INDEX
    + _EACH_WORD
    + """
    ld.global.u32 %r7, [%d4];
    setp.ne.u32 %p1, %r7, %r4;
    @%p1 add.u64 %d6, %d6, 1;
    add.u64 %d1, %d1, %d2;
    bra NEXT;
DONE:
    setp.eq.u64 %p0, %d6, 0;
    @%p0 bra END;
    atom.global.add.u64 %d7, [%d5], %d6;
END:
    ret;
}

.visible .entry burn(.param .u64 out, .param .u32 iterations)
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .f32 %f<4>;
    .reg .b64 %d<8>;
    ld.param.u64 %d0, [out];
    cvta.to.global.u64 %d0, %d0;
    ld.param.u32 %r2, [iterations];
"""
    + _INDEX
    + """
    cvt.rn.f32.u32 %f0, %r6;
    mov.f32 %f1, 0f3F7FFFEF;
    mov.f32 %f2, 0f3A83126F;
NEXT:
    setp.eq.u32 %p0, %r2, 0;
    @%p0 bra DONE;
    fma.rn.f32 %f0, %f0, %f1, %f2;
    sub.u32 %r2, %r2, 1;
    bra NEXT;
DONE:
    shl.b64 %d4, %d1, 2;
    add.u64 %d4, %d0, %d4;
    st.global.f32 [%d4], %f0;
    ret;
}
"""
)
"""`fill32` writes `word_at(i, seed)` into word i, `verify32` counts the words that hold something else, `burn` computes
`iterations` multiply-adds a thread and writes each thread's result."""


def word_at(index: int, seed: int) -> int:
    """What `fill32` writes: a bijection of any 2**32 words in a row, so that no two places of them hold the same."""
    x = (index + (index >> 32) * 2654435761 + seed) & 0xFFFFFFFF
    x ^= x >> 16
    x = x * 0x7FEB352D & 0xFFFFFFFF
    x ^= x >> 15
    x = x * 0x846CA68B & 0xFFFFFFFF
    return x ^ x >> 16


class Kernels:
    """The module, loaded into the context that is current. Raises `CudaError`."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._module = ctypes.c_void_p()
        driver.call("cuModuleLoadData", ctypes.byref(self._module), PTX.encode("ascii") + b"\0")
        self._functions = {name: self._function(name) for name in ("fill32", "verify32", "burn")}

    def _function(self, name: str) -> ctypes.c_void_p:
        function = ctypes.c_void_p()
        self._driver.call("cuModuleGetFunction", ctypes.byref(function), self._module, name.encode("ascii"))
        return function

    def _launch(self, name: str, blocks: int, stream: Any, arguments: List[Any]) -> None:
        pointers = (ctypes.c_void_p * len(arguments))(*[ctypes.addressof(each) for each in arguments])
        shape = [ctypes.c_uint(size) for size in (blocks, 1, 1, BLOCK, 1, 1, 0)]
        self._driver.call("cuLaunchKernel", self._functions[name], *shape, stream, pointers, None)

    def fill(self, address: int, words: int, seed: int, blocks: int) -> None:
        """Fill `words` 32-bit words from `address` on."""
        self._launch("fill32", blocks, None, [ctypes.c_uint64(address), ctypes.c_uint64(words), ctypes.c_uint32(seed)])

    def verify(self, address: int, words: int, seed: int, wrong: int, blocks: int) -> None:
        """Add to the 64-bit counter at `wrong` how many of the words differ from what `fill` wrote."""
        arguments = [ctypes.c_uint64(address), ctypes.c_uint64(words), ctypes.c_uint32(seed), ctypes.c_uint64(wrong)]
        self._launch("verify32", blocks, None, arguments)

    def burn(self, out: int, iterations: int, blocks: int, stream: Any = None) -> None:
        """`iterations` multiply-adds in each of `blocks` x BLOCK threads; `out` has room for a float a thread."""
        self._launch("burn", blocks, stream, [ctypes.c_uint64(out), ctypes.c_uint32(iterations)])

    def unload(self) -> None:
        """Give the module back."""
        self._driver.call("cuModuleUnload", self._module)
