"""Matrix products in the number formats that training uses: fresh random operands, exact references, device or CPU.

Knows no limit. The operands of bf16 and fp8 are rounded to the format before they are multiplied, so that the float64
reference of the very same operands differs only by what the device's own arithmetic adds.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Tuple

DTYPES = ("float32", "tf32", "bf16", "fp8")


def operands(torch: Any, dtype: str, n: int) -> Tuple[Any, Any]:
    """Two n x n float32 matrices on the CPU, uniform in [-0.5, 0.5), fresh at each call, exact in `dtype`."""
    generator = torch.Generator().manual_seed(int.from_bytes(os.urandom(7), "little"))
    narrow = _narrow(torch, dtype)
    pair = [torch.rand(n, n, generator=generator) - 0.5 for _ in range(2)]
    a, b = [matrix if narrow is None else matrix.to(narrow).float() for matrix in pair]
    return a, b


def _narrow(torch: Any, dtype: str) -> Any:
    if dtype not in DTYPES:
        raise ValueError("dtype %r, expected one of %s" % (dtype, ", ".join(DTYPES)))
    if dtype == "fp8" and not hasattr(torch, "float8_e4m3fn"):
        raise RuntimeError("torch %s has no float8_e4m3fn" % torch.__version__)
    return {"bf16": torch.bfloat16, "fp8": getattr(torch, "float8_e4m3fn", None)}.get(dtype)


def on_device(torch: Any, dtype: str, gpu: int, a: Any, b: Any) -> Callable[[], Any]:
    """A call that begins the product on a CUDA device and gives the result there, by the vendor's library."""
    place = "cuda:%d" % gpu
    a, b = a.to(place), b.to(place)
    if dtype == "bf16":
        a, b = a.bfloat16(), b.bfloat16()
    if dtype == "fp8":
        narrow, one = _narrow(torch, dtype), torch.ones((), device=place)
        # The tensor cores' fp8 product takes the second operand column by column.
        a, b = a.to(narrow), b.t().contiguous().to(narrow).t()

        def scaled() -> Any:
            # torch has no public name for it.
            done = torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)  # noqa: SLF001
            return done[0] if isinstance(done, tuple) else done  # before torch 2.5 it gave a pair

        return scaled

    def plain() -> Any:
        torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        return a @ b

    return plain


def on_cpu(torch: Any, dtype: str, a: Any, b: Any) -> Any:
    """The product as such a device rounds it: operands in `dtype`, sums in float32, bf16 and fp8 results in bf16."""
    if dtype == "tf32":
        a, b = _ten_bits(torch, a), _ten_bits(torch, b)
    product = a @ b
    return product.bfloat16() if dtype in ("bf16", "fp8") else product


def _ten_bits(torch: Any, matrix: Any) -> Any:
    return ((matrix.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def max_relative_error(a: Any, b: Any, product: Any) -> float:
    """The largest error of an element, relative to (|A||B|), against the product of the same operands in float64.

    On that scale rounding errors have a bound that holds for every element whatever the order of summation (Higham,
    Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.5).
    """
    reference = a.double() @ b.double()
    scale = a.double().abs() @ b.double().abs()
    return float(((product.cpu().double() - reference).abs() / scale).max().item())


def operations(n: int) -> float:
    """Multiplications and additions of an n x n product."""
    return 2.0 * n**3
