"""What became of a pod: each fatal reason by status and events, never by log text, and garbage never crashes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuproof.evidence import MAX_EVIDENCE, MAX_EVIDENCE_CHARS, capped
from gpuproof.failure import JobFailure, Reason
from gpuproof.pod_outcome import HasMessage, OnTheWay, Phase, classify, deleted
from tests.gpuproof import pods
from tests.gpuproof.pods import condition, event, pod, running, terminated, waiting

SANDBOX_UP = condition("PodReadyToStartContainers", "True")
BOUND = condition("PodScheduled", "True")
LOOKUP = "failed to do request: Head: dial tcp: lookup registry.example: i/o timeout"
REFUSED = "failed to do request: Head: dial tcp 127.0.0.1:80: connect: connection refused"


def reason_of(*args: Any) -> Reason:
    outcome = classify(*args)
    assert isinstance(outcome, JobFailure), outcome
    return outcome.reason


def phase_of(*args: Any) -> Phase:
    outcome = classify(*args)
    assert isinstance(outcome, OnTheWay), outcome
    return outcome.phase


def test_phases_on_the_way() -> None:
    creating = {"measure": waiting("ContainerCreating"), "hold": waiting("ContainerCreating")}
    sandbox_down = condition("PodReadyToStartContainers", "False")
    assert phase_of(pod(node=None)) is Phase.SCHEDULING
    assert phase_of(pod(conditions=[BOUND])) is Phase.STARTING
    assert phase_of(pod(conditions=[sandbox_down, BOUND], containers=creating)) is Phase.STARTING
    assert phase_of(pod(conditions=[BOUND, SANDBOX_UP], containers=creating)) is Phase.PULLING
    assert phase_of(pod(phase="Running", containers={"measure": running(), "hold": running()})) is Phase.RUNNING


def test_message_counts_while_hold_keeps_the_pod_running() -> None:
    seen = pod(phase="Running", containers={"hold": running(), "measure": terminated(0, "result")})
    assert classify(seen) == HasMessage("result")


def test_a_pod_that_measured_and_is_being_deleted_has_measured() -> None:
    seen = pod(phase="Running", deleting=True, containers={"hold": running(), "measure": terminated(0, "result")})
    assert classify(seen) == HasMessage("result")


def test_no_message_field_is_an_empty_message() -> None:
    assert classify(pod(phase="Running", containers={"measure": terminated(0)})) == HasMessage("")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (terminated(7), Reason.NONZERO_EXIT),
        (terminated(2, "could not measure: no GPU"), Reason.NONZERO_EXIT),
        (terminated(137), Reason.NONZERO_EXIT),
        (terminated(137, reason="OOMKilled"), Reason.OOM_KILLED),
        (terminated(9, reason="OOMKilled"), Reason.OOM_KILLED),
        (terminated(0, "result", reason="OOMKilled"), Reason.OOM_KILLED),
        (terminated(128, "exec: not found", reason="StartError"), Reason.CREATE_ERROR),
        (
            terminated(128, "nvml error: driver/library version mismatch", reason="StartError"),
            Reason.GPU_RUNTIME_FAILED,
        ),
        (
            terminated(128, "unresolvable CDI devices nvidia.com/gpu=0", reason="StartError"),
            Reason.GPU_RUNTIME_FAILED,
        ),
        (terminated(137, reason="ContainerStatusUnknown"), Reason.NODE_LOST),
    ],
)
def test_how_measure_ended(state: dict[str, Any], expected: Reason) -> None:
    assert reason_of(pod(phase="Running", containers={"measure": state, "hold": running()})) is expected


def test_killed_by_a_deletion_is_not_its_own_fault() -> None:
    seen = pod(phase="Running", deleting=True, containers={"measure": terminated(143), "hold": running()})
    assert reason_of(seen) is Reason.POD_DELETED


@pytest.mark.parametrize(
    "reason", ["OutOfnvidia.com/gpu", "OutOfcpu", "UnexpectedAdmissionError", "NodeAffinity", "TopologyAffinityError"]
)
def test_refused_by_the_kubelet_has_no_container_statuses(reason: str) -> None:
    seen = pod(phase="Failed", reason=reason, message="Pod was rejected: Allocate failed due to no devices")
    outcome = classify(seen)
    assert isinstance(outcome, JobFailure)
    assert outcome.reason is Reason.ADMISSION_REFUSED
    assert reason in outcome.message
    assert any("Allocate failed" in text for text in outcome.evidence)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("Evicted", Reason.EVICTED),
        ("Preempting", Reason.PREEMPTED),
        ("DeadlineExceeded", Reason.DEADLINE_EXCEEDED),
        ("NodeLost", Reason.NODE_LOST),
        ("Terminated", Reason.EVICTED),
    ],
)
def test_ended_by_the_kubelet_or_a_controller(reason: str, expected: Reason) -> None:
    assert reason_of(pod(phase="Failed", reason=reason, message="because")) is expected
    killed = {"measure": terminated(137), "hold": terminated(143)}
    assert reason_of(pod(phase="Failed", reason=reason, message="because", containers=killed)) is expected


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("PreemptionByScheduler", Reason.PREEMPTED),
        ("DeletionByTaintManager", Reason.NODE_LOST),
        ("DeletionByPodGC", Reason.NODE_LOST),
        ("EvictionByEvictionAPI", Reason.EVICTED),
        ("TerminationByKubelet", Reason.EVICTED),
        ("SomethingNew", Reason.EVICTED),
    ],
)
def test_disruption_is_named_while_the_container_still_runs(reason: str, expected: Reason) -> None:
    target = condition("DisruptionTarget", "True", reason, "said why")
    seen = pod(phase="Running", deleting=True, conditions=[target], containers={"measure": running()})
    assert reason_of(seen) is expected


@pytest.mark.parametrize("reason", ["ErrImageNeverPull", "InvalidImageName", "ErrImagePull"])
def test_image_that_cannot_be_had_is_named_at_once(reason: str) -> None:
    seen = pod(conditions=[SANDBOX_UP], containers={"measure": waiting(reason, REFUSED), "hold": waiting(reason)})
    outcome = classify(seen)
    assert isinstance(outcome, JobFailure)
    assert outcome.reason is Reason.IMAGE_PULL
    assert "connection refused" in outcome.message


def test_image_of_another_container_counts_too() -> None:
    seen = pod(containers={"measure": waiting("ContainerCreating"), "hold": waiting("ErrImageNeverPull")})
    assert reason_of(seen) is Reason.IMAGE_PULL


@pytest.mark.parametrize("cause", [LOOKUP, "context canceled", "net/http: TLS handshake timeout"])
def test_a_pull_that_may_work_next_time_has_its_own_clock(cause: str) -> None:
    first = pod(conditions=[SANDBOX_UP], containers={"measure": waiting("ErrImagePull", cause)})
    later = waiting("ImagePullBackOff", f'Back-off pulling image "x": ErrImagePull: {cause}')
    assert phase_of(first) is Phase.PULLING
    assert phase_of(pod(conditions=[SANDBOX_UP], containers={"measure": later})) is Phase.PULLING


def test_an_older_kubelets_back_off_is_explained_by_the_event() -> None:
    seen = pod(containers={"measure": waiting("ImagePullBackOff", 'Back-off pulling image "x"')})
    transient = event("j-0-aaaaa", "Failed", f'Failed to pull image "x": {LOOKUP}', name="a")
    final = event("j-0-aaaaa", "Failed", 'Failed to pull image "x": not found', name="b")
    assert phase_of(seen, []) is Phase.PULLING
    assert phase_of(seen, [transient]) is Phase.PULLING
    assert reason_of(seen, [transient, final]) is Reason.IMAGE_PULL


def test_configuration_error() -> None:
    seen = pod(
        conditions=[SANDBOX_UP], containers={"measure": waiting("CreateContainerConfigError", "no configmap cm")}
    )
    assert reason_of(seen) is Reason.CREATE_ERROR
    late = waiting("CreateContainerConfigError", "failed to sync configmap cache: timed out waiting for the condition")
    assert phase_of(pod(conditions=[SANDBOX_UP], containers={"measure": late})) is Phase.PULLING


def test_sandbox_fails_once_may_pass_twice_is_named() -> None:
    seen = pod(conditions=[BOUND], containers={"measure": waiting("ContainerCreating")})
    seen["status"]["conditions"].append(condition("PodReadyToStartContainers", "False"))
    text = "Failed to create pod sandbox: plugin type=bridge failed"
    assert phase_of(seen, [event("j-0-aaaaa", "FailedCreatePodSandBox", text)]) is Phase.STARTING
    assert reason_of(seen, [event("j-0-aaaaa", "FailedCreatePodSandBox", text, count=2)]) is Reason.SANDBOX_FAILED
    two = [event("j-0-aaaaa", "FailedCreatePodSandBox", text, name=name) for name in "ab"]
    assert reason_of(seen, two) is Reason.SANDBOX_FAILED
    hopeless = 'Failed to create pod sandbox: no runtime for "nvidia" is configured'
    assert reason_of(seen, [event("j-0-aaaaa", "FailedCreatePodSandBox", hopeless)]) is Reason.SANDBOX_FAILED


def test_init_container_of_the_patch_fails() -> None:
    init = {"fetch": terminated(3)}
    assert reason_of(pod(init=init, containers={"measure": waiting("PodInitializing")})) is Reason.NONZERO_EXIT
    assert reason_of(pod(phase="Failed", init=init)) is Reason.NONZERO_EXIT


def test_a_sidecars_trouble_does_not_stop_a_running_measurement() -> None:
    seen = pod(phase="Running", containers={"measure": running(), "proxy": waiting("CrashLoopBackOff", "back-off")})
    assert phase_of(seen) is Phase.RUNNING


def test_deleted_without_an_outcome() -> None:
    assert deleted(pod(phase="Running", containers={"measure": running()})).reason is Reason.POD_DELETED
    assert deleted({}).reason is Reason.POD_DELETED


def test_what_kept_the_scheduler_waiting_is_forgotten_once_bound() -> None:
    late = event("j-0-aaaaa", "FailedScheduling", "0/4 nodes are available")
    outcome = classify(pod(conditions=[BOUND]), [late])
    assert outcome == OnTheWay(Phase.STARTING, "")


def test_evidence_is_capped_and_without_repeats() -> None:
    texts = capped(["same", "same", *(f"text {n}" for n in range(50)), "x" * 10_000])
    assert len(texts) == MAX_EVIDENCE
    assert texts.count("same") == 1
    assert all(len(text) <= MAX_EVIDENCE_CHARS + 3 for text in texts)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(field=st.sampled_from(["metadata", "spec", "status", "containerStatuses", "conditions", "state"]), value=JSON)
def test_garbage_never_crashes(field: str, value: Any) -> None:
    seen = pod(containers={"measure": waiting("ContainerCreating")}, conditions=[BOUND])
    if field in ("metadata", "spec", "status"):
        seen[field] = value
    elif field == "state":
        seen["status"]["containerStatuses"][0]["state"] = value
    else:
        seen["status"][field] = value
    classify(seen, [pods.event("x", "Failed", "y")])
    deleted(seen)
