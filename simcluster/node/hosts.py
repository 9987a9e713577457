"""Each pod's /etc/hosts: its own name, and the names that a cluster's DNS would answer for Services.

Owns the files' text, kept up to date in place from the endpoints. It must not know processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from simcluster.api.informer import Informer
from simcluster.api.port import Client, Object

_DOMAIN = "cluster.local"


def service_lines(namespace: str, endpoints: list[Object]) -> list[str]:
    """Lines for all Services with endpoints, seen from a pod in `namespace`."""
    lines = []
    for entry in sorted(endpoints, key=lambda item: str(item["metadata"]["name"])):
        service, home = entry["metadata"]["name"], entry["metadata"]["namespace"]
        for subset in entry.get("subsets") or []:
            for address in subset.get("addresses") or []:
                names = _names(service, home, namespace)
                if address.get("hostname"):
                    names = [f"{address['hostname']}.{name}" for name in names] + names
                lines.append(f"{address['ip']}\t{' '.join(names)}")
    return lines


def _names(service: str, home: str, seen_from: str) -> list[str]:
    short = [service] if home == seen_from else []
    return [*short, f"{service}.{home}", f"{service}.{home}.svc", f"{service}.{home}.svc.{_DOMAIN}"]


def full_names(endpoints: Iterable[Object]) -> dict[str, list[str]]:
    """The addresses behind every full name that endpoints give."""
    names: dict[str, list[str]] = {}
    for entry in endpoints:
        service = f"{entry['metadata']['name']}.{entry['metadata']['namespace']}.svc.{_DOMAIN}"
        for subset in entry.get("subsets") or []:
            for address in subset.get("addresses") or []:
                names.setdefault(service, []).append(address["ip"])
                if address.get("hostname"):
                    names.setdefault(f"{address['hostname']}.{service}", []).append(address["ip"])
    return names


def resolver_file(namespace: str, server: str) -> str:
    """A pod's /etc/resolv.conf."""
    search = f"{namespace}.svc.{_DOMAIN} svc.{_DOMAIN} {_DOMAIN}"
    return f"search {search}\nnameserver {server}\noptions ndots:5\n"


class HostsFiles:
    """All pods' files; one watch on the endpoints of the whole cluster."""

    def __init__(self, client: Client) -> None:
        self._informer = Informer(client, "endpoints")
        self._files: dict[Path, tuple[str, str]] = {}
        self._informer.on_change(self._on_change)
        self._names: dict[str, list[str]] | None = None

    def names(self) -> dict[str, list[str]]:
        """Full names of Services and of their pods, with their addresses."""
        if self._names is None:
            self._names = full_names(self._informer.items.values())
        return self._names

    async def start(self) -> None:
        """Begin to follow the endpoints."""
        await self._informer.start()

    async def stop(self) -> None:
        """Stop following."""
        await self._informer.stop()

    def add(self, path: Path, namespace: str, own: str) -> None:
        """Make a pod's file with the line `own` and keep it up to date."""
        self._files[path] = (namespace, own)
        path.touch()
        self._write(path)

    def remove(self, path: Path) -> None:
        """The pod is gone."""
        self._files.pop(path, None)

    def _on_change(self, before: Object | None, after: Object | None) -> None:
        changed = after or before
        if changed is None or _addresses(before) == _addresses(after):
            return
        self._names = None
        for path in self._files:
            self._write(path)

    def _write(self, path: Path) -> None:
        namespace, own = self._files[path]
        known: Mapping[tuple[str, str], Object] = self._informer.items
        lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback", own]
        text = "\n".join([*lines, *service_lines(namespace, list(known.values()))]) + "\n"
        # In place, since containers have the file itself mounted.
        with path.open("r+", encoding="utf-8") as file:
            file.write(text)
            file.truncate()


def _addresses(entry: Object | None) -> object:
    return None if entry is None else entry.get("subsets")
