"""What is wrong with a simulated metrics exporter: read from a file that the node's faults write, a key a line.

Owns the words. It must not know how the exporter behaves by them, and must not import the simulator.
"""

from __future__ import annotations

from dataclasses import dataclass

BLANK = "9223372036854775794"
"""What DCGM gives for a 64-bit value that is not supported (dcgm_structs.h: DCGM_INT64_NOT_SUPPORTED)."""


@dataclass(frozen=True)
class Troubles:
    """The defaults are a sound exporter.

    `labels` of pods: "right", "empty" or "absent". `mapping`: "now" asks the kubelet at each look, "first" keeps the
    first holder of each unit for ever, "kept" the last one until another comes, "remembered" shows all it ever saw.
    `swapped`: two neighbours' values stand under each other's names. `twice`: each series once more
    under other labels. `scale`: factors by field.
    """

    labels: str = "right"
    mapping: str = "now"
    swapped: bool = False
    hung: bool = False
    missing_gpu: str = ""
    missing_fields: tuple[str, ...] = ()
    blank_fields: tuple[str, ...] = ()
    twice: bool = False
    scale: tuple[tuple[str, float], ...] = ()
    delay_s: float = 0.0
    fails: bool = False
    cut: bool = False
    extra_mib: int = 0
    crash_after_s: float = 0.0

    def shown(self, field: str, value: str) -> str:
        """The value of a field as the exporter gives it."""
        if field in self.blank_fields:
            return BLANK
        factor = dict(self.scale).get(field)
        return value if factor is None else f"{float(value) * factor:.6f}"


SOUND = Troubles()


def read_troubles(path: str) -> Troubles:
    """From the file; a sound exporter where there is none."""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - starts fast
            given = dict(line.split("=", 1) for line in file.read().splitlines() if "=" in line)
    except OSError:
        return SOUND
    return Troubles(
        labels=given.get("labels", "right"),
        mapping=given.get("mapping", "now"),
        swapped=given.get("swapped") == "1",
        hung=given.get("hung") == "1",
        missing_gpu=given.get("missing_gpu", ""),
        missing_fields=_words(given.get("missing_fields", "")),
        blank_fields=_words(given.get("blank_fields", "")),
        twice=given.get("twice") == "1",
        scale=tuple((pair.split(":")[0], float(pair.split(":")[1])) for pair in _words(given.get("scale", ""))),
        delay_s=float(given.get("delay_s", 0)),
        fails=given.get("fails") == "1",
        cut=given.get("cut") == "1",
        extra_mib=int(given.get("extra_mib", 0)),
        crash_after_s=float(given.get("crash_after_s", 0)),
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word)
