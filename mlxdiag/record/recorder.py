"""The recorder: from what the probe saw, and what hooks know of the scheduler, to lines of a trace.

How a hook talks to it, all in the thread of the forward:

- `expect(rows)` just before a forward: whose rows these are and where the scheduler believes they are.
  Without it a row is named by its cache's lineage (`seq-1`, ...) and its offset is the cache's own.
- `bind(uids, names)`: the rows of these caches belong to these sequences; a later copy, merge, filter or
  extract of them keeps the names.
- `emitted(seq, ids)`: tokens that became known as Python ints. They are written with the sequence's next
  line, so that no write waits for them; `finish` writes what is left at once.
- `write(entry)`: an event of the scheduler's own, as adopt.

Nothing here may disturb the program: `guarded` turns any fault into one line on stderr and an end of the
recording.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from mlxdiag.errors import MlxdiagError
from mlxdiag.models.events import Event, StepEvent
from mlxdiag.models.patches import Patches
from mlxdiag.record import forwards
from mlxdiag.record.debts import Debts
from mlxdiag.record.digests import Digests
from mlxdiag.record.events import Gathered, entry_of
from mlxdiag.record.forks import Forks
from mlxdiag.record.labels import Labels
from mlxdiag.record.lineage import Lineage
from mlxdiag.record.origins import Origins
from mlxdiag.record.output import Output
from mlxdiag.record.speech import Speech
from mlxdiag.record.watched import Models, Watched
from mlxdiag.traces.types import Entry, Row, Scheduler
from mlxdiag.traces.types import Output as Taken

Named = tuple[list[Row], str | None] | None
"""Rows and phase of a forward, as far as a hook knows them."""
SKIPPED: Named = ([], None)
"""A forward that is none of the program's: a warm-up, or a capture."""


class _Thread(threading.local):
    rows: list[Row] | None = None
    phase: str | None = None
    sampled: list[int] | None = None
    namer: Callable[[StepEvent], Named] | None = None
    deaf: bool = False

    def __init__(self) -> None:
        self.recent: deque[tuple[str, str]] = deque(maxlen=16)


class Recorder:
    """Stateful, one for each process that records. Safe for several threads."""

    def __init__(self, output: Output, *, tokens: bool = False) -> None:
        self.output = output
        self.lineage = Lineage()
        self.origins = Origins()
        self.models = Models()
        self.debts = Debts()
        self.scheduler = Scheduler()
        """What hooks know of the program's scheduler by the first entry, with which the header is written."""
        self.alive = True
        self.on_fault: Callable[[], None] = lambda: None
        """Called once when the recorder steps aside: takes the probe out."""
        self.patches = Patches()
        """What hooks have replaced; the originals are back when the recording ends."""
        self.step = 0
        """Number of the next forward."""
        self._speech = Speech(self.models, Labels(raw=tokens))
        self._gathered: dict[int, Gathered] = {}
        """Cache events of each thread that are still being collected: a prompt cache is a list of caches."""
        self._verified: dict[tuple[str | None, str], int] = {}
        """Drafts of the last verify block of each model and sequence, until its rollback."""
        self._digests = Digests()
        self._forks = Forks(self.lineage)
        self._thread = _Thread()
        self._lock = threading.RLock()

    @property
    def recent(self) -> deque[tuple[str, str]]:
        """Model and phase of the last forwards of this thread; whoever asks for it clears it."""
        return self._thread.recent

    def blind(self, entry: Entry) -> None:
        """A step in which the hooks saw nothing."""
        with self._lock:
            self._settle()
            self._put(msgspec.structs.replace(entry, step=self.step))
            self.step += 1

    # What hooks say.

    def expect(self, rows: list[Row], phase: str | None = None) -> None:
        """The rows of this thread's next forward, in batch order: `seq`, `offset` as the scheduler believes,
        `tokens` and paddings.
        """
        self._thread.rows, self._thread.phase = rows, phase

    def naming(self, namer: Callable[[StepEvent], Named] | None) -> None:
        """Ask `namer` for rows and phase of every forward of this thread that nothing was expected of."""
        self._thread.namer = namer

    def samples(self, queries: list[int]) -> None:
        """The query that each row's token is taken from; said while a forward of this thread is named."""
        self._thread.sampled = queries

    @contextmanager
    def unheard(self) -> Iterator[None]:
        """Cache operations of this thread meanwhile are no sequence's; the hook tells what came of them."""
        before, self._thread.deaf = self._thread.deaf, True
        try:
            yield
        finally:
            self._thread.deaf = before

    def bind(self, uids: list[int], names: list[str]) -> None:
        """The rows of these caches are these sequences."""
        with self._lock:
            self.lineage.bind(uids, names)

    def names_of(self, uids: list[int]) -> list[str] | None:
        """The sequences in a prompt cache, by the uids of its caches, where they are known."""
        return self.lineage.of(uids[0]) if uids else None

    def schedules(self, **settings: int | None) -> None:
        """What a hook knows of the program's scheduler, by fields of `Scheduler`; the first to say counts."""
        known = msgspec.structs.asdict(self.scheduler)
        more = {name: value for name, value in settings.items() if known[name] is None}
        self.scheduler = msgspec.structs.replace(self.scheduler, **more)

    def emitted(
        self, seq: str, ids: Iterable[int], total: int | None = None, model: str | None = None
    ) -> None:
        """Generated tokens of a sequence, in order; `total` is the length of its prompt.

        `model` chose them, where a draft model runs the same sequence.
        """
        with self._lock:
            self._speech.said(seq, ids, total, model)

    def finish(self, seq: str, model: str | None, finish: str | None = None) -> None:
        """A sequence is over: write the tokens that no later line of its own can carry."""
        with self._lock:
            (row,) = self._speech.carried([Row(seq=seq, finish=finish)], model)
            if row.emitted or finish is not None:
                self.write(Entry(phase="note", model=model, rows=[row]))

    def write(self, entry: Entry) -> None:
        """An event between forwards; it shares the number of the forward before."""
        with self._lock:
            self._settle()
            if entry.model is not None and self.models.get(entry.model) is None:
                self._announce(entry.model)
            self._put(msgspec.structs.replace(entry, step=max(self.step - 1, 0)))

    # What the probe says.

    def sink(self, event: Event) -> None:
        """Takes every event of the probe. Never raises."""
        self.guarded(self._take, event)

    def guarded(self, call: Callable[..., Any], *args: Any) -> Any:
        """Run a part of the recorder inside somebody's program: a fault ends the recording, nothing else."""
        if not self.alive:
            return None
        try:
            return call(*args)
        except Exception as error:  # noqa: BLE001  whatever it is, it must not reach the program
            self.fault(error)
            return None

    def fault(self, error: Exception) -> None:
        """Say so once, and step aside."""
        if not self.alive:
            return
        self.alive = False
        text = str(error) if isinstance(error, MlxdiagError) else f"{type(error).__name__}: {error}"
        sys.stderr.write(f"mlxdiag: recording stopped, the program goes on: {text}\n")
        self.on_fault()

    def close(self, exit_code: int | None = None, end: bool = True) -> None:
        """Write what is still held and, with `end`, the last line."""
        if self.alive:
            self.guarded(self._close, exit_code, end)
        self.alive = False

    def forked(self, output: Output) -> None:
        """Go on in the child of a fork: a file of its own, whose first step is 0."""
        self.output = output
        self.step = 0
        self._lock = threading.RLock()
        self.models.forget()
        self._speech.forget()
        self._digests.forget()
        self._gathered.clear()
        self._verified.clear()

    def _close(self, exit_code: int | None, end: bool) -> None:
        with self._lock:
            self._settle()
            for digest in self._digests.rest():
                self._put(digest)
            for seq, model in self._speech.rest():
                self.finish(seq, model)
            if end and self.output.started:
                self.output.put(Entry(phase="end", exit=exit_code))
            self.output.close()

    def _take(self, event: Event) -> None:
        with self._lock:
            if isinstance(event, StepEvent):
                if self._gathered:
                    self._settle()
                self._forward(event)
                return
            self.models.happened(event)
            if self._thread.deaf:
                return
            if event.op == "copy":
                adopted = self._forks.copied(event)
                if adopted is not None:
                    self.write(adopted)
                return
            thread = threading.get_ident()
            held = self._gathered.get(thread)
            if held is not None and not held.takes(event):
                self._settle(thread)
                held = None
            if held is None:
                held = self._gathered[thread] = Gathered(event.op)
            held.add(event, self.lineage)

    def _settle(self, thread: int | None = None) -> None:
        """Write the cache events that this thread, or every thread, has completed."""
        for number in [thread] if thread is not None else list(self._gathered):
            held = self._gathered.pop(number, None)
            if held is not None:
                entry = entry_of(held, self._verified, self.models.geometry(held.model))
                if entry is not None:
                    self._put(msgspec.structs.replace(entry, step=max(self.step - 1, 0)))

    def _forward(self, event: StepEvent) -> None:
        named = self._named(event)
        sampled, self._thread.sampled = self._thread.sampled, None
        if named is SKIPPED:
            return
        watched = self.models.get(event.model) or self._announce(event.model)
        arriving = self.origins.arriving(event)
        if arriving is not None:
            self.write(arriving)
        rows, phase = self._rows(event, named)
        if phase == "verify":
            for row in rows:
                if row.seq is not None:
                    self._verified[event.model, row.seq] = (row.tokens or 1) - 1
        entry = Entry(
            step=self.step,
            phase=phase,
            model=event.model,
            rows=self._speech.carried(rows, event.model),
            attention=forwards.calls_of(event, watched),
            error=forwards.fault_of(event),
            output=[Taken(row=query) for query in sampled] if sampled is not None else None,
            note=event.unseen or forwards.unread(watched.visible),
        )
        if event.digests:
            for digest in self._digests.ready(self.step, event, rows, watched.geometry):
                self._put(digest)
        self._thread.recent.append((event.model, phase))
        self.step += 1
        self._put(entry)

    def _announce(self, name: str) -> Watched:
        watched, entry = self.models.announced(name)
        self.output.put(entry)
        return watched

    def _named(self, event: StepEvent) -> Named:
        """What hooks know of a forward of this thread."""
        thread = self._thread
        rows, phase = thread.rows, thread.phase
        thread.rows = thread.phase = None
        if rows is not None:
            self.lineage.bind(event.uids, [row.seq or "" for row in rows])
            return rows, phase
        return thread.namer(event) if thread.namer is not None else None

    def _rows(self, event: StepEvent, named: Named) -> tuple[list[Row], str]:
        rows, phase = named or (self.own_rows(event), None)
        return rows, phase or forwards.phase_of(event, rows)

    def own_rows(self, event: StepEvent, name: str | None = None) -> list[Row]:
        """Rows named by the lineage of their caches; a single one whose cache is new may be given a name."""
        names = self.lineage.rows(event.uids, event.batch, name)
        offset = event.offset
        if len(names) == 1 and type(offset) is int and event.right_padding is None:
            return [Row(seq=names[0], offset=offset, tokens=event.q)]
        offsets: list[Any] = offset if isinstance(offset, list) else [offset] * len(names)
        if len(offsets) != len(names):
            offsets = [None] * len(names)
        right = event.right_padding or [0] * len(names)
        return [
            Row(seq=seq, offset=at, tokens=event.q - padding, right_padding=padding or None)
            for seq, at, padding in zip(names, offsets, right, strict=True)
        ]

    def _put(self, entry: Entry) -> None:
        if self.alive:
            self.output.put(entry)
