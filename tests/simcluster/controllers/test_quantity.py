"""Amounts of resources as Kubernetes writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.controllers.quantity import amount, text_of


@pytest.mark.parametrize(
    ("resource", "text", "expected"),
    [
        ("cpu", "2", 2000),
        ("cpu", "500m", 500),
        ("cpu", "0.1", 100),
        ("requests.cpu", "1500m", 1500),
        ("memory", "64Mi", 64 * 2**20),
        ("memory", "1e3", 1000),
        ("memory", "1500m", 2),
        ("memory", "24684100Ki", 24684100 * 1024),
        ("ephemeral-storage", "1G", 10**9),
        ("nvidia.com/gpu", "8", 8),
    ],
)
def test_amounts(resource: str, text: str, expected: int) -> None:
    assert amount(resource, text) == expected


@pytest.mark.parametrize("text", ["", "x", "1 Gi", "1gi", "--1"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no quantity"):
        amount("memory", text)


@given(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(min_value=0, max_value=2**50))
def test_text_keeps_the_amount(resource: str, value: int) -> None:
    assert amount(resource, text_of(resource, value)) == value
