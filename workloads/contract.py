"""What a workload says to the harness: measurements, and how they travel in a pod's termination message.

Owns the wire format. It must not know a limit, a verdict or Kubernetes, and runs in the team's production image:
Python 3.9 syntax, standard library only.

A termination message holds at most 4096 bytes and the kubelet keeps the *last* 4096 of a longer one, so every message
begins with a header that states the payload's length and checksum: a cut head is always noticed.

    gpuproof/1 <json|zlib> <payload bytes> <crc32 of the payload, 8 hex digits>\\n<payload>

The payload is JSON, column by column (samples that share metric, unit and the keys of their operating point share one
block); "zlib" is the same, deflated and base64-encoded, chosen when the plain form does not fit.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import os
import signal
import sys
import zlib
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, NoReturn, Optional, Sequence, Tuple, Union

VERSION = 1
MAX_MESSAGE_BYTES = 4096
"""What a kubelet keeps of one container's termination message (golden scenario 17a)."""

MAX_PAYLOAD_BYTES = 1 << 20
"""No measurement inflates beyond this: a hostile message must not exhaust the harness."""

MAX_WHOLE = 1 << 64
"""Beyond every counter there is: a whole number that no 64-bit counter can show is damage, and too big for a float."""

_MAX_LENGTH_DIGITS = 7

EXIT_MEASURED = 0
EXIT_COULD_NOT = 2
"""A workload's exit code says *measured* or *could not*, never *good* or *bad*."""

EXIT_TERMINATED = 143
"""On SIGTERM: a killed pod that exits 0 could count as a completed index."""

Scalar = Union[str, int, float, bool]
Fact = Union[Scalar, List[Scalar]]

_MAGIC = "gpuproof/%d" % VERSION


class ContractError(ValueError):
    """A termination message that is no measurement."""


class Truncated(ContractError):
    """The message was cut on its way: its head is missing or it is shorter than it says."""


class Malformed(ContractError):
    """The message is whole, or claims to be, and is not what the contract describes."""


class TooLarge(ContractError):
    """A measurement that does not fit into a termination message even when deflated."""


@dataclass(frozen=True)
class Sample:
    """One number: `value` in `unit`, taken at the operating point `at` (gpu, bytes, dtype, statistic …)."""

    metric: str
    value: float
    unit: str
    at: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True)
class Measurement:
    """What one pod found out.

    `world_size` is the number of ranks that took part and `hosts` the number of distinct machines, both counted and not
    copied from the request. `facts` are words and counts that are compared, not averaged. `environment` names versions.
    """

    workload: str
    run_id: str
    node: str
    pod: str
    world_size: int
    hosts: int
    samples: Tuple[Sample, ...] = ()
    facts: Mapping[str, Fact] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


def encode(measurement: Measurement) -> str:
    """The termination message of a measurement, at most `MAX_MESSAGE_BYTES` of UTF-8; raises `TooLarge`."""
    plain = json.dumps(_to_wire(measurement), separators=(",", ":"), ensure_ascii=True, sort_keys=True)
    message = _frame("json", plain)
    if len(message) > MAX_MESSAGE_BYTES:
        packed = base64.b64encode(zlib.compress(plain.encode("ascii"), 9)).decode("ascii")
        message = _frame("zlib", packed)
    if len(message) > MAX_MESSAGE_BYTES:
        raise TooLarge(
            "the measurement of %s needs %d bytes, a termination message holds %d: report fewer samples"
            % (measurement.workload, len(message), MAX_MESSAGE_BYTES)
        )
    return message


def parse(text: str) -> Measurement:
    """The measurement in a termination message; raises `Truncated` or `Malformed`, never returns a partial reading."""
    head, newline, payload = text.partition("\n")
    if not head.startswith("gpuproof/"):
        if len(text.encode("utf-8", "surrogatepass")) >= MAX_MESSAGE_BYTES // 2 or _looks_like_a_tail(text):
            raise Truncated("the head of the termination message is missing: the kubelet keeps only its last bytes")
        raise Malformed("not a measurement: %r" % text[:200])
    words = head.split(" ")
    if len(words) != 4 or words[0] != _MAGIC or not newline:
        raise Malformed("header %r, expected %r" % (head[:80], _MAGIC + " <json|zlib> <bytes> <crc32>"))
    _, encoding, length, checksum = words
    raw = payload.encode("utf-8", "surrogatepass")
    # Digits of other scripts are digits to Python's isdigit and no number to int.
    if not (length.isascii() and length.isdigit() and len(length) <= _MAX_LENGTH_DIGITS):
        raise Malformed("payload length %r is no number" % length[:20])
    if len(raw) < int(length):
        raise Truncated("%d bytes of payload, the header says %s" % (len(raw), length))
    if len(raw) > int(length) or "%08x" % binascii.crc32(raw) != checksum:
        raise Malformed("payload does not match its length and checksum: something else wrote into the message")
    return _from_wire(_load(encoding, raw))


def emit(measurement: Measurement, path: Optional[str] = None) -> None:
    """Write the termination message and show the measurement on standard output for a person."""
    for sample in measurement.samples:
        at = " ".join("%s=%s" % item for item in sorted(sample.at.items()))
        print("%-32s %14.6g %-6s %s" % (sample.metric, sample.value, sample.unit, at))
    for name, fact in sorted(measurement.facts.items()):
        print("%-32s %s" % (name, fact))
    message = encode(measurement)
    target = path or os.environ.get("TERMINATION_LOG") or "/dev/termination-log"
    try:
        with open(target, "w", encoding="utf-8") as log:
            log.write(message)
    except OSError as error:
        if "KUBERNETES_SERVICE_HOST" in os.environ:
            raise
        print("(run by hand, no termination message written: %s)" % error, file=sys.stderr)


def could_not(message: str) -> NoReturn:
    """End the workload because it was unable to measure; the sentence travels as the termination message."""
    print("could not measure: " + message, file=sys.stderr)
    target = os.environ.get("TERMINATION_LOG") or "/dev/termination-log"
    try:
        with open(target, "w", encoding="utf-8") as log:
            log.write("could not measure: " + message[: MAX_MESSAGE_BYTES // 4])
    except OSError:
        pass  # run by hand: standard error has said it
    raise SystemExit(EXIT_COULD_NOT)


def leave_on_sigterm() -> None:
    """Exit 143 on SIGTERM: as process 1 of a container a program without a handler would ignore the signal."""

    def leave(_signum: int, _frame: object) -> None:
        os._exit(EXIT_TERMINATED)

    signal.signal(signal.SIGTERM, leave)


def parameters() -> Dict[str, Any]:
    """The workload's parameters from the profile, as the harness passes them (`GPUPROOF_PARAMS`, a JSON object)."""
    text = os.environ.get("GPUPROOF_PARAMS", "{}")
    try:
        value = json.loads(text)
    except ValueError as error:
        could_not("GPUPROOF_PARAMS is not JSON: %s" % error)
    if not isinstance(value, dict):
        could_not("GPUPROOF_PARAMS must be a JSON object, got %s" % type(value).__name__)
    return value


def identity() -> Dict[str, str]:
    """Who measures: run id, node and pod as the harness told this pod (empty words when run by hand)."""
    return {
        "run_id": os.environ.get("GPUPROOF_RUN_ID", ""),
        "node": os.environ.get("GPUPROOF_NODE", ""),
        "pod": os.environ.get("GPUPROOF_POD", ""),
    }


def of_one_pod(
    workload: str,
    samples: Sequence[Sample] = (),
    facts: Optional[Mapping[str, Fact]] = None,
    environment: Optional[Mapping[str, str]] = None,
) -> Measurement:
    """What a pod measured by itself: one rank on one host; who it is comes from its environment."""
    who = identity()
    return Measurement(
        workload,
        who["run_id"],
        who["node"],
        who["pod"],
        world_size=1,
        hosts=1,
        samples=tuple(samples),
        facts=dict(facts or {}),
        environment=dict(environment or {}),
    )


def _frame(encoding: str, payload: str) -> str:
    raw = payload.encode("ascii")
    return "%s %s %d %08x\n%s" % (_MAGIC, encoding, len(raw), binascii.crc32(raw), payload)


def _looks_like_a_tail(text: str) -> bool:
    if text.endswith("}"):
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            return True
    return len(text) > 40 and text.rstrip("=").replace("+", "").replace("/", "").isalnum()


def _to_wire(m: Measurement) -> Dict[str, Any]:
    blocks: Dict[Tuple[str, str, Tuple[str, ...]], List[List[Any]]] = {}
    for sample in m.samples:
        keys = tuple(sorted(sample.at))
        row = [sample.at[key] for key in keys] + [_number_to_wire(sample.value)]
        blocks.setdefault((sample.metric, sample.unit, keys), []).append(row)
    return {
        "workload": m.workload,
        "run": m.run_id,
        "node": m.node,
        "pod": m.pod,
        "world": [m.world_size, m.hosts],
        "samples": [[metric, unit, list(keys), rows] for (metric, unit, keys), rows in blocks.items()],
        "facts": dict(m.facts),
        "environment": dict(m.environment),
    }


def _number_to_wire(value: float) -> Any:
    # JSON has no word for these, and a measurement that is not a number must arrive as what it is.
    return value if math.isfinite(value) else repr(float(value))


def _load(encoding: str, raw: bytes) -> Any:
    try:
        if encoding == "zlib":
            unpack = zlib.decompressobj()
            data = unpack.decompress(base64.b64decode(raw, validate=True), MAX_PAYLOAD_BYTES)
            if unpack.unconsumed_tail or not unpack.eof:
                raise Malformed("the payload does not end, or inflates beyond %d bytes" % MAX_PAYLOAD_BYTES)
            if unpack.unused_data:
                raise Malformed("%d bytes follow the end of the deflated payload" % len(unpack.unused_data))
        elif encoding == "json":
            data = raw
        else:
            raise Malformed("unknown encoding %r" % encoding[:20])
        return json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except ContractError:
        raise
    except (zlib.error, ValueError, RecursionError) as error:
        # ValueError: base64, UTF-8, JSON, and a whole number of more digits than Python reads.
        raise Malformed("unreadable payload: %s" % error) from error


def _no_constant(word: str) -> NoReturn:
    raise Malformed("%s is no JSON" % word)


def _from_wire(wire: Any) -> Measurement:
    try:
        world_size, hosts = wire["world"]
        samples = tuple(_samples_from_wire(wire["samples"]))
        measurement = Measurement(
            workload=_word(wire["workload"]),
            run_id=_word(wire["run"]),
            node=_word(wire["node"]),
            pod=_word(wire["pod"]),
            world_size=_count(world_size),
            hosts=_count(hosts),
            samples=samples,
            facts={_word(name): _fact(value) for name, value in wire["facts"].items()},
            environment={_word(name): _word(value) for name, value in wire["environment"].items()},
        )
    except ContractError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise Malformed("not the shape of a measurement: %s: %s" % (type(error).__name__, error)) from error
    _refuse_duplicates(samples)
    return measurement


def _samples_from_wire(blocks: Sequence[Any]) -> List[Sample]:
    found = []
    for metric, unit, keys, rows in blocks:
        for row in rows:
            if len(row) != len(keys) + 1:
                raise Malformed("a row of %s has %d cells, expected %d" % (_shown(metric), len(row), len(keys) + 1))
            at = {_word(key): _scalar(cell) for key, cell in zip(keys, row)}
            if len(at) != len(keys):
                raise Malformed("an operating point of %s names a key twice: %s" % (_shown(metric), _shown(keys)))
            found.append(Sample(_word(metric), _number(row[-1]), _word(unit), at))
    return found


def _refuse_duplicates(samples: Sequence[Sample]) -> None:
    seen = set()
    for sample in samples:
        key = (sample.metric, sample.unit, tuple(sorted((k, str(v)) for k, v in sample.at.items())))
        if key in seen:
            raise Malformed("two values of %s at the same operating point %s" % (sample.metric, dict(sample.at)))
        seen.add(key)


def _word(value: Any) -> str:
    if not isinstance(value, str):
        raise Malformed("%s where a word was expected" % _shown(value))
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise Malformed("%s is no text: it holds half a character" % _shown(value))
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_WHOLE:
        raise Malformed("%s where a count was expected" % _shown(value))
    return value


def _number(value: Any) -> float:
    if isinstance(value, str) and value in ("nan", "inf", "-inf"):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Malformed("%s where a number was expected" % _shown(value))
    # Bytes, seconds, rates, counts, relative errors: nothing measured here can be below zero, and a number that is
    # would meet every upper limit.
    if value < 0:
        raise Malformed("negative value %s; no measurement is below zero" % _shown(value))
    if isinstance(value, int) and value > MAX_WHOLE:
        raise Malformed("%s is beyond every counter" % _shown(value))
    return float(value)


def _scalar(value: Any) -> Scalar:
    if isinstance(value, str):
        return _word(value)
    if not isinstance(value, (int, float)):
        raise Malformed("%s where a single value was expected" % _shown(value))
    if isinstance(value, int) and not -MAX_WHOLE <= value <= MAX_WHOLE:
        raise Malformed("%s is beyond every counter" % _shown(value))
    return value


def _shown(value: Any) -> str:
    try:
        return ascii(value)[:60]
    except (ValueError, RecursionError):  # a whole number of more digits than Python writes, or endless nesting
        return "a %s" % type(value).__name__


def _fact(value: Any) -> Fact:
    if isinstance(value, list):
        return [_scalar(item) for item in value]
    return _scalar(value)
