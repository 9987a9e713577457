"""Comparisons and history: what counts as worse, what as noise, and what may not be compared at all."""

import datetime as dt
import json
import tomllib
from pathlib import Path

import pytest

from gpuproof.comparing import compare_runs, write_history
from gpuproof.options import LaunchError
from gpuproof.report import RunView
from gpuproof.report.compare import Comparison, Judging, compare
from gpuproof.report.history import PastRun, node_ages, oldest_first, render_history, trends
from gpuproof.report.noise import least_unpaired_p, paired_p, unpaired_p
from gpuproof.report.prices import Prices, PricesError, costs, read_prices
from tests.gpuproof.finished import finished, view_of
from tests.gpuproof.report import synthetic

NOW = dt.datetime(2026, 12, 10, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs of one cluster: usual twice, at half the speed, twice as fast, and with a slow node."""
    folder = tmp_path_factory.mktemp("runs")
    made = {
        "first": finished(folder / "first"),
        "again": finished(folder / "again", scale=1.01),
        "half": finished(folder / "half", scale=0.85),
        "fast": finished(folder / "fast", scale=2.0),
        "sick": finished(folder / "sick", slow=("n2",)),
        "lost": finished(folder / "lost", lost=("n3",)),
    }
    for name, path in made.items():
        (folder / "all").mkdir(exist_ok=True)
        path.rename(folder / "all" / name)
    return {name: folder / "all" / name for name in made}


def compared(runs: dict[str, Path], *names: str, judging: Judging | None = None) -> Comparison:
    *before, after = (view_of(runs[name]) for name in names)
    return compare(before, after, judging)


@pytest.mark.parametrize(
    ("names", "outcome", "reason"),
    [
        (("first", "again"), "SAME", "within noise"),
        (("first", "half"), "REGRESSED", "busbw at bytes=1024 is worse"),
        (("first", "fast"), "IMPROVED", "busbw at bytes=1024 is better"),
        (("first", "sick"), "REGRESSED", "speed is newly failing on n2"),
        (("sick", "first"), "IMPROVED", "speed is newly passing on n2"),
        (("first", "lost"), "NOT COMPARABLE", "no longer passing on n3"),
        (("half", "first", "again"), "SAME", "within noise"),
    ],
)
def test_outcome(runs: dict[str, Path], names: tuple[str, ...], outcome: str, reason: str) -> None:
    found = compared(runs, *names)
    assert (found.outcome, found.exit_code) == (outcome, {"REGRESSED": 1, "NOT COMPARABLE": 3}.get(outcome, 0))
    assert any(reason in said for said in found.reasons), found.reasons


def test_other_operating_points_and_other_kinds_of_clusters_are_never_compared(runs: dict[str, Path]) -> None:
    nothing_in_common = compare([view_of(runs["first"])], RunView.from_record(synthetic.run(4)))
    assert nothing_in_common.outcome == "NOT COMPARABLE"
    assert {m.movement for m in nothing_in_common.metrics} == {"no longer measured", "newly measured"}
    real = RunView.from_record(synthetic.run(4, cluster={"name": "real", "simulated": False}))
    assert compare([RunView.from_record(synthetic.run(4))], real).outcome == "NOT COMPARABLE"
    killed = compare([RunView.from_record(synthetic.run(4))], RunView.from_record(synthetic.run(4, killed_after=15)))
    assert killed.outcome == "NOT COMPARABLE"


def test_worse_with_too_few_repeats_to_be_sure_is_not_called_the_same() -> None:
    def one(value: float) -> RunView:
        script = synthetic.Script()
        limit = synthetic.limit("limit[0]", "gpu_inventory", "rate", ">= 1 GB/s", "GB/s")
        synthetic.begin(script, ["gpu-1"], checks=synthetic.CHECKS[:1], limits=[limit])
        script.lines[2]["subjects"] = [{"check": "gpu_inventory", "subject": "gpu-1", "required": True}]
        sample = {"metric": "rate", "value": value, "unit": "GB/s", "at": {}}
        about = {"check": "gpu_inventory", "workload": "w", "subject": "gpu-1", "pod": "p", "index": 0}
        script.add("measurement", **about, samples=[sample], facts={}, environment={}, timings={})
        synthetic.verdict(script, "gpu_inventory", "gpu-1", "PASS")
        synthetic.end(script, "ACCEPTED", [], "", {})
        return RunView.from_record(script.lines)

    assert compare([one(100)], one(50)).outcome == "NOT COMPARABLE"
    assert compare([one(100)], one(101)).outcome == "SAME"
    assert compare([one(100)], one(150)).outcome == "SAME"


def test_noise() -> None:
    assert unpaired_p([1, 2, 3, 4], [1, 2, 3, 4]) == 1
    assert unpaired_p([1.0] * 6, [2.0] * 6) == pytest.approx(least_unpaired_p([1.0] * 6, [2.0] * 6), abs=0.002)
    assert paired_p([0.1] * 8) == pytest.approx(2 / 2**8)
    assert paired_p([0.1, -0.1, 0.1, -0.1, 0.2, -0.2]) > 0.5
    assert (unpaired_p([], [1.0]), paired_p([])) == (1.0, 1.0)


def test_the_command_writes_page_json_and_markdown_and_says_what_changed(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text(
        'currency = "USD"\n[[price]]\ncluster = "toy"\nper_gpu_hour = 2.0\n'
        '[[unit]]\nname = "TB moved"\ncheck = "speed"\nmetric = "busbw"\nat = { bytes = 1024 }\nmeasured_as = "rate"\n'
        "amount = 1000\ngpus = 8\n"
    )
    code = compare_runs([runs["first"], runs["half"]], tmp_path / "out", prices, Judging())
    document = json.loads((tmp_path / "out/compare.json").read_text())
    html, markdown = ((tmp_path / "out" / f"compare.{kind}").read_text() for kind in ("html", "md"))
    assert (code, document["outcome"], document["exit_code"]) == (1, "REGRESSED", 1)
    assert "REGRESSED" in html
    assert "<script" not in html
    assert "## REGRESSED" in markdown
    assert "TB moved" in capsys.readouterr().out
    assert len(document["costs"][0]["each"]) == 2
    with pytest.raises(LaunchError, match="holds no run"):
        compare_runs([runs["first"], tmp_path], None, None, Judging())


def test_the_example_of_prices_in_the_docs_names_what_the_suite_measures() -> None:
    prices = read_prices(Path("docs/prices.example.toml"))
    profile = tomllib.loads(Path("thresholds/h100-sxm-8x-ib400.toml").read_text(encoding="utf-8"))
    limits = profile["limit"]
    measured = {(check, x.get("metric")) for x in limits for check in (x["check"], *x.get("also", ()))}
    assert {(unit.check, unit.metric) for unit in prices.unit} <= measured


def test_costs_of_useful_units() -> None:
    prices = Prices.model_validate(
        {
            "currency": "USD",
            "price": [{"cluster": "sim", "per_gpu_hour": 3.6}],
            "unit": [
                {"name": "a", "check": "gpu_inventory", "metric": "gpus_visible", "measured_as": "time", "gpus": 10},
                {"name": "b", "check": "absent", "metric": "x", "measured_as": "rate", "gpus": 1},
            ],
        }
    )
    run, other = (RunView.from_record(synthetic.run(4, cluster={"name": name})) for name in ("sim", "no price"))
    found = costs(prices, [run, other])
    # Two seconds on ten GPUs at 3.6 an hour, which is 0.001 a second.
    assert found[0].each[0] == pytest.approx(0.02)
    assert (found[0].each[1:], found[1].each) == ((None,), (None, None))


@pytest.mark.parametrize("text", ["", "currency = 1", "not toml", 'currency = "USD"\nprice = []\nunit = []'])
def test_prices_that_cannot_be_used_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(text)
    with pytest.raises(PricesError, match=r"prices\.toml"):
        read_prices(tmp_path / "prices.toml")


def test_history_of_a_folder(runs: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    folder = runs["first"].parent
    (folder / "broken").mkdir(exist_ok=True)
    (folder / "broken/record.jsonl").write_text("no json\nat all\n")
    assert write_history(folder, None) == 0
    page = (folder / "index.html").read_text()
    for part in (
        "6 runs",
        "1 folder without a record",
        "broken",
        "busbw of speed at bytes=1024",
        "Age of the last acceptance",
    ):
        assert part in page, part
    assert "<script" not in page


def test_repeat_offenders_and_the_age_of_acceptances(runs: dict[str, Path]) -> None:
    past = oldest_first([PastRun(name, view_of(path)) for name, path in runs.items()])
    sick = PastRun("sick again", view_of(runs["sick"]))
    page = render_history([*past, sick], NOW)
    assert "2 of 7" in page
    assert "GPU-n2-0" in page
    ages = {age.node: age for age in node_ages([*past, sick], NOW)}
    assert ages["n1"].run == "fast"
    assert ages["n1"].last_outcome == "REJECTED"
    assert len(trends(past)) == 2
    assert "never" in render_history([sick], NOW)
    assert "holds no run" in render_history([], NOW)
