"""The far side of the pool: a process that imported the library once and forks a killable worker per task.

It never computes: a process that has used MLX holds threads and streams that a fork would break. Importing
mlx_lm and its families takes about 1.6 s and starts no thread, a fork 2 ms.

Tasks come in on standard input and events go out on standard output: see `messages`. When the
input ends, however that comes about, every worker is killed and the process ends.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from mlxdiag.audit.engine.messages import Ended, Importing, Item, Ready, Started, Task, encode

STDERR_KEPT = 4000
"""Bytes from the end of what a worker wrote to standard error."""
OVER = b""
"""The line with which a worker tells that it ends by itself: one that was ended inside a call does not."""
LOOK = 0.25
"""Seconds between two looks for workers that ended without a word."""
MOST_READS = 1000
"""From the pipe of a dead worker, into which something that it started may write without end."""
GRACE = 2.0
"""Seconds between SIGABRT, on which the worker says where it is, and SIGKILL."""


class Worker:
    """One forked process, seen from the server. It leads a group, so that what it starts ends with it."""

    def __init__(self, task: Task, pid: int, pipe: int, log: int) -> None:
        self.task = task
        self.pid = pid
        self.pipe = pipe
        self.log = log
        self.unfinished = b""
        self.said = b""
        self.over = False
        """It has come to the end of its task, or told what ended it."""
        self.status: int | None = None
        self.late = False
        self.deadline = time.monotonic() + task.limit
        for file in (pipe, log):
            os.set_blocking(file, False)

    def lines(self) -> list[bytes] | None:
        """What has come since the last call, in whole lines; None at the end."""
        data = _some(self.pipe)
        if data is None:
            return []
        *whole, self.unfinished = (self.unfinished + data).split(b"\n")
        if whole and not self.late:
            self.deadline = time.monotonic() + self.task.limit
        if OVER in whole:
            self.over = True
        return (
            None if not data or (self.over and whole == [OVER]) else [line for line in whole if line != OVER]
        )

    def listen(self) -> bool:
        """Keep the end of what it wrote to standard error; whether there may be more."""
        data = _some(self.log)
        self.said = (self.said + (data or b""))[-STDERR_KEPT:]
        return bool(data)

    def gone(self) -> bool:
        """Whether the process has ended, whoever may hold its pipes still."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if pid else None
        return self.status is not None

    def hurry(self) -> None:
        """Past its limit: ask it to say where it is, then kill it and all that it started."""
        if self.late:
            self._kill_group()
        else:
            _signal(os.kill, self.pid, signal.SIGABRT)
        self.late = True
        self.deadline = time.monotonic() + GRACE

    def kill(self) -> None:
        self._kill_group()
        self.reap()

    def reap(self) -> Ended:
        """The end of a process that has ended or is about to: one that is not, after all, is killed."""
        last = time.monotonic() + GRACE
        while not self.gone():
            self.listen()
            if time.monotonic() > last:
                self._kill_group()
            time.sleep(0.0005)
        self._kill_group()
        for _ in range(MOST_READS):
            if not self.listen():
                break
        os.close(self.pipe)
        os.close(self.log)
        code = os.waitstatus_to_exitcode(self.status or 0)
        return Ended(
            id=self.task.id,
            signal=0 if self.over else max(0, -code),
            code=max(0, code),
            late=self.late,
            abrupt=not self.over and code >= 0,
            stderr=self.said.decode("utf-8", "replace"),
        )

    def _kill_group(self) -> None:
        if not self.gone():
            _signal(os.kill, self.pid, signal.SIGKILL)
        _signal(os.killpg, self.pid, signal.SIGKILL)


def _some(file: int) -> bytes | None:
    """What a pipe holds now: nothing at its end, None where there is nothing yet."""
    try:
        return os.read(file, 1 << 16)
    except BlockingIOError:
        return None


def _signal(send: Callable[[int, int], None], target: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: a group of dead processes
        send(target, number)


class Server:
    """Forks a worker for each task as it comes, and passes on what the workers say."""

    def __init__(self, tasks: int, events: int) -> None:
        self.tasks = tasks
        self.events = events
        self.unread = b""
        self.workers: list[Worker] = []
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
            for worker in self.workers:
                worker.kill()

    def _turn(self) -> bool:
        now = time.monotonic()
        soonest = min((worker.deadline for worker in self.workers), default=None)
        # A worker whose pipe is held open by what it started says nothing when it ends: so it is looked for.
        ready = self.selector.select(None if soonest is None else min(LOOK, max(0.0, soonest - now)))
        for key, _ in ready:
            if key.fd == self.tasks:
                if not self._take():
                    return False
            elif key.data in self.workers:
                self._hear(key.data, key.fd)
        now = time.monotonic()
        for worker in list(self.workers):
            if worker.gone():
                self._end(worker)
            elif worker.deadline <= now:
                worker.hurry()
        return True

    def _take(self) -> bool:
        data = os.read(self.tasks, 1 << 16)
        *whole, self.unread = (self.unread + data).split(b"\n")
        for line in whole:
            worker = start(msgspec.json.decode(line, type=Task), self._inherited())
            self.workers.append(worker)
            write(self.events, encode(Started(id=worker.task.id, pid=worker.pid)))
            for file in (worker.pipe, worker.log):
                self.selector.register(file, selectors.EVENT_READ, worker)
        return bool(data)

    def _hear(self, worker: Worker, file: int) -> None:
        if file == worker.log:
            if not worker.listen():
                self.selector.unregister(file)
            return
        lines = worker.lines()
        for line in lines or ():
            write(self.events, line + b"\n")
        if lines is None or worker.over:
            self._end(worker)

    def _end(self, worker: Worker) -> None:
        """Pass on what it said before it ended, and how it ended."""
        for _ in range(MOST_READS):
            lines = worker.lines()
            for line in lines or ():
                write(self.events, line + b"\n")
            if not lines and (worker.over or not worker.unfinished):
                break
        self.workers.remove(worker)
        for file in (worker.pipe, worker.log):
            if file in self.selector.get_map():
                self.selector.unregister(file)
        write(self.events, encode(worker.reap()))

    def _inherited(self) -> list[int]:
        return [self.events, *(file for worker in self.workers for file in (worker.pipe, worker.log))]


def start(task: Task, inherited: Iterable[int]) -> Worker:
    """Fork a worker. Its standard output and error go to a pipe, of which the end is kept.

    `inherited`: what it must close, lest a dead server's pipes stay open in its workers.
    """
    reading, writing = os.pipe()
    hearing, log = os.pipe()
    pid = os.fork()
    if pid:
        with contextlib.suppress(OSError):  # whichever of the two comes first
            os.setpgid(pid, pid)
        os.close(writing)
        os.close(log)
        return Worker(task, pid, reading, hearing)
    code = 1
    try:
        os.setpgid(0, 0)
        for file in (reading, hearing, *inherited):
            os.close(file)
        code = work(task, writing, log)
    finally:
        os._exit(code)


def work(task: Task, pipe: int, log: int) -> int:
    """The life of a worker; its exit code: 1 where an exception ended it, whose traceback is in the log."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the parent, which then kills us
    nothing = os.open(os.devnull, os.O_RDONLY)
    for taken, place in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(taken, place)
    os.close(log)
    own = os.getpid()
    sys.stdout = sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115  lives as long as we
    faulthandler.enable(file=2)
    try:
        for value in resolve(task.call)(*task.arguments):
            if os.getpid() != own:
                os._exit(0)  # the library forked, and its child came back to us: there is one verdict
            write(pipe, encode(Item(id=task.id, value=value)))
        code = 0
    except BaseException:  # noqa: BLE001  told by the exit code and the log
        traceback.print_exc()
        code = 1
    if os.getpid() == own:
        write(pipe, OVER + b"\n")
    return code


def resolve(call: str) -> Callable[..., Any]:
    """The function that `module:function` names."""
    module, _, name = call.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


def write(file: int, data: bytes) -> None:
    """All of it; a pipe may take less at once."""
    while data:
        data = data[os.write(file, data) :]


def main(preload: str, deadly: dict[str, str] | None = None) -> None:
    """Import by calling `preload` (`module:function`), say so, and serve until the input ends.

    What `preload` yields are names of what it imports next. `deadly` is what it is given where that is not
    empty: names that it must not import, for they ended a server, with how.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    events = os.dup(1)
    os.dup2(2, 1)  # what libraries print while they are imported is no message
    try:
        for name in resolve(preload)(*([deadly] if deadly else ())) or ():
            write(events, encode(Importing(name=name)))
    except BaseException as error:  # noqa: BLE001  a broken native library may raise anything
        text = " ".join(str(error).split()) or type(error).__name__
        write(events, encode(Ready(error=text[:400])))
        return
    write(events, encode(Ready()))
    Server(0, events).serve()
