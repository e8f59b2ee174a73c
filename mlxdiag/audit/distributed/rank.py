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
from mlxdiag.audit.judge.reading import crash_site

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

    def work(self, family: str, kind: str) -> None:
        """One family. Ends the process where the library fails."""
        self.tell(Told(family, kind, "begun"))
        try:
            self.tell(self.trial(family, kind))
        except Exception as error:  # noqa: BLE001  a family may fail in any way
            said = " ".join(str(error).split())[:300]
            self.tell(
                Told(
                    family,
                    kind,
                    "failed",
                    reason=said,
                    where=crash_site(error),
                    during=self.during,
                    error=type(error).__name__,
                )
            )
            os._exit(BROKEN)


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
