"""What a rank does whatever its library: it works through the items, tells of each, and never outlives its
parent."""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from pathlib import Path

import msgspec

from mlxdiag.audit.distributed.told import Told
from mlxdiag.audit.judge.reading import crash_site, ours

MEETING = 60
"""Seconds that a rank waits for its peer."""
BROKEN = 3
"""Exit status after an error: the other rank may wait for this one, so neither goes on."""


class Rank(ABC):
    """The work of this process, and its file."""

    def __init__(self, report: Path, seed: int) -> None:
        self.report = report
        self.seed = seed
        self.during = ""
        """What is being done: see `Told.during`."""

    @abstractmethod
    def trial(self, family: str, kind: str) -> Told:
        """Split the family, run it, compare it. Raises whatever the library raises."""

    def tell(self, told: Told) -> None:
        with self.report.open("ab") as file:
            file.write(msgspec.json.encode(told) + b"\n")

    def agreed(self, told: Told) -> bool:
        """Whether every rank failed in this way, so that none waits for another and all can go on."""
        return False

    def work(self, family: str, kind: str) -> None:
        """One family. Ends the process where the library fails in this rank alone."""
        self.tell(Told(family, kind, "begun"))
        try:
            told = self.trial(family, kind)
        except Exception as error:  # noqa: BLE001  a family may fail in any way
            told = failed(family, kind, self.during, error)
            self.tell(told)
            if not self.agreed(told):
                os._exit(BROKEN)
            told.alike = True
        self.tell(told)


def failed(family: str, kind: str, during: str, error: Exception) -> Told:
    """The word for an exception; without a line of the library where the fault is this program's own."""
    return Told(
        family,
        kind,
        "failed",
        reason=" ".join(str(error).split())[:300],
        where="" if ours(error) else crash_site(error),
        during=during,
        error=type(error).__name__,
    )


def report(folder: Path, rank: int) -> Path:
    """The file of a rank in the folder of its launch."""
    return folder / f"{rank}.jsonl"


def end_with_parent() -> None:
    """A process whose parent is gone would wait for its peers for ever: end this one with it."""
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(BROKEN)
