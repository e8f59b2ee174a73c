"""Starts the fork server, hands it tasks, and yields what the workers say; nothing of it is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

import mlxdiag
from mlxdiag.audit.engine.messages import Ended, Event, Importing, Item, Ready, Started, Task, encode
from mlxdiag.errors import MlxdiagError, UnjudgedError, UnreadableError, UsageError

BOOT = (
    "import json, sys; given = json.loads(sys.argv[1]); "
    "sys.path[:0] = given['first']; sys.path.extend(given['last']); "
    "from mlxdiag.audit.engine.worker import main; main(given['preload'], given['deadly'])"
)
PATIENCE = 5.0
"""Seconds that the server has to kill and reap its workers before everything is killed."""
MOST_DEADLY = 32
"""Parts of a library that may end a server, before the whole is given up."""
LIMIT = 60.0
"""Seconds that one cell may take, the building of its model included. A cell takes 0.05."""


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """Where a library is found: which interpreter runs it, and what comes first and last on its path."""

    python: str = sys.executable
    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    label: str = "installed"


HERE = Site()


class Pool:
    """A context: the server lives inside it, and no process outlives it."""

    def __init__(self, preload: str, *, jobs: int, site: Site = HERE) -> None:
        self.preload = preload
        self.jobs = max(1, jobs)
        self.site = site
        self.waiting: deque[Task] = deque()
        self.running: set[int] = set()
        self.groups: dict[int, int] = {}
        """By task: the process group of its worker."""
        self.count = 0
        self.importing = ""
        self.deadly: dict[str, str] = {}
        """Parts of the library whose import ended a server, with how it ended."""

    def __enter__(self) -> Pool:
        while not self._started():
            pass
        return self

    def _started(self) -> bool:
        """Start a server and wait until it is ready. False where importing a part of the library ended it:
        the next one leaves that part out."""
        own = str(Path(mlxdiag.__file__).parents[1])
        given = {
            "first": self.site.first,
            "last": (own, *self.site.last),
            "preload": self.preload,
            "deadly": self.deadly,
        }
        self.log = tempfile.TemporaryFile()  # noqa: SIM115  closed with the server
        try:
            self.process = subprocess.Popen(
                [self.site.python, "-P", "-c", BOOT, json.dumps(given)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.log,
                env={**os.environ, "PYTHONHASHSEED": "0"},
                start_new_session=True,  # one group to kill, and Ctrl-C reaches us alone
            )
        except OSError as error:
            self.log.close()
            raise UnjudgedError(f"cannot run {self.site.python}: {error.strerror}") from None
        try:
            return self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def submit(self, call: str, *arguments: Any, limit: float = LIMIT) -> int:
        """Queue a call for a worker of its own; the id by which `events` names it."""
        self.count += 1
        self.waiting.append(Task(id=self.count, call=call, arguments=list(arguments), limit=limit))
        return self.count

    def events(self) -> Iterator[Item | Ended]:
        """What the workers say, until every task has ended. More may be submitted meanwhile.

        Raises:
            UnjudgedError: the server itself died.
        """
        self._feed()
        while self.running:
            event = self._read()
            if isinstance(event, Ready | Importing):
                continue
            if isinstance(event, Started):
                self.groups[event.id] = event.pid
                continue
            if isinstance(event, Ended):
                self.running.discard(event.id)
                self.groups.pop(event.id, None)
            yield event
            self._feed()

    def call(self, call: str, *arguments: Any, limit: float = LIMIT) -> list[Any]:
        """Make one call and wait for all that it yields. Nothing else may be running.

        Raises:
            MlxdiagError: the one that the call raised.
            UnjudgedError: the worker died, or the call raised something else; the message ends with what it
                said last.
        """
        self.submit(call, *arguments, limit=limit)
        values = []
        for event in self.events():
            if isinstance(event, Item):
                values.append(event.value)
            elif event.code or event.signal or event.abrupt:
                raise _raised(last_line(event.stderr) or f"a worker ended with code {event.code}")
        return values

    def close(self) -> None:
        """End every process of the pool. The server reaps its workers; what does not end is killed."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            pass
        finally:
            orphans = self.groups.values() if self.process.poll() != 0 else ()
            for group in (self.process.pid, *orphans):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, signal.SIGKILL)
            self.process.wait()
            self.log.close()

    def _wait_until_ready(self) -> bool:
        self.importing = ""
        try:
            while isinstance(event := self._read(), Importing):
                self.importing = event.name
        except UnjudgedError:
            if not self.importing or len(self.deadly) >= MOST_DEADLY:
                raise
            self.close()
            self.deadly[self.importing] = ending(self.process.returncode)
            return False
        if isinstance(event, Ready) and event.error:
            raise UnjudgedError(event.error)
        self.importing = ""
        return True

    def _feed(self) -> None:
        while self.waiting and len(self.running) < self.jobs:
            task = self.waiting.popleft()
            self.running.add(task.id)
            assert self.process.stdin is not None
            try:
                self.process.stdin.write(encode(task))
                self.process.stdin.flush()
            except BrokenPipeError:
                raise self._gone() from None

    def _read(self) -> Event:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.endswith(b"\n"):
            raise self._gone()
        event: Event = msgspec.json.decode(line, type=Event)
        return event

    def _gone(self) -> UnjudgedError:
        self.log.seek(0)
        said = last_line(self.log.read().decode("utf-8", "replace"))
        at = f" while it imported {self.importing}" if self.importing else ""
        return UnjudgedError(
            f"the process that runs {self.site.label} ended{at}{f': {said}' if said else ''}"
        )


def _raised(said: str) -> MlxdiagError:
    """The error that ends a worker's traceback: one of mlxdiag's own as it was, any other as unjudged."""
    for kind in (UsageError, UnreadableError, UnjudgedError):
        head = f"{kind.__module__}.{kind.__qualname__}: "
        if said.startswith(head):
            return kind(said.removeprefix(head))
    return UnjudgedError(said)


def ending(code: int) -> str:
    """How a process ended, by the return code that `subprocess` gives."""
    return f"ended with exit code {code}" if code >= 0 else f"died of {signal_name(-code)}"


def signal_name(number: int) -> str:
    """`SIGABRT`; `signal 40` for one that has no name here."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def last_line(text: str) -> str:
    """The last line that says something; of a traceback the error."""
    return next((line.strip()[:400] for line in reversed(text.splitlines()) if line.strip()), "")
