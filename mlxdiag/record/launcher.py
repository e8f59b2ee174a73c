"""Start a program with the start-up hook in front of it, pass signals on, and say what came of it."""

from __future__ import annotations

import itertools
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from mlxdiag.errors import MlxdiagError, UnreadableError, UsageError
from mlxdiag.record import ring
from mlxdiag.record.options import MAIN, REPORT, STARTUP, Options
from mlxdiag.traces.reader import open_stream
from mlxdiag.traces.types import Entry
from mlxdiag.traces.writer import Appender

FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
FROM_TERMINAL = ("SIGINT", "SIGQUIT")


class Outcome(NamedTuple):
    """How the program ended, and lines to show."""

    exit_code: int
    lines: list[str]


def variables(options: Options, environment: Mapping[str, str]) -> dict[str, str]:
    """What must be set for a Python program that anything starts, so that it records itself."""
    path = environment.get("PYTHONPATH")
    return {
        "PYTHONPATH": f"{STARTUP}{os.pathsep}{path}" if path else str(STARTUP),
        **options.environment(),
    }


def run(program: Sequence[str], options: Options, *, force: bool = False) -> Outcome:
    """Run to the end. The exit code is the program's, or 128 and the number of the signal that ended it.

    Raises:
        UsageError: the trace exists already, its folder does not, or the program cannot be started.
    """
    _make_room(options, force)
    with tempfile.TemporaryDirectory(prefix="mlxdiag-") as folder:
        report = Path(folder, "report")
        environment = {**os.environ, **variables(options, os.environ), REPORT: str(report)}
        environment.pop(MAIN, None)
        code = _run(program, environment, options)
        told = report.read_text("utf-8").split("\n") if report.exists() else []
    return Outcome(code, list(_summary(options, code, Told(told))))


def _make_room(options: Options, force: bool) -> None:
    path = options.path
    if path.suffix == ".zst":
        raise UsageError(f"{path}: a recording is written uncompressed, so that a crash loses nothing")
    if path.is_dir():
        raise UsageError(f"{path}: is a directory")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: is no file but a device or a pipe")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent}: no such directory")
    if path.exists() and not force:
        raise UsageError(f"{path}: exists already; --force overwrites it")
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"{path}: cannot be replaced: {error.strerror}") from None
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"{path.parent}: cannot be written to")


def _run(program: Sequence[str], environment: Mapping[str, str], options: Options) -> int:
    sys.stdout.flush()
    with _forwarding(options) as children:
        try:
            child = subprocess.Popen(program, env=environment)
        except OSError as error:
            raise UsageError(_not_started(program, error)) from None
        children.append(child)
        code = child.wait()
    return 128 - code if code < 0 else code


def _not_started(program: Sequence[str], error: OSError) -> str:
    name = program[0]
    if Path(name).is_file() and not os.access(name, os.X_OK):
        return f"{name}: is a file, and no program: try `mlxdiag record ... -- python {shlex.join(program)}`"
    if Path(name).is_file() and not Path(name).parent.name:
        return f"{name}: no such program on the path: try ./{name}"
    if isinstance(error, FileNotFoundError):
        return f"{name}: no such program"
    return f"{name}: cannot be started: {error.strerror}"


@contextmanager
def _forwarding(options: Options) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Pass signals on to the child; a terminal sends its own to both already, and SIGUSR1 is the ring's."""
    children: list[subprocess.Popen[bytes]] = []
    shared = _owns_terminal()

    def forward(number: int, _frame: FrameType | None) -> None:
        for child in children:
            child.send_signal(number)

    def ignore(number: int, _frame: FrameType | None) -> None:
        """The child has been sent it too."""

    taken = itertools.count(1)

    def freeze(_number: int, _frame: FrameType | None) -> None:
        number = next(taken)
        if number <= ring.COPIES:
            ring.freeze(options.path, f"frozen-{number}")

    before = {}
    for name in FORWARDED:
        number = getattr(signal, name, None)
        if number is not None:
            chosen = ignore if shared and name in FROM_TERMINAL else forward
            before[number] = signal.signal(number, freeze if options.ring and name == "SIGUSR1" else chosen)
    try:
        yield children
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _owns_terminal() -> bool:
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


class Told:
    """What the processes have reported."""

    def __init__(self, lines: Sequence[str]) -> None:
        words = [line.split(" ", 4) for line in lines if line]
        self.pythons = sum(1 for w in words if w[0] == "python")
        self.importers = sum(1 for w in words if w[0] == "library")
        self.opened = list(dict.fromkeys(" ".join(w[1:]) for w in words if w[0] == "file"))


def _summary(options: Options, code: int, told: Told) -> Iterator[str]:
    found = []
    for path in map(Path, told.opened):
        if options.ring:
            ring.join(path)
        if not path.exists():
            continue
        found.append(path)
        if path == options.path:
            _end(path, code)
        yield _counted(path)
    if found:
        return
    if not told.pythons:
        yield (
            "nothing recorded: the start-up hook was never run. It needs a Python program; `python -I`, `-E` "
            "and `-S` switch it off (use `with mlxdiag.recording(...)` there)"
        )
    elif not told.importers:
        yield "nothing recorded: the program never imported mlx_lm, nor a model of transformers"
    else:
        yield (
            "nothing recorded: the program imported mlx_lm or transformers but ran no model that generates "
            "(encoders and encoder-decoders are not recorded)"
        )


def _end(path: Path, code: int) -> None:
    """The last line, with the exit code that only the launcher knows."""
    try:
        with Appender(path) as file:
            file.write(Entry(phase="end", exit=code))
    except MlxdiagError as error:
        raise UnreadableError(f"{path}: the recording cannot be completed: {error}") from None


def _counted(path: Path) -> str:
    """Steps are what `inspect` counts as such: forwards, and what happened between them."""
    steps, torn = 0, False
    sequences: set[str | None] = set()
    with open_stream(path) as stream:
        for entry in stream:
            steps += entry.kind not in ("model", "end")
            sequences.update(row.seq for row in entry.rows or ())
        torn = stream.truncated
    note = ", cut off" if torn else ""
    told = f"{steps} step{'s' * (steps != 1)} of {len(sequences)} sequence{'s' * (len(sequences) != 1)}"
    return f"recorded {told} in {path}{note}; mlxdiag inspect {path}"
