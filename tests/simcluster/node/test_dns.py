"""The cluster's name server: right answers, quick refusals, and no harm from what is no query."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from simcluster.node.dns import respond
from simcluster.node.hosts import full_names, resolver_file

NAMES = {"svc.ns.svc.cluster.local": ["10.1.2.3", "10.1.2.4"]}


def query(name: str, kind: int = 1) -> bytes:
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return struct.pack("!HHHHHH", 77, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", kind, 1)


def told(answer: bytes) -> tuple[int, int]:
    """The code and the number of answers."""
    flags, _, answers = struct.unpack_from("!HHH", answer, 2)
    return flags & 0xF, answers


def test_a_known_name_has_its_addresses() -> None:
    answer = respond(query("SVC.ns.svc.cluster.local"), NAMES)
    assert struct.unpack_from("!H", answer)[0] == 77
    assert told(answer) == (0, 2)
    assert bytes([10, 1, 2, 3]) in answer
    assert bytes([10, 1, 2, 4]) in answer


def test_a_known_name_has_no_address_of_another_kind() -> None:
    assert told(respond(query("svc.ns.svc.cluster.local", kind=28), NAMES)) == (0, 0)


def test_another_name_does_not_exist() -> None:
    assert told(respond(query("nobody.ns.svc.cluster.local"), NAMES)) == (3, 0)


@given(st.binary(max_size=80))
def test_nothing_that_comes_does_harm(data: bytes) -> None:
    respond(data, NAMES)


def test_names_of_services_and_of_their_pods() -> None:
    addresses = [{"ip": "10.0.0.1", "hostname": "j-0"}, {"ip": "10.0.0.2"}]
    endpoints = {"metadata": {"name": "hl", "namespace": "ns"}, "subsets": [{"addresses": addresses}]}
    assert full_names([endpoints]) == {
        "hl.ns.svc.cluster.local": ["10.0.0.1", "10.0.0.2"],
        "j-0.hl.ns.svc.cluster.local": ["10.0.0.1"],
    }


def test_a_pod_searches_its_own_namespace_first() -> None:
    assert resolver_file("ns", "10.9.9.9").splitlines()[0].startswith("search ns.svc.cluster.local svc.cluster.local")
