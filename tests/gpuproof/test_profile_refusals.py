"""A profile that could pass by accident is refused at load, naming file, key and what to do about it."""

import datetime as dt
from pathlib import Path

import pytest

from gpuproof.limits import Asks
from gpuproof.profile import ProfileError, load_profile
from tests.gpuproof.profiles import GOOD, HEAD, KNOWN, LIMIT, TODAY, WAIVER, WORDS, changed, load, refused

DERIVED = 'kind = "derived", formula = "by the test"'
SPEED_MIN = "min        = 400"


def limit_with(old: str, new: str) -> str:
    return HEAD + changed(old, new, LIMIT) + "\n" + WORDS


def bound(text: str) -> str:
    return limit_with(SPEED_MIN, text)


def provenance(text: str) -> str:
    return limit_with(DERIVED, text)


def waiver(old: str, new: str) -> str:
    return GOOD + changed(old, new, WAIVER)


STORAGE = GOOD + '[storage.shared]\nstorage_class = "fast"\nsize = "64Gi"\naccess_mode = "ReadWriteMany"\n'


CASES: dict[str, tuple[str, str, str]] = {
    # name: (profile, key, a word that the message must hold)
    "misspelt key": (changed("gpus_per_node", "gpu_per_node"), "cluster.gpu_per_node", "did you mean gpus_per_node?"),
    "misspelt table": (changed("[deadlines]", "[deadline]"), "deadline", "did you mean deadlines?"),
    "misspelt key of a limit": (bound("mni = 400"), "limit[0].mni", "did you mean min?"),
    "misspelt key of rdma": (changed("rate_gbps", "rate_gpbs"), "cluster.rdma.rate_gpbs", "did you mean rate_gbps?"),
    "misspelt key of a check": (
        changed('words = "required"', 'words = { stat = "required" }'),
        "checks.words.stat",
        "did you mean state?",
    ),
    "limit that also holds for a check that does not exist": (
        bound('also = ["wrods"]\nmin = 400'),
        "limit[0].check",
        "wrods",
    ),
    "limit that also holds for its own check": (
        bound('also = ["speed"]\nmin = 400'),
        "limit[0]",
        "the same as limit[0]",
    ),
    "misspelt key of a provenance": (
        provenance('kind = "derived", formul = "x"'),
        "limit[0].provenance.formul",
        "did you mean formula?",
    ),
    "misspelt key of a share": (
        changed('cover = "all"', "cover = { at_leas = 0.9, within_days = 7 }"),
        "scope.cover.at_leas",
        "did you mean at_least?",
    ),
    "key given twice": (changed("nodes         = 4", "nodes = 4\nnodes = 4"), "nodes = 4", "keep one of the two"),
    "table given twice": (GOOD + "[scope]\n", "[scope]", "keep one of the two"),
    "limit with single brackets": (GOOD + "[limit]\n", "[limit]", "keep one of the two"),
    "first limit with single brackets": (
        HEAD + "[limit]\n[[limit]]\n",
        "[[limit]]",
        "two brackets around every entry",
    ),
    "no TOML": (GOOD + "what = \n", "what =", "toml.io"),
    "number as text": (bound('min = "400"'), "limit[0].min", "without quotes"),
    "count as text": (changed("nodes         = 4", 'nodes = "4"'), "cluster.nodes", "a whole number, written without"),
    "count with a fraction": (changed("nodes         = 4", "nodes = 4.5"), "cluster.nodes", "whole number"),
    "truth value as number": (bound("min = true"), "limit[0].min", "the truth value true"),
    "date as text": (waiver("2026-12-24", '"2026-12-24"'), "waiver[0].expires", "a date, written without quotes"),
    "date and time as date": (waiver("2026-12-24", "2026-12-24T00:00:00Z"), "waiver[0].expires", "a date, written"),
    "day that does not exist": (waiver("2026-12-24", "2026-13-24"), "expires = 2026-13-24", "a day that exists"),
    "limit without a bound": (bound(""), "limit[0]", "a bound: one of min"),
    "warning without a bound": (
        HEAD + LIMIT + WORDS + LIMIT.replace(SPEED_MIN, "").replace("fail", "warn"),
        "limit[2]",
        "a bound: one of min",
    ),
    "limit with two bounds": (bound("min = 400\nmax = 500"), "limit[0].max", "min and max"),
    "recorded limit with two bounds": (
        GOOD + LIMIT.replace(SPEED_MIN, "min = 1\nmax = 2").replace("fail", "record_only"),
        "limit[2].max",
        "min and max",
    ),
    "floor of zero": (bound("min = 0"), "limit[0].min", "a floor above zero"),
    "negative floor": (bound("min = -1"), "limit[0].min", "a floor above zero"),
    "floor of zero times a ceiling": (bound('min_fraction = 0\nof = "ring_ceiling"'), "limit[0].min_fraction", "0.75"),
    "share in per cent": (bound('min_fraction = 75\nof = "ring_ceiling"'), "limit[0].min_fraction", "write 0.75"),
    "share just above one": (bound('min_fraction = 1.01\nof = "baseline"'), "limit[0].min_fraction", "write 0.75"),
    "factor of zero": (bound('max_fraction = 0\nof = "baseline"'), "limit[0].max_fraction", "write 1.1"),
    "factor that nothing exceeds": (
        bound('max_fraction = 10.1\nof = "baseline"'),
        "limit[0].max_fraction",
        "up to 10",
    ),
    "negative ceiling": (bound("max = -1"), "limit[0].max", "correct the sign"),
    "relative error of one": (
        changed('"busbw"', '"some_relative_error"', bound("max = 1")),
        "limit[0].max",
        "a relative error below 1",
    ),
    "bound that is not a number": (bound("min = nan"), "limit[0].min", "a finite number"),
    "bound without end": (bound("max = inf"), "limit[0].max", "a finite number"),
    "operating point that is not a number": (limit_with("1024", "nan"), "limit[0].at.bytes", "a finite number"),
    "parameter that is not a number": (changed("[1024, 2048]", "[1024, inf]"), "workload.speed.sizes[1]", "finite"),
    "list as operating point": (limit_with("1024", "[1024]"), "limit[0].at.bytes", "a text, a number or a truth"),
    "table as parameter": (changed("[1024, 2048]", "{ a = 1 }"), "workload.speed.sizes", "a text, a number"),
    "fraction of nothing": (bound("min_fraction = 0.9"), "limit[0].of", "ring_ceiling"),
    "fraction of something unknown": (bound('min_fraction = 0.9\nof = "peak"'), "limit[0].of", "'ring_ceiling'"),
    "reference without a fraction": (bound('min = 1\nof = "baseline"'), "limit[0].of", "min_fraction or max_fraction"),
    "reference without any bound": (bound('of = "baseline"'), "limit[0].of", "min_fraction or max_fraction"),
    "ring ceiling without rdma": (
        changed(
            'rdma          = { resource = "rdma/ib", per_node = 8, rate_gbps = 400, link_layer = "InfiniBand" }',
            "",
            bound('min_fraction = 0.9\nof = "ring_ceiling"'),
        ),
        "limit[0].of",
        "add rdma to [cluster]",
    ),
    "ring ceiling in another unit": (
        changed('"GB/s"', '"Gb/s"', bound('min_fraction = 0.9\nof = "ring_ceiling"')),
        "limit[0].unit",
        "the unit of the ring ceiling",
    ),
    "fraction of a fact": (
        changed('expected   = "gpu_driver"', 'min_fraction = 0.9\nof = "baseline"'),
        "limit[1].min_fraction",
        "only numbers have fractions (limit on words driver)",
    ),
    "expectation that is not set": (
        changed('"gpu_driver"', '"gpu_drivr"'),
        "limit[1].expected",
        "did you mean gpu_driver?",
    ),
    "word expected of a metric": (bound('expected = "gpu_product"'), "limit[0].expected", "the key of a number"),
    "truth value expected of a metric": (
        changed("[scope]", "[cluster.extra]\nready = true\n\n[scope]", bound('expected = "ready"')),
        "limit[0].expected",
        "ready = the truth value true",
    ),
    "word as a metric": (bound('equals = "400"'), "limit[0].equals", "write it without quotes"),
    "truth value as a metric": (bound("equals = true"), "limit[0].equals", "the truth value true"),
    "words as a metric": (bound('one_of = [1, "2", "3"]'), "limit[0].one_of", 'the text "2"'),
    "choice of nothing": (bound("one_of = []"), "limit[0].one_of", "at least one value"),
    "metric and fact": (limit_with('"busbw"', '"busbw"\nfact = "x"'), "limit[0]", "found:    both"),
    "neither metric nor fact": (
        limit_with('metric     = "busbw"', ""),
        "limit[0]",
        "(limit on speed)\n  found:    neither",
    ),
    "no unit": (limit_with('unit       = "GB/s"', ""), "limit[0].unit", "the unit the number is reported in"),
    "blank unit": (limit_with('"GB/s"', '" "'), "limit[0].unit", "not blank"),
    "operating point of a fact": (
        changed('fact       = "driver"', 'fact = "driver"\nat = { n = 1 }'),
        "limit[1].at",
        "facts have none",
    ),
    "operating point that names a GPU": (limit_with("bytes = 1024", "gpu = 0"), "limit[0].at", 'per = "gpu"'),
    "operating point that names GPU and node": (
        limit_with("bytes = 1024", "node = 1, gpu = 1"),
        "limit[0].at",
        "key gpu",
    ),
    "operating point that names a pod": (limit_with("bytes = 1024", 'pod = "a"'), "limit[0].at", "the key pod"),
    "operating point that names a host": (limit_with("bytes = 1024", 'host = "a"'), "limit[0].at", "the key host"),
    "operating point that names a node": (limit_with("bytes = 1024", 'node = "a"'), "limit[0].at", "the key node"),
    "no severity": (limit_with('severity   = "fail"', ""), "limit[0].severity", "no default"),
    "unknown severity": (limit_with('"fail"', '"fial"'), "limit[0].severity", "'record_only'"),
    "unknown per": (limit_with('"gpu"', '"gpus"'), "limit[0].per", "'gpu'"),
    "limit on the cluster of a check that asks nodes": (
        limit_with('"gpu"', '"cluster"'),
        "limit[0].per",
        'per = "node" or "gpu", as speed asks every node (limit on speed busbw)\n  found:    the text "cluster"',
    ),
    "unique number": (bound("unique = true"), "limit[0].unique", "measured numbers may well be equal"),
    "unique that is false": (
        changed('expected   = "gpu_driver"', "unique = false"),
        "limit[1].unique",
        "found:    the truth value false",
    ),
    "unique beside another bound": (
        changed('expected   = "gpu_driver"', 'expected = "gpu_driver"\nunique = true'),
        "limit[1].unique",
        "one bound",
    ),
    "uniform number": (bound("uniform = true"), "limit[0].uniform", "measured numbers are never quite equal"),
    "lowest version of a number": (bound('min_version = { "1" = "2" }\nby = "x"'), "limit[0].min_version", "use min"),
    "lowest version by nothing": (
        changed('expected   = "gpu_driver"', 'min_version = { "12" = "525" }'),
        "limit[1].by",
        "which of the versions applies",
    ),
    "lowest version that is none": (
        changed('expected   = "gpu_driver"', 'min_version = { "12" = "r525" }\nby = "cuda"'),
        "limit[1].min_version",
        'the text "r525"',
    ),
    "no lowest version": (
        changed('expected   = "gpu_driver"', 'min_version = {}\nby = "cuda"'),
        "limit[1].min_version",
        "at least one entry",
    ),
    "by beside another bound": (
        changed('expected   = "gpu_driver"', 'expected = "gpu_driver"\nby = "cuda"'),
        "limit[1].by",
        "min_version beside it",
    ),
    "a slice without its profile": (
        changed("nodes         = 4", 'nodes = 4\ngpu_sharing = "mig"'),
        "cluster.mig_profile",
        "state both or neither",
    ),
    "a profile of slices without slices": (
        changed("nodes         = 4", 'nodes = 4\nmig_profile = "1g.10gb"'),
        "cluster.mig_profile",
        "state both or neither",
    ),
    "fewer GPUs a pod than there are, and they are whole": (
        changed("nodes         = 4", "nodes = 4\ngpus_per_pod = 1"),
        "cluster.gpus_per_pod",
        "all must be tested",
    ),
    "more shares a pod than there are": (
        changed("nodes         = 4", 'nodes = 4\ngpu_sharing = "time-slicing"\ngpus_per_pod = 3'),
        "cluster.gpus_per_pod",
        "at most the 2",
    ),
    "unknown sharing": (
        changed("nodes         = 4", 'nodes = 4\ngpu_sharing = "vgpu"'),
        "cluster.gpu_sharing",
        "'time-slicing'",
    ),
    "a check that only whole GPUs could decide": (
        changed(
            "nodes         = 4",
            'nodes = 4\ngpu_sharing = "time-slicing"',
            limit_with('per        = "gpu"', 'per        = "gpu"\nwhole_gpu  = true'),
        ),
        "checks.speed",
        "none of which decides",
    ),
    "no provenance": (limit_with(f"provenance = {{ {DERIVED} }}", ""), "limit[0].provenance", "no default"),
    "unknown kind of provenance": (provenance('kind = "guess"'), "limit[0].provenance", "'measured'"),
    "provenance without kind": (provenance('formula = "x"'), "limit[0].provenance", "the key kind"),
    "provenance without content": (provenance('kind = "derived"'), "limit[0].provenance.formula", "no default"),
    "provenance with blank content": (
        provenance('kind = "derived", formula = " "'),
        "limit[0].provenance.formula",
        "not",
    ),
    "published nowhere": (
        provenance('kind = "published", url = "a blog", read_on = 2026-01-01, value = 1'),
        "limit[0].provenance.url",
        "http(s) address",
    ),
    "measured without evidence": (
        provenance('kind="measured", evidence="no.json", date=2026-01-01, runs=1, statistic="p50", environment="e"'),
        "limit[0].provenance.evidence",
        "does not exist",
    ),
    "measured no times": (
        provenance('kind="measured", evidence="x", date=2026-01-01, runs=0, statistic="p50", environment="e"'),
        "limit[0].provenance.runs",
        "at least 1",
    ),
    "provisional without an end": (
        provenance('kind = "provisional", reason = "x"'),
        "limit[0].provenance.replace_by",
        "no default",
    ),
    "the same limit twice": (GOOD + LIMIT, "limit[2]", "the same as limit[0]: speed busbw"),
    "the same fact twice": (GOOD + WORDS, "limit[2]", "the same as limit[1]: words driver"),
    "the same number with another bound": (
        GOOD + LIMIT.replace(SPEED_MIN, "max = 900"),
        "limit[2]",
        "the same as limit[0]",
    ),
    "limit of an unknown check": (limit_with('"speed"', '"sped"'), "limit[0].check", "did you mean speed?"),
    "unknown check": (changed('words = "required"', 'wrods = "required"'), "checks.wrods", "did you mean words?"),
    "parameters of an unknown check": (changed("[workload.speed]", "[workload.sped]"), "workload.sped", "speed?"),
    "waiver of an unknown check": (waiver('"speed"', '"sped"'), "waiver[0].check", "did you mean speed?"),
    "check missing from checks": (changed('words = "required"\n', ""), "checks.words", "words is absent"),
    "unknown state": (changed('words = "required"', 'words = "optional"'), "checks.words.state", "'required'"),
    "recorded without a reason": (changed('words = "required"', 'words = "recorded"'), "checks.words", "a reason"),
    "not applicable for a blank reason": (
        changed('words = "required"', 'words = { state = "not-applicable", reason = " " }'),
        "checks.words",
        "a reason",
    ),
    "limit of a check that does not apply": (
        changed('words = "required"', 'words = { state = "not-applicable", reason = "x" }'),
        "limit[1].check",
        "words is not-applicable",
    ),
    "required check without a limit": (HEAD + LIMIT, "checks.words", "0 limits, none of which decides"),
    "required check that only warns": (
        changed('severity   = "fail"', 'severity = "warn"', HEAD + WORDS) + LIMIT,
        "checks.words",
        "1 limits, none of which decides",
    ),
    "recorded check without a limit": (
        changed('words = "required"', 'words = { state = "recorded", reason = "x" }', HEAD + LIMIT),
        "checks.words",
        "names what is recorded",
    ),
    "nothing required": (
        changed(
            'speed = "required"\nwords = "required"',
            'speed = { state = "recorded", reason = "x" }\nwords = { state = "recorded", reason = "x" }',
        ),
        "checks",
        "at least one required check",
    ),
    "no nodes": (changed("nodes         = 4", "nodes = 0"), "cluster.nodes", "at least 1"),
    "fewer than no nodes": (changed("nodes         = 4", "nodes = -4"), "cluster.nodes", "at least 1"),
    "no GPUs": (changed("gpus_per_node = 2", "gpus_per_node = 0"), "cluster.gpus_per_node", "at least 1"),
    "nodes not given": (changed("nodes         = 4\n", ""), "cluster.nodes", "add nodes = … to [cluster]"),
    "product not given": (
        changed('gpu_product   = "SIMULATED-GPU"\n', ""),
        "cluster.gpu_product",
        "the cluster under test cannot say it",
    ),
    "blank product": (changed('"SIMULATED-GPU"', '""'), "cluster.gpu_product", "not empty"),
    "unknown device": (changed('"cpu"', '"tpu"'), "cluster.device", "'cuda'"),
    "rdma without a rate": (changed("rate_gbps = 400, ", ""), "cluster.rdma.rate_gbps", "no default"),
    "rdma of rate zero": (changed("rate_gbps = 400", "rate_gbps = 0"), "cluster.rdma.rate_gbps", "above 0"),
    "free expectation nobody holds": (
        changed("[scope]", "[cluster.extra]\nfirmware = 1\n\n[scope]"),
        "cluster.extra.firmware",
        "an expectation nobody holds",
    ),
    "free expectation with a taken name": (
        changed("[scope]", "[cluster.extra]\nnodes = 1\n\n[scope]"),
        "cluster.extra.nodes",
        "move it to [cluster]",
    ),
    "no pool": (changed('pool  = { "node-pool" = "train" }\n', ""), "scope.pool", "add pool"),
    "empty pool": (changed('{ "node-pool" = "train" }', "{}"), "scope.pool", "at least one entry"),
    "no cover": (changed('cover = "all"', ""), "scope.cover", "add cover"),
    "unknown cover": (changed('cover = "all"', 'cover = "some"'), "scope.cover", "'all', or { at_least"),
    "cover in per cent": (
        changed('cover = "all"', "cover = { at_least = 1.01, within_days = 7 }"),
        "scope.cover.at_least",
        "at most 1",
    ),
    "cover of nothing": (
        changed('cover = "all"', "cover = { at_least = 0, within_days = 7 }"),
        "scope.cover.at_least",
        "above 0",
    ),
    "cover of no day": (
        changed('cover = "all"', "cover = { at_least = 0.9, within_days = 0 }"),
        "scope.cover.within_days",
        "at least 1",
    ),
    "canary of everything": (
        changed('cover = "all"', "cover = { canary = {}, nodes = 2 }"),
        "scope.cover.canary",
        "at least one entry",
    ),
    "canary of no nodes": (
        changed('cover = "all"', 'cover = { canary = { a = "b" }, nodes = 0 }'),
        "scope.cover.nodes",
        "at least 1",
    ),
    "canary of unknown count": (
        changed('cover = "all"', 'cover = { canary = { a = "b" } }'),
        "scope.cover.nodes",
        "no default",
    ),
    "no image": (changed('image = "registry.example/torch:2"', ""), "pod.image", "add image"),
    "unknown key of the pod": (changed("image =", "immage ="), "pod.immage", "did you mean image?"),
    "no deadline": (changed("running_s    = 4\n", ""), "deadlines.running_s", "no deadline has a default"),
    "deadline of zero": (changed("running_s    = 4", "running_s = 0"), "deadlines.running_s", "above 0"),
    "run shorter than a pod": (changed("run_s        = 10", "run_s = 9.9"), "deadlines.run_s", "at least the 10 s"),
    "waiver without an owner": (waiver('owner   = "the network team"\n', ""), "waiver[0].owner", "no default"),
    "waiver of a blank owner": (waiver('"the network team"', '""'), "waiver[0].owner", "not empty"),
    "waiver without a reason": (waiver('reason  = "cable on order"\n', ""), "waiver[0].reason", "no default"),
    "waiver without an end": (waiver("expires = 2026-12-24\n", ""), "waiver[0].expires", "no default"),
    "waiver of everything": (waiver('"gpu-01"', '"*"'), "waiver[0].subject", "one subject by its name"),
    "waiver for ever": (waiver("2026-12-24", "2099-12-24"), "waiver[0].expires", "within 366 days"),
    "waiver given twice": (GOOD + WAIVER + WAIVER, "waiver[1]", "a second one for speed on gpu-01"),
    "waiver of a check that does not decide": (
        changed('speed = "required"', 'speed = { state = "recorded", reason = "x" }') + WAIVER,
        "waiver[0].check",
        "speed is recorded",
    ),
    "another schema": (changed("schema  = 1", "schema = 2"), "schema", "one of 1"),
    "no name": (changed('profile = "test"', ""), "profile", "no default"),
    "unknown base": (changed('profile = "test"', 'profile = "test"\nextends = "simulatd"'), "extends", "did you mean"),
    "base that is not there": (
        changed('profile = "test"', 'profile = "t"\nextends = "x.toml"'),
        "extends",
        "not exist",
    ),
    "base of itself": (changed('profile = "test"', 'profile = "t"\nextends = "profile.toml"'), "extends", "the circle"),
    "storage of no class": (STORAGE.replace('storage_class = "fast"\n', ""), "storage.shared.storage_class", "default"),
    "storage of a size without a unit": (STORAGE.replace("64Gi", "64"), "storage.shared.size", "binary unit"),
    "storage of no size": (STORAGE.replace("64Gi", "0Gi"), "storage.shared.size", "binary unit"),
    "storage that expands to its size": (
        STORAGE + 'expands_to = "65536Mi"\n',
        "storage.shared.expands_to",
        "only grow",
    ),
    "storage that expands to a word": (STORAGE + 'expands_to = "more"\n', "storage.shared.expands_to", "binary unit"),
    "storage of a blank class": (STORAGE.replace("fast", "not one"), "storage.shared.storage_class", "a storage class"),
    "storage of an unknown mode": (STORAGE.replace("WriteMany", "WriteAll"), "storage.shared.access_mode", "'ReadWr"),
    "misspelt key of a storage": (STORAGE.replace("size", "sise"), "storage.shared.sise", "did you mean size?"),
    "storage whose name is no name": (STORAGE.replace("storage.shared", "storage.Shared"), "storage.Shared", "lower"),
    "empty file": ("", "schema", "no default"),
}


@pytest.mark.parametrize(("text", "key", "word"), CASES.values(), ids=CASES)
def test_it_is_refused_by_file_and_key(tmp_path: Path, text: str, key: str, word: str) -> None:
    got = refused(tmp_path, text)
    assert got.file == tmp_path / "profile.toml"
    assert got.key == key
    assert word in str(got)
    assert all([got.expected, got.actual, got.next_step])


MISSPELT = {
    "scope": (changed("pool  =", "pol ="), "scope.pol", "pool"),
    "canary": (
        changed('cover = "all"', 'cover = { canary = { a = "b" }, nods = 2 }'),
        "scope.cover.nods",
        "nodes",
    ),
    "measured": (provenance('kind = "measured", evidnce = "x"'), "limit[0].provenance.evidnce", "evidence"),
    "published": (provenance('kind = "published", ulr = "x"'), "limit[0].provenance.ulr", "url"),
    "contract": (provenance('kind = "contract", claus = "x"'), "limit[0].provenance.claus", "clause"),
    "provisional": (provenance('kind = "provisional", reasn = "x"'), "limit[0].provenance.reasn", "reason"),
    "waiver": (waiver("owner  ", "ownr  "), "waiver[0].ownr", "owner"),
    "deadlines": (changed("pulling_s ", "puling_s "), "deadlines.puling_s", "pulling_s"),
}


@pytest.mark.parametrize(("text", "key", "meant"), MISSPELT.values(), ids=MISSPELT)
def test_in_every_table_a_misspelling_is_answered_by_the_nearest_key(
    tmp_path: Path, text: str, key: str, meant: str
) -> None:
    got = refused(tmp_path, text)
    assert got.key == key
    assert got.actual.endswith(f"; did you mean {meant}?")


@pytest.mark.parametrize("subject", ["*", "all", "any"])
def test_no_waiver_is_for_everybody(tmp_path: Path, subject: str) -> None:
    assert refused(tmp_path, waiver('"gpu-01"', f'"{subject}"')).key == "waiver[0].subject"


@pytest.mark.parametrize(
    ("table", "key"),
    [
        *(("cluster", key) for key in ("gpu_product", "gpus_per_node", "nodes", "gpu_resource", "device")),
        *(("deadlines", key) for key in ("scheduling_s", "pulling_s", "starting_s", "running_s", "run_s")),
    ],
)
def test_what_has_no_default_must_be_there(tmp_path: Path, table: str, key: str) -> None:
    text = "\n".join(row for row in GOOD.splitlines() if row.split("=")[0].strip() != key)
    got = refused(tmp_path, text)
    assert got.key == f"{table}.{key}"
    assert got.next_step == f"add {key} = … to [{table}]"


def test_the_profile_that_all_of_them_change_is_good(tmp_path: Path) -> None:
    assert load(tmp_path, GOOD + WAIVER).name == "test"


def test_the_message_is_for_a_person(tmp_path: Path) -> None:
    got = refused(tmp_path, bound("min = 0"))
    line = 1 + bound("min = 0").splitlines().index("min = 0")
    assert str(got).splitlines() == [
        f"{tmp_path / 'profile.toml'}:{line}: limit[0].min",
        "  expected: a floor above zero (limit on speed busbw)",
        "  found:    the number 0",
        '  next:     write the number that is good enough, or severity = "record_only" without a bound',
    ]


def test_further_problems_are_named(tmp_path: Path) -> None:
    text = changed('"cpu"', '"tpu"', changed("nodes         = 4", "nodes = 0"))
    got = refused(tmp_path, text)
    assert got.key == "cluster.nodes"
    assert got.others == ("cluster.device",)
    assert str(got).splitlines()[-1] == "  also wrong in this file: cluster.device"


def test_a_misspelling_is_named_before_the_key_that_it_leaves_missing(tmp_path: Path) -> None:
    got = refused(tmp_path, provenance('kind = "derived", formul = "x"'))
    assert got.others == ("limit[0].provenance.formula",)


def test_what_a_site_file_does_wrong_is_named_in_the_site_file(tmp_path: Path) -> None:
    site = 'schema = 1\nprofile = "site"\nextends = "base.toml"\n[cluster]\nnods = 3\n'
    got = refused(tmp_path, site, {"base": GOOD})
    assert (got.file.name, got.key, got.line) == ("profile.toml", "cluster.nods", 5)


def test_what_a_base_does_wrong_is_named_in_the_base(tmp_path: Path) -> None:
    got = refused(tmp_path, 'schema = 1\nprofile = "site"\nextends = "base.toml"\n', {"base": bound("min = 0")})
    assert (got.file.name, got.key) == ("base.toml", "limit[0].min")


def test_what_neither_file_says_is_asked_of_the_site_file(tmp_path: Path) -> None:
    base = changed("nodes         = 4\n", "")
    got = refused(tmp_path, 'schema = 1\nprofile = "site"\nextends = "base.toml"\n', {"base": base})
    assert (got.file.name, got.key) == ("profile.toml", "cluster.nodes")


def test_a_site_file_may_not_hold_what_it_calls_not_applicable(tmp_path: Path) -> None:
    site = (
        'schema = 1\nprofile = "site"\nextends = "base.toml"\n'
        '[checks]\nspeed = { state = "not-applicable", reason = "x" }\n' + LIMIT
    )
    got = refused(tmp_path, site, {"base": GOOD})
    assert (got.file.name, got.key) == ("profile.toml", "limit[0].check")


def test_nor_may_it_hold_what_its_base_calls_not_applicable(tmp_path: Path) -> None:
    base = changed('words = "required"', 'words = { state = "not-applicable", reason = "x" }', HEAD + LIMIT)
    got = refused(tmp_path, 'schema = 1\nprofile = "site"\nextends = "base.toml"\n' + WORDS, {"base": base})
    assert (got.file.name, got.key) == ("profile.toml", "limit[0].check")


def test_a_circle_of_two_is_broken(tmp_path: Path) -> None:
    one = 'schema = 1\nprofile = "a"\nextends = "other.toml"\n'
    got = refused(tmp_path, one, {"other": one.replace("other.toml", "profile.toml")})
    assert (got.key, got.file.name) == ("extends", "other.toml")


@pytest.mark.parametrize("content", [None, b"\xff\xfe", "directory"])
def test_what_cannot_be_read_is_refused(tmp_path: Path, content: bytes | str | None) -> None:
    path = tmp_path / "gone.toml"
    if content == "directory":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    with pytest.raises(ProfileError, match="a readable TOML file") as caught:
        load_profile(path, known_checks=KNOWN, today=TODAY)
    assert "asked for" in str(caught.value)


def test_a_waiver_may_last_a_year_and_no_longer(tmp_path: Path) -> None:
    year = TODAY + dt.timedelta(days=366)
    assert load(tmp_path, waiver("2026-12-24", str(year))).waivers[0].expires == year
    refused(tmp_path, waiver("2026-12-24", str(year + dt.timedelta(days=1))))


@pytest.mark.parametrize("per", ["node", "gpu"])
def test_a_limit_on_nodes_of_a_check_that_asks_the_cluster_is_refused(tmp_path: Path, per: str) -> None:
    path = tmp_path / "profile.toml"
    path.write_text(changed('fact       = "driver"', f'fact = "driver"\nper = "{per}"'))
    only_cluster = KNOWN | {"words": Asks(cluster=True, nodes=False)}
    with pytest.raises(ProfileError, match='per = "cluster", as words asks the cluster as a whole') as caught:
        load_profile(path, known_checks=only_cluster, today=TODAY)
    assert caught.value.key == "limit[1].per"


def test_a_check_that_asks_nobody_can_have_no_limit(tmp_path: Path) -> None:
    path = tmp_path / "profile.toml"
    path.write_text(GOOD)
    with pytest.raises(ProfileError, match="nothing the check asks could be held to this limit"):
        load_profile(path, known_checks=KNOWN | {"words": Asks(cluster=False, nodes=False)}, today=TODAY)


def test_a_site_cannot_lift_a_limit_by_giving_it_to_a_subject_that_is_not_asked(tmp_path: Path) -> None:
    site = 'schema = 1\nprofile = "site"\nextends = "base.toml"\n' + changed('"gpu"', '"cluster"', LIMIT)
    got = refused(tmp_path, site, {"base": GOOD})
    assert (got.file.name, got.key) == ("profile.toml", "limit[0].per")


def test_an_expired_waiver_loads(tmp_path: Path) -> None:
    assert load(tmp_path, waiver("2026-12-24", "2020-01-01")).waivers[0].expired(TODAY)
