"""Whose a folder of checkpoints is: every writer claims it, shows that it lives, and gives way to a later claim.

A claim is a file `writer-00000003`, made once and by nobody twice, so its number is one writer's alone; the greatest
number owns the folder. Its content changes as long as its writer lives, so that a later one sees an earlier one at
work, on a node that nobody hears any more. No clock is compared with another. It must not know what is written.
Python 3.9 syntax; standard library.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from typing import Any, Callable, Dict, Set, Tuple

TOOK_OVER = "claimed it later"
AT_WORK = "is still at work"
GAVE_WAY = "gave way"
LOOK_EVERY_S = 1.0
_PREFIX = "writer-"
_PADDED_BYTES = 512
_SURE = 2
"""So many signs of life after the claim: the first may be one of before that was only seen late."""

OnOther = Callable[[str, str], None]
"""Hears who another writer is and what it did: one of the words above."""


class Claim:
    """This writer's claim on a folder; `on_other` may be called from another thread."""

    def __init__(self, folder: str, who: str, on_other: OnOther) -> None:
        self._folder, self._on_other = folder, on_other
        self._lock = threading.Lock()
        self._told: Set[Tuple[int, str]] = set()
        self._signs: Dict[int, int] = {}
        self._entry: Dict[str, Any] = {"who": who, "beats": 0, "gave_way": False}
        there = _read(folder)
        self._known = {number: text for number, text in there.items() if text}
        self.number = self._make(max(there, default=0) + 1)
        self.who = "%s (claim %d)" % (who, self.number)

    def _make(self, number: int) -> int:
        """The first number from here on that nobody has; one may be there that this node does not see yet."""
        while True:
            try:
                file = os.open(self._file(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            except FileExistsError:
                number += 1
                continue
            _put(file, self._entry)
            return number

    def look(self) -> None:
        """Tell of every other writer there is news of; raises OSError where the folder cannot be read."""
        with self._lock:
            for number, text in sorted(_read(self._folder).items()):
                if not text:
                    continue  # just being made; its name is there at the next look
                if number > self.number:
                    self._tell(number, text, TOOK_OVER)
                elif number < self.number:
                    self._compare(number, text)

    def watch(self) -> None:
        """Look and show a sign of life again and again, in a thread that ends with the process."""
        threading.Thread(target=self._watch, name="claim", daemon=True).start()

    def give_way(self) -> None:
        """The last sign of life, where it can still be written."""
        self._entry["gave_way"] = True
        with contextlib.suppress(OSError):
            self._beat()

    def _watch(self) -> None:
        pause = threading.Event()
        while not pause.wait(LOOK_EVERY_S):
            try:
                self.look()
                self._beat()
            except OSError:
                continue  # whoever saves there will say what is wrong with it

    def _beat(self) -> None:
        self._entry["beats"] += 1
        _put(os.open(self._file(self.number), os.O_WRONLY), self._entry)

    def _compare(self, number: int, text: str) -> None:
        before = self._known.setdefault(number, text)
        if text == before:
            return
        self._known[number] = text
        self._signs[number] = self._signs.get(number, 0) + 1
        if json.loads(text)["gave_way"]:
            self._tell(number, text, GAVE_WAY)
        elif self._signs[number] >= _SURE:
            self._tell(number, text, AT_WORK)

    def _tell(self, number: int, text: str, did: str) -> None:
        if (number, did) not in self._told:
            self._told.add((number, did))
            self._on_other("%s (claim %d)" % (json.loads(text)["who"], number), did)

    def _file(self, number: int) -> str:
        return os.path.join(self._folder, "%s%08d" % (_PREFIX, number))


def _put(file: int, entry: Dict[str, Any]) -> None:
    """In one write of always the same length: whoever reads finds the old text or the new one."""
    try:
        os.write(file, json.dumps(entry).ljust(_PADDED_BYTES).encode("ascii"))
    finally:
        os.close(file)


def _read(folder: str) -> Dict[int, str]:
    """Number to what its file holds; "" where that is not a whole entry yet."""
    found = {}
    for name in os.listdir(folder):
        number = name[len(_PREFIX) :]
        if not name.startswith(_PREFIX) or not number.isdigit():
            continue
        try:
            with open(os.path.join(folder, name), encoding="ascii") as file:
                text = file.read()
            json.loads(text)
        except (OSError, ValueError):
            text = ""
        found[int(number)] = text
    return found
