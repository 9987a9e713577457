"""What a new pod or claim needs to exist: its service account, priority class, runtime class, storage class.

Owns those look-ups. It must not know HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from simcluster.api import errors
from simcluster.api.accountvolume import with_account_volume
from simcluster.api.port import Object
from simcluster.api.resources import Request, Resources
from simcluster.api.selectors import Selection

_SYSTEM_PRIORITIES: Mapping[str, int] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
_DEFAULT_STORAGE = "storageclass.kubernetes.io/is-default-class"


class References:
    """Resolves by name what a new object refers to."""

    def __init__(self, resources: Resources) -> None:
        self._accounts = resources.store.collection("serviceaccounts")
        self._priorities = resources.store.collection("priorityclasses.scheduling.k8s.io")
        self._runtimes = resources.store.collection("runtimeclasses.node.k8s.io")
        self._storage = resources.store.collection("storageclasses.storage.k8s.io")
        self._steps: Mapping[str, tuple[Callable[[Request, Object], Object], ...]] = {
            "pods": (self._account, self._priority, self._runtime),
            "persistentvolumeclaims": (self._class_of_claim,),
        }

    def __call__(self, request: Request) -> Object:
        """The object with what follows from its references. Raises ApiError 403."""
        obj = request.obj
        if request.operation == "CREATE":
            for step in self._steps.get(request.kind.name, ()):
                obj = step(request, obj)
        return obj

    def _account(self, request: Request, pod: Object) -> Object:
        """`default` is taken for granted: its controller makes it a moment after the namespace."""
        name, namespace = pod["spec"]["serviceAccountName"], pod["metadata"]["namespace"]
        if name != "default" and self._accounts.get(namespace, name) is None:
            why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
            raise errors.forbidden(request.kind, pod["metadata"]["name"], why)
        account = self._accounts.get(namespace, name)
        automount = pod["spec"].get("automountServiceAccountToken")
        if automount is None and account is not None:
            automount = account.obj.get("automountServiceAccountToken")
        return pod if automount is False else {**pod, "spec": with_account_volume(pod["spec"])}

    def _priority(self, request: Request, pod: Object) -> Object:
        name = pod["spec"].get("priorityClassName") or ""
        if name in _SYSTEM_PRIORITIES:
            return {**pod, "spec": {**pod["spec"], "priority": _SYSTEM_PRIORITIES[name]}}
        if name:
            entry = self._priorities.get("", name)
            if entry is None:
                why = f"no PriorityClass with name {name} was found"
                raise errors.forbidden(request.kind, pod["metadata"]["name"], why)
            return self._with_priority(pod, entry.obj)
        for entry in self._priorities.candidates(Selection()):
            if entry.obj.get("globalDefault"):
                return self._with_priority(pod, entry.obj)
        return pod

    @staticmethod
    def _with_priority(pod: Object, found: Object) -> Object:
        resolved = {
            "priorityClassName": found["metadata"]["name"],
            "priority": found.get("value", 0),
            "preemptionPolicy": found.get("preemptionPolicy", "PreemptLowerPriority"),
        }
        return {**pod, "spec": {**pod["spec"], **resolved}}

    def _runtime(self, request: Request, pod: Object) -> Object:
        name = pod["spec"].get("runtimeClassName") or ""
        if not name:
            return pod
        entry = self._runtimes.get("", name)
        if entry is None:
            why = f'pod rejected: RuntimeClass "{name}" not found'
            raise errors.forbidden(request.kind, pod["metadata"]["name"], why)
        spec = dict(pod["spec"])
        scheduling = entry.obj.get("scheduling") or {}
        if scheduling.get("nodeSelector"):
            spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **scheduling["nodeSelector"]}
        missing = [one for one in scheduling.get("tolerations") or [] if one not in spec["tolerations"]]
        if missing:
            spec["tolerations"] = [*spec["tolerations"], *missing]
        if overhead := (entry.obj.get("overhead") or {}).get("podFixed"):
            spec["overhead"] = overhead
        return {**pod, "spec": spec}

    def _class_of_claim(self, _request: Request, claim: Object) -> Object:
        if claim["spec"].get("storageClassName") is not None:
            return claim
        for entry in self._storage.candidates(Selection()):
            metadata = entry.obj["metadata"]
            if (metadata.get("annotations") or {}).get(_DEFAULT_STORAGE) == "true":
                return {**claim, "spec": {**claim["spec"], "storageClassName": metadata["name"]}}
        return claim
