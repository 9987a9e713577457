"""The eviction subresource: a delete that asks the disruption budgets first.

Owns that decision. It must not know HTTP; the budgets' status is a controller's work.
"""

from __future__ import annotations

from simcluster.api import errors
from simcluster.api.kinds import Kind
from simcluster.api.metadata import DeleteOptions, timestamp
from simcluster.api.port import ApiError, Object
from simcluster.api.resources import Resources
from simcluster.api.selectors import Selection, label_selector_text, labels_match

_REASON = "EvictionByEvictionAPI"
_MESSAGE = "Eviction API: evicting"


class Evictions:
    """Evicts pods."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    def _kind(self, name: str) -> Kind:
        kind = self._resources.kinds.named(name)
        if kind is None:
            raise errors.unknown_resource()
        return kind

    def evict(self, namespace: str, name: str, options: DeleteOptions) -> Object:
        """Delete the pod as its budget allows; a Status. Raises ApiError 404, 429."""
        pods = self._kind("pods")
        entry = self._resources.find(pods, name, namespace)
        phase = (entry.obj.get("status") or {}).get("phase")
        guarded = phase not in ("Succeeded", "Failed", "Pending") and "deletionTimestamp" not in entry.obj["metadata"]
        if guarded:
            self._spend_budget(namespace, entry.obj, dry_run=options.dry_run)
        if not options.dry_run:
            if guarded or phase == "Pending":
                self._mark(pods, name, namespace)
            self._resources.delete(pods, name, namespace, options)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}

    def _mark(self, pods: Kind, name: str, namespace: str) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": timestamp(),
            "reason": _REASON,
            "message": _MESSAGE,
        }

        def change(pod: Object) -> Object:
            status = pod.get("status") or {}
            others = [c for c in status.get("conditions") or [] if c["type"] != "DisruptionTarget"]
            return {**pod, "status": {**status, "conditions": [*others, condition]}}

        self._resources.modify(pods, name, namespace, change, subresource="status")

    def _spend_budget(self, namespace: str, pod: Object, *, dry_run: bool) -> None:
        kind = self._kind("poddisruptionbudgets.policy")
        labels = pod["metadata"].get("labels") or {}
        found = [
            entry.obj
            for entry in self._resources.collection(kind).candidates(Selection(namespace))
            if entry.obj["spec"].get("selector") is not None
            and labels_match(label_selector_text(entry.obj["spec"]["selector"]), labels)
        ]
        if len(found) > 1:
            text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise ApiError(500, "InternalError", text)
        if not found:
            return
        _check(found[0])
        if not dry_run:
            self._spend(kind, found[0], pod["metadata"]["name"])

    def _spend(self, kind: Kind, budget: Object, pod: str) -> None:
        def change(obj: Object) -> Object:
            status = obj["status"]
            spent = {"disruptionsAllowed": status["disruptionsAllowed"] - 1}
            spent["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: timestamp()}
            return {**obj, "status": {**status, **spent}}

        metadata = budget["metadata"]
        self._resources.modify(kind, metadata["name"], metadata["namespace"], change, subresource="status")


def _check(budget: Object) -> None:
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _refused(f"The disruption budget {name} is still being processed by the server.", retry_after_s=10)
    if status.get("disruptionsAllowed", 0) > 0:
        return
    for condition in status.get("conditions") or []:
        if condition.get("reason") == "SyncFailed":
            why = condition.get("message", "")
            raise _refused(
                f"The disruption budget {name} does not allow evicting pods currently because it failed sync: {why}"
            )
    needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    raise _refused(f"The disruption budget {name} needs {needs} healthy pods and has {has} currently")


def _refused(text: str, *, retry_after_s: int | None = None) -> ApiError:
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    details: Object = {"causes": [{"reason": "DisruptionBudget", "message": text}]}
    if retry_after_s is not None:
        details["retryAfterSeconds"] = retry_after_s
    return ApiError(429, "TooManyRequests", message, details)
