"""A simulated exporter goes wrong as its faults say, looks once an interval, and is sound without them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from simcluster.faults.file import TroubleExporter
from simcluster.hardware.gpus import NodeGpus
from simcluster.hardware.tools.dcgm_exporter import METRICS, Collector
from simcluster.topology import GpuModel

POWER, XID = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_XID_ERRORS"


@dataclass
class Node:
    """Files as the kubelet and the driver of a node write them, and its exporter."""

    directory: Path
    gpus: NodeGpus
    collector: Collector

    def held_by(self, *pods: str) -> None:
        """Each GPU is held by one of the pods ("" for nobody); the exporter looks."""
        pairs = zip(self.gpus.gpus, pods, strict=True)
        lines = [f"{gpu.uuid}\tns\t{pod}\tmain\n" for gpu, pod in pairs if pod]
        (self.directory / "allocations").write_text("".join(lines))
        self.look()

    def look(self) -> None:
        """One collection."""
        (self.directory / "gpus").write_text(self.gpus.render([gpu.uuid for gpu in self.gpus.gpus]))
        self.collector.collect()

    def trouble(self, **fields: object) -> None:
        """A fault strikes."""
        action = TroubleExporter.model_validate({"do": "trouble-exporter", "node": "n1", **fields})
        (self.directory / "exporter").write_text(action.lines())

    def told(self, metric: str) -> list[tuple[str, str | None, float]]:
        """GPU, pod and value of every series of a metric."""
        families = text_string_to_metric_families(self.collector.page("n1"))
        samples = [sample for family in families if family.name == metric for sample in family.samples]
        return [(each.labels["gpu"], each.labels.get("pod"), each.value) for each in samples]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    files = (str(tmp_path / name) for name in ("gpus", "allocations", "exporter"))
    made = Node(tmp_path, NodeGpus.of("n1", GpuModel(count=2)), Collector(*files))
    made.held_by("a", "")
    return made


def test_sound(node: Node) -> None:
    assert node.told(POWER) == [("0", "a", 71.5), ("1", None, 71.5)]


def test_what_is_not_collected_is_not_told(node: Node) -> None:
    node.gpus.change(0, power_w=300.0)
    assert node.told(POWER)[0] == ("0", "a", 71.5)
    node.look()
    assert node.told(POWER)[0] == ("0", "a", 300.0)


def test_hung(node: Node) -> None:
    node.trouble(hung=True)
    node.gpus.change(0, power_w=300.0)
    node.held_by("b", "b")
    assert node.told(POWER) == [("0", "a", 71.5), ("1", None, 71.5)]


@pytest.mark.parametrize(("labels", "pod"), [("empty", ""), ("absent", None)])
def test_labels(node: Node, labels: str, pod: str | None) -> None:
    node.trouble(labels=labels)
    assert [told[1] for told in node.told(POWER)] == [pod, pod]


@pytest.mark.parametrize(
    ("mapping", "after_b", "after_all"),
    [
        ("now", [("0", "b"), ("1", "b")], [("0", None), ("1", None)]),
        ("first", [("0", "a"), ("1", "b")], [("0", "a"), ("1", "b")]),
        ("kept", [("0", "b"), ("1", "b")], [("0", "b"), ("1", "b")]),
        ("remembered", [("0", "a"), ("0", "b"), ("1", "b")], [("0", "a"), ("0", "b"), ("1", "b")]),
    ],
)
def test_mappings(
    node: Node, mapping: str, after_b: list[tuple[str, str]], after_all: list[tuple[str, str | None]]
) -> None:
    node.trouble(mapping=mapping)
    node.held_by("b", "b")
    assert [told[:2] for told in node.told(POWER)] == after_b
    node.held_by("", "")
    assert [told[:2] for told in node.told(POWER)] == after_all


def test_values_and_series(node: Node) -> None:
    node.gpus.change(0, power_w=300.0)
    node.look()
    node.trouble(swapped=True)
    assert node.told(POWER) == [("0", "a", 71.5), ("1", None, 300.0)]
    node.trouble(missing_gpu=1, scale={POWER: 1000})
    assert node.told(POWER) == [("0", "a", 300000.0)]
    node.trouble(missing_fields=[POWER], blank_fields=[XID], twice=True)
    assert node.told(POWER) == []
    assert [told[2] for told in node.told(XID)] == [9223372036854775794] * 4
    assert len(METRICS) > 20
