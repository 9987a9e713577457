"""The API server: store, verbs, admission, authorization and HTTP under one roof.

Owns how the parts are put together. It must not know any node, nor how a kind is checked or shown.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence

from aiohttp import web

from simcluster.api.admission import STANDING_NAMESPACES, NamespaceLifecycle
from simcluster.api.apply import FieldTracking
from simcluster.api.auth import bootstrap
from simcluster.api.auth.escalation import Escalation
from simcluster.api.auth.rbac import Authorizer
from simcluster.api.auth.tokens import TokenTable
from simcluster.api.claimresize import ClaimResize
from simcluster.api.client import InProcessClient
from simcluster.api.custom import CustomKinds
from simcluster.api.kinds import KindTable
from simcluster.api.limits import LimitRanger
from simcluster.api.podadmission import References
from simcluster.api.podsecurity import PodSecurity
from simcluster.api.port import AdmissionHook, Client, KubeletRegistry, Object
from simcluster.api.quota import QuotaAdmission
from simcluster.api.resources import Admission, Resources
from simcluster.api.schema.openapi import OpenApi
from simcluster.api.schema.structural import CustomSchemas
from simcluster.api.services import ServiceAddresses
from simcluster.api.store import Store
from simcluster.api.validation import validate
from simcluster.api.wire.handler import Handler
from simcluster.api.wire.reads import Reads
from simcluster.api.wire.subresources import Subresources
from simcluster.api.wire.writes import Writes

HISTORY = 10_000
"""Changes remembered for each kind; an older watch is answered 410."""


class ApiServer:
    """One simulated API server; `client` is the way in for controllers and kubelets of the same process.

    `hooks` are faults' doings at admission, `webhooks` those of the operators that are installed.
    """

    def __init__(
        self,
        *,
        registry: KubeletRegistry,
        tokens: TokenTable | None = None,
        hooks: Sequence[AdmissionHook] = (),
        webhooks: Sequence[Admission] = (),
        history: int = HISTORY,
    ) -> None:
        self.registry = registry
        self.tokens = tokens if tokens is not None else TokenTable()
        self.kinds = KindTable()
        self.store = Store(history)
        self.resources = Resources(self.store, self.kinds, hooks)
        self._custom = CustomKinds(self.resources)
        self._schemas = CustomSchemas(self._custom.schemas)
        self._bootstrap()
        self.resources.admission += [
            self._schemas,
            *webhooks,
            NamespaceLifecycle(self.resources),
            References(self.resources),
            LimitRanger(self.resources),
            ServiceAddresses(),
            ClaimResize(self.resources),
            validate,
            PodSecurity(self.resources),
            QuotaAdmission(self.resources),
            FieldTracking(),
        ]
        self.client: Client = InProcessClient(self.resources)
        self._runner: web.ServerRunner | None = None

    def _bootstrap(self) -> None:
        for resource, obj in [("namespaces", {"metadata": {"name": name}}) for name in STANDING_NAMESPACES]:
            self._create(resource, obj)
        for resource, obj in bootstrap.objects():
            self._create(resource, obj)

    def _create(self, resource: str, obj: Object) -> None:
        kind = self.kinds.named(resource)
        if kind is None:
            raise RuntimeError(f"the table of kinds lacks {resource}, which every cluster starts with")
        self.resources.create(kind, obj, None)

    def _handler(self) -> Handler:
        authorizer = Authorizer(self.store)
        return Handler(
            kinds=self.kinds,
            tokens=self.tokens,
            authorizer=authorizer,
            reads=Reads(self.resources, self._custom),
            writes=Writes(self.resources, Escalation(authorizer), self._schemas),
            subresources=Subresources(self.resources, self.registry, self.tokens),
            openapi=OpenApi(self.kinds, self._custom.schemas),
        )

    async def serve(self, sock: socket.socket, ssl_context: ssl.SSLContext | None = None) -> None:
        """Answer HTTP on a bound socket, from now until close; may be called for several sockets."""
        if self._runner is None:
            server = web.Server(self._handler(), handler_cancellation=True, access_log=None)
            self._runner = web.ServerRunner(server, shutdown_timeout=1.0)
            await self._runner.setup()
        await web.SockSite(self._runner, sock, ssl_context=ssl_context, backlog=2048).start()

    async def close(self) -> None:
        """End every watch and every connection."""
        self.store.close()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
