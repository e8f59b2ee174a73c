"""MD901 and MD902: the program ended badly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlxdiag.inspect import crash
from mlxdiag.inspect.crash import Crash
from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run
from mlxdiag.traces.types import Entry

_SAID = {
    crash.KEYS: "attention, last axis: the mask has {0} columns for {1} keys",
    crash.QUERIES: "attention, query axis: the mask has {0} rows for {1} queries",
    crash.LENGTH: "cache, axis 2 (length): {0} tokens against {1}",
    crash.BATCH: "batch axis: {0} rows against {1}",
}
_KILLED = frozenset({132, 134, 135, 136, 139, -4, -6, -7, -8, -11})
"""Exit codes of a process that died of SIGILL, SIGABRT, SIGBUS, SIGFPE or SIGSEGV, as shells and Python say
it."""


class ShapeCrash(Rule):
    """The program printed a broadcast or size error. This says which axis, which side is the mask, by how
    much.

    `Shapes (298,128) and (1,64,298,298)`: the side with fewer axes is the mask, the last axis the keys: a
    mask of 128 columns for 298 keys. `Shapes (1,8,96,128) and (1,8,256,128)` inside a merge: axis 2 is the
    length of a cache row, a declared size that is not the buffer's. The same message, another fault.

    What to do: the rules of the same step (MD101, MD102, MD103, MD210) name the cause when the trace holds
    it; otherwise replay the steps before it.

    Seen in: lablup/mlxcel#412, #419, 57b62a1; ml-explore/mlx-swift-lm#27; ml-explore/mlx-lm#735, #1116,
    #1139; Blaizzy/mlx-vlm#251, #1900; unslothai/unsloth#5309.
    """

    code = "MD901"
    name = "shape-crash"
    rests_on = "run"
    hint = "mlxdiag replay {trace} --misfit strict,rebuild"
    fires = (
        """
steps:
- {error: {text: "[broadcast_shapes] Shapes (298,128) and (1,64,298,298) cannot be broadcast."}}
""",
        """
steps:
- {phase: merge, error: {text: "[broadcast_shapes] Shapes (1,8,96,128) and (1,8,256,128) cannot be
   broadcast."}}
""",
        """
steps:
- {error: {text: "RuntimeError: The size of tensor a (1024) must match the size of tensor b (128) at
   non-singleton dimension 3"}}
""",
        """
steps:
- {error: {text: "mask key axis (9) is shorter than the returned key length (10)"}}
""",
    )
    quiet = (
        """
steps:
- {error: {text: "RuntimeError: [metal::malloc] Attempting to allocate 12884901888 bytes"}}
""",
        # A refusal that says so is no crash of shapes.
        """
steps:
- {error: {text: "NotImplementedError: RotatingKVCache Quantization NYI"}}
""",
    )

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        error = entry.error
        if error is None:
            return
        where = f"{error.where or ''} {entry.phase or ''}"
        read = crash.read(error.text or "", error.shapes or (), where)
        if read is None:
            return
        yield self.found(
            f"the program threw a shape error; {_said(read)}",
            step=entry.step,
            axis=read.axis,
            mask=_list(read.mask),
            other=_list(read.other),
            sizes=_list(read.sizes),
            by=read.by,
        )


def _said(read: Crash) -> str:
    if read.axis in _SAID and read.sizes is not None:
        return f"{_SAID[read.axis].format(*read.sizes)} ({read.by:+d})"
    if read.axis == crash.EMPTY:
        return "an array without entries where keys or rows should be"
    return "per-row vectors of different length, or a table of positions that does not fit the call"


def _list(shape: Sequence[int] | None) -> list[int] | None:
    return None if shape is None else list(shape)


class Aborted(Rule):
    """No `end` line: the program was killed inside a step, or it is still running.

    A recorder writes its last line when the program exits, however it exits; without it the process was
    killed or aborted (a C++ exception through a bridge ends this way), or it goes on. Each forward is written
    before it is evaluated, so the last entry is the one it died in. The file cannot tell the two apart: while
    the program runs, `mlxdiag inspect --follow` waits for the end.

    Asked only of files that a recorder wrote itself (the header has `level`) and not of imported logs or
    hand-written traces, which have no `end` by nature. An `end` with the exit
    code of a fatal signal counts too, unless an error of the last step already says why.

    What to do: look at the last step's calls, and at the program's stderr.

    Seen in: lablup/mlxcel#412, #419 (exit 134, the whole server).
    """

    code = "MD902"
    name = "aborted"
    rests_on = "run"
    fires = (
        """
source: {program: server}
level: shapes
steps:
- {step: 0, phase: prefill, rows: [{offset: 0, tokens: 8}]}
""",
        """
steps:
- {step: 0, phase: prefill, rows: [{offset: 0, tokens: 8}]}
- {phase: end, exit: 134}
""",
    )
    quiet = (
        # Written by hand: nobody promised an end.
        """
steps:
- {step: 0, phase: prefill, rows: [{offset: 0, tokens: 8}]}
""",
        # An imported log.
        """
source: {program: mlxcel-server, importer: mlxcel}
steps:
- {step: 0, phase: prefill, rows: [{offset: 0, tokens: 8}]}
""",
        """
level: shapes
steps:
- {step: 0, phase: prefill, rows: [{offset: 0, tokens: 8}]}
- {phase: end, exit: 1}
""",
        # The crash is one fault, and its text says more than the exit code.
        """
steps:
- {step: 0, phase: prefill, rows: [{offset: 0, tokens: 8}], error: {text: "Shapes (8,4) and (1,2,8,8) cannot
   be broadcast."}}
- {phase: end, exit: 134}
""",
    )

    def __init__(self) -> None:
        self.exit: int | None = None

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        if entry.phase == "end":
            self.exit = entry.exit
        return iter(())

    def on_end(self, run: Run) -> Iterator[Finding]:
        last = run.last
        killed = self.exit in _KILLED and (last is None or last.error is None)
        if not killed and (run.ended or not run.recorded):
            return
        step = last.step if last is not None else None
        died = "before its first step" if last is None else f"in or after step {step} ({last.kind})"
        yield self.found(
            f"the program ended by a fatal signal (exit {self.exit}), {died}"
            if killed
            else f"no `end` line: the program was killed {died}, or it is still running",
            step=step,
            cause=_told(last),
            exit=self.exit,
        )


def _told(last: Entry | None) -> list[str]:
    text = (last.error.text if last is not None and last.error else None) or ""
    return [f"its last words: {text.splitlines()[0][:200]}"] if text else []
