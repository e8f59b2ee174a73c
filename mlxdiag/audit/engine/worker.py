"""The far side of the pool: a process that imported the library once and forks a killable worker per task.

It never computes: a process that has used MLX holds threads and streams that a fork would break. Importing
mlx_lm and its families takes about 1.6 s and starts no thread, a fork 2 ms.

Messages are JSON lines: tasks come in on standard input, items and endings go out on standard output. When
the input ends, however that comes about, every worker is killed and the process ends.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import selectors
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from typing import IO, Any

import msgspec

STDERR_KEPT = 4000
"""Bytes from the end of what a worker wrote to standard error."""
GRACE = 2.0
"""Seconds between SIGABRT, on which the worker says where it is, and SIGKILL."""


class Task(msgspec.Struct, kw_only=True):
    """A call that a worker makes; each item that the call yields is sent on as it comes."""

    id: int
    call: str
    """`module:function`, which returns an iterable of what JSON holds."""
    arguments: list[Any]
    limit: float
    """Seconds that may pass between two items."""


class Item(msgspec.Struct, kw_only=True, tag="item"):
    id: int
    value: Any


class Ended(msgspec.Struct, kw_only=True, tag="ended"):
    """A worker is gone, its task done or not."""

    id: int
    signal: int = 0
    """What killed it; 0 where nothing did."""
    code: int = 0
    late: bool = False
    """It was killed for being past its time limit."""
    stderr: str = ""


class Ready(msgspec.Struct, kw_only=True, tag="ready"):
    """The server has imported what it should. `error` where it could not."""

    error: str = ""


Event = Item | Ended | Ready


class Worker:
    """One forked process, seen from the server."""

    def __init__(self, task: Task, pid: int, pipe: int, log: IO[bytes]) -> None:
        self.task = task
        self.pid = pid
        self.pipe = pipe
        self.log = log
        self.unfinished = b""
        self.late = False
        self.deadline = time.monotonic() + task.limit

    def lines(self) -> list[bytes] | None:
        """What has come since the last call, in whole lines; None at the end."""
        data = os.read(self.pipe, 1 << 16)
        if not data:
            return None
        *whole, self.unfinished = (self.unfinished + data).split(b"\n")
        if whole and not self.late:
            self.deadline = time.monotonic() + self.task.limit
        return whole

    def hurry(self) -> None:
        """Past its limit: ask it to say where it is, then kill it."""
        self._signal(signal.SIGKILL if self.late else signal.SIGABRT)
        self.late = True
        self.deadline = time.monotonic() + GRACE

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self.reap()

    def reap(self) -> Ended:
        """Wait for the end of a process whose pipe is closed."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self.pipe)
        code = os.waitstatus_to_exitcode(status)
        size = self.log.seek(0, os.SEEK_END)
        self.log.seek(max(0, size - STDERR_KEPT))
        text = self.log.read().decode("utf-8", "replace")
        self.log.close()
        return Ended(id=self.task.id, signal=max(0, -code), code=max(0, code), late=self.late, stderr=text)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)


class Server:
    """Forks a worker for each task as it comes, and passes on what the workers say."""

    def __init__(self, tasks: int, events: int) -> None:
        self.tasks = tasks
        self.events = events
        self.unread = b""
        self.selector = selectors.DefaultSelector()
        self.selector.register(tasks, selectors.EVENT_READ)

    def serve(self) -> None:
        """Until the input ends or nobody reads the output."""
        try:
            while self._turn():
                pass
        except BrokenPipeError:
            pass
        finally:
            for worker in self._workers():
                worker.kill()

    def _turn(self) -> bool:
        now = time.monotonic()
        soonest = min((worker.deadline for worker in self._workers()), default=None)
        ready = self.selector.select(None if soonest is None else max(0.0, soonest - now))
        for key, _ in ready:
            if key.fd == self.tasks:
                if not self._take():
                    return False
            else:
                self._hear(key.data)
        now = time.monotonic()
        for worker in self._workers():
            if worker.deadline <= now:
                worker.hurry()
        return True

    def _take(self) -> bool:
        data = os.read(self.tasks, 1 << 16)
        *whole, self.unread = (self.unread + data).split(b"\n")
        for line in whole:
            worker = start(msgspec.json.decode(line, type=Task), self._inherited())
            self.selector.register(worker.pipe, selectors.EVENT_READ, worker)
        return bool(data)

    def _hear(self, worker: Worker) -> None:
        lines = worker.lines()
        if lines is None:
            self.selector.unregister(worker.pipe)
            write(self.events, encode(worker.reap()))
            return
        for line in lines:
            write(self.events, line + b"\n")

    def _inherited(self) -> list[int]:
        return [self.events, *(worker.pipe for worker in self._workers())]

    def _workers(self) -> list[Worker]:
        return [key.data for key in self.selector.get_map().values() if key.data is not None]


def start(task: Task, inherited: Iterable[int]) -> Worker:
    """Fork a worker. Its standard output and error go to a file without a name.

    `inherited`: what it must close, lest a dead server's pipes stay open in its workers.
    """
    log = tempfile.TemporaryFile()  # noqa: SIM115  read when the worker has ended
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Worker(task, pid, reading, log)
    code = 1
    try:
        for file in (reading, *inherited):
            os.close(file)
        code = work(task, writing, log.fileno())
    finally:
        os._exit(code)


def work(task: Task, pipe: int, log: int) -> int:
    """The life of a worker; its exit code: 1 where an exception ended it, whose traceback is in the log."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the parent, which then kills us
    nothing = os.open(os.devnull, os.O_RDONLY)
    for taken, place in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(taken, place)
    sys.stdout = sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115  lives as long as we
    faulthandler.enable(file=2)
    try:
        for value in resolve(task.call)(*task.arguments):
            write(pipe, encode(Item(id=task.id, value=value)))
    except BaseException:  # noqa: BLE001  told by the exit code and the log
        traceback.print_exc()
        return 1
    return 0


def resolve(call: str) -> Callable[..., Any]:
    """The function that `module:function` names."""
    module, _, name = call.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


def encode(event: Event) -> bytes:
    return msgspec.json.encode(event) + b"\n"


def write(file: int, data: bytes) -> None:
    """All of it; a pipe may take less at once."""
    while data:
        data = data[os.write(file, data) :]


def main(preload: str) -> None:
    """Import by calling `preload` (`module:function`), say so, and serve until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    events = os.dup(1)
    os.dup2(2, 1)  # what libraries print while they are imported is no message
    try:
        resolve(preload)()
    except (Exception, SystemExit) as error:  # noqa: BLE001  a broken native library may raise anything
        text = " ".join(str(error).split()) or type(error).__name__
        write(events, encode(Ready(error=text[:400])))
        return
    write(events, encode(Ready()))
    Server(0, events).serve()
