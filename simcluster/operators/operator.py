"""What an operator brings into a cluster: kinds, webhooks, controllers.

Owns the shape of that. It must not know any operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from simcluster.api.port import Client
from simcluster.api.resources import Admission, Resources
from simcluster.controllers.events import EventRecorder
from simcluster.controllers.informers import Informers
from simcluster.controllers.manager import Controller
from simcluster.timing import Timing


@dataclass(frozen=True)
class Setting:
    """What an operator's controllers work with; `trouble` is the misbehaviour the topology names, or ''.

    `beside` are the names of all operators of the cluster: what one of them serves may be looked at.
    """

    client: Client
    timing: Timing
    informers: Informers
    recorder: EventRecorder
    trouble: str = ""
    beside: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Operator:
    """One operator. Its CustomResourceDefinitions are the YAML files in the package `name` beside this module.

    `owned` are its kinds, (apiVersion, kind) to resource, between which owner references are followed. `webhooks`
    default, alter and refuse objects at admission, `checks` refuses last and may look at other objects; `controllers`
    builds what acts, once the kinds are served.
    """

    name: str
    controllers: Callable[[Setting], Sequence[Controller]]
    owned: Mapping[tuple[str, str], str] = field(default_factory=dict)
    webhooks: Sequence[Admission] = ()
    checks: Callable[[Resources], Admission] | None = None
