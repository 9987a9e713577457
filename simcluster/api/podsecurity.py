"""Pod Security admission: the baseline and restricted standards for namespaces whose labels ask for them.

Owns the rules on security contexts, host access and volumes, and their words. It must not know HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from simcluster.api import errors
from simcluster.api.port import Object
from simcluster.api.resources import Request, Resources

_PREFIX = "pod-security.kubernetes.io/"
_SAFE_VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
        "image",
    }
)
_CAPABILITIES = (
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID SYS_CHROOT"
)
_SAFE_CAPABILITIES = frozenset(_CAPABILITIES.split())
_SECCOMP = ("RuntimeDefault", "Localhost")

Spec = Mapping[str, Any]
Container = Mapping[str, Any]


def _containers(spec: Spec) -> list[Container]:
    groups = ("initContainers", "containers", "ephemeralContainers")
    return [container for group in groups for container in spec.get(group) or []]


def _context(holder: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = holder.get("securityContext") or {}
    return found


def _named(bad: Iterable[str], text: str) -> str:
    names = list(bad)
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"{'container' if len(names) == 1 else 'containers'} {quoted} must {text}"


def _bad(spec: Spec, wrong: Callable[[Container], bool]) -> list[str]:
    return [container["name"] for container in _containers(spec) if wrong(container)]


def _host_namespaces(spec: Spec) -> str:
    used = [name for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    return f"host namespaces ({', '.join(f'{name}=true' for name in used)})" if used else ""


def _privileged(spec: Spec) -> str:
    bad = _bad(spec, lambda container: bool(_context(container).get("privileged")))
    return f"privileged ({_named(bad, 'not set securityContext.privileged=true')})" if bad else ""


def _added(container: Container) -> list[str]:
    return list((_context(container).get("capabilities") or {}).get("add") or [])


def _baseline_capabilities(spec: Spec) -> str:
    bad = _bad(spec, lambda container: any(name not in _SAFE_CAPABILITIES for name in _added(container)))
    if not bad:
        return ""
    added = {name for container in _containers(spec) for name in _added(container) if name not in _SAFE_CAPABILITIES}
    shown = ", ".join(f'"{name}"' for name in sorted(added))
    return f"non-default capabilities ({_named(bad, f'not include {shown} in securityContext.capabilities.add')})"


def _host_path(spec: Spec) -> str:
    bad = [volume["name"] for volume in spec.get("volumes") or [] if "hostPath" in volume]
    if not bad:
        return ""
    quoted = ", ".join(f'"{name}"' for name in bad)
    return f"hostPath volumes ({'volume' if len(bad) == 1 else 'volumes'} {quoted})"


def _host_ports(spec: Spec) -> str:
    ports = [p["hostPort"] for c in _containers(spec) for p in c.get("ports") or [] if p.get("hostPort")]
    if not ports:
        return ""
    bad = _bad(spec, lambda container: any(port.get("hostPort") for port in container.get("ports") or []))
    shown = ", ".join(str(port) for port in ports)
    word = "hostPort" if len(ports) == 1 else "hostPorts"
    return f"hostPort ({_named(bad, '').removesuffix(' must ')} uses {word} {shown})"


def _escalation(spec: Spec) -> str:
    bad = _bad(spec, lambda container: _context(container).get("allowPrivilegeEscalation") is not False)
    text = "set securityContext.allowPrivilegeEscalation=false"
    return f"allowPrivilegeEscalation != false ({_named(bad, text)})" if bad else ""


def _restricted_capabilities(spec: Spec) -> str:
    def keeps(container: Container) -> bool:
        dropped = (_context(container).get("capabilities") or {}).get("drop") or []
        return "ALL" not in dropped

    bad = _bad(spec, keeps)
    said = [_named(bad, 'set securityContext.capabilities.drop=["ALL"]')] if bad else []
    adding = _bad(spec, lambda container: any(name != "NET_BIND_SERVICE" for name in _added(container)))
    if adding:
        added = sorted({name for c in _containers(spec) for name in _added(c) if name != "NET_BIND_SERVICE"})
        shown = ", ".join(f'"{name}"' for name in added)
        said.append(_named(adding, f"not include {shown} in securityContext.capabilities.add"))
    return f"unrestricted capabilities ({'; '.join(said)})" if said else ""


def _volume_types(spec: Spec) -> str:
    bad = [v for v in spec.get("volumes") or [] if not _SAFE_VOLUMES & v.keys()]
    if not bad:
        return ""
    quoted = ", ".join(f'"{volume["name"]}"' for volume in bad)
    kinds = ", ".join(f'"{key}"' for key in sorted({key for volume in bad for key in volume if key != "name"}))
    word = ("volume", "uses", "type") if len(bad) == 1 else ("volumes", "use", "types")
    return f"restricted volume types ({word[0]} {quoted} {word[1]} restricted volume {word[2]} {kinds})"


def _runs_as_root(spec: Spec) -> str:
    whole = _context(spec).get("runAsNonRoot")
    explicit = _bad(spec, lambda container: _context(container).get("runAsNonRoot") is False)
    if whole is not True:
        silent = _bad(spec, lambda container: _context(container).get("runAsNonRoot") is None)
        if silent:
            names = ", ".join(f'"{name}"' for name in silent)
            word = "container" if len(silent) == 1 else "containers"
            return f"runAsNonRoot != true (pod or {word} {names} must set securityContext.runAsNonRoot=true)"
    if explicit:
        return f"runAsNonRoot != true ({_named(explicit, 'not set securityContext.runAsNonRoot=false')})"
    return ""


def _root_user(spec: Spec) -> str:
    bad = _bad(spec, lambda container: _context(container).get("runAsUser") == 0)
    said = (["pod"] if _context(spec).get("runAsUser") == 0 else []) + [f'container "{name}"' for name in bad]
    return f"runAsUser=0 ({' and '.join(said)} must not set runAsUser=0)" if said else ""


def _seccomp(spec: Spec) -> str:
    whole = (_context(spec).get("seccompProfile") or {}).get("type")
    if whole in _SECCOMP:
        return ""
    bad = _bad(spec, lambda c: (_context(c).get("seccompProfile") or {}).get("type") not in _SECCOMP)
    if not bad:
        return ""
    names = ", ".join(f'"{name}"' for name in bad)
    word = "container" if len(bad) == 1 else "containers"
    text = 'securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return f"seccompProfile (pod or {word} {names} must set {text})"


_BASELINE = (_host_namespaces, _privileged, _baseline_capabilities, _host_path, _host_ports)
_RESTRICTED = (
    _host_namespaces,
    _privileged,
    _host_ports,
    _escalation,
    _restricted_capabilities,
    _volume_types,
    _runs_as_root,
    _root_user,
    _seccomp,
)
_LEVELS: Mapping[str, tuple[Callable[[Spec], str], ...]] = {"baseline": _BASELINE, "restricted": _RESTRICTED}


def violations(level: str, spec: Spec) -> list[str]:
    """What a pod's spec does that a level forbids, each in the standard's own words."""
    return [said for rule in _LEVELS.get(level, ()) if (said := rule(spec))]


class PodSecurity:
    """Refuses pods in namespaces with an enforce label, and warns about workloads in those with a warn label."""

    def __init__(self, resources: Resources) -> None:
        self._namespaces = resources.store.collection("namespaces")

    def __call__(self, request: Request) -> Object:
        """The object unchanged. Raises ApiError 403."""
        kind, obj = request.kind, request.obj
        if request.operation == "DELETE" or request.subresource or not kind.namespaced or "spec" not in obj:
            return obj
        labels = self._labels(obj)
        if not labels:
            return obj
        if kind.name == "pods":
            if request.operation == "CREATE" and (found := self._judge(labels, "enforce", obj["spec"])):
                raise errors.forbidden(kind, obj["metadata"]["name"], f"violates PodSecurity {found}")
            spec = obj["spec"]
        else:
            spec = (obj["spec"].get("template") or {}).get("spec") or {}
        if spec.get("containers") and (found := self._judge(labels, "warn", spec)):
            request.warnings.append(f"would violate PodSecurity {found}")
        return obj

    def _labels(self, obj: Object) -> Mapping[str, str]:
        entry = self._namespaces.get("", obj["metadata"]["namespace"])
        labels: Mapping[str, str] = {} if entry is None else entry.obj["metadata"].get("labels") or {}
        return {key: value for key, value in labels.items() if key.startswith(_PREFIX)}

    @staticmethod
    def _judge(labels: Mapping[str, str], mode: str, spec: Spec) -> str:
        level = labels.get(_PREFIX + mode, "privileged")
        found = violations(level, spec)
        version = labels.get(f"{_PREFIX}{mode}-version", "latest")
        return f'"{level}:{version}": {", ".join(found)}' if found else ""
