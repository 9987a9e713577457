"""Addresses for services: what a real API server gives out of its service range.

Owns the range. It must not know endpoints or how traffic is carried.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from simcluster.api.port import Object
from simcluster.api.resources import Request

_RANGE = "10.96.0.0/16"


class ServiceAddresses:
    """Gives each new service an address of its own, unless it wants none."""

    def __init__(self) -> None:
        self._free: Iterator[ipaddress.IPv4Address] = iter(ipaddress.IPv4Network(_RANGE).hosts())

    def __call__(self, request: Request) -> Object:
        """The service with clusterIP and clusterIPs; addresses survive updates that leave them out."""
        obj = request.obj
        if request.kind.name != "services" or request.subresource:
            return obj
        spec = obj.get("spec") or {}
        if spec.get("type") == "ExternalName":
            return obj
        if request.old is not None:
            kept = {
                name: request.old["spec"][name] for name in ("clusterIP", "clusterIPs") if name in request.old["spec"]
            }
            return {**obj, "spec": {**kept, **spec}}
        address = spec.get("clusterIP") or ("" if request.options.dry_run else str(next(self._free)))
        if not address:
            return obj
        return {**obj, "spec": {**spec, "clusterIP": address, "clusterIPs": [address]}}
