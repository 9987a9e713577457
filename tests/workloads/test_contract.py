"""The wire between a pod and the harness: whole measurements come back equal, damaged ones never come back at all."""

from __future__ import annotations

import base64
import math
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads import contract
from workloads.contract import Malformed, Measurement, Sample, TooLarge, Truncated

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
SCALARS = st.one_of(WORDS, st.integers(-(2**53), 2**53), st.booleans())
SAMPLES = st.builds(
    Sample, WORDS, st.floats(min_value=0.0, allow_nan=False), WORDS, st.dictionaries(WORDS, SCALARS, max_size=2)
)


def a_measurement(count: int = 3) -> Measurement:
    noise = random.Random(7)
    samples = tuple(
        Sample("busbw", round(noise.random(), 6), "GB/s", {"bytes": 1024 * i, "gpu": i}) for i in range(count)
    )
    return Measurement("w", "run-1", "gpu-01", "pod-1", 1, 1, samples, {"driver": "550.1", "ok": True}, {"torch": "2"})


def _whole(sample: Sample) -> str:
    return repr((sample.metric, sample.value, sample.unit, sorted((k, repr(v)) for k, v in sample.at.items())))


@given(
    st.lists(
        SAMPLES, max_size=6, unique_by=lambda s: (s.metric, s.unit, str(sorted((k, str(v)) for k, v in s.at.items())))
    ),
    st.dictionaries(WORDS, st.one_of(SCALARS, st.lists(SCALARS, max_size=3)), max_size=3),
)
def test_every_measurement_survives_the_wire(samples: list[Sample], facts: dict[str, contract.Fact]) -> None:
    measurement = Measurement("w", "r", "n", "p", 2, 1, tuple(samples), facts, {"python": "3.9"})
    back = contract.parse(contract.encode(measurement))
    assert sorted(map(_whole, back.samples)) == sorted(map(_whole, measurement.samples))
    assert (back.facts, back.environment, back.world_size, back.hosts) == (facts, {"python": "3.9"}, 2, 1)


def test_what_is_not_a_number_arrives_as_what_it_is() -> None:
    values = (math.nan, math.inf)
    samples = tuple(Sample("m", value, "1", {"i": i}) for i, value in enumerate(values))
    back = contract.parse(contract.encode(Measurement("w", "", "", "", 1, 1, samples)))
    assert [repr(sample.value) for sample in back.samples] == ["nan", "inf"]


@pytest.mark.parametrize("value", [-1.0, -math.inf, -5e-324])
def test_a_negative_value_is_no_measurement(value: float) -> None:
    message = contract.encode(Measurement("w", "", "", "", 1, 1, (Sample("wrong_bytes", value, "B"),)))
    with pytest.raises(Malformed, match="negative"):
        contract.parse(message)


def _with(**changed: str) -> str:
    parts = {"world": "[1,1]", "samples": "[]", "facts": "{}", "environment": "{}"} | changed
    words = ",".join(f'"{key}":{value}' for key, value in parts.items())
    return '{"workload":"w","run":"","node":"","pod":"",' + words + "}"


HOSTILE = {
    "a sample of 401 digits": _with(samples='[["m","1",[],[[1' + "0" * 400 + "]]]]"),
    "a sample beyond 64 bits": _with(samples='[["m","1",[],[[36893488147419103232]]]]'),
    "a world of 401 digits": _with(world="[1" + "0" * 400 + ",1]"),
    "a label of 401 digits": _with(samples='[["m","1",["gpu"],[[1' + "0" * 400 + ",1]]]]"),
    "a fact of 401 digits": _with(facts='{"a":[1' + "0" * 400 + "]}"),
    "5000 digits": _with(world="[" + "9" * 5000 + ",1]"),
    "a negative count": _with(world="[-1,1]"),
    "NaN is no JSON": _with(facts='{"a":NaN}'),
    "half a character": _with(facts='{"a":"\\ud800"}'),
    "a key twice": _with(samples='[["m","1",["gpu","gpu"],[[0,1,1]]]]'),
    "deep": _with(facts='{"a":' + "[" * 3000 + "]" * 3000 + "}"),
}


@pytest.mark.parametrize("encoding", ["json", "zlib"])
@pytest.mark.parametrize("payload", list(HOSTILE.values()), ids=list(HOSTILE))
def test_hostile_values_are_malformed_and_nothing_else(payload: str, encoding: str) -> None:
    packed = base64.b64encode(zlib.compress(payload.encode())).decode() if encoding == "zlib" else payload
    with pytest.raises(Malformed):
        contract.parse(contract._frame(encoding, packed))


@pytest.mark.parametrize("length", ["²", "٣", "9" * 5000, "-1", "1.0", ""])
def test_a_length_that_is_no_plain_number_is_malformed(length: str) -> None:
    with pytest.raises(Malformed, match="length"):
        contract.parse(f"gpuproof/1 json {length} 00000000\n{{}}")


def test_what_follows_the_deflated_payload_is_refused() -> None:
    whole = base64.b64decode(contract.encode(a_measurement(220)).partition("\n")[2])
    with pytest.raises(Malformed, match="follow the end"):
        contract.parse(contract._frame("zlib", base64.b64encode(whole + b"junk").decode()))


def test_a_long_measurement_is_deflated_and_stays_below_the_kubelets_limit() -> None:
    message = contract.encode(a_measurement(220))
    assert message.startswith("gpuproof/1 zlib ")
    assert len(message) <= contract.MAX_MESSAGE_BYTES
    assert contract.parse(message) == a_measurement(220)


def test_a_measurement_that_cannot_fit_is_refused_where_it_is_made() -> None:
    with pytest.raises(TooLarge, match="fewer samples"):
        contract.encode(a_measurement(5000))


@pytest.mark.parametrize(("count", "keep"), [(3, 1), (3, 30), (3, 200), (220, 1), (220, 30), (220, 200), (220, 1000)])
def test_the_tail_that_a_kubelet_keeps_of_a_cut_message_is_truncated_and_never_a_reading(count: int, keep: int) -> None:
    message = contract.encode(a_measurement(count))
    with pytest.raises((Truncated, Malformed)) as caught:
        contract.parse(message[-keep:])
    if keep > 40:
        assert caught.type is Truncated


@given(st.data())
def test_no_single_damaged_character_yields_another_measurement(data: st.DataObject) -> None:
    message = contract.encode(a_measurement())
    place = data.draw(st.integers(0, len(message) - 1))
    letter = data.draw(st.characters(codec="ascii"))
    damaged = message[:place] + letter + message[place + 1 :]
    try:
        assert contract.parse(damaged) == a_measurement()
    except contract.ContractError:
        assert damaged != message


@given(st.text(max_size=300))
def test_garbage_is_an_error_and_never_a_crash(text: str) -> None:
    with pytest.raises(contract.ContractError):
        contract.parse(text)


@pytest.mark.parametrize(
    "payload",
    [
        "{}",
        "[]",
        "null",
        '{"workload":1,"run":"","node":"","pod":"","world":[1,1],"samples":[],"facts":{},"environment":{}}',
        '{"workload":"w","run":"","node":"","pod":"","world":[true,1],"samples":[],"facts":{},"environment":{}}',
        '{"workload":"w","run":"","node":"","pod":"","world":[1,1],"samples":[["m","u",[],[["5"]]]],"facts":{},"environment":{}}',
        '{"workload":"w","run":"","node":"","pod":"","world":[1,1],"samples":[["m","u",["a"],[[5]]]],"facts":{},"environment":{}}',
        '{"workload":"w","run":"","node":"","pod":"","world":[1,1],"samples":[["m","u",[],[[true]]]],"facts":{},"environment":{}}',
        "[" * 3000,
    ],
)
def test_a_whole_payload_of_the_wrong_shape_is_malformed(payload: str) -> None:
    with pytest.raises(Malformed):
        contract.parse(contract._frame("json", payload))


def test_two_values_at_one_operating_point_are_refused() -> None:
    twice = Measurement("w", "", "", "", 1, 1, (Sample("m", 1, "u", {"n": 1}), Sample("m", 2, "u", {"n": 1})))
    with pytest.raises(Malformed, match="same operating point"):
        contract.parse(contract.encode(twice))


def test_a_payload_that_inflates_without_end_is_refused() -> None:
    bomb = base64.b64encode(zlib.compress(b" " * (contract.MAX_PAYLOAD_BYTES * 8), 9)).decode()
    with pytest.raises(Malformed, match="inflates"):
        contract.parse(contract._frame("zlib", bomb))
