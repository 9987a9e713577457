"""Time in a queue: a clock of its own, an end in the queue's own words, and nothing that is another training's."""

from __future__ import annotations

from typing import Any

import pytest

from gpuproof.admission import KUEUE, VOLCANO, Admission, Queue
from gpuproof.cluster.port import WatchEvent
from gpuproof.failure import Reason


class Clock:
    """Stands where it is put."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def waiting(clock: Clock, queue: Queue | None) -> Admission:
    admission = Admission(queue, "killed-1", clock)
    admission.begin()
    return admission


def workload(*conditions: tuple[str, str, str], owner: str = "killed-1") -> WatchEvent:
    found = [{"type": kind, "status": status, "reason": "R", "message": said} for kind, status, said in conditions]
    metadata = {"ownerReferences": [{"kind": "Job", "name": owner}]}
    return WatchEvent("MODIFIED", {"metadata": metadata, "status": {"conditions": found}})


def group(phase: str, said: str = "") -> WatchEvent:
    status: dict[str, Any] = {"phase": phase}
    if said:
        status["conditions"] = [{"type": "Unschedulable", "status": "True", "reason": "NotEnough", "message": said}]
    return WatchEvent("MODIFIED", {"metadata": {"ownerReferences": [{"name": "killed-1"}]}, "status": status})


ADMITTED = workload(("QuotaReserved", "True", "reserved"), ("Admitted", "True", "admitted"))
QUEUE = Queue("team-a", 10, KUEUE)


def test_without_a_queue_nobody_waits(clock: Clock) -> None:
    admission = waiting(clock, None)
    clock.now = 1000
    admission.see(ADMITTED)
    assert (admission.waited_s, admission.waits, admission.failure()) == (0.0, "", None)


def test_waiting_is_counted_until_it_is_let_in_and_not_beyond(clock: Clock) -> None:
    admission = waiting(clock, QUEUE)
    clock.now = 4
    assert admission.waited_s == 4
    admission.see(workload(("QuotaReserved", "True", "reserved"), ("Admitted", "False", "a check is not done")))
    clock.now = 6
    admission.see(ADMITTED)
    clock.now = 500
    assert (admission.waited_s, admission.waits, admission.failure()) == (6.0, "", None)


def test_who_is_never_let_in_is_told_in_the_queues_words(clock: Clock) -> None:
    admission = waiting(clock, QUEUE)
    admission.see(workload(("QuotaReserved", "False", "insufficient unused quota for nvidia.com/gpu")))
    admission.see(workload(("Admitted", "True", "admitted"), owner="reference"))
    clock.now = 9.9
    assert admission.failure() is None
    assert "insufficient unused quota" in admission.waits
    clock.now = 10
    failed = admission.failure()
    assert failed is not None
    assert failed.reason is Reason.NOT_ADMITTED
    assert "ClusterQueue team-a did not admit killed-1 within 10 s: R: insufficient unused quota" in failed.message
    assert "admitted_within_s" in failed.message


def test_who_is_taken_out_again_was_not_killed_by_the_harness(clock: Clock) -> None:
    admission = waiting(clock, QUEUE)
    admission.see(ADMITTED)
    admission.see(workload(("Evicted", "True", "Preempted to accommodate a workload"), ("Admitted", "True", "x")))
    admission.see(ADMITTED)  # back again: what it did meanwhile cannot be judged all the same
    failed = admission.failure()
    assert failed is not None
    assert failed.reason is Reason.NOT_ADMITTED
    assert "took killed-1 out again: R: Preempted to accommodate a workload" in failed.message


def test_an_eviction_that_is_over_before_is_none(clock: Clock) -> None:
    admission = waiting(clock, QUEUE)
    admission.see(workload(("Evicted", "False", "Previously: Preempted"), ("Admitted", "True", "x")))
    assert admission.failure() is None


def test_volcano_lets_in_by_the_pod_groups_phase_and_a_restart_may_wait_again(clock: Clock) -> None:
    admission = waiting(clock, Queue("team-a", 10, VOLCANO))
    admission.see(group("Pending", "queue resource quota insufficient"))
    clock.now = 3
    assert "queue resource quota insufficient" in admission.waits
    admission.see(group("Inqueue"))
    clock.now = 50
    admission.see(group("Running"))
    assert (admission.waited_s, admission.failure()) == (3.0, None)
    admission.see(group("Pending"))
    clock.now = 55
    assert admission.waited_s == 8
    clock.now = 60
    failed = admission.failure()
    assert failed is not None
    assert "its PodGroup is Pending" in failed.message


def test_a_pod_that_volcanos_scheduler_takes_for_others_is_told(clock: Clock) -> None:
    admission = waiting(clock, Queue("team-a", 10, VOLCANO))
    taken = {"type": "Ready", "status": "False", "reason": "Evict", "message": "for a queue that reclaims"}
    admission.see_pod({"status": {"conditions": [{**taken, "reason": "ContainersNotReady"}]}})
    assert admission.failure() is None
    admission.see_pod({"status": {"conditions": [taken]}})
    failed = admission.failure()
    assert failed is not None
    assert "for a queue that reclaims" in failed.message
