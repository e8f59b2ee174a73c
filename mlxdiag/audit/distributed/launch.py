"""Two ranks on the loopback: started, watched, and killed with all that they started."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from mlxdiag.audit.distributed.rank import Told

RANKS = 2
GRACE = 1.0
"""Seconds that the other rank gets, once one has ended badly, to say what it has to say."""
STARTUP = 60.0
"""Seconds until the first word: two processes import the library and find each other."""
POLL = 0.05


class Launch:
    """One start of both ranks over a list of items. Use as a context: leaving it kills what still runs."""

    def __init__(self, items: Sequence[str], seed: int, command: Sequence[str] | None = None) -> None:
        """`items`: "family:kind", worked through in order. `command` replaces the rank's program in tests."""
        self.items = list(items)
        self.seed = seed
        self.command = command or (sys.executable, "-m", "mlxdiag.audit.distributed.rank")
        self.processes: list[subprocess.Popen[bytes]] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._read = [0] * RANKS

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="mlxdiag-ranks-")
        hosts = self._path("hosts.json")
        hosts.write_text(json.dumps([[f"127.0.0.1:{port}"] for port in free_ports(RANKS)]))
        for rank in range(RANKS):
            environment = {
                **os.environ,
                "MLX_RANK": str(rank),
                "MLX_HOSTFILE": str(hosts),
                "PYTHONFAULTHANDLER": "1",
            }
            self._report(rank).touch()
            with self._path(f"{rank}.err").open("wb") as errors:
                self.processes.append(
                    subprocess.Popen(
                        [*self.command, str(self._report(rank)), str(self.seed), *self.items],
                        env=environment,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=errors,
                        start_new_session=True,
                    )
                )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes:
            # It may have ended, and nothing of its group be left.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if self._folder is not None:
            self._folder.cleanup()

    def told(self, quiet: float) -> Iterator[tuple[int, Told]]:
        """What the ranks say, as they say it: (rank, word). Ends when both have ended, when one has ended
        badly, or when neither has said anything for `quiet` seconds; before the first word they get STARTUP.
        """
        heard, ending, patience = time.monotonic(), None, max(quiet, STARTUP)
        while True:
            over = [process.poll() for process in self.processes]
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
        for rank, process in enumerate(self.processes):
            code = process.poll()
            if code is not None:
                yield rank, code

    def stderr(self, rank: int) -> str:
        """What a rank has written there."""
        return self._path(f"{rank}.err").read_text(errors="replace")

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
        return self._path(f"{rank}.jsonl")

    def _path(self, name: str) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / name


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody uses at the moment."""
    held = [socket.socket() for _ in range(count)]
    try:
        for sock in held:
            sock.bind(("127.0.0.1", 0))
        return [int(sock.getsockname()[1]) for sock in held]
    finally:
        for sock in held:
            sock.close()
