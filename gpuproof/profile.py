"""Owns reading a threshold file into a Profile, the only reader of thresholds/; must not know a cluster or a run."""

import datetime as dt
import hashlib
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpuproof.expectation import (
    CheckState,
    ClusterExpectation,
    Dataset,
    Deadlines,
    Scope,
    State,
    Storage,
    Telemetry,
    Waiver,
)
from gpuproof.limits import Asks, Limit, provenance_block
from gpuproof.profile_dataset import merge_dataset
from gpuproof.profile_error import Loc, ProfileError, Source, describe, from_toml, nearest
from gpuproof.profile_explain import explain
from gpuproof.profile_limits import refuse_duplicates
from gpuproof.profile_merge import (
    Chain,
    Parameter,
    merge_checks,
    merge_cluster,
    merge_deadlines,
    merge_limits,
    merge_pod,
    merge_scope,
    merge_storage,
    merge_telemetry,
    merge_waivers,
    merge_workloads,
    refuse_undecided_checks,
    refuse_unheld_extras,
    refuse_unknown_checks,
)
from gpuproof.profile_model import LimitTable, MeasuredTable, ProfileFile

__all__ = ["THRESHOLDS", "Profile", "ProfileError", "find_profile", "load_profile"]

THRESHOLDS = Path(__file__).resolve().parent.parent / "thresholds"
"""The profiles that come with the project."""


@dataclass(frozen=True)
class Profile:
    """
    How good is good enough for one kind of cluster: expectations, checks, limits, exceptions, deadlines.

    `sha256` covers the bytes of the file and of all files it extends, the base first; `files` are their paths in that
    order. Limits of checks that are only recorded carry the severity `record_only`.
    """

    name: str
    path: Path
    files: tuple[Path, ...]
    sha256: str
    schema: int
    cluster: ClusterExpectation
    scope: Scope
    pod: Mapping[str, Any]
    checks: Mapping[str, CheckState]
    limits: tuple[Limit, ...]
    waivers: tuple[Waiver, ...]
    workloads: Mapping[str, Mapping[str, Parameter]]
    deadlines: Deadlines
    storage: Mapping[str, Storage] = field(default_factory=dict)
    """What workloads mount as claims, by the name that their `POD` uses."""
    dataset: Dataset | None = None
    telemetry: Telemetry | None = None

    def limits_for(self, check: str) -> tuple[Limit, ...]:
        """Return the limits of one check, in the order of the files."""
        return tuple(limit for limit in self.limits if limit.check == check)

    @property
    def needs_simulation(self) -> bool:
        """Whether only a simulated cluster may be judged by it: `device = "cpu"` computes beside the GPUs."""
        return self.cluster.device == "cpu"

    def required(self, check: str) -> bool:
        """Say whether the decision rests on this check."""
        state = self.checks.get(check)
        return state is not None and state.state is State.REQUIRED

    def limit_block(self, limit: Limit, today: dt.date) -> str | None:
        """Return why this limit makes ACCEPTED impossible today; None if it does not."""
        if not limit.decisive:
            return None
        why = provenance_block(limit.provenance, today)
        return None if why is None else f"{limit.id} ({limit.source_file}, {limit.key}) is {why}"

    def blocking_provenance(self, today: dt.date) -> tuple[str, ...]:
        """Return a sentence for every decisive limit whose number is provisional or out of date."""
        found = (self.limit_block(limit, today) for limit in self.limits)
        return tuple(why for why in found if why is not None)


def find_profile(name_or_path: str) -> Path:
    """Return the path of a profile given as a file or as the name of one that comes with the project."""
    path = Path(name_or_path)
    if path.suffix == ".toml" or path.exists():
        return path
    return THRESHOLDS / f"{name_or_path}.toml"


def load_profile(path: Path, *, known_checks: Mapping[str, Asks], today: dt.date) -> Profile:
    """
    Read and validate a profile and all it extends; raises ProfileError naming file and key.

    `known_checks` are the checks that exist, with whom each asks; the profile must name every one of them and no other,
    and hold none of them to a limit that fits nobody it asks.
    """
    return _checked(_read_chain(path), path, known_checks, today)


def load_copied(files: Sequence[tuple[Path, str]], *, known_checks: Mapping[str, Asks], today: dt.date) -> Profile:
    """
    Read a profile from copies of its files, the base first, each with the path that it was read from then; raises
    ProfileError.

    What the files say they extend is not looked for: the copies are the chain.
    """
    chain = [_read(file, None) for file, _ in files]
    profile = _checked(chain, files[-1][0], known_checks, today)
    then = {str(file): path for file, path in files}
    return replace(profile, path=Path(files[-1][1]), limits=tuple(_read_then(limit, then) for limit in profile.limits))


def _read_then(limit: Limit, then: Mapping[str, str]) -> Limit:
    replaced = limit.replaced
    for file, path in then.items():
        replaced = replaced.replace(file, path)
    return replace(limit, source_file=then[limit.source_file], replaced=replaced)


def _checked(chain: Chain, path: Path, known_checks: Mapping[str, Asks], today: dt.date) -> Profile:
    for source, file in chain:
        refuse_unknown_checks(source, file, known_checks)
        refuse_duplicates(file.each_limit, source)
        for index, limit in enumerate(file.limit):
            _refuse_missing_evidence(source, index, limit)
    top, top_file = chain[-1]
    cluster = merge_cluster(chain, top)
    checks, origins = merge_checks(chain, top, known_checks)
    limits = merge_limits(chain, cluster, checks, origins, known_checks)
    refuse_undecided_checks(top, checks, limits)
    refuse_unheld_extras(chain, cluster, checks, limits)
    return Profile(
        name=top_file.profile,
        path=path,
        files=tuple(source.path for source, _ in chain),
        sha256=hashlib.sha256(b"".join(source.text.encode() for source, _ in chain)).hexdigest(),
        schema=top_file.schema_,
        cluster=cluster,
        scope=merge_scope(chain, top),
        pod=merge_pod(chain, top),
        checks=checks,
        limits=limits,
        waivers=merge_waivers(chain, checks, today),
        workloads=merge_workloads(chain, checks),
        deadlines=merge_deadlines(chain, top),
        storage=merge_storage(chain),
        dataset=merge_dataset(chain, merge_storage(chain)),
        telemetry=merge_telemetry(chain, top),
    )


def _read_chain(path: Path) -> Chain:
    """Read a profile and what it extends, the base first."""
    chain = [_read(path, None)]
    while (name := chain[0][1].extends) is not None:
        source = chain[0][0]
        base = _base_path(source, name)
        if any(base.resolve() == known.path.resolve() for known, _ in chain):
            raise source.error(
                ("extends",), expected="a file that does not extend this one", actual=name, next_step="break the circle"
            )
        chain.insert(0, _read(base, source))
    return chain


def _base_path(source: Source, name: str) -> Path:
    if name.endswith(".toml"):
        base, known = source.path.parent / name, sorted(p.name for p in source.path.parent.glob("*.toml"))
    else:
        base, known = THRESHOLDS / f"{name}.toml", sorted(p.stem for p in THRESHOLDS.glob("*.toml"))
    if not base.is_file():
        raise source.error(
            ("extends",),
            expected=f"a file beside this one or a name in {THRESHOLDS}: {', '.join(known)}",
            actual=f"{describe(name)}{nearest(name, known)}, and {base} does not exist",
            next_step="correct the name",
        )
    return base


def _read(path: Path, extended_by: Source | None) -> tuple[Source, ProfileFile]:
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        asked = f"extended by {extended_by.path}" if extended_by else "asked for"
        raise ProfileError(
            path,
            "the whole file",
            "a readable TOML file in UTF-8",
            f"{type(error).__name__}: {error}",
            f"check the path ({asked}); the project's own profiles are in {THRESHOLDS}",
        ) from error
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise from_toml(path, text, error) from error
    source = Source(path, text, raw)
    for loc, value in _leaves(raw, ()):
        if isinstance(value, float) and not math.isfinite(value):
            raise source.error(
                loc, expected="a finite number", actual=describe(value), next_step="write the number that is meant"
            )
    try:
        return source, ProfileFile.model_validate(raw)
    except ValidationError as error:
        raise explain(source, error) from error


def _leaves(value: Any, loc: Loc) -> Iterator[tuple[Loc, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*loc, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, (*loc, index))
    else:
        yield loc, value


def _refuse_missing_evidence(source: Source, index: int, table: LimitTable) -> None:
    if isinstance(table.provenance, MeasuredTable) and not (source.path.parent / table.provenance.evidence).is_file():
        raise source.error(
            ("limit", index, "provenance", "evidence"),
            expected=f"a file below {source.path.parent} that holds the measurement",
            actual=f"{describe(table.provenance.evidence)}, which does not exist",
            next_step="commit the evidence beside the profile",
        )
