"""Tokens of service accounts in pods: issued by the cluster, kept until most of their lifetime is over.

Owns when a new one is due. It must not know volumes, nor what a token allows.
"""

from __future__ import annotations

import time

from simcluster.api.auth.tokens import TokenTable
from simcluster.api.port import Object

_RENEWED_AFTER = 0.8


class AccountTokens:
    """The tokens of one pod."""

    def __init__(self, table: TokenTable) -> None:
        self._table = table
        self._known: dict[tuple[str, float], tuple[str, float]] = {}

    def of(self, account: Object, pod: str, lifetime_s: float) -> str:
        """A token by which the API server knows the pod's service account."""
        metadata = account["metadata"]
        key = (str(metadata["uid"]), lifetime_s)
        token, due = self._known.get(key, ("", 0.0))
        if token and time.monotonic() < due:
            return token
        token = self._table.issue_service_account(
            metadata["namespace"], metadata["name"], metadata["uid"], lifetime_s=lifetime_s, pod=pod
        )
        self._known[key] = (token, time.monotonic() + lifetime_s * _RENEWED_AFTER)
        return token
