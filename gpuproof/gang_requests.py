"""What a profile asks of the gang: who is in it, by which parameters, and the floors that call for a localisation.

It must not know how a gang is run or what was judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuproof.expectation import Scalar
from gpuproof.gang_blame import floor_of, floors
from gpuproof.gang_params import STAGES, Params, read_params
from gpuproof.gang_pods import AGENT
from gpuproof.gang_session import GangRequest
from gpuproof.gang_suite import SuiteRequest
from gpuproof.inventory import Node
from gpuproof.localisation import Floors
from gpuproof.profile import Profile
from gpuproof.visits import SweepRequest

LEAF_LABELS = ("network.topology.nvidia.com/leaf", "network.topology.nvidia.com/block", "topology.kubernetes.io/rack")
"""Where a node says which leaf or rack it hangs on; the first label that it carries counts."""


def params_by_stage(profile: Profile, checks: Mapping[str, str]) -> dict[str, Params]:
    """The parameters of each stage, from `[workload.CHECK]` of the check that asks for it; raises `ParamsError`."""
    return {stage: read_params(profile.workloads.get(checks[stage], {})) for stage in STAGES if stage in checks}


def gang_request(profile: Profile, checks: Mapping[str, str], nodes: Sequence[str]) -> GangRequest:
    """Who is to come: all GPUs of each of these nodes."""
    params = params_by_stage(profile, checks)
    sweep = SweepRequest(
        check=next(iter(checks.values())),
        workload=AGENT,
        params={},
        candidates=tuple(nodes),
        gpus_per_pod=profile.cluster.pod_gpus,
        deadlines=profile.deadlines,
    )
    return GangRequest(sweep, max(one.assemble_timeout_s for one in params.values()))


def suite_request(
    profile: Profile, checks: Mapping[str, str], every: Mapping[str, str], run_id: str, known: Mapping[str, Node]
) -> SuiteRequest:
    """All that is asked of the gang; `every` are the checks by stage, also those that are not asked or settled."""
    cluster = profile.cluster
    params = params_by_stage(profile, checks)
    leaf = {name: label for name, node in known.items() if (label := _leaf(node))}
    return SuiteRequest(
        params=params,
        run_id=run_id,
        device=cluster.device,
        ranks_per_node=cluster.pod_gpus,
        ring_ceiling_gb_per_s=cluster.ring_ceiling_gb_per_s(),
        rdma_resource=cluster.rdma.resource if cluster.rdma else None,
        floors=_floors(profile, every),
        leaf=leaf,
    )


def _floors(profile: Profile, every: Mapping[str, str]) -> Floors | None:
    """From the decisive limits of busbw: the whole set's at its main size, a node's at its own."""
    checks = {stage: check for stage, check in every.items() if profile.workloads.get(check)}
    if "whole" not in checks:
        return None
    params = params_by_stage(profile, checks)
    at = _point(params["whole"].main)
    whole = floor_of(profile.limits_for(checks["whole"]), profile.cluster, at)
    if whole is None:
        return None
    alone = None
    if "alone" in params:
        at = _point(params["alone"].main)
        alone = floor_of(profile.limits_for(checks["alone"]), profile.cluster, at)
    return floors(whole, alone)


def _point(size: int) -> dict[str, Scalar]:
    return {"collective": "all_reduce", "bytes": size}


def _leaf(node: Node) -> str:
    return next((node.labels[name] for name in LEAF_LABELS if name in node.labels), "")
