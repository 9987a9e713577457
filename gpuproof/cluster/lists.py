"""Reading answers that claim to be objects or lists: what stands in an API server's place is an error, never empty.

It must not know HTTP, a client library or what the objects are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuproof.cluster import raw
from gpuproof.cluster.port import ClusterError, Listing
from gpuproof.failure import Reason

Ask = Callable[[Sequence[tuple[str, str]]], Mapping[str, Any]]
"""Sends the list request with these parameters added; the decoded answer."""

_MAX_PAGES = 1000
_MAX_STARTS = 3
"""A snapshot that is paged through may expire on the way (410): then it is begun anew, so often in all."""


def listed(ask: Ask, path: str) -> Listing:
    """All pages of a list; raises `ClusterError` when an answer is no list or the pages do not end."""
    for _ in range(_MAX_STARTS - 1):
        try:
            return _all_pages(ask, path)
        except ClusterError as error:
            if error.status != 410:
                raise
    return _all_pages(ask, path)


def an_object(answer: Mapping[str, Any], what: str) -> Mapping[str, Any]:
    """The answer, if it is an object or a Status that reports success; raises `ClusterError`."""
    if not raw.text(answer, "kind"):
        raise _not_kubernetes(what, "an object", answer)
    if raw.text(answer, "kind") == "Status" and raw.text(answer, "status") == "Failure":
        raise _not_kubernetes(what, "an object", answer)
    return answer


def _all_pages(ask: Ask, path: str) -> Listing:
    items: list[raw.Raw] = []
    version, token = "", ""
    seen: set[str] = set()
    while True:
        answer = ask([("continue", token)] if token else [])
        items += _items(answer, path)
        version = version or raw.text(answer, "metadata", "resourceVersion")
        token = raw.text(answer, "metadata", "continue")
        if not token:
            return Listing(tuple(items), version)
        if token in seen or len(seen) >= _MAX_PAGES:
            raise ClusterError(Reason.CLUSTER_UNREACHABLE, f"GET {path}: the pages of the list do not end", 200)
        seen.add(token)


def _items(answer: Mapping[str, Any], path: str) -> list[raw.Raw]:
    # A list without entries may be written as null, but a list it must be.
    content = answer.get("items", "absent")
    if not raw.text(answer, "kind").endswith("List") or not (content is None or isinstance(content, list)):
        raise _not_kubernetes("GET " + path, "a list", answer)
    return raw.objects(answer, "items")


def _not_kubernetes(what: str, expected: str, answer: Mapping[str, Any]) -> ClusterError:
    shown = raw.text(answer, "message") or f"kind {raw.text(answer, 'kind')!r}, keys {sorted(map(str, answer))[:5]}"
    said = f"{what}: the answer is not {expected} ({shown[:300]}); is there a proxy in the API server's place?"
    return ClusterError(Reason.CLUSTER_UNREACHABLE, said, 200)
