"""The checks and the profile of a run, and everything in them that can be refused before a cluster is asked.

Every complaint is a `LaunchError` that names file and key. Must not know a cluster or a pod.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpuproof import node_loss
from gpuproof.catalogue import CatalogueError, Check, load_checks, parameters_of, subjects_asked, workload_folders
from gpuproof.expectation import State
from gpuproof.gang_params import STAGES, ParamsError, read_params, refuse_tool
from gpuproof.gang_results import WORKLOAD as GANG_WORKLOAD
from gpuproof.manifests import ManifestError, check_pod_settings
from gpuproof.options import LaunchError, Options
from gpuproof.pod_shape import PodShapeError, read_shape
from gpuproof.profile import Profile, load_profile
from gpuproof.profile_error import ProfileError
from gpuproof.run_trainings import PARAMETERS_OF
from gpuproof.setting import today
from gpuproof.training_choice import ChoiceError, read_choice


def read(options: Options) -> tuple[tuple[Check, ...], Profile]:
    """The checks there are and the profile that judges them; raises `LaunchError`."""
    try:
        checks = load_checks(options.folders)
        profile = load_profile(options.profile, known_checks=subjects_asked(checks), today=today())
    except (CatalogueError, ProfileError) as error:
        raise LaunchError(str(error)) from error
    for name in options.only:
        if name not in profile.checks:
            raise LaunchError(f"--only {name}: no such check; there are {', '.join(sorted(profile.checks))}")
    _refuse_unknown_parameters(checks, profile, workload_folders(options.folders))
    _refuse_experiments(checks, profile)
    if options.image is not None:
        profile = replace(profile, pod={**profile.pod, "image": options.image})
    try:
        check_pod_settings(profile.pod, pool=profile.scope.pool, gpu_resource=profile.cluster.gpu_resource)
    except ManifestError as error:
        raise LaunchError(f"{profile.path}: {error}") from error
    return checks, profile


def _refuse_unknown_parameters(checks: Sequence[Check], profile: Profile, folders: Sequence[Path]) -> None:
    for check in checks:
        known: set[str] = {"device"}
        for workload in check.workloads:
            taken = parameters_of(workload, folders)
            if taken is None:
                raise LaunchError(
                    f"{check.file}: runs the workload {workload!r}, and there is no workloads/{workload}.py"
                )
            known |= set(taken)
            _refuse_unknown_claims(check, workload, profile, folders)
        if check.experiments:
            known |= set(parameters_of(GANG_WORKLOAD, folders) or ())
        if node_loss.KILL in check.kills:
            known = set(node_loss.PARAMETERS)  # the training's own are those of all kills
        # A check that runs no program has nothing to compare its parameters with.
        for name in profile.workloads.get(check.name, {}) if check.workloads or check.experiments else ():
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                raise _refused(
                    profile,
                    f"[workload.{check.name}] {name}",
                    expected=f"one of {', '.join(sorted(known))}",
                    found=name,
                    next_step=f"{f'write {near[0]}' if near else 'delete it'}: no program of the check takes it",
                )
        if check.kills and profile.checks[check.name].state is not State.NOT_APPLICABLE:
            _refuse_training_without_parameters(check, profile)
            _refuse_choice(profile)
            if node_loss.KILL in check.kills:
                _refuse_node_loss(check, profile)


def _refuse_training_without_parameters(check: Check, profile: Profile) -> None:
    """All kills share one training: without its parameters a kill would land anywhere, and be survived by luck."""
    if profile.checks[PARAMETERS_OF].state is State.NOT_APPLICABLE:
        raise _refused(
            profile,
            f"[checks] {check.name}",
            expected=f"{PARAMETERS_OF} to apply too, whose parameters are those of the training",
            found=f"{PARAMETERS_OF} is not-applicable",
            next_step=f"make it required, or {check.name} not-applicable too; one run can be cut down by --only",
        )


def _refuse_choice(profile: Profile) -> None:
    try:
        read_choice(profile.workloads.get(PARAMETERS_OF, {}), profile.deadlines.scheduling_s)
    except ChoiceError as error:
        key = f"[workload.{PARAMETERS_OF}] {error.key}"
        raise _refused(profile, key, expected=error.expected, found=error.found, next_step=error.next_step) from error


def _refuse_node_loss(check: Check, profile: Profile) -> None:
    try:
        node_loss.read_node_loss(profile.workloads.get(check.name, {}))
    except node_loss.NodeLossError as error:
        key = f"[workload.{check.name}] {error.key}"
        raise _refused(profile, key, expected=error.expected, found=error.found, next_step=error.next_step) from error


def _refuse_experiments(checks: Sequence[Check], profile: Profile) -> None:
    """Experiments that nobody knows, that two checks ask for, or whose parameters do not do."""
    asked_by: dict[str, Check] = {}
    for check in checks:
        for stage in check.experiments:
            if stage not in STAGES:
                raise LaunchError(f"{check.file}: no experiment {stage!r}; there are {', '.join(STAGES)}")
            if stage in asked_by:
                raise LaunchError(f"{check.file}: {asked_by[stage].file} asks for the experiment {stage!r}; one may")
            asked_by[stage] = check
            if profile.checks[check.name].state is State.NOT_APPLICABLE:
                continue
            try:
                refuse_tool(stage, read_params(profile.workloads.get(check.name, {})))
            except ParamsError as error:
                raise LaunchError(
                    f"{profile.path}: [workload.{check.name}] {error}\n"
                    f"  next:     correct it; thresholds/simulated.toml has every key of an experiment"
                ) from error


def _refuse_unknown_claims(check: Check, workload: str, profile: Profile, folders: Sequence[Path]) -> None:
    try:
        shape = read_shape(workload, folders)
    except PodShapeError as error:
        raise LaunchError(str(error)) from error
    if profile.checks[check.name].state is State.NOT_APPLICABLE:
        return
    if shape.rdma and profile.cluster.rdma is None:
        raise _refused(
            profile,
            "[cluster.rdma]",
            expected=f"how RDMA reaches a pod, for workloads/{workload}.py of the check {check.name}",
            found="none",
            next_step="add [cluster.rdma] with resource, per_node, rate_gbps and link_layer, "
            f"or make {check.name} not-applicable with a reason",
        )
    for name in shape.claims:
        if name not in profile.storage:
            near = difflib.get_close_matches(name, profile.storage, 1)
            raise _refused(
                profile,
                f"[storage.{name}]",
                expected=f"the storage that workloads/{workload}.py of the check {check.name} mounts",
                found=", ".join(sorted(profile.storage)) or "no [storage] at all",
                next_step=f"{f'rename [storage.{near[0]}]' if near else f'add [storage.{name}]'} "
                f"with storage_class, size and access_mode, or make {check.name} not-applicable with a reason",
            )


def _refused(profile: Profile, key: str, *, expected: str, found: str, next_step: str) -> LaunchError:
    return LaunchError(str(ProfileError(profile.path, key, expected, found, next_step)))
