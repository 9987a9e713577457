"""The arithmetic of throughput: medians, spreads, references of products, and which GPU a load shows on."""

from __future__ import annotations

import math

import pytest
import torch

from workloads import gemm, gpu_load, gpu_throughput
from workloads.cuda_kernels import PTX, word_at


def test_a_summary_is_the_median_its_spread_and_the_number_of_trials() -> None:
    found = gpu_throughput.summary("gemm", [4.0, 1.0, 2.0], "TFLOPS", {"gpu": 0})
    assert [(s.metric, s.value) for s in found] == [("gemm", 2.0), ("spread", 1.5), ("trials", 3.0)]
    assert found[0].at == {"gpu": 0, "statistic": "median"}
    assert gpu_throughput.summary("gemm", [], "TFLOPS", {"gpu": 0}) == []


@pytest.mark.parametrize("dtype", gemm.DTYPES)
def test_products_are_right_within_their_format_and_a_wrong_element_is_seen(dtype: str) -> None:
    n = 64
    a, b = gemm.operands(torch, dtype, n)
    product = gemm.on_cpu(torch, dtype, a, b).float()
    bound = {"float32": n * 2**-23, "tf32": 2.0**-9 + n * 2**-22}.get(dtype, 2.0**-8 + n * 2**-22)
    error = gemm.max_relative_error(a, b, product)
    assert 0 < error <= bound
    product[3, 5] = -product[3, 5] + 1.0
    assert gemm.max_relative_error(a, b, product) > bound
    assert gemm.max_relative_error(a, b, torch.zeros(n, n)) > bound


def test_operands_are_fresh_and_exact_in_their_format() -> None:
    first, second = gemm.operands(torch, "bf16", 8)
    again, _ = gemm.operands(torch, "bf16", 8)
    assert not torch.equal(first, again)
    assert not torch.equal(first, second)
    assert torch.equal(first, first.bfloat16().float())
    with pytest.raises(ValueError, match="int4"):
        gemm.operands(torch, "int4", 8)


def test_a_load_is_attributed_only_to_the_busiest_gpu() -> None:
    assert gpu_load.shows_there([0.9, 0.1, None], 0)
    assert not gpu_load.shows_there([0.1, 0.9], 0)
    assert not gpu_load.shows_there([0.5, 0.5], 0)
    assert not gpu_load.shows_there([0.0, 0.0], 0)
    assert not gpu_load.shows_there([None, 0.0], 0)
    assert gpu_load.shows_there([0.3], 0)
    assert not gpu_load.shows_there([math.nan, 0.0], 0)


def test_the_pattern_of_memory_repeats_no_word() -> None:
    assert len({word_at(index, 7) for index in range(20_000)}) == 20_000
    # Memory that answers for another place 16 GiB away is seen.
    assert word_at(1 << 32, 7) != word_at(0, 7)
    for constant in (0x7FEB352D, 0x846CA68B):
        assert str(constant) in PTX
