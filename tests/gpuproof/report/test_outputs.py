"""Markdown, CSV, Prometheus, quarantine and dispute packs: what they say, and that no text of a run acts in them."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import fastparquet
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpuproof.report import RunView, dispute
from gpuproof.report.advice import next_step
from gpuproof.report.bounds import margin, number_of
from gpuproof.report.markdown import render_markdown, text
from gpuproof.report.quarantine import render_quarantine
from gpuproof.report.tables import holds_parquet, render_csv, write_parquet
from gpuproof.report.textfile import render_textfile
from gpuproof.verdict import FAILURE_VERDICTS
from tests.gpuproof.report import synthetic
from tests.gpuproof.report.synthetic import Lines, Script

HOSTILE = "<script>x</script> [a](http://b) @team #1 `c` | \x1b[31m\u202e ![i](j) \n# h"


def view(lines: Lines) -> RunView:
    return RunView.from_record(lines)


def hostile() -> RunView:
    script = Script()
    synthetic.begin(script, [HOSTILE], cluster={"name": HOSTILE, "simulated": False}, profile={"name": HOSTILE})
    bad = synthetic.finding("limit[0]", HOSTILE, "=1+1", "= 2", outcome="missed", at={HOSTILE: HOSTILE})
    script.add(
        "failure", check="gpu_inventory", subject=HOSTILE, reason="evicted", message=HOSTILE, evidence=["```" + HOSTILE]
    )
    script.add("evidence", check="gpu_inventory", subject=HOSTILE, kind="log", text="y" * 1_000_000)
    synthetic.verdict(script, "gpu_inventory", HOSTILE, "FAIL", reasons=[HOSTILE], findings=[bad])
    return view(script.lines)


def test_markdown_says_decision_reasons_and_what_to_do() -> None:
    said = render_markdown(view(synthetic.run(4, short=["gpu-1"])))
    for part in (
        "## ✗ REJECTED (SIMULATED)",
        "gpu_inventory is FAIL on gpu-1",
        "**Verdicts:** 1 FAIL",
        "the provider:",
    ):
        assert part in said


def test_no_text_acts_in_markdown() -> None:
    said = render_markdown(hostile()) + dispute.packs(hostile(), [])[0].files["README.md"]
    quoted = "\n".join(line for line in said.splitlines() if not line.startswith("    "))
    assert not re.search(r"<script|\]\(|@team|\x1b|\u202e|://|^# h", quoted, re.MULTILINE)
    assert text("a_b c*d") == "a_b c&#42;d"
    assert len(text("z" * 5_000)) < 700


def test_csv_reads_back_and_no_cell_is_a_formula() -> None:
    rows = list(csv.DictReader(io.StringIO(render_csv(view(synthetic.run(4, short=["gpu-1"]))))))
    assert {row["subject"] for row in rows} == set(synthetic.names(4))
    missed = next(row for row in rows if row["outcome"] == "missed")
    assert (missed["name"], float(missed["value"]), missed["verdict"]) == ("gpus_allocatable", 1.0, "FAIL")
    cells = [cell for row in csv.reader(io.StringIO(render_csv(hostile()))) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]


def test_parquet_has_the_rows_of_the_csv_with_their_types_and_is_not_another_run_s(tmp_path: Path) -> None:
    table, run = tmp_path / "results.parquet", view(synthetic.run(4, short=["gpu-1"]))
    write_parquet(run, table)
    found = fastparquet.ParquetFile(io.BytesIO(table.read_bytes())).to_pandas()
    assert len(found) == len(list(csv.DictReader(io.StringIO(render_csv(run)))))
    missed = found[found["outcome"] == "missed"].iloc[0]
    assert (missed["name"], missed["value"], bool(missed["required"])) == ("gpus_allocatable", 1.0, True)
    assert holds_parquet(run, table)
    assert not holds_parquet(view(synthetic.run(4)), table)
    table.write_bytes(table.read_bytes()[:-9])
    assert not holds_parquet(run, table)
    for odd in (hostile(), view([])):
        write_parquet(odd, table)
        assert holds_parquet(odd, table)


def test_prometheus_reads_it_and_series_do_not_grow_with_nodes() -> None:
    few, many = (render_textfile(view(synthetic.run(n))) for n in (4, 64))
    families = {family.name: family for family in text_string_to_metric_families(few)}
    decided = {s.labels["outcome"]: s.value for s in families["gpuproof_decision"].samples}
    assert decided == {"ACCEPTED": 1.0, "REJECTED": 0.0, "UNDECIDED": 0.0}
    assert len(few.splitlines()) == len(many.splitlines())
    assert list(text_string_to_metric_families(render_textfile(hostile())))


def test_quarantine_names_failed_nodes_only() -> None:
    document = json.loads(render_quarantine(view(synthetic.run(4, short=["gpu-1"], unpullable=["gpu-2"]))))
    assert [node["name"] for node in document["nodes"]] == ["gpu-1"]
    assert document["nodes"][0]["reasons"][0]["check"] == "gpu_inventory"
    assert json.loads(render_quarantine(view(synthetic.run(4))))["nodes"] == []


def test_a_waived_failure_quarantines_nobody() -> None:
    waiver = {"check": "gpu_inventory", "subject": "gpu-1", "owner": "o", "reason": "r", "expires": "2027-01-01"}
    lines = synthetic.run(2, short=["gpu-1"], waivers=[waiver])
    assert json.loads(render_quarantine(view(lines)))["nodes"] == []


JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j-1", "namespace": "n", "labels": {"gpuproof.dev/check": "gpu_inventory"}},
    "spec": {
        "completions": 4,
        "parallelism": 4,
        "template": {
            "spec": {
                "affinity": {"nodeAffinity": {}},
                "nodeSelector": {"pool": "a"},
                "volumes": [{"configMap": {"name": "sources-x"}}],
            }
        },
    },
}
SOURCES: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "sources-x"},
    "data": {"a.py": ""},
}


def test_a_dispute_pack_repeats_the_run_s_own_job_on_that_node() -> None:
    (pack,) = dispute.packs(view(synthetic.run(4, short=["gpu-1"])), [SOURCES, JOB])
    readme = pack.files["README.md"]
    for part in (
        "gpu_inventory is FAIL on gpu-1",
        "= 2 (gpus",
        "kubectl apply -f reproduce.yaml",
        "job/j-1 -c measure",
    ):
        assert part in readme, part
    namespace, sources, job = dispute.reproduction([SOURCES, JOB], "gpu_inventory", "gpu-1")
    assert {o["metadata"].get("namespace", o["metadata"]["name"]) for o in (namespace, sources, job)} == {
        "gpuproof-reproduce"
    }
    assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (1, 1)
    pod = job["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"pool": "a", "kubernetes.io/hostname": "gpu-1"}
    assert "affinity" not in pod
    assert "affinity" in JOB["spec"]["template"]["spec"]


def test_a_pack_brings_the_owner_of_a_training_whatever_its_kind() -> None:
    marks = {"gpuproof.dev/check": "gpu_inventory", "kueue.x-k8s.io/queue-name": "gpuproof"}
    queue = {"kind": "LocalQueue", "metadata": {"name": "gpuproof"}}
    runtime = {"kind": "TrainingRuntime", "metadata": {"name": "j-1"}, "spec": JOB["spec"]}
    owner = {"kind": "TrainJob", "metadata": {"name": "j-1", "labels": marks}, "spec": {"runtimeRef": {"name": "j-1"}}}
    other = {"kind": "TrainingRuntime", "metadata": {"name": "j-2"}, "spec": {}}
    objects = dispute.reproduction([SOURCES, queue, runtime, owner, other], "gpu_inventory", None)
    assert [o["kind"] for o in objects] == ["Namespace", "ConfigMap", "LocalQueue", "TrainingRuntime", "TrainJob"]
    (pack,) = dispute.packs(view(synthetic.run(4, short=["gpu-1"])), [SOURCES, queue, runtime, owner])
    assert "-l gpuproof.dev/job=j-1 -c measure" in pack.files["README.md"]


def test_a_pack_brings_what_the_job_mounts_and_finds_its_peers_by() -> None:
    job = json.loads(json.dumps(JOB))
    job["spec"]["template"]["spec"] |= {"subdomain": "peers"}
    job["spec"]["template"]["spec"]["volumes"].append({"persistentVolumeClaim": {"claimName": "claim-shared"}})
    others = [
        {"kind": kind, "metadata": {"name": name}}
        for kind, name in (
            ("Service", "peers"),
            ("Service", "others"),
            ("PersistentVolumeClaim", "claim-shared"),
            ("PersistentVolumeClaim", "claim-other"),
        )
    ]
    objects = dispute.reproduction([SOURCES, *others, job], "gpu_inventory", None)
    assert [o["metadata"]["name"] for o in objects] == [dispute.NAMESPACE, "sources-x", "peers", "claim-shared", "j-1"]
    assert objects[-1]["spec"]["completions"] == 4


def test_a_pack_whose_job_needs_a_secret_says_that_kubectl_alone_cannot_repeat_it() -> None:
    job = json.loads(json.dumps(JOB))
    job["spec"]["template"]["spec"]["volumes"].append({"secret": {"secretName": "gang"}})
    lines = synthetic.run(4, short=["gpu-1"])
    seen = next(line for line in lines if line["event"] == "measurement" and line["subject"] == "gpu-2")
    run = view([*lines[:-2], {**seen, "subject": "gpu-1"}, *lines[-2:]])
    (pack,) = dispute.packs(run, [SOURCES, job])
    assert list(pack.files) == ["README.md"]
    assert "gpuproof run --profile PROFILE --context CLUSTER --only gpu_inventory" in pack.files["README.md"]
    assert "No pod was needed" in dispute.packs(view(lines), [SOURCES, job])[0].files["README.md"]


def test_every_reason_of_a_failure_has_a_next_step_of_its_own() -> None:
    script = Script()
    synthetic.begin(script, [str(reason) for reason in FAILURE_VERDICTS])
    for reason, verdict in FAILURE_VERDICTS.items():
        synthetic.verdict(script, "gpu_inventory", str(reason), str(verdict), reason_code=str(reason))
    subjects = [view(script.lines).find("gpu_inventory", str(reason)) for reason in FAILURE_VERDICTS]
    steps = [next_step(subject) for subject in subjects if subject is not None]
    assert len({step for _, step in steps}) == len(FAILURE_VERDICTS)


@pytest.mark.parametrize(
    ("observed", "bound", "share"),
    [
        (440.0, ">= 400 GB/s", 0.1),
        (300, ">= 400 GB/s (>= 0.5 x fleet_median)", -0.25),
        (5.0, "<= 10 s", 0.5),
        (5.0, "<= 0 B", None),
        (5.0, "= 5", None),
        (True, ">= 1", None),
        ("x", ">= 1", None),
        (float("nan"), ">= 1", None),
        (5.0, ">= 0.75 x ring_ceiling", None),
        (5.0, None, None),
    ],
)
def test_margin(observed: object, bound: object, share: float | None) -> None:
    assert margin(observed, bound) == (None if share is None else pytest.approx(share))


def test_the_number_of_a_bound() -> None:
    assert [number_of(t) for t in (">= 1e-05", "= 2 (gpus)", "one of a, b", "<= 0.9 x fleet_median")] == [
        1e-05,
        2,
        None,
        None,
    ]
