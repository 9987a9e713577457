"""The page: its first screen, that hostile text stays text, that it needs nothing but itself, and its size."""

import re
import time
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any

import pytest

from gpuproof.report import RunView
from gpuproof.report.html import render_html
from gpuproof.report.layout import blockers
from tests.gpuproof.report import synthetic
from tests.gpuproof.report.synthetic import Lines, Script

VOID = {"meta", "br", "link"}
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><b>\x1b[31m\u202eevil"


class Page(HTMLParser):
    """Collects tags, attributes and text of a page, and fails on tags that do not nest."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page(lines: Any) -> Page:
    return Page(render_html(RunView.from_record(lines)))


def first_screen(html: str) -> str:
    return html[: html.index("</main>")]


RUNS: dict[str, Callable[[], Lines]] = {
    "accepted": lambda: synthetic.run(4),
    "rejected": lambda: synthetic.run(4, short=["gpu-3"]),
    "rejected_many": lambda: synthetic.run(64, short=[f"gpu-{i}" for i in range(1, 41)]),
    "undecided": lambda: synthetic.run(4, unpullable=["gpu-2"]),
    "killed": lambda: synthetic.run(4, killed_after=9),
    "only_started": lambda: synthetic.run(4, killed_after=1),
    "empty": list,
}


@pytest.mark.parametrize("name", RUNS)
def test_page_is_well_formed_and_needs_nothing_but_itself(name: str) -> None:
    parsed = page(RUNS[name]())

    assert "script" not in parsed.tags
    assert not {"img", "iframe", "link", "object", "embed", "form"} & set(parsed.tags)
    assert not [a for a in parsed.attributes if a[1] in ("src", "style") or a[1].startswith("on")]
    assert all(value.startswith("#") for _, name, value in parsed.attributes if name == "href")


@pytest.mark.parametrize("name", RUNS)
def test_every_link_of_the_page_leads_somewhere_and_no_place_is_doubled(name: str) -> None:
    parsed = page(RUNS[name]())

    places = [value for _, name, value in parsed.attributes if name == "id"]
    assert len(places) == len(set(places))
    assert {value[1:] for _, name, value in parsed.attributes if name == "href"} <= set(places)


def test_policy_allows_the_page_s_own_style_and_nothing_else() -> None:
    html = render_html(RunView.from_record(synthetic.run(1)))

    assert "default-src &#39;none&#39;" in html or "default-src 'none'" in html
    assert "unsafe-inline" not in html


@pytest.mark.parametrize(
    ("name", "word"), [("accepted", "ACCEPTED"), ("rejected", "REJECTED"), ("undecided", "UNDECIDED")]
)
def test_first_screen_says_decision_scope_and_that_it_is_simulated(name: str, word: str) -> None:
    top = first_screen(render_html(RunView.from_record(RUNS[name]())))

    assert re.search(rf"<h1>.*{word}</h1>", top)
    assert "all 4 nodes of pool node-pool=sim-train" in top
    assert "SIMULATED cluster" in top


def test_real_cluster_is_not_called_simulated_and_an_unknown_one_says_so() -> None:
    real = render_html(RunView.from_record(synthetic.run(1, cluster={"name": "prod", "simulated": False})))
    unknown = render_html(RunView.from_record(synthetic.run(1, cluster={"name": "prod"})))

    assert "SIMULATED cluster" not in real
    assert "not said whether real or simulated" in unknown


def test_first_screen_names_subject_and_reason_in_plain_words() -> None:
    top = first_screen(render_html(RunView.from_record(synthetic.run(4, short=["gpu-3"]))))

    assert "gpu-3" in top
    assert "gpus_allocatable is 1, expected" in top


def test_killed_run_says_that_it_did_not_finish() -> None:
    top = first_screen(render_html(RunView.from_record(synthetic.run(4, killed_after=9))))

    assert "UNDECIDED" in top
    assert "The run did not finish" in top


def test_waivers_and_limits_that_forbid_accepted_are_on_the_first_screen() -> None:
    blocking = synthetic.limit("limit[9]", "cuda_runtime", "x", ">= 1", "1", blocking="provisional, by 2027-01-01")
    waivers = [
        {"check": "a", "subject": "gpu-1", "owner": "owner one", "reason": "why", "expires": "2027-01-01"},
        {"check": "b", "subject": "*", "owner": "owner two", "reason": "why", "expires": "2020-01-01", "expired": True},
    ]
    top = first_screen(
        render_html(RunView.from_record(synthetic.run(1, limits=[*synthetic.LIMITS, blocking], waivers=waivers)))
    )

    assert "forbids ACCEPTED" in top
    assert "provisional, by 2027-01-01" in top
    assert "owner one" in top
    assert "EXPIRED, without effect" in top


def accepted_earlier(nodes: dict[str, tuple[str, str]], runs: int = 2) -> str:
    lines = synthetic.run(4)
    acceptances = {node: {"run": run, "at": f"{at}Z"} for node, (run, at) in nodes.items()}
    lines.insert(3, {**lines[3], "event": "acceptances", "runs": runs, "nodes": acceptances})
    for number, line in enumerate(lines, start=1):
        line["seq"] = number
    return Page(first_screen(render_html(RunView.from_record(lines))) + "</main></body></html>").text


def test_first_screen_says_when_the_nodes_were_last_accepted() -> None:
    some = {"gpu-1": ("june", "2026-11-18T08:59:00"), "gpu-2": ("june", "2026-11-18T08:59:00")}
    said = accepted_earlier({**some, "gpu-3": ("today", "2026-11-30T04:00:00")})
    assert "never before: gpu-4" in said
    assert "12 days before: gpu-1, gpu-2, in june" in said
    assert "5 hours before: gpu-3, in today" in said
    assert said.index("never before: gpu-4") < said.index("12 days") < said.index("5 hours")
    everybody = {f"gpu-{n}": ("last", "2026-11-29T08:00:00") for n in range(1, 5)}
    assert "25 hours before: all 4 nodes, in last" in accepted_earlier(everybody)
    assert "never before: no earlier run of this cluster" in accepted_earlier({}, runs=0)
    assert "not told by this record" in first_screen(render_html(RunView.from_record(synthetic.run(1))))


def test_first_screen_says_what_is_not_covered_and_not_waived_also_where_that_is_nothing() -> None:
    clean, left = (first_screen(render_html(RunView.from_record(RUNS[name]()))) for name in ("accepted", "rejected"))
    assert "nothing that the profile names" in clean
    assert "<dt>Waivers</dt><dd>none</dd>" in clean
    assert '<a href="#uncovered">cuda_runtime was not run on 1 subject: gpu-3</a>' in left
    for top in (clean, left):
        # What a manager needs is above everything that is long.
        assert top.index("<dt>Last accepted</dt>") < (top + "What did not pass").index("What did not pass")


def test_every_finding_shows_limit_bound_value_unit_point_and_provenance() -> None:
    text = page(synthetic.run(4, short=["gpu-3"])).text

    for part in (
        "limit[0]",
        "= 2 (gpus_per_node of the profile)",
        "count",
        "dtype=float32",
        "n=512",
        "https://example.org/gemm",
    ):
        assert part in text
    assert "Does every GPU of every node compute, and compute correctly?" in text


def test_hostile_text_from_everywhere_stays_text() -> None:
    script = Script()
    synthetic.begin(
        script,
        ["gpu-1", HOSTILE],
        run_id=HOSTILE,
        scope=HOSTILE,
        pod_patch={HOSTILE: HOSTILE},
        profile={"name": HOSTILE, "path": HOSTILE, "sha256": HOSTILE},
        cluster={"name": HOSTILE, "server_version": HOSTILE, "simulated": True},
        checks=[{**synthetic.CHECKS[0], "question": HOSTILE, "check": HOSTILE}],
        limits=[synthetic.limit(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, provenance={HOSTILE: HOSTILE})],
    )
    finding = synthetic.finding(HOSTILE, HOSTILE, HOSTILE, HOSTILE, at={HOSTILE: HOSTILE}, outcome=HOSTILE)
    script.add("failure", check="gpu_inventory", subject=HOSTILE, reason=HOSTILE, message=HOSTILE, evidence=[HOSTILE])
    script.add("evidence", check="gpu_inventory", subject=HOSTILE, kind=HOSTILE, text=HOSTILE)
    synthetic.verdict(script, "gpu_inventory", HOSTILE, "FAIL", reasons=[HOSTILE], findings=[finding])
    synthetic.verdict(script, HOSTILE, HOSTILE, "PASS", findings=[finding])

    html = render_html(RunView.from_record(script.lines))

    parsed = Page(html)
    assert not {"script", "img", "b"} & set(parsed.tags)
    assert "\x1b" not in html
    assert "\u202e" not in html
    assert "<script>alert(1)</script>" in parsed.text


def test_chain_of_blockers_leads_to_the_one_that_failed() -> None:
    script = Script()
    synthetic.begin(script, ["gpu-1"])
    synthetic.verdict(script, "gpu_inventory", "gpu-1", "FAIL", reasons=["one GPU is missing"])
    synthetic.verdict(script, "cuda_runtime", "gpu-1", "NOT_RUN", blocked_by="gpu_inventory")
    synthetic.verdict(script, "training", "gpu-1", "NOT_RUN", blocked_by="cuda_runtime")
    synthetic.verdict(script, "circle", "gpu-1", "NOT_RUN", blocked_by="circle")
    view = RunView.from_record(script.lines)

    training, circle = view.find("training", "gpu-1"), view.find("circle", "gpu-1")
    assert training is not None
    assert circle is not None
    assert [(s.check, s.verdict) for s in blockers(view, training)] == [
        ("cuda_runtime", "NOT_RUN"),
        ("gpu_inventory", "FAIL"),
    ]
    assert blockers(view, circle) == ()
    assert "Blocked by gpu_inventory on gpu-1:" in Page(render_html(view)).text


def test_odd_nodes_are_told_from_the_majority() -> None:
    script = Script()
    synthetic.begin(script, synthetic.names(3))
    inventory = next(line for line in script.lines if line["event"] == "inventory")
    inventory["nodes"][1] |= {"driver": "550.54.15", "problem": "not ready since 09:00"}

    html = render_html(RunView.from_record(script.lines))

    assert "1 node unlike the others" in html
    assert '<td class="odd">550.54.15' in html


def _long_run(rows: int, log_chars: int) -> Iterator[dict[str, Any]]:
    script, nodes = Script(), synthetic.names(rows)
    synthetic.begin(script, nodes, checks=synthetic.CHECKS[:1])
    yield from script.lines
    want, text = "= 8 count", "gpus_allocatable is 7 count, expected = 8 count"
    bad = synthetic.finding("limit[0]", "gpus_allocatable", 7.0, want, outcome="missed", text=text)
    base = {"seq": 0, "t": "2026-11-30T09:30:00.000Z", "check": "gpu_inventory"}
    for name in nodes:
        log = f"{name}: one line of a log that goes on and on\n" * (log_chars // 40)
        yield {**base, "event": "evidence", "subject": name, "kind": "log", "text": log}
        yield {
            **base,
            "event": "verdict",
            "subject": name,
            "verdict": "FAIL",
            "required": True,
            "reason_code": "limit_missed",
            "reasons": [text],
            "findings": [bad],
        }


def test_five_thousand_failures_with_two_hundred_megabytes_of_logs_stay_a_page_one_can_open() -> None:
    started = time.process_time()
    view = RunView.from_record(_long_run(5_000, 40_000))
    html = render_html(view)
    seconds = time.process_time() - started

    assert len(html.encode()) < 15_000_000
    assert seconds < 20
    assert view.counts["FAIL"] == 5_000
    assert view.run.evidence_cut_chars > 180_000_000
    assert "record.jsonl beside this page has the full text" in html


@pytest.mark.parametrize(("nodes", "gpus", "subjects"), [(1_024, 8, 2_048), (4_096, 2, 8_192)])
def test_a_large_fleet_stays_below_five_megabytes_and_its_failure_comes_first(
    nodes: int, gpus: int, subjects: int
) -> None:
    view = RunView.from_record(synthetic.run(nodes, gpus=gpus, short=["gpu-77"]))
    started = time.process_time()
    html = render_html(view)

    assert time.process_time() - started < 8
    assert len(view.subjects) == subjects
    assert len(html.encode()) < 5_000_000
    assert "gpu-77" in first_screen(html)


def test_few_subjects_with_many_limits_get_a_row_a_limit() -> None:
    script = Script()
    synthetic.begin(script, ["gpu-1", "cluster"], checks=synthetic.CHECKS[:1])
    found = [synthetic.finding(f"gpu_inventory.m{i}", f"m{i}", float(i), f"= {i}") for i in range(4)]
    synthetic.verdict(script, "gpu_inventory", "gpu-1", "PASS", findings=[*found, found[3]])
    synthetic.verdict(script, "gpu_inventory", "cluster", "RECORDED", findings=found[:1])

    html = render_html(RunView.from_record(script.lines))

    assert '<th scope="row">m2</th><td>= 2</td><td></td><td class="w">-</td><td class="w">2</td>' in html
    assert "3 (each of 2)" in html
