"""The rights in `deploy/rbac.yaml` are enough for a whole run: everything else would be refused to this account."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gpuproof import simulation
from gpuproof.admission import KUEUE, VOLCANO
from gpuproof.cluster.port import LOCAL_QUEUES, Resource
from gpuproof.training_owner import OWNERS, TrainingOwner

ROOT = Path(__file__).resolve().parent.parent.parent
GPUPROOF = (sys.executable, "-c", "from gpuproof.cli import main; main()")
RIGHTS = ROOT / "deploy" / "rbac.yaml"


class _Once(yaml.SafeLoader):
    """A key that stands twice in one mapping is an error: of two lists of rights only one would be granted."""


def _mapping(loader: _Once, node: yaml.MappingNode) -> dict[object, object]:
    keys = [loader.construct_object(key) for key, _ in node.value]
    assert len(keys) == len(set(keys)), f"{node.start_mark}: {keys}"
    return loader.construct_mapping(node, deep=True)


_Once.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


@pytest.mark.parametrize("file", sorted((ROOT / "deploy").glob("*.yaml")), ids=lambda file: str(file.name))
def test_no_key_stands_twice(file: Path) -> None:
    assert list(yaml.load_all(file.read_text(encoding="utf-8"), _Once))


@pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS)
def test_whoever_owns_a_training_can_be_made_watched_and_deleted(owner: TrainingOwner) -> None:
    role = next(one for one in yaml.safe_load_all(RIGHTS.read_text(encoding="utf-8")) if one["kind"] == "ClusterRole")

    def verbs(resource: Resource) -> set[str]:
        group = resource.prefix.split("/")[1] if resource.prefix.startswith("apis/") else ""
        rules = [rule for rule in role["rules"] if group in rule["apiGroups"] and resource.plural in rule["resources"]]
        return {verb for rule in rules for verb in rule["verbs"]}

    for _, resource in owner.makes:
        assert verbs(resource) >= {"create", "delete"}, resource
    assert verbs(owner.owns) >= {"list", "watch"}
    for kind in (KUEUE, VOLCANO):
        assert verbs(kind.watched) >= {"list", "watch"}
        assert all("list" in verbs(resource) for resource in kind.needs)
    assert verbs(LOCAL_QUEUES) >= {"create"}


def kubectl(kubeconfig: Path, *arguments: str) -> str:
    command = ["kubectl", "--kubeconfig", str(kubeconfig), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def as_the_account(kubeconfig: Path, place: Path) -> Path:
    """A kubeconfig with the token of the account that `deploy/rbac.yaml` makes, and nothing else to show."""
    kubectl(kubeconfig, "apply", "-f", str(RIGHTS))
    token = kubectl(kubeconfig, "create", "token", "gpuproof", "--namespace", "gpuproof").strip()
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    for user in config["users"]:
        user["user"] = {"token": token}
    place.write_text(yaml.safe_dump(config), encoding="utf-8")
    return place


@pytest.mark.every_fault
@pytest.mark.timeout(900)
def test_a_whole_run_needs_no_more_than_the_rights_that_are_deployed(tmp_path: Path) -> None:
    with simulation.start() as simulated:
        account = as_the_account(simulated.kubeconfig, tmp_path / "account.yaml")
        denied = subprocess.run(
            ["kubectl", "--kubeconfig", str(account), "get", "secrets", "--all-namespaces"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "forbidden" in denied.stderr
        command = [*GPUPROOF, "run", "--profile", str(ROOT / "thresholds" / "simulated.toml"), "--plain"]
        command += ["--kubeconfig", str(account), "--out", str(tmp_path / "run")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
