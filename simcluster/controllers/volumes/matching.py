"""Which volume satisfies a claim, and what the simulated provisioners can make.

Pure: owns these rules and the storage classes; must not know who binds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from simcluster.api.port import Object
from simcluster.controllers import fields
from simcluster.controllers.matching import labels_match
from simcluster.controllers.quantity import amount

DEFAULT_CLASS_KEY: Final = "storageclass.kubernetes.io/is-default-class"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
WAIT: Final = "WaitForFirstConsumer"


@dataclass(frozen=True)
class Provisioner:
    """What a storage class of the simulated cluster can give."""

    name: str
    modes: frozenset[str]
    local: bool


SHARED = Provisioner(
    "simcluster.local/shared",
    frozenset({"ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod"}),
    local=False,
)
LOCAL = Provisioner("simcluster.local/local", frozenset({"ReadWriteOnce", "ReadWriteOncePod"}), local=True)
PROVISIONERS: Final = {each.name: each for each in (SHARED, LOCAL)}


def _storage_class(
    name: str,
    provisioner: Provisioner,
    mode: str,
    *,
    default: bool,
    expands: bool = False,
    parameters: Mapping[str, str] | None = None,
) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": {DEFAULT_CLASS_KEY: "true"} if default else {}},
        "provisioner": provisioner.name,
        **({"parameters": dict(parameters)} if parameters else {}),
        "reclaimPolicy": "Delete",
        "volumeBindingMode": mode,
        **({"allowVolumeExpansion": True} if expands else {}),
    }


STORAGE_CLASSES: Final = (
    # As fast as a shared file system behind one link: what is measured on it depends on this rate, not on the host.
    _storage_class(
        "shared-rwx",
        SHARED,
        "Immediate",
        default=True,
        expands=True,
        parameters={"read-mib-per-s": "400", "write-mib-per-s": "200"},
    ),
    # Where a site keeps its checkpoints apart from everything else.
    _storage_class(
        "checkpoints-rwx",
        SHARED,
        "Immediate",
        default=False,
        expands=True,
        parameters={"read-mib-per-s": "400", "write-mib-per-s": "200"},
    ),
    _storage_class("local-rwo", LOCAL, WAIT, default=False),
    # A faulty one: files appear late on other nodes, and every third that is written is lost.
    _storage_class(
        "shared-faulty", SHARED, "Immediate", default=False, parameters={"visible-after-s": "2", "lose-every": "3"}
    ),
)


def class_of(claim: Object, classes: Iterable[Object]) -> Object | None:
    """The claim's storage class: the named one, or the default one where none is named; None where there is none."""
    named = fields.spec(claim).get("storageClassName")
    for each in classes:
        if named is None and fields.notes(each).get(DEFAULT_CLASS_KEY) == "true":
            return each
        if named is not None and fields.name(each) == named:
            return each
    return None


def requested(claim: Object) -> str:
    """The storage a claim asks for, as text."""
    return str(((fields.spec(claim).get("resources") or {}).get("requests") or {}).get("storage", "0"))


def given(claim: Object, storage_class: Object) -> str:
    """The storage that a volume of this class has for such a claim, as text."""
    share = float((storage_class.get("parameters") or {}).get("capacity-share", "1"))
    return requested(claim) if share == 1 else str(int(amount("storage", requested(claim)) * share))


def bound(claim: Object) -> bool:
    """The claim has its volume."""
    return fields.phase(claim) == "Bound"


def satisfies(volume: Object, claim: Object) -> bool:
    """An existing volume may be bound to the claim."""
    spec, wanted = fields.spec(volume), fields.spec(claim)
    reserved = spec.get("claimRef")
    if reserved is not None:
        same = (reserved.get("namespace"), reserved.get("name")) == fields.key(claim)
        return same and reserved.get("uid") in (None, "", fields.uid(claim))
    if fields.phase(volume) not in {"", "Available"} or fields.deleting(volume):
        return False
    if (spec.get("storageClassName") or "") != (wanted.get("storageClassName") or ""):
        return False
    if not set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ()):
        return False
    if wanted.get("selector") is not None and not labels_match(wanted["selector"], fields.labels(volume)):
        return False
    have = (spec.get("capacity") or {}).get("storage", "0")
    return amount("storage", have) >= amount("storage", requested(claim))


def claim_reference(claim: Object) -> Object:
    """What a volume's claimRef holds."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": fields.namespace(claim),
        "name": fields.name(claim),
        "uid": fields.uid(claim),
    }


def provisioned(claim: Object, storage_class: Object, provisioner: Provisioner) -> Object:
    """The volume that a provisioner makes for a claim; a local one is tied to the node that was selected."""
    name = f"pvc-{fields.uid(claim)}"
    spec: Object = {
        "capacity": {"storage": given(claim, storage_class)},
        "accessModes": fields.spec(claim).get("accessModes") or ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
        "storageClassName": fields.name(storage_class),
        "volumeMode": fields.spec(claim).get("volumeMode", "Filesystem"),
        "claimRef": claim_reference(claim),
        "csi": {"driver": provisioner.name, "volumeHandle": name},
    }
    if provisioner.local:
        node = fields.notes(claim).get(SELECTED_NODE, "")
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    notes = {"pv.kubernetes.io/provisioned-by": provisioner.name}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": notes},
        "spec": spec,
    }
