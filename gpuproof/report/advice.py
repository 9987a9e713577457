"""Owns what to do next about a verdict, by its reason code alone; must not know a pod's text, nor soften a verdict."""

from collections.abc import Mapping
from typing import Final

from gpuproof.report.view import SubjectView

PROVIDER, OWN, NOBODY = "the provider", "your own team", "nobody yet"

_NEXT: Final[Mapping[str, tuple[str, str]]] = {
    "limit_missed": (PROVIDER, "Send the dispute pack; after the repair, run this check on this node again."),
    "limit_not_measured": (OWN, "Find out why the number was not reported (log, image, profile), then run it again."),
    "nothing_judged": (
        OWN,
        "Give the check a limit that speaks about this subject, or mend the check, and run it again.",
    ),
    "unschedulable": (PROVIDER, "Ask why a node that was promised has no room for the pod; see its events below."),
    "gpu_runtime_failed": (
        PROVIDER,
        "Driver, container toolkit or GPU of this node need repair before anything runs on it.",
    ),
    "sandbox_failed": (PROVIDER, "The node cannot start pods: container runtime or network plugin need repair."),
    "volume_failed": (
        PROVIDER,
        "Storage could not be attached or mounted here: its driver, or its access mode, needs repair.",
    ),
    "admission_refused": (
        PROVIDER,
        "The node promised resources that it does not have; have its device plugin looked at.",
    ),
    "evicted": (PROVIDER, "Ask what took the node's resources; see the eviction's message below."),
    "preempted": (PROVIDER, "Something of higher priority took the node; ask what, and whether it may."),
    "deadline_exceeded": (PROVIDER, "It ran and did not end: look at the log below for where it stopped."),
    "never_started": (PROVIDER, "The node accepted the pod and did nothing: look at its kubelet."),
    "node_lost": (PROVIDER, "The node went away during the run: have it looked at before it is used."),
    "node_not_ready": (PROVIDER, "The node is not ready: have it repaired or taken out of what was promised."),
    "node_missing": (PROVIDER, "Ask for the missing nodes, or correct the count in the profile."),
    "image_pull": (OWN, "Correct [pod] image or its pull secret; an unreachable registry is the network's."),
    "create_error": (OWN, "Correct what the container asks for (its patch in [pod]); the message below names it."),
    "forbidden": (OWN, "Apply deploy/rbac.yaml, or ask for an exception from the policy that is named below."),
    "quota_exceeded": (OWN, "Raise the namespace's quota or free what holds it."),
    "not_admitted": (OWN, "Free what the queue that the profile names is full of, and run again."),
    "oom_killed": (OWN, "Raise the memory limit in [pod], or lower the workload's size in the profile."),
    "nonzero_exit": (OWN, "The program could not measure: the log below says why."),
    "no_measurement": (OWN, "The program ended without a word: read its log."),
    "truncated_measurement": (OWN, "Something shortened the pod's message: look at kubelet settings and sidecars."),
    "malformed_measurement": (OWN, "Something else wrote the pod's message: look at sidecars and the image."),
    "foreign_measurement": (OWN, "The message is not of this pod: nothing it says counts. Look for who wrote it."),
    "wrong_world_size": (OWN, "Fewer or more ranks took part than asked: read the log of the missing ones."),
    "wrong_node_count": (OWN, "The pods were not where they should be: look at their placement."),
    "node_busy": (OWN, "Others hold the node's GPUs: free it, or let the scope cover the idle nodes only."),
    "pod_deleted": (OWN, "Somebody deleted the pod: find out who, and run it again."),
    "harness_error": (OWN, "A defect of the check or of gpuproof: keep this folder and report it."),
    "cluster_unreachable": (OWN, "The API did not answer: mend the way to it, then continue with --resume."),
    "interrupted": (NOBODY, "Continue the run with --resume."),
    "unvisited": (NOBODY, "Run it again; a node that is never reached is a finding of its own."),
    "not_selected": (NOBODY, "The command line left it out: run without --only, --nodes and -k for a decision."),
    "node_cordoned": (NOBODY, "The node is cordoned: uncordon it, or take it out of what is promised."),
    "blocked": (NOBODY, "Settle what blocks it first; it is asked again after that."),
}
_OTHERWISE: Final[Mapping[str, tuple[str, str]]] = {
    "FAIL": (PROVIDER, "Send the dispute pack; after the repair, run this check on this subject again."),
    "ERROR": (OWN, "Read the reason and the evidence below, mend it, and run it again."),
    "NOT_RUN": (NOBODY, "Run it: what was not asked was not accepted."),
}


def next_step(subject: SubjectView) -> tuple[str, str]:
    """Return whose turn it is and what to do about a subject that did not pass; two empty texts for one that did."""
    if subject.passed:
        return "", ""
    known = _NEXT.get(subject.reason_code or "")
    return known or _OTHERWISE.get(subject.verdict, (OWN, "Read the reason and run it again."))
