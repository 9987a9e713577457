"""Owns laying a site's profile over the ones it extends, and refusing what is incomplete; must not read a file."""

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuproof.expectation import (
    CheckState,
    ClusterExpectation,
    Cover,
    CoverAll,
    CoverCanary,
    CoverShare,
    Deadlines,
    Scalar,
    Scope,
    Service,
    State,
    Storage,
    Telemetry,
    Waiver,
)
from gpuproof.limits import (
    Asks,
    AtLeast,
    AtMost,
    Equals,
    Limit,
    MaxFraction,
    MinFraction,
    OneOf,
    Severity,
    bound_text,
)
from gpuproof.profile_error import Loc, ProfileError, Source, describe, nearest
from gpuproof.profile_limits import LimitKey, limit_key, read_limit
from gpuproof.profile_model import CanaryTable, ClusterTable, ProfileFile, PrometheusTable, ShareTable, StorageTable
from gpuproof.profile_rdma import read_rdma
from gpuproof.quantities import quantity

MAX_WAIVER_DAYS = 366
"""An exception that lasts longer is a change of the profile and belongs there."""

Parameter = Scalar | list[Scalar]
Chain = Sequence[tuple[Source, ProfileFile]]
"""A profile and all it extends, the base first."""


def _absent(top: Source, loc: Loc, what: str) -> ProfileError:
    table = str(loc[0])
    return top.error(
        loc, expected=what, actual="it is absent, and there is no default", next_step=f"add {loc[-1]} = … to [{table}]"
    )


def refuse_unknown_checks(source: Source, file: ProfileFile, known: Collection[str]) -> None:
    """Refuse a check that does not exist, wherever the file names it."""
    named: list[tuple[Loc, str]] = [(("checks", check), check) for check in file.checks]
    named += [(("limit", index, "check"), limit.check) for index, limit in file.each_limit]
    named += [(("waiver", index, "check"), waiver.check) for index, waiver in enumerate(file.waiver)]
    named += [(("workload", check), check) for check in file.workload]
    for loc, check in named:
        if check not in known:
            raise source.error(
                loc,
                expected=f"a check that exists: {', '.join(sorted(known))}",
                actual=f"the unknown check {check}{nearest(check, known)}",
                next_step="correct the spelling or delete it",
            )


def merge_cluster(chain: Chain, top: Source) -> ClusterExpectation:
    """Return what was bought; a later file overrides single keys."""
    values: dict[str, Any] = {}
    extra: dict[str, Scalar] = {}
    for source, file in chain:
        values |= {key: getattr(file.cluster, key) for key in file.cluster.model_fields_set}
        extra |= file.cluster.extra
        for key in sorted(set(file.cluster.extra) & set(ClusterTable.model_fields)):
            raise source.error(
                ("cluster", "extra", key),
                expected="a key that [cluster] does not have itself",
                actual=key,
                next_step="move it to [cluster]",
            )
    for key in ("gpu_product", "gpus_per_node", "nodes", "gpu_resource", "device"):
        if values.get(key) is None:
            raise _absent(top, ("cluster", key), "what was bought, as the cluster under test cannot say it")
    _refuse_sharing(top, values)
    rdma = values.get("rdma")
    values["rdma"] = None if rdma is None else read_rdma(rdma, top)
    return ClusterExpectation(**(values | {"extra": extra}))


def _refuse_sharing(top: Source, values: Mapping[str, Any]) -> None:
    """Refuse a description of shares that contradicts itself, or that leaves whole GPUs untested."""
    sharing = values.get("gpu_sharing", "none")
    if (sharing == "mig") != (values.get("mig_profile") is not None):
        raise top.error(
            ("cluster", "mig_profile"),
            expected='a profile such as "1g.10gb" where gpu_sharing is "mig", and none elsewhere',
            actual=f"gpu_sharing = {describe(sharing)}, mig_profile = {describe(values.get('mig_profile'))}",
            next_step="state both or neither",
        )
    asked, offered = values.get("gpus_per_pod"), values["gpus_per_node"]
    if asked is not None and (asked > offered or (asked != offered and sharing == "none")):
        raise top.error(
            ("cluster", "gpus_per_pod"),
            expected=f"at most the {offered} of gpus_per_node, and no fewer where GPUs are whole: all must be tested",
            actual=describe(asked),
            next_step="delete it, or say by gpu_sharing how GPUs are shared",
        )


def merge_checks(chain: Chain, top: Source, known: Collection[str]) -> tuple[dict[str, CheckState], dict[str, int]]:
    """Return the state of every check, and the position in the chain of the file that decided it."""
    states: dict[str, CheckState] = {}
    origins: dict[str, int] = {}
    for position, (source, file) in enumerate(chain):
        for check, table in file.checks.items():
            if table.state != "required" and not table.reason.strip():
                raise source.error(
                    ("checks", check),
                    expected=f"a reason for {table.state}",
                    actual="none",
                    next_step=f'write {check} = {{ state = "{table.state}", reason = "…" }}',
                )
            states[check] = CheckState(State(table.state), table.reason)
            origins[check] = position
    for check in sorted(known):
        if check not in states:
            raise top.error(
                ("checks", check),
                expected="every check that exists to be named in [checks]",
                actual=f"{check} is absent",
                next_step=f'add {check} = "required", or a state "recorded" or "not-applicable" with a reason',
            )
    if not any(state.state is State.REQUIRED for state in states.values()):
        raise top.error(
            ("checks",),
            expected="at least one required check",
            actual="none",
            next_step="a profile that requires nothing cannot accept anything: make a check required",
        )
    return states, origins


def merge_limits(
    chain: Chain,
    cluster: ClusterExpectation,
    checks: Mapping[str, CheckState],
    origins: Mapping[str, int],
    asks: Mapping[str, Asks],
) -> tuple[Limit, ...]:
    """Return the limits of all checks that apply; a later file replaces by check, metric or fact, and at."""
    kept: dict[LimitKey, list[Limit]] = {}
    for position, (source, file) in enumerate(chain):
        read: dict[LimitKey, list[Limit]] = {}
        for index, table in file.each_limit:
            state = checks[table.check].state
            if state is State.NOT_APPLICABLE:
                # What holds for others too may wait for a site that asks this check as well.
                if position >= origins[table.check] and table.check == file.limit[index].check:
                    raise source.error(
                        ("limit", index, "check"),
                        expected="a limit of a check that is judged",
                        actual=f"{table.check} is not-applicable",
                        next_step="delete the limit, or make the check required",
                    )
                continue
            limit = read_limit(table, source, index, cluster, asks[table.check])
            if state is State.RECORDED:
                limit = replace(limit, severity=Severity.RECORD_ONLY)
            read.setdefault(limit_key(table), []).append(limit)
        for key, limits in read.items():
            kept[key] = [_beside(limit, kept[key]) if key in kept else limit for limit in limits]
    return tuple(limit for limits in kept.values() for limit in limits)


def _beside(limit: Limit, inherited: Sequence[Limit]) -> Limit:
    """Return the limit with what it took the place of; nobody may ask for less than was inherited without a word."""
    before = min(inherited, key=lambda other: (not other.decisive, other.severity != limit.severity))
    if (before.bound, before.severity, before.per) == (limit.bound, limit.severity, limit.per):
        return limit
    how = "weaker than" if _weaker(limit, before) else "instead of"
    was = f"{bound_text(before.bound, before.unit)} ({before.severity.replace('_', ' ')})"
    return replace(limit, replaced=f"{how} the inherited {was} of {before.source_file}, {before.key}")


_RANK = {Severity.FAIL: 2, Severity.WARN: 1, Severity.RECORD_ONLY: 0}


def _weaker(limit: Limit, before: Limit) -> bool:
    if _RANK[limit.severity] != _RANK[before.severity]:
        return _RANK[limit.severity] < _RANK[before.severity]
    match limit.bound, before.bound:
        case AtLeast(now), AtLeast(then):
            return now < then
        case AtMost(now), AtMost(then):
            return now > then
        case MinFraction(now, of), MinFraction(then, of_then) if of is of_then:
            return now < then
        case MaxFraction(now, of), MaxFraction(then, of_then) if of is of_then:
            return now > then
        case OneOf(now_values), OneOf(then_values):
            return not set(now_values) <= set(then_values)
        case OneOf(), Equals():
            return True
        case _:
            return False


def refuse_undecided_checks(top: Source, checks: Mapping[str, CheckState], limits: Sequence[Limit]) -> None:
    """Refuse a required check that no limit decides, and a recorded one that nothing describes."""
    for check, state in checks.items():
        mine = [limit for limit in limits if limit.check == check]
        if state.state is State.REQUIRED and not any(limit.decisive for limit in mine):
            raise top.error(
                ("checks", check),
                expected='at least one limit with severity = "fail", as the check is required',
                actual=f"{len(mine)} limits, none of which decides",
                next_step="add a [[limit]] for it, or make the check recorded with a reason",
            )
        if state.state is State.RECORDED and not mine:
            raise top.error(
                ("checks", check),
                expected="at least one limit that names what is recorded",
                actual="none",
                next_step='add a [[limit]] with metric, unit and severity = "record_only"',
            )


def refuse_unheld_extras(
    chain: Chain, cluster: ClusterExpectation, checks: Mapping[str, CheckState], limits: Sequence[Limit]
) -> None:
    """Refuse an expectation in `[cluster.extra]` that no limit holds.

    One whose check does not apply here stays: it came with the profile that this one extends.
    """
    held = {getattr(limit.bound, "key", None) for limit in limits}
    waiting = {
        table.expected for _, file in chain for table in file.limit if checks[table.check].state is State.NOT_APPLICABLE
    }
    for key in cluster.extra:
        if key not in held | waiting:
            source = next(source for source, file in reversed(chain) if key in file.cluster.extra)
            raise source.error(
                ("cluster", "extra", key),
                expected="an expectation that a limit holds",
                actual=f'no limit says expected = "{key}"',
                next_step="add that limit, or delete the key: an expectation nobody holds protects nobody",
            )


def merge_scope(chain: Chain, top: Source) -> Scope:
    """Return what an ACCEPTED speaks for."""
    pool = next((file.scope.pool for _, file in reversed(chain) if file.scope.pool is not None), None)
    cover = next((file.scope.cover for _, file in reversed(chain) if file.scope.cover is not None), None)
    if pool is None:
        raise _absent(top, ("scope", "pool"), "the labels of the nodes that are judged")
    if cover is None:
        raise _absent(top, ("scope", "cover"), 'how much of the pool an ACCEPTED speaks for, e.g. "all"')
    return Scope(dict(pool), _cover(cover))


def _cover(cover: str | ShareTable | CanaryTable) -> Cover:
    match cover:
        case ShareTable():
            return CoverShare(cover.at_least, cover.within_days)
        case CanaryTable():
            return CoverCanary(dict(cover.canary), cover.nodes)
        case _:
            return CoverAll()


def merge_pod(chain: Chain, top: Source) -> Mapping[str, Any]:
    """Return the patch over every workload pod; a later file overrides single keys."""
    pod: dict[str, Any] = {}
    for _, file in chain:
        pod |= {key: getattr(file.pod, key) for key in file.pod.model_fields_set}
    if not pod.get("image"):
        raise _absent(top, ("pod", "image"), "the image that every workload runs in")
    return pod


def merge_waivers(chain: Chain, checks: Mapping[str, CheckState], today: dt.date) -> tuple[Waiver, ...]:
    """Return the waivers of all files, expired ones included: the decision says that they expired."""
    found: dict[tuple[str, str], Waiver] = {}
    for source, file in chain:
        for index, table in enumerate(file.waiver):
            waiver = Waiver(**table.model_dump())
            _refuse_waiver(source, index, waiver, checks, today)
            if (waiver.check, waiver.subject) in found:
                raise source.error(
                    ("waiver", index),
                    expected="one waiver for each check and subject",
                    actual=f"a second one for {waiver.check} on {waiver.subject}",
                    next_step="delete one of the two",
                )
            found[waiver.check, waiver.subject] = waiver
    return tuple(found.values())


def _refuse_waiver(
    source: Source, index: int, waiver: Waiver, checks: Mapping[str, CheckState], today: dt.date
) -> None:
    if waiver.subject in {"*", "all", "any"}:
        raise source.error(
            ("waiver", index, "subject"),
            expected="one subject by its name",
            actual=describe(waiver.subject),
            next_step="name the node; to drop a whole check, say so in [checks] with a reason",
        )
    if checks[waiver.check].state is not State.REQUIRED:
        raise source.error(
            ("waiver", index, "check"),
            expected="a required check, as no other decides",
            actual=f"{waiver.check} is {checks[waiver.check].state}",
            next_step="delete the waiver",
        )
    if (waiver.expires - today).days > MAX_WAIVER_DAYS:
        raise source.error(
            ("waiver", index, "expires"),
            expected=f"a day within {MAX_WAIVER_DAYS} days of {today}",
            actual=describe(waiver.expires),
            next_step="a lasting exception belongs into the limit or into [checks], with its reason",
        )


def merge_workloads(chain: Chain, checks: Mapping[str, CheckState]) -> Mapping[str, Mapping[str, Parameter]]:
    """Return the workload parameters by check; a later file overrides single parameters."""
    merged: dict[str, dict[str, Parameter]] = {}
    for _, file in chain:
        for check, parameters in file.workload.items():
            if checks[check].state is not State.NOT_APPLICABLE:
                merged.setdefault(check, {}).update(parameters)
    return merged


def merge_storage(chain: Chain) -> Mapping[str, Storage]:
    """Return the storages by name; a later file replaces a whole table. Raises ProfileError."""
    return {name: _read_storage(source, name, table) for source, file in chain for name, table in file.storage.items()}


def _read_storage(source: Source, name: str, table: StorageTable) -> Storage:
    grown = table.expands_to or ""
    if grown and (quantity(grown) or 0) <= (quantity(table.size) or 0):
        raise source.error(
            ("storage", name, "expands_to"),
            expected=f"more than size, which is {describe(table.size)}: a claim can only grow",
            actual=describe(grown),
            next_step="name a larger size, or leave expands_to out: then no claim is asked to grow",
        )
    return Storage(name, table.storage_class, table.size, table.access_mode, table.purpose, grown)


def merge_deadlines(chain: Chain, top: Source) -> Deadlines:
    """Return the deadlines; a later file overrides single ones."""
    values: dict[str, float] = {}
    for _, file in chain:
        values |= {key: getattr(file.deadlines, key) for key in file.deadlines.model_fields_set}
    for key in ("scheduling_s", "pulling_s", "starting_s", "running_s", "run_s"):
        if values.get(key) is None:
            raise _absent(top, ("deadlines", key), "seconds, as no deadline has a default")
    deadlines = Deadlines(**values)
    longest = deadlines.scheduling_s + deadlines.pulling_s + deadlines.starting_s + deadlines.running_s
    if deadlines.run_s < longest:
        raise top.error(
            ("deadlines", "run_s"),
            expected=f"at least the {longest:g} s that one pod may take (scheduling + pulling + starting + running)",
            actual=describe(deadlines.run_s),
            next_step="raise run_s or lower the others",
        )
    return deadlines


def merge_telemetry(chain: Chain, top: Source) -> Telemetry | None:
    """Return how GPU metrics are read; None where no file says it. A later file overrides single keys."""
    values: dict[str, Any] = {}
    for source, file in chain:
        if file.telemetry is None:
            continue
        given = {key: getattr(file.telemetry, key) for key in file.telemetry.model_fields_set}
        if file.telemetry.prometheus is not None:
            given["prometheus"] = _prometheus(source, file.telemetry.prometheus)
        values |= given
    if not values:
        return None
    for key in Telemetry.__dataclass_fields__:
        if key != "prometheus" and values.get(key) is None:
            raise _absent(top, ("telemetry", key), "how GPU metrics are read, as no key of this table has a default")
    lists = {key: tuple(values[key]) for key in ("selectors", "fields", "mig_fields")}
    return Telemetry(**(values | lists))


def _prometheus(source: Source, table: PrometheusTable) -> str | Service:
    if table.url is not None and table.service is None:
        return table.url.rstrip("/")
    if table.service is not None and table.url is None:
        return Service(table.service.namespace, table.service.name, table.service.port)
    raise source.error(
        ("telemetry", "prometheus"),
        expected="either url or service",
        actual="both" if table.url is not None else "neither",
        next_step='write url = "http://…", or service = { namespace = "…", name = "…", port = 9090 }',
    )
