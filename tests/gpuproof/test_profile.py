"""A good profile loads into what it says; a site file lays its own words over those it extends."""

import datetime as dt
import hashlib
from pathlib import Path

import pytest

from gpuproof.catalogue import load_checks, subjects_asked
from gpuproof.expectation import CheckState, CoverAll, CoverCanary, CoverShare, Deadlines, Rdma, Scope, State, Waiver
from gpuproof.limits import (
    AtLeast,
    AtMost,
    Contract,
    Derived,
    Equals,
    Expected,
    MaxFraction,
    Measured,
    MinFraction,
    MinVersion,
    OneOf,
    Per,
    Provisional,
    Published,
    Reference,
    Severity,
    Unbounded,
    Uniform,
    Unique,
)
from gpuproof.manifests import source_files
from gpuproof.observation import LABEL_FACT
from gpuproof.profile import THRESHOLDS, ProfileError, find_profile, load_profile
from tests.gpuproof.profiles import GOOD, HEAD, KNOWN, LIMIT, TODAY, WAIVER, WORDS, changed, load

SHIPPED = ["simulated", "h100-sxm-8x-ib400"]
SHIPPED_CHECKS = subjects_asked(load_checks())
DERIVED = 'provenance = { kind = "derived", formula = "by the test" }'


def test_a_whole_profile_is_what_its_file_says(tmp_path: Path) -> None:
    got = load(tmp_path, GOOD + WAIVER)
    assert (got.name, got.schema, got.path, got.files) == (
        "test",
        1,
        tmp_path / "profile.toml",
        (tmp_path / "profile.toml",),
    )
    assert got.sha256 == hashlib.sha256((tmp_path / "profile.toml").read_bytes()).hexdigest()
    cluster = got.cluster
    assert (cluster.gpu_product, cluster.gpus_per_node, cluster.nodes) == ("SIMULATED-GPU", 2, 4)
    assert (cluster.gpu_resource, cluster.gpu_driver, cluster.device) == ("nvidia.com/gpu", "550.107.02", "cpu")
    assert (cluster.gpu_memory_mib, cluster.extra) == (None, {})
    assert cluster.rdma == Rdma("rdma/ib", 8, 400, "InfiniBand")
    assert got.scope == Scope({"node-pool": "train"}, CoverAll())
    assert got.pod == {"image": "registry.example/torch:2"}
    assert got.checks == {"speed": CheckState(State.REQUIRED), "words": CheckState(State.REQUIRED)}
    assert got.workloads == {"speed": {"sizes": [1024, 2048]}}
    assert got.deadlines == Deadlines(1, 2, 3, 4, 10)
    assert got.waivers == (Waiver("speed", "gpu-01", "the network team", "cable on order", dt.date(2026, 12, 24)),)


def test_a_limit_is_what_its_table_says(tmp_path: Path) -> None:
    first, second = load(tmp_path, GOOD).limits
    assert first.id == "speed.busbw{bytes=1024,statistic=median}"
    assert (first.check, first.metric, first.fact, first.unit) == ("speed", "busbw", None, "GB/s")
    assert (first.at, first.per) == ({"bytes": 1024, "statistic": "median"}, Per.GPU)
    assert (first.bound, first.severity, first.provenance) == (AtLeast(400), Severity.FAIL, Derived("by the test"))
    assert (first.source_file, first.key) == (str(tmp_path / "profile.toml"), "limit[0]")
    assert (second.metric, second.fact, second.unit, second.per) == (None, "driver", "", Per.SUBJECT)
    assert second.id == "words.driver"
    assert (second.bound, second.key) == (Expected("gpu_driver"), "limit[1]")


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("min = 0.5", AtLeast(0.5)),
        ("max = 0", AtMost(0)),
        ("max = 900", AtMost(900)),
        ("equals = 3", Equals(3)),
        ("one_of = [1, 2]", OneOf((1, 2))),
        ('expected = "gpus_per_node"', Expected("gpus_per_node")),
        ('expected = "rdma.rate_gbps"', Expected("rdma.rate_gbps")),
        ('min_fraction = 1\nof = "ring_ceiling"', MinFraction(1, Reference.RING_CEILING)),
        ('min_fraction = 0.9\nof = "fleet_median"', MinFraction(0.9, Reference.FLEET_MEDIAN)),
        ('max_fraction = 10\nof = "baseline"', MaxFraction(10, Reference.BASELINE)),
        ('max_fraction = 0.5\nof = "baseline"', MaxFraction(0.5, Reference.BASELINE)),
    ],
)
def test_every_kind_of_bound(tmp_path: Path, text: str, bound: object) -> None:
    got = load(tmp_path, changed("min        = 400", text)).limits[0]
    assert got.bound == bound


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("equals = true", Equals(True)),
        ("max = 5", AtMost(5)),
        ('one_of = ["a", "b"]', OneOf(("a", "b"))),
        ("unique = true", Unique()),
        ("uniform = true", Uniform()),
        (
            'min_version = { "12" = "525.60.13", "13" = "580" }\nby = "cuda"',
            MinVersion((("12", "525.60.13"), ("13", "580")), "cuda"),
        ),
    ],
)
def test_a_fact_may_be_held_to_words(tmp_path: Path, text: str, bound: object) -> None:
    assert load(tmp_path, changed('expected   = "gpu_driver"', text)).limits[1].bound == bound


def test_a_share_of_the_fleet_may_be_of_any_unit(tmp_path: Path) -> None:
    text = changed('"GB/s"', '"s"', changed("min        = 400", 'max_fraction = 1.1\nof = "fleet_median"'))
    assert load(tmp_path, text).limits[0].bound == MaxFraction(1.1, Reference.FLEET_MEDIAN)


@pytest.mark.parametrize(("device", "simulated_only"), [("cpu", True), ("cuda", False)])
def test_a_profile_that_computes_beside_the_gpus_is_for_the_simulated_cluster(
    tmp_path: Path, device: str, *, simulated_only: bool
) -> None:
    got = load(tmp_path, changed('device        = "cpu"', f'device = "{device}"'))
    assert got.needs_simulation is simulated_only


@pytest.mark.parametrize("per", ["subject", "node", "gpu", "cluster"])
def test_a_check_of_both_may_be_held_to_any_limit(tmp_path: Path, per: str) -> None:
    text = changed('fact       = "driver"', f'fact = "driver"\nper = "{per}"')
    assert load(tmp_path, text).limits[1].per == per


def test_two_checks_may_hold_the_same_metric(tmp_path: Path) -> None:
    got = load(tmp_path, GOOD + LIMIT.replace('"speed"', '"words"').replace("400", "300"))
    assert [(limit.check, limit.bound) for limit in got.limits if limit.metric] == [
        ("speed", AtLeast(400)),
        ("words", AtLeast(300)),
    ]


def test_a_recorded_limit_needs_no_bound(tmp_path: Path) -> None:
    extra = LIMIT.replace("busbw", "temperature").replace("min        = 400\n", "").replace('"fail"', '"record_only"')
    got = load(tmp_path, GOOD + extra).limits[2]
    assert (got.bound, got.severity) == (Unbounded(), Severity.RECORD_ONLY)


def test_a_relative_error_may_be_anything_below_one(tmp_path: Path) -> None:
    text = changed('"busbw"', '"relative_error"', changed("min        = 400", "max = 0.999"))
    assert load(tmp_path, text).limits[0].bound == AtMost(0.999)


def test_a_warning_may_stand_beside_the_failing_limit_of_the_same_number(tmp_path: Path) -> None:
    warn = LIMIT.replace('"fail"', '"warn"').replace("400", "450")
    assert [limit.severity for limit in load(tmp_path, GOOD + warn).limits_for("speed")] == ["fail", "warn"]


@pytest.mark.parametrize(
    ("text", "provenance"),
    [
        (
            '{ kind="measured", evidence="x.json", date=2026-01-02, runs=3, statistic="p50", environment="e" }',
            Measured("x.json", dt.date(2026, 1, 2), 3, "p50", "e"),
        ),
        (
            '{ kind = "published", url = "https://example.org/a", read_on = 2026-01-02, value = 480, fraction = 0.9 }',
            Published("https://example.org/a", dt.date(2026, 1, 2), 480, 0.9),
        ),
        (
            '{ kind="derived", formula="f", source="s", read_on=2026-01-02, note="n", valid_until=2027-01-01 }',
            Derived("f", "s", dt.date(2026, 1, 2), "n", dt.date(2027, 1, 1)),
        ),
        (
            '{ kind = "contract", document = "order 7", clause = "4.2", date = 2026-01-02 }',
            Contract("order 7", "4.2", dt.date(2026, 1, 2)),
        ),
        (
            '{ kind = "provisional", reason = "none yet", replace_by = 2027-01-01 }',
            Provisional("none yet", dt.date(2027, 1, 1)),
        ),
    ],
)
def test_every_kind_of_provenance(tmp_path: Path, text: str, provenance: object) -> None:
    (tmp_path / "x.json").write_text("{}")
    got = load(tmp_path, HEAD + LIMIT.replace(DERIVED, f"provenance = {text}") + WORDS)
    assert got.limits[0].provenance == provenance


@pytest.mark.parametrize(
    ("text", "cover"),
    [
        ("{ at_least = 0.9, within_days = 7 }", CoverShare(0.9, 7)),
        ("{ at_least = 1, within_days = 1 }", CoverShare(1, 1)),
        ('{ canary = { canary = "yes" }, nodes = 2 }', CoverCanary({"canary": "yes"}, 2)),
    ],
)
def test_every_kind_of_cover(tmp_path: Path, text: str, cover: object) -> None:
    assert load(tmp_path, changed('cover = "all"', f"cover = {text}")).scope.cover == cover


def test_a_free_expectation_is_addressed_by_its_key(tmp_path: Path) -> None:
    text = changed("[scope]", '[cluster.extra]\nfirmware = "28.41"\n\n[scope]')
    text += WORDS.replace('"driver"', '"nic_firmware"').replace("gpu_driver", "firmware")
    got = load(tmp_path, text)
    assert got.cluster.expected("firmware") == "28.41"
    assert got.limits[2].bound == Expected("firmware")


def test_a_parameter_may_be_a_fraction(tmp_path: Path) -> None:
    got = load(tmp_path, changed("[workload.speed]", "[workload.speed]\nshare = 0.5"))
    assert got.workloads["speed"]["share"] == 0.5


def test_the_key_that_python_cannot_name_is_told_as_the_file_names_it(tmp_path: Path) -> None:
    with pytest.raises(ProfileError) as caught:
        load(tmp_path, changed("schema  = 1", "shema  = 1"))
    assert "schema_" not in str(caught.value)
    assert "schema" in str(caught.value)


class TestStates:
    def test_limits_of_a_recorded_check_do_not_decide(self, tmp_path: Path) -> None:
        got = load(tmp_path, changed('words = "required"', 'words = { state = "recorded", reason = "new" }'))
        assert got.checks["words"] == CheckState(State.RECORDED, "new")
        assert [limit.severity for limit in got.limits] == [Severity.FAIL, Severity.RECORD_ONLY]
        assert (got.required("speed"), got.required("words"), got.required("unheard")) == (True, False, False)

    def test_a_check_that_does_not_apply_needs_no_limit(self, tmp_path: Path) -> None:
        text = changed('words = "required"', 'words = { state = "not-applicable", reason = "no driver" }', HEAD + LIMIT)
        got = load(tmp_path, text)
        assert got.checks["words"] == CheckState(State.NOT_APPLICABLE, "no driver")
        assert got.limits_for("words") == ()


class TestBlocking:
    GUESS = 'provenance = { kind = "provisional", reason = "none yet", replace_by = 2026-11-30 }'

    def test_a_profile_of_sound_numbers_blocks_nothing(self, tmp_path: Path) -> None:
        assert load(tmp_path, GOOD).blocking_provenance(TODAY) == ()

    def test_a_provisional_limit_loads_and_blocks(self, tmp_path: Path) -> None:
        got = load(tmp_path, HEAD + LIMIT.replace(DERIVED, self.GUESS) + WORDS)
        file = tmp_path / "profile.toml"
        [why] = got.blocking_provenance(TODAY)
        assert why.startswith(f"speed.busbw{{bytes=1024,statistic=median}} ({file}, limit[0]) is provisional")
        assert why.endswith("(none yet), to be replaced by 2026-11-30")
        assert got.blocking_provenance(TODAY + dt.timedelta(days=1))[0].endswith(", which has passed")

    def test_a_provisional_limit_whose_day_has_passed_loads_and_blocks(self, tmp_path: Path) -> None:
        late = self.GUESS.replace("2026-11-30", "2020-01-01")
        got = load(tmp_path, HEAD + LIMIT.replace(DERIVED, late) + WORDS)
        assert got.blocking_provenance(TODAY)[0].endswith("to be replaced by 2020-01-01, which has passed")

    def test_a_number_out_of_date_loads_and_blocks(self, tmp_path: Path) -> None:
        old = 'provenance = { kind = "derived", formula = "f", valid_until = 2026-11-29 }'
        got = load(tmp_path, HEAD + LIMIT.replace(DERIVED, old) + WORDS)
        assert "out of date" in got.blocking_provenance(TODAY)[0]
        assert got.blocking_provenance(TODAY - dt.timedelta(days=1)) == ()

    def test_what_does_not_decide_does_not_block(self, tmp_path: Path) -> None:
        warn = LIMIT.replace(DERIVED, self.GUESS).replace('"fail"', '"warn"').replace("400", "450")
        assert load(tmp_path, GOOD + warn).blocking_provenance(TODAY) == ()
        text = HEAD + LIMIT + WORDS.replace(DERIVED, self.GUESS)
        recorded = changed('words = "required"', 'words = { state = "recorded", reason = "new" }', text)
        assert load(tmp_path, recorded).blocking_provenance(TODAY) == ()


class TestExtends:
    SITE = 'schema = 1\nprofile = "site"\nextends = "base.toml"\n'

    def test_a_site_file_lays_its_words_over_the_base(self, tmp_path: Path) -> None:
        site = self.SITE + (
            '[cluster]\nnodes = 12\n[scope]\npool = { site = "x" }\n[pod]\npython = "/opt/python"\n'
            "[workload.speed]\nwarm_ups = 3\n[deadlines]\nrun_s = 99\n"
        )
        got = load(tmp_path, site, base=GOOD)
        base = load(tmp_path, GOOD)
        assert (got.name, got.cluster.nodes, got.cluster.gpus_per_node) == ("site", 12, 2)
        assert got.cluster.rdma == base.cluster.rdma
        assert got.scope == Scope({"site": "x"}, CoverAll())
        assert got.pod == {"image": "registry.example/torch:2", "python": "/opt/python"}
        assert got.workloads == {"speed": {"sizes": [1024, 2048], "warm_ups": 3}}
        assert got.deadlines == Deadlines(1, 2, 3, 4, 99)
        assert [limit.id for limit in got.limits] == [limit.id for limit in base.limits]
        assert got.files == (tmp_path / "base.toml", tmp_path / "profile.toml")

    def test_free_expectations_of_both_files_hold(self, tmp_path: Path) -> None:
        def held(key: str) -> str:
            limit = WORDS.replace('"driver"', f'"{key}"').replace("gpu_driver", key)
            return f'[cluster.extra]\n{key} = "x"\n' + limit

        base = changed("[scope]", '[cluster.extra]\nfirmware = "x"\n\n[scope]')
        base += WORDS.replace('"driver"', '"firmware"').replace("gpu_driver", "firmware")
        got = load(tmp_path, self.SITE + held("bios"), base=base)
        assert got.cluster.extra == {"firmware": "x", "bios": "x"}

    def test_an_expectation_nobody_holds_is_sought_in_the_file_that_states_it(self, tmp_path: Path) -> None:
        base = changed("[scope]", '[cluster.extra]\nfirmware = "x"\n\n[scope]')
        with pytest.raises(ProfileError) as caught:
            load(tmp_path, self.SITE, base=base)
        assert str(caught.value).startswith(str(tmp_path / "base.toml"))

    def test_an_unreadable_base_says_who_extends_it(self, tmp_path: Path) -> None:
        (tmp_path / "base.toml").write_bytes(b"\xff")
        (tmp_path / "profile.toml").write_text(self.SITE)
        with pytest.raises(ProfileError, match=f"extended by {tmp_path / 'profile.toml'}"):
            load_profile(tmp_path / "profile.toml", known_checks=KNOWN, today=TODAY)

    def test_the_checksum_covers_both_files(self, tmp_path: Path) -> None:
        got = load(tmp_path, self.SITE, base=GOOD)
        assert got.sha256 == hashlib.sha256(GOOD.encode() + self.SITE.encode()).hexdigest()

    def test_a_limit_replaces_that_of_the_same_number_and_no_other(self, tmp_path: Path) -> None:
        got = load(tmp_path, self.SITE + LIMIT.replace("400", "450"), base=GOOD)
        assert [(limit.name, limit.bound) for limit in got.limits] == [
            ("busbw", AtLeast(450)),
            ("driver", Expected("gpu_driver")),
        ]
        assert got.limits[0].source_file == str(tmp_path / "profile.toml")

    def test_a_replaced_limit_replaces_the_warning_too(self, tmp_path: Path) -> None:
        warn = LIMIT.replace('"fail"', '"warn"').replace("400", "450")
        got = load(tmp_path, self.SITE + LIMIT.replace("400", "300"), base=GOOD + warn)
        assert [limit.bound for limit in got.limits_for("speed")] == [AtLeast(300)]

    def test_a_limit_at_another_point_is_added(self, tmp_path: Path) -> None:
        got = load(tmp_path, self.SITE + LIMIT.replace("1024", "2048"), base=GOOD)
        assert len(got.limits_for("speed")) == 2

    def test_a_site_may_drop_a_check_with_its_limits(self, tmp_path: Path) -> None:
        site = self.SITE + '[checks]\nspeed = { state = "not-applicable", reason = "no fabric" }\n'
        got = load(tmp_path, site, base=GOOD)
        assert got.checks["speed"].state is State.NOT_APPLICABLE
        assert got.limits_for("speed") == ()
        assert got.workloads == {}

    def test_waivers_add_up_over_files(self, tmp_path: Path) -> None:
        got = load(tmp_path, self.SITE + WAIVER.replace("gpu-01", "gpu-02"), base=GOOD + WAIVER)
        assert [waiver.subject for waiver in got.waivers] == ["gpu-01", "gpu-02"]

    def test_a_chain_of_three(self, tmp_path: Path) -> None:
        middle = self.SITE + "[cluster]\nnodes = 8\n"
        top = 'schema = 1\nprofile = "top"\nextends = "middle.toml"\n'
        got = load(tmp_path, top, base=GOOD, middle=middle)
        assert (got.name, got.cluster.nodes, len(got.files)) == ("top", 8, 3)

    def test_a_base_is_found_by_its_name_in_the_projects_own(self, tmp_path: Path) -> None:
        path = tmp_path / "site.toml"
        path.write_text('schema = 1\nprofile = "mine"\nextends = "simulated"\n[cluster]\nnodes = 3\n')
        got = load_profile(path, known_checks=SHIPPED_CHECKS, today=TODAY)
        assert (got.cluster.nodes, got.files[0]) == (3, THRESHOLDS / "simulated.toml")


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


class TestShipped:
    @pytest.mark.parametrize("name", SHIPPED)
    def test_it_loads_and_nothing_blocks_it(self, name: str) -> None:
        got = load_profile(find_profile(name), known_checks=SHIPPED_CHECKS, today=TODAY)
        assert got.name == name
        assert got.blocking_provenance(TODAY) == ()
        assert set(got.checks) == set(SHIPPED_CHECKS)
        assert all(got.required(check) or got.checks[check].reason for check in SHIPPED_CHECKS)
        assert {"gpu_inventory", "cuda_runtime"} <= {check for check in SHIPPED_CHECKS if got.required(check)}

    def test_no_profile_is_shipped_untested(self) -> None:
        assert sorted(path.stem for path in THRESHOLDS.glob("*.toml")) == sorted(SHIPPED)

    @pytest.mark.parametrize("name", SHIPPED)
    def test_the_bounds_of_the_products_are_their_formulas_rounded_down(self, name: str) -> None:
        got = load_profile(find_profile(name), known_checks=SHIPPED_CHECKS, today=TODAY)
        n = got.workloads["cuda_runtime"]["matrix_size"]
        assert isinstance(n, int)
        held = {limit.at["dtype"]: limit for limit in got.limits_for("cuda_runtime") if "dtype" in limit.at}
        assert list(held) == got.workloads["cuda_runtime"]["dtypes"]
        formulas = {
            "float32": n * 2**-24 / (1 - n * 2**-24),
            "tf32": (1 + 2**-10) ** 2 - 1 + n * 2**-23,
            "bf16": 2**-8 + n * 2**-23,
        }
        for dtype, bound in formulas.items():
            assert isinstance(held[dtype].bound, AtMost)
            assert 0.999 * bound < getattr(held[dtype].bound, "value", 0.0) <= bound
            assert held[dtype].at["n"] == n

    @pytest.mark.parametrize("name", SHIPPED)
    def test_one_gpu_under_two_names_is_looked_for(self, name: str) -> None:
        got = load_profile(find_profile(name), known_checks=SHIPPED_CHECKS, today=TODAY)
        [held] = [limit for limit in got.limits_for("gpu_inventory") if limit.name == "pod_gpu_uuid"]
        assert (held.bound, held.per, held.decisive) == (Unique(), Per.GPU, True)

    @pytest.mark.parametrize("name", SHIPPED)
    def test_all_memory_that_is_asked_for_must_be_tested(self, name: str) -> None:
        got = load_profile(find_profile(name), known_checks=SHIPPED_CHECKS, today=TODAY)
        [held] = [limit for limit in got.limits_for("cuda_runtime") if limit.name == "memory_tested_fraction"]
        asked = got.workloads["cuda_runtime"]["memory_fraction"]
        assert isinstance(held.bound, AtLeast)
        assert isinstance(asked, float)
        assert 0.98 * asked <= held.bound.value <= asked

    @pytest.mark.parametrize("name", SHIPPED)
    def test_every_number_it_holds_is_one_that_something_reports(self, name: str) -> None:
        got = load_profile(find_profile(name), known_checks=SHIPPED_CHECKS, today=TODAY)
        harness = THRESHOLDS.parent / "gpuproof"
        seen_by_the_harness = [
            harness / "observation.py",
            *harness.glob("claim_*.py"),
            harness / "image_pull.py",
            harness / "continuation.py",
            *harness.glob("training*.py"),
            *(harness / "telemetry").glob("*.py"),
            *harness.glob("gang_*.py"),
        ]
        api = "".join(file.read_text(encoding="utf-8") for file in seen_by_the_harness)
        told = {
            check.name: api + "".join("".join(source_files(program).values()) for program in check.workloads)
            for check in load_checks()
        }
        for limit in got.limits:
            assert limit.name.startswith(LABEL_FACT) or f'"{limit.name}"' in told[limit.check], limit.key

    def test_numbers_of_whole_gpus_are_only_recorded_of_shares(self, tmp_path: Path) -> None:
        site = 'schema = 1\nprofile = "s"\nextends = "h100-sxm-8x-ib400"\n[cluster]\ngpu_sharing = "time-slicing"\n'
        site += "physical_gpus_per_node = 2\n"
        got, whole = (
            load_profile(path, known_checks=SHIPPED_CHECKS, today=TODAY)
            for path in (_written(tmp_path / "s.toml", site), find_profile("h100-sxm-8x-ib400"))
        )
        memory = [[limit.severity for limit in each.limits if limit.name == "gpu_memory"] for each in (got, whole)]
        assert memory == [[Severity.RECORD_ONLY], [Severity.WARN]]

    @pytest.mark.parametrize("name", SHIPPED)
    def test_the_device_is_named_once(self, name: str) -> None:
        got = load_profile(find_profile(name), known_checks=SHIPPED_CHECKS, today=TODAY)
        assert got.workloads["cuda_runtime"]["device"] == got.cluster.device


def test_a_profile_is_found_by_name_or_by_path(tmp_path: Path) -> None:
    assert find_profile("simulated") == THRESHOLDS / "simulated.toml"
    assert find_profile("some/where.toml") == Path("some/where.toml")
    plain = tmp_path / "plain"
    plain.write_text("")
    assert find_profile(str(plain)) == plain


def test_a_limit_that_names_further_checks_holds_for_each_of_them(tmp_path: Path) -> None:
    both = changed('check      = "speed"', 'check      = "speed"\nalso       = ["words"]')
    got = load(tmp_path, both.replace('per        = "gpu"\n', ""))
    mine = [limit for limit in got.limits if limit.metric == "busbw"]
    assert [limit.check for limit in mine] == ["speed", "words"]
    assert len({limit.id for limit in mine}) == 2
    assert {limit.key for limit in mine} == {"limit[0]"}
