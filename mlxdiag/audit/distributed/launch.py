"""Two ranks on the loopback, watched, and killed with all that they started. How they are started: see
`ring.launch` and `torchrun.launch`."""

from __future__ import annotations

import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from mlxdiag.audit.distributed.told import Told

RANKS = 2
GRACE = 1.0
"""Seconds that the other rank gets, once one has ended badly, to say what it has to say."""
POLL = 0.05


class Launch(ABC):
    """One start of both ranks over a list of items. Use as a context: leaving it kills what still runs."""

    quiet = 30.0
    """Seconds without a word from either rank after which they hang."""
    startup = 60.0
    """Seconds until the first word: two processes import the library and find each other."""
    lost: tuple[str, ...] = ()
    """What the library says in the rank that is left alone."""

    def __init__(self, items: Sequence[str], seed: int, command: Sequence[str] = ()) -> None:
        """`items`: "family:kind", worked through in order. `command` replaces the rank's program in tests."""
        self.items = list(items)
        self.seed = seed
        self.command = tuple(command) or self.program()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._read = [0] * RANKS

    @staticmethod
    def missing() -> str | None:
        """Why no rank can be started on this machine; None where they can be."""
        return None

    @abstractmethod
    def program(self) -> tuple[str, ...]:
        """The command of a rank, to which folder, seed and items are added."""

    @abstractmethod
    def start(self) -> None:
        """Start both ranks. `self.folder` is empty and theirs."""

    @abstractmethod
    def stop(self) -> None:
        """Kill what still runs, and wait for it."""

    @abstractmethod
    def status(self) -> list[int | None]:
        """By rank: the exit status, negative for a signal; None while it runs."""

    @abstractmethod
    def stderr(self, rank: int) -> str:
        """What a rank has written there."""

    @property
    def arguments(self) -> list[str]:
        """What a rank's program is given."""
        return [*self.command, str(self.folder), str(self.seed), *self.items]

    @property
    def folder(self) -> Path:
        """Where the ranks write."""
        assert self._folder is not None
        return Path(self._folder.name)

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="mlxdiag-ranks-", ignore_cleanup_errors=True)
        for rank in range(RANKS):
            self._report(rank).touch()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            if self._folder is not None:
                self._folder.cleanup()

    def told(self, quiet: float | None = None) -> Iterator[tuple[int, Told]]:
        """What the ranks say, as they say it: (rank, word).

        Ends when both have ended, when one has ended badly, or when neither has said anything for `quiet`
        seconds; before the first word they get `startup`.
        """
        quiet = self.quiet if quiet is None else quiet
        heard, ending, patience = time.monotonic(), None, max(quiet, self.startup)
        while True:
            over = self.status()
            words = list(self._fresh())
            yield from words
            now = time.monotonic()
            if words:
                heard, patience = now, quiet
            if None not in over or now - heard > patience:
                yield from self._fresh()
                return
            if any(over):
                ending = ending or now + GRACE
                if now > ending:
                    return
            time.sleep(POLL)

    def killed(self) -> tuple[int, int] | None:
        """The first rank that a signal ended, and its exit status."""
        return next(((rank, code) for rank, code in self._ended() if code < 0), None)

    def ended(self) -> tuple[int, int] | None:
        """The first rank that ended badly, and its exit status."""
        return next(((rank, code) for rank, code in self._ended() if code), None)

    def _ended(self) -> Iterator[tuple[int, int]]:
        for rank, code in enumerate(self.status()):
            if code is not None:
                yield rank, code

    def _fresh(self) -> Iterator[tuple[int, Told]]:
        """Whole lines of the reports that were not read yet."""
        for rank in range(RANKS):
            with self._report(rank).open("rb") as file:
                file.seek(self._read[rank])
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self._read[rank] += len(line)
                    yield rank, msgspec.json.decode(line, type=Told)

    def _report(self, rank: int) -> Path:
        return self.folder / f"{rank}.jsonl"
