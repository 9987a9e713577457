"""Pages in the exporter's documented formats are read right, and what is no page is said to be none."""

from __future__ import annotations

import pytest

from gpuproof.telemetry.exposition import OPENMETRICS, PageError, read_page
from gpuproof.telemetry.readings import (
    ENERGY,
    POWER,
    UTILISATION,
    XID,
    Holder,
    PageReading,
    compact,
    is_blank,
    read_gpus,
    utilisation,
)
from tests.gpuproof.telemetry.pages import TEXT, UUIDS, labels, page

POD = {"container": "main", "namespace": "team", "pod": "serve-s65j5", "pod_uid": ""}


def reading(text: str, content_type: str = TEXT) -> PageReading:
    return read_gpus(read_page(text.encode(), content_type))


@pytest.mark.parametrize("hostname", ["Hostname", "hostname"])
def test_text_format(hostname: str) -> None:
    got = reading(page(({XID: 31}, {UTILISATION: 97}), (POD, None), hostname))
    assert got.uuids == set(UUIDS)
    busy, idle = got.gpus[UUIDS[0], ""], got.gpus[UUIDS[1], ""]
    assert (busy.values[POWER], busy.values[ENERGY], busy.values[XID]) == (113.611, 5551899580, 31)
    assert busy.holders == {Holder("team", "serve-s65j5", "main")}
    assert idle.holders == {None}
    assert (idle.index, idle.hostname, idle.model) == ("1", "n1", "NVIDIA H100 80GB HBM3")
    assert utilisation(idle) == 97
    assert (got.blank, got.unreadable, got.duplicate, got.nameless) == ((), (), (), ())
    assert set(compact(busy).values) < set(busy.values)


def test_openmetrics() -> None:
    text = (
        "# HELP DCGM_FI_DEV_POWER_USAGE Power draw.\n# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n"
        f"DCGM_FI_DEV_POWER_USAGE{{{labels(0)}}} 68.347\n"
        "# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n"
        f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_total{{{labels(0)}}} 17\n# EOF\n"
    )
    got = reading(text, f"{OPENMETRICS}; version=1.0.0; charset=utf-8")
    assert got.gpus[UUIDS[0], ""].values == {POWER: 68.347, ENERGY: 17}
    with pytest.raises(PageError, match="no metrics"):
        read_page(text.removesuffix("# EOF\n").encode(), OPENMETRICS)


def test_mig_instances_are_told_apart_and_are_busy_by_their_engines() -> None:
    instance = f'{labels(0)},GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"'
    text = f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{instance}}} 0.25\nDCGM_FI_DEV_POWER_USAGE{{{labels(0)}}} 90\n"
    got = reading(text)
    assert set(got.gpus) == {(UUIDS[0], ""), (UUIDS[0], "7")}
    assert utilisation(got.gpus[UUIDS[0], "7"]) == 25
    assert utilisation(got.gpus[UUIDS[0], ""]) is None


def test_prometheus_own_pod_label_is_not_the_workloads() -> None:
    through = 'pod="exporter-x",namespace="gpu-operator",container="exporter",'
    through += 'exported_pod="train-0",exported_namespace="team",exported_container="main"'
    got = reading(f"DCGM_FI_DEV_GPU_UTIL{{{labels(0)},{through}}} 5\n")
    assert got.gpus[UUIDS[0], ""].holders == {Holder("team", "train-0", "main")}


def test_empty_pod_labels_are_not_absent_ones() -> None:
    got = reading(f'DCGM_FI_DEV_GPU_UTIL{{{labels(0)},container="",namespace="",pod=""}} 5\n')
    assert got.gpus[UUIDS[0], ""].holders == {Holder("", "", "")}


@pytest.mark.parametrize(
    "blank", ["9223372036854775792", "9223372036854775794", "140737488355328", "140737488355330.000000", "2147483632"]
)
def test_blank_values_are_no_values(blank: str) -> None:
    got = reading(f"# TYPE {POWER} gauge\n{POWER}{{{labels(0)}}} {blank}\n")
    assert got.gpus[UUIDS[0], ""].values == {}
    assert got.blank == ((POWER, (UUIDS[0], "")),)


def test_a_counter_may_pass_the_32_bit_blanks() -> None:
    assert is_blank(2147483633.0, "gauge")
    assert not is_blank(2147483633.0, "counter")
    assert not is_blank(2147483636.0, "gauge")
    assert not is_blank(140737488355332.0, "counter")


def test_what_is_not_finite_is_no_value() -> None:
    got = reading(f"{POWER}{{{labels(0)}}} NaN\n{ENERGY}{{{labels(0)}}} +Inf\n")
    assert got.unreadable == ((POWER, (UUIDS[0], "")), (ENERGY, (UUIDS[0], "")))


def test_a_gpu_told_twice_and_one_without_a_name() -> None:
    text = f'{POWER}{{{labels(0)}}} 1\n{POWER}{{{labels(0)},pod="a"}} 2\n{POWER}{{gpu="1"}} 3\nnode_load1 4\n'
    got = reading(text)
    assert got.duplicate == ((POWER, (UUIDS[0], "")),)
    assert got.nameless == (POWER,)
    assert got.gpus[UUIDS[0], ""].values == {POWER: 1}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "empty"),
        (b"\n \n", "empty"),
        (b"\xff\xfe\n", "no text"),
        (b"# HELP A b\n", "no series"),
        (b"<html><body>503</body></html>\n", "no metrics"),
        (b'A{gpu="0"} 1\nA{gpu="1', "cut"),
        (b'A{gpu="0"} one\n', "no metrics"),
        (b'A{gpu="0} 1\n', "no metrics"),
        (b'{"status":"success"}\n', "no metrics"),
    ],
)
def test_what_is_no_page(body: bytes, why: str) -> None:
    with pytest.raises(PageError, match=why):
        read_page(body, TEXT)
