"""Sweeps over real pods of the simulated cluster: through its API, scheduler, Job controller and kubelets."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from gpuproof.jobs import Result, Visited
from gpuproof.run_namespace import delete_namespace, leftovers
from tests.simulated import PATIENT, failures, simulated, visited


def test_real_pods_measure_once_on_each_node_and_nothing_stays() -> None:
    with simulated("small") as sim:
        before = sim.cluster.counters
        results, summary = sim.sweep("gpu_inventory", on_result=lambda result: result.node == "gpu-02")
        assert visited(results) == list(sim.nodes)
        first = results[0]
        assert isinstance(first, Visited)
        assert first.measurement.workload == "gpu_inventory"
        assert first.timings.scheduled_s <= first.timings.measured_s
        assert list(summary.logs) == ["gpu-02"]
        assert "gpus_visible" in summary.logs["gpu-02"]
        again, _ = sim.sweep("gpu_inventory")  # while the pods of the first are still ending
        assert visited(again) == list(sim.nodes)
        done = sim.namespace.delete(30)
        assert done.deleted, done.left
        assert sim.cluster.counters.requests - before.requests <= 20  # two sweeps and the namespace's end
        assert sim.pods().items == ()


@pytest.mark.parametrize(("nodes", "pause_s"), [(4, 1.0), (32, 0.01)])
def test_light_nodes_are_visited_once(nodes: int, pause_s: float) -> None:
    with simulated(f"light-{nodes}") as sim:
        results, summary = sim.sweep("pause", {"seconds": pause_s})
        assert visited(results) == list(sim.nodes)
        assert len(results) == nodes
        assert summary.requests <= 8


def test_a_black_hole_costs_no_other_node_its_visit() -> None:
    with simulated("light-16", "black-hole-node") as sim:
        results, summary = sim.sweep("pause", {"seconds": 0.01})
        (hole,) = failures(results)
        assert failures(results)[hole] == "admission_refused"
        assert visited(results) == [name for name in sim.nodes if name != hole]
        assert summary.requests <= 15


def test_an_interrupt_ends_the_pods_and_its_namespace_is_found() -> None:
    with simulated("light-4") as sim:
        stop = threading.Event()
        timer = threading.Timer(1.0, stop.set)
        timer.start()
        results, summary = sim.sweep("pause", {"seconds": 60}, stop=stop)
        timer.join()
        assert set(failures(results).values()) == {"interrupted"}
        assert summary.left == ()
        assert leftovers(sim.cluster) == ("gpuproof-r1",)
        assert delete_namespace(sim.cluster, "gpuproof-r1", 30).deleted
        assert sim.pods().items == ()


def test_one_gpu_too_many_is_named_before_any_deadline() -> None:
    with simulated("light-4") as sim:
        seen: list[Result] = []
        results, summary = sim.sweep("pause", gpus=3, on_result=seen.append)
        assert set(failures(results).values()) == {"unschedulable"}
        assert summary.requests == 0


def test_a_kubelet_that_takes_no_notice_does_not_hold_the_namespace() -> None:
    with simulated("light-4", "pod-stuck-silently") as sim:
        results, _ = sim.sweep("pause", {"seconds": 0.01}, deadlines=replace(PATIENT, starting_s=2))
        assert failures(results) == {"gpu-03": "never_started"}
        done = delete_namespace(sim.cluster, sim.namespace.name, 60, stuck_after_s=3)
        assert done.deleted
        assert "gpu-03 was removed by force" in done.left[0]
