"""Weights on a node's disk: whole and right, or said to be wrong; never a rate for what did not come."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from workloads import weights_cache
from workloads.contract import Measurement
from workloads.dataset_objects import fetch, generated

SIZE = (1 << 20) + 3


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights_cache, "SCRATCH", str(tmp_path))


def made(**changes: Any) -> list[dict[str, Any]]:
    content = b"".join(generated("w", SIZE))
    weights = {"name": "w.bin", "bytes": SIZE, "sha256": hashlib.sha256(content).hexdigest(), "seed": "w"}
    return [{"name": "small", "bytes": 1, "sha256": "", "seed": "s"}, {**weights, **changes}]


def measured(items: list[dict[str, Any]]) -> Measurement:
    return weights_cache.measure(items, 1, 5.0)


def test_the_largest_object_is_brought_and_read() -> None:
    found = measured(made())
    values = {(sample.metric, sample.at.get("cache", "")): sample.value for sample in found.samples}
    assert found.facts == {"warm_up_error": "none"}
    assert found.environment == {"weights_bytes": str(SIZE)}
    assert values["verified", ""] == 1
    assert all(
        values[key] > 0 for key in [("warm_up", ""), ("warm_up_rate", ""), ("read_rate", "cold"), ("read_rate", "warm")]
    )


def test_wrong_content_has_no_rate() -> None:
    found = measured(made(sha256="0" * 64))
    assert "wrong content" in str(found.facts["warm_up_error"])
    assert [(sample.metric, sample.value) for sample in found.samples] == [("verified", 0.0)]


def test_a_disk_that_gives_back_something_else_is_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    def damaging(item: dict[str, Any], place: str, *rest: Any) -> Any:
        came = fetch(item, place, *rest)
        with Path(place).open("r+b") as out:
            out.write(bytes(16))
        return came

    monkeypatch.setattr(weights_cache, "fetch", damaging)
    assert {s.metric: s.value for s in measured(made()).samples}["verified"] == 0


def test_a_source_that_refuses_is_no_measurement() -> None:
    refused = made()
    del refused[1]["seed"]
    with pytest.raises(SystemExit):
        measured([*refused[:1], {**refused[1], "storage": "shared", "path": "absent"}])
