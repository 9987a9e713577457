"""report.json and junit.xml: what a pipeline may trust."""

import json
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import xmlschema
from hypothesis import given
from hypothesis import strategies as st

from gpuproof.report import RunView, write_reports
from gpuproof.report.json_report import ReportDocument, render_json, render_schema
from gpuproof.report.junit import render_junit
from gpuproof.report.write import PARQUET, RENDERED
from tests.gpuproof.report import synthetic
from tests.gpuproof.report.synthetic import Lines, Script

SUITE_ATTRIBUTES = {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname"}
EVIL = "<script>x</script>]]>&amp;\x00\x1b[31m\u202e\ufffe\ud800\U0001f600 \"'\r\x85\u2028"
CASE_CHILDREN = {"skipped", "error", "failure", "system-out"}


def junit(lines: Lines) -> ET.Element:
    return ET.fromstring(render_junit(RunView.from_record(lines)))


def outcome(case: ET.Element) -> str:
    return next((child.tag for child in case if child.tag != "system-out"), "passed")


def every_verdict() -> Lines:
    script = Script()
    words = ["PASS", "FAIL", "ERROR", "NOT_RUN", "NOT_APPLICABLE", "RECORDED"]
    synthetic.begin(script, words, checks=synthetic.CHECKS[:1])
    script.lines[2]["subjects"] = [{"check": "gpu_inventory", "subject": w, "required": True} for w in words]
    for word in words:
        synthetic.verdict(script, "gpu_inventory", word, word, reasons=[] if word == "PASS" else [f"because {word}"])
    synthetic.end(script, "REJECTED", ["gpu_inventory is FAIL on FAIL"], "six words", {})
    return script.lines


def test_each_verdict_has_its_own_place_in_junit() -> None:
    cases = {c.get("name"): outcome(c) for c in junit(every_verdict()).iter("testcase")}

    assert cases == {
        "simulated": "failure",
        "PASS": "passed",
        "FAIL": "failure",
        "ERROR": "error",
        "NOT_RUN": "error",
        "NOT_APPLICABLE": "skipped",
        "RECORDED": "passed",
    }


def test_recorded_never_passes_silently() -> None:
    case = next(c for c in junit(every_verdict()).iter("testcase") if c.get("name") == "RECORDED")

    assert "held against no limit" in (case.findtext("system-out") or "")


def test_junit_has_the_shape_common_readers_take() -> None:
    root = junit(synthetic.run(4, short=["gpu-1"], unpullable=["gpu-2"]))

    assert root.tag == "testsuites"
    for suite in root:
        assert suite.tag == "testsuite"
        assert set(suite.attrib) == SUITE_ATTRIBUTES
        cases = suite.findall("testcase")
        found = Counter(outcome(case) for case in cases)
        assert suite.get("tests") == str(len(cases))
        assert (suite.get("failures"), suite.get("errors")) == (str(found["failure"]), str(found["error"]))
        assert suite.get("skipped") == str(found["skipped"])
        for case in cases:
            assert set(case.attrib) == {"classname", "name", "time"}
            assert {child.tag for child in case} <= CASE_CHILDREN
            assert case[-1].tag == "system-out"
    assert root.get("tests") == str(len(list(root.iter("testcase"))))


def test_junit_carries_findings_and_reasons() -> None:
    root = junit(synthetic.run(4, short=["gpu-1"]))

    case = next(c for c in root.iter("testcase") if c.get("name") == "gpu-1" and outcome(c) == "failure")
    failure = case.find("failure")
    assert failure is not None
    assert "gpus_allocatable is 1" in (failure.get("message") or "")
    assert "observed 1, bound = 2 (gpus_per_node of the profile)" in (case.findtext("system-out") or "")


@pytest.mark.parametrize("lines", [[], synthetic.run(4, killed_after=3), synthetic.run(4, unpullable=["gpu-1"])])
def test_pipeline_that_counts_red_cases_never_takes_an_undecided_run_for_green(lines: Lines) -> None:
    assert int(junit(lines).get("errors", "0")) > 0


def test_waived_miss_is_skipped_and_names_its_owner() -> None:
    waiver = {"check": "gpu_inventory", "subject": "gpu-1", "owner": "synthetic owner", "reason": "in repair"}
    root = junit(synthetic.run(2, short=["gpu-1"], waivers=[{**waiver, "expires": "2027-01-01", "expired": False}]))

    case = next(
        c for c in root.iter("testcase") if (c.get("classname"), c.get("name")) == ("gpuproof.gpu_inventory", "gpu-1")
    )
    assert outcome(case) == "skipped"
    assert "synthetic owner" in (case[0].get("message") or "")


@given(st.text(), st.text())
def test_any_text_gives_xml_that_parses(subject: str, reason: str) -> None:
    script = Script()
    synthetic.begin(script, [subject])
    synthetic.verdict(script, "gpu_inventory", subject, "FAIL", reasons=[reason])

    assert junit(script.lines).tag == "testsuites"


def test_json_fits_its_published_schema_and_reads_back() -> None:
    text = render_json(RunView.from_record(synthetic.run(4, short=["gpu-1"])))
    schema = json.loads(render_schema())

    document = json.loads(text)
    assert list(document) == list(schema["properties"])
    assert ReportDocument.model_validate_json(text).decision.outcome == "REJECTED"
    assert document["schema_version"] == "1.2"


def test_fields_that_pipelines_read_are_frozen() -> None:
    document = json.loads(render_json(RunView.from_record(synthetic.run(1))))

    assert set(document) == {
        *("schema_version", "simulated", "decision", "counts", "run", "profile", "cluster", "pod_patch"),
        *("blocking_limits", "waivers", "problems", "checks", "subjects", "limits", "nodes", "acceptances"),
    }
    assert set(document["decision"]) == {"outcome", "exit_code", "recorded", "scope", "reasons", "waived"}
    assert set(document["subjects"][0]) == {
        *("check", "subject", "verdict", "required", "planned", "answered", "waived_by", "reason_code", "reasons"),
        *("blocked_by", "duration_s", "findings", "failures", "evidence", "measurements"),
    }


def test_json_of_the_same_record_is_the_same_text() -> None:
    assert render_json(RunView.from_record(synthetic.run(4))) == render_json(RunView.from_record(synthetic.run(4)))


def test_json_writes_numbers_that_are_none_as_words() -> None:
    script = Script()
    synthetic.begin(script, ["gpu-1"])
    nan = synthetic.finding("limit[0]", "gpus_allocatable", "NaN", "= 2", outcome="missed")
    synthetic.verdict(script, "gpu_inventory", "gpu-1", "FAIL", findings=[nan], duration_s="Infinity")

    def refuse(word: str) -> None:
        raise AssertionError(word)

    document = json.loads(render_json(RunView.from_record(script.lines)), parse_constant=refuse)
    subject = next(s for s in document["subjects"] if s["check"] == "gpu_inventory")
    assert subject["findings"][0]["observed"] == "NaN"
    assert subject["duration_s"] == "Infinity"


def test_reports_are_written_whole_and_leave_nothing_else_behind(tmp_path: Path) -> None:
    view = RunView.from_record(synthetic.run(4))

    paths = write_reports(view, tmp_path / "run")
    write_reports(view, tmp_path / "run")

    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == sorted([*RENDERED, PARQUET])
    assert paths.html.read_text(encoding="utf-8").rstrip().endswith("</html>")


def test_report_that_cannot_be_put_in_place_leaves_no_part_of_itself(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()

    with pytest.raises(OSError, match=r"report\.html"):
        write_reports(RunView.from_record(synthetic.run(1)), tmp_path)

    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


JUNIT = xmlschema.XMLSchema(Path(__file__).parent / "xunit2.xsd")
CASE = ".//testcase"
SUITE = "testsuite"
# What readers that insist on the common schema refuse, done to a document that they take.
REFUSED: dict[str, Callable[[ET.Element], object]] = {
    "another root": lambda root: setattr(root, "tag", "results"),
    "a suite without a name": lambda root: the(root, SUITE).attrib.pop("name"),
    "a suite that does not count its cases": lambda root: the(root, SUITE).attrib.pop("tests"),
    "a suite that does not count failures": lambda root: the(root, SUITE).attrib.pop("failures"),
    "a suite that does not count errors": lambda root: the(root, SUITE).attrib.pop("errors"),
    "a suite with an attribute of its own": lambda root: the(root, SUITE).set("assertions", "1"),
    "a suite's time in four decimals": lambda root: the(root, SUITE).set("time", "1.2345"),
    "a suite's time with an exponent": lambda root: the(root, SUITE).set("time", "1e-05"),
    "a suite's time below zero": lambda root: the(root, SUITE).set("time", "-1.000"),
    "a suite's time that is no number": lambda root: the(root, SUITE).set("time", "nan"),
    "a time with its unit": lambda root: root.set("time", "1.000 s"),
    "all suites' time in four decimals": lambda root: root.set("time", "0.0001"),
    "skipped counted over all suites": lambda root: root.set("skipped", "0"),
    "a time stamp over all suites": lambda root: root.set("timestamp", "2026-11-30T09:00:00"),
    "a case without a name": lambda root: the(root, CASE).attrib.pop("name"),
    "a case with assertions": lambda root: the(root, CASE).set("assertions", "1"),
    "a case with a status": lambda root: the(root, CASE).set("status", "run"),
    "a case with file and line": lambda root: the(root, CASE).attrib.update(file="a.py", line="1"),
    "a case with properties": lambda root: the(root, CASE).append(ET.Element("properties")),
    "a case with an outcome of its own": lambda root: the(root, CASE).append(ET.Element("undecided")),
    "a case outside a suite": lambda root: root.append(ET.Element("testcase", name="x", classname="y", time="0.000")),
    "a case in a case": lambda root: the(root, CASE).append(ET.Element("testcase", name="x")),
    "properties over all suites": lambda root: root.insert(0, ET.Element("properties")),
    "a property without a value": lambda root: the(root, ".//property").attrib.pop("value"),
    "a property without a name": lambda root: the(root, ".//property").attrib.pop("name"),
    "a property in a suite": lambda root: the(root, SUITE).append(ET.Element("property", name="a", value="b")),
    "a failure of a suite": lambda root: the(root, SUITE).append(ET.Element("failure", type="a", message="b")),
    "a failure with an attribute of its own": lambda root: the(root, ".//failure").set("code", "1"),
    "a failure with elements": lambda root: the(root, ".//failure").append(ET.Element("b")),
    "output with elements": lambda root: the(root, ".//system-out").append(ET.Element("b")),
    "words between cases": lambda root: setattr(the(root, CASE), "tail", "words"),
    "words between suites": lambda root: setattr(the(root, SUITE), "tail", "words"),
}


def the(root: ET.Element, path: str) -> ET.Element:
    found = root.find(path)
    assert found is not None
    return found


def timed(seconds: float | str) -> Lines:
    """A run that took so long, and whose only subject did."""
    script = Script()
    synthetic.begin(script, ["gpu-1"], checks=synthetic.CHECKS[:1])
    synthetic.verdict(script, "gpu_inventory", "gpu-1", "PASS", duration_s=seconds)
    synthetic.end(script, "ACCEPTED", ["all is well"], "one node", {"PASS": 1})
    script.lines[-1]["seconds"] = seconds
    return script.lines


def of_every_kind() -> Iterator[Lines]:
    yield from (every_verdict(), [], synthetic.run(4), synthetic.run(4, short=["gpu-1"], unpullable=["gpu-2"]))
    yield from (synthetic.run(2, killed_after=length) for length in (1, 3, 7, 11))
    waiver = {"check": "gpu_inventory", "subject": "gpu-1", "owner": EVIL, "reason": EVIL, "expires": "2027-01-01"}
    yield from (synthetic.run(2, short=["gpu-1"], waivers=[{**waiver, "expired": gone}]) for gone in (False, True))
    script = Script()
    synthetic.begin(script, [EVIL, "missing-1"], run_id=EVIL, cluster={"name": EVIL}, profile={"name": EVIL})
    script.add("interrupted", signal=EVIL)
    script.add("failure", check="gpu_inventory", subject=EVIL, reason=EVIL, message=EVIL, evidence=["y" * 1_000_000])
    synthetic.verdict(script, "gpu_inventory", EVIL, "FAIL", reasons=[EVIL], reason_code=EVIL)
    synthetic.verdict(script, EVIL, EVIL, "ERROR", reasons=[EVIL], reason_code=EVIL)
    yield script.lines
    times: tuple[float | str, ...] = (0, 1e-300, 0.0004, 59.9999, 123456.789, 1e16, 1e300, -1, -1e-9, "NaN", "Infinity")
    yield from (timed(seconds) for seconds in times)


def test_junit_of_every_kind_of_run_fits_the_schema_of_its_common_readers() -> None:
    for lines in of_every_kind():
        JUNIT.validate(render_junit(RunView.from_record(lines)))


@pytest.mark.parametrize("how", REFUSED)
def test_the_schema_refuses_what_common_readers_refuse(how: str) -> None:
    root = junit(synthetic.run(2, short=["gpu-1"]))
    REFUSED[how](root)
    with pytest.raises(xmlschema.XMLSchemaValidationError):
        JUNIT.validate(ET.tostring(root, encoding="unicode"))


def test_published_schema_of_report_json_is_the_one_in_the_docs() -> None:
    assert (Path("docs") / "report.schema.json").read_text(encoding="utf-8") == render_schema()
