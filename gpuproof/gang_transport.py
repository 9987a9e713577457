"""The three witnesses of the path that a node's traffic took: its log, its adapters' counters, its pod's resources.

A node is judged by the best of its pairs: a partner without RDMA takes the pair to the slow network, and that is the
partner's defect. It must not know a limit.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuproof import gang_results
from gpuproof.failure import JobFailure
from gpuproof.gang_params import Params
from gpuproof.gang_results import Asked
from gpuproof.gang_wire import GroupPart, NcclLog, NodePart
from gpuproof.suite import Answer
from workloads.contract import Fact, Sample

NONE = "none"


def expected_bytes(params: Params) -> int:
    """What must have left a node at least: its own sum once an operation, also where the switch adds up (SHARP)."""
    return sum(params.sizes_bytes) * (1 + params.warmups + params.iterations)


def witnesses(
    node: str,
    groups: Sequence[tuple[GroupPart, Asked]],
    lost: JobFailure | None,
    params: Params,
    run_id: str,
    granted: str,
) -> Answer:
    """The node's measurement: samples and facts of all three witnesses.

    `lost` is why the node is no longer there, `granted` what its pod's spec holds of the RDMA resource (text).
    """
    mine = [(part, asked, index) for part, asked in groups for index, name in asked.nodes.items() if name == node]
    good = [(p, a, i) for p, a, i in mine if p.outcome == gang_results.MEASURED and not gang_results.refusal(p, a)]
    if not good:
        if lost is not None:
            return lost
        refused = next((why for part, asked, _ in mine if (why := gang_results.refusal(part, asked))), None)
        if refused is not None:
            return refused
        said = "; ".join(gang_results.outcome_text(part, asked) for part, asked, _ in mine) or "it had no partner"
        return gang_results.plain(run_id, world_size=0, hosts=0, node=node, facts={"outcome": said})
    part, asked, index = max(good, key=lambda one: one[0].nodes[one[2]].rdma.sent_bytes)
    one = part.nodes[index]
    wanted = expected_bytes(params)
    samples = [
        Sample("rdma_sent_share", one.rdma.sent_bytes / wanted, "1"),
        Sample("rdma_received_share", one.rdma.received_bytes / wanted, "1"),
        Sample("rdma_ports_active", float(one.rdma.active), "count"),
        Sample("rdma_granted", float(granted) if granted.isdigit() else 0.0, "count"),
    ]
    facts: dict[str, Fact] = {
        "outcome": gang_results.MEASURED,
        "rdma_ports_down": list(one.rdma.down) or [NONE],
        "interfaces": list(one.interfaces) or [NONE],
        "partner": next((name for name in asked.nodes.values() if name != node), NONE),
    }
    samples, facts = [*samples, *_log_samples(one)], {**facts, **_log_facts(one)}
    return gang_results.plain(
        run_id, world_size=part.world, hosts=part.hosts, node=node, samples=samples, facts=facts,
        environment=dict(one.versions),
    )  # fmt: skip


def _log_facts(one: NodePart) -> dict[str, Fact]:
    """What NCCL's log names; nothing where there is no such log: a limit on it is then not measured, and no pass."""
    log = one.nccl
    if log is None:
        return {}
    return {
        "nccl_network": list(log.networks) or [NONE],
        "nccl_versions": list(log.versions) or [NONE],
        "nccl_errors": [error.cause for error in log.errors] or [NONE],
        "nccl_ways": [f"{ranks} ranks {way}" for way, ranks in sorted(log.ranks_by_way.items())] or [NONE],
    }


def _log_samples(one: NodePart) -> list[Sample]:
    """Ranks whose channels use GPUDirect RDMA, by direction: one that only sends by it is half of the defect."""
    log = one.nccl
    if log is None:
        return []
    counts = {
        "nccl_ranks_read": log.ranks,
        "nccl_ranks_sending_gdr": _ranks(log, "send NET/IB/GDRDMA"),
        "nccl_ranks_sending_socket": _ranks(log, "send NET/Socket"),
        "nccl_ranks_receiving_gdr": _ranks(log, "receive NET/IB/GDRDMA"),
        "nccl_ranks_receiving_socket": _ranks(log, "receive NET/Socket"),
    }
    return [Sample(name, float(count), "count") for name, count in counts.items()]


def _ranks(log: NcclLog, way: str) -> int:
    """Ranks with a channel that goes this way; no rank is counted twice, as NCCL names a way in one form."""
    return log.ranks_by_way.get(way, 0)
