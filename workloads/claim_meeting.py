"""How pods on different nodes meet when all they share is a claim: by files of their own in one directory.

Owns announcing, waiting for one another and how long anybody waits. It must not know what is measured. A storage that
loses, hides or refuses files makes a meeting poorer and never endless: every wait is bounded.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, Callable, Dict, List, Optional, Set

CLAIMS = os.environ.get("GPUPROOF_CLAIMS", "/gpuproof/claims")
POLL_S = 0.02


def claim_root(name: str) -> str:
    """Where a claim of the profile's `[storage.NAME]` is mounted."""
    return os.path.join(CLAIMS, name)


def meeting_place(claim: str, identity: Dict[str, str], check: str) -> str:
    """The directory in which the pods of one check of one run meet."""
    return os.path.join(claim_root(claim), ".gpuproof", identity["run_id"] or "by-hand", check)


class Meeting:
    """One pod's side of it: `me` is its node, `size` how many pods are expected, `within_s` how long one wait lasts."""

    def __init__(self, place: str, me: str, size: int, within_s: float) -> None:
        self.place, self.me, self.size = place, me, size
        self.within_s = within_s
        self.trouble = ""
        """The first error that kept this pod from announcing something; '' while there was none."""
        self.absent: Set[str] = set()
        """Who kept this pod waiting in vain once, or said that it leaves: nobody waits for them again."""

    def say(self, word: str, value: Any = None) -> bool:
        """Announce a word with a value, whole or not at all to those who read it; whether it could be written."""
        try:
            os.makedirs(os.path.join(self.place, word), exist_ok=True)
            with open(self._file(word, self.me), "w", encoding="ascii") as file:
                file.write(json.dumps(value) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            self.trouble = self.trouble or "%s at %s" % (os.strerror(error.errno or 0), word)
            return False
        return True

    def heard(self, word: str) -> Dict[str, Any]:
        """What the others (and this pod) have announced under a word so far, by node; half a value is none."""
        found: Dict[str, Any] = {}
        try:
            names = os.listdir(os.path.join(self.place, word))
        except OSError:
            return found
        for name in names:
            try:
                with open(self._file(word, name), "r", encoding="ascii") as file:
                    text = file.read()
                if text.endswith("\n"):
                    found[name] = json.loads(text)
            except (OSError, ValueError):
                continue
        return found

    def wait(self, word: str, names: Optional[Set[str]] = None) -> Dict[str, Any]:
        """Wait until everybody (or these) has announced the word, or long enough; who has by then, with the values."""
        # Nobody waits for itself: a pod that cannot read its own words would else wait for ever longer.
        found: Dict[str, Any] = {self.me: None}

        def complete() -> bool:
            found.update(self.heard(word))
            if names is None:
                return len(found) >= self.size
            missing = names - set(found) - self.absent
            if missing:
                missing -= set(self.heard("left"))
            return not missing

        if not self.wait_until(complete) and names is not None:
            self.absent |= names - set(found)
        return found

    def leave(self) -> None:
        """Tell the others not to wait any more."""
        self.say("left")

    def wait_until(self, ready: Callable[[], bool]) -> bool:
        """Look every few milliseconds until it is so, or `within_s` have passed; whether it became so."""
        until = time.monotonic() + self.within_s
        while not ready():
            if time.monotonic() >= until:
                return False
            time.sleep(POLL_S)
        return True

    def _file(self, word: str, name: str) -> str:
        return os.path.join(self.place, word, name)


def lower_median(values: List[float]) -> float:
    """The median, the lower of the two middle ones: one bad peer of three or four makes no node look bad."""
    return sorted(values)[(len(values) - 1) // 2]
