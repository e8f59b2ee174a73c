"""mlx-lm's own `BatchGenerator` under the probe: rows of every length join and leave, and nothing is found.

The rows of a step come from the generator (who is fed how much), everything else from the probe, so that a
wrong count on either side shows as a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.generate import BatchGenerator, GenerationBatch, PromptProcessingBatch
from msgspec import structs

from mlxdiag.inspect.findings import Report, codes
from mlxdiag.inspect.inspector import Inspector
from mlxdiag.models import catalogue
from mlxdiag.models.mlx import tiny
from mlxdiag.models.mlx.instance import MlxInstance
from mlxdiag.models.mlx.probe import CacheEvent, Probe, StepEvent, to_attention
from mlxdiag.traces.types import Attention, Entry, Header, Row

WINDOW = 8
Plant = Callable[[Attention], Attention]
FAMILIES = ("gemma3_text", "gpt_oss", "gemma3n", "exaone4")
EVENTS = ("merge", "extend", "filter", "extract", "finalize")


class Scribe:
    """Writes what a batch generator does as the entries of a trace."""

    def __init__(self, instance: MlxInstance) -> None:
        self.geometry = instance.geometry
        self.entries: list[Entry] = [instance.geometry.model_entry("tiny")]
        self.rows: list[Row] = []
        """Of the forwards that come next."""
        self.phase = ""
        self.feeding: list[int] | None = None
        self.done = 0
        self.forwards: list[StepEvent] = []

    def __call__(self, event: StepEvent | CacheEvent) -> None:
        if isinstance(event, StepEvent):
            self.forwards.append(event)
            rows = self._rows(event)
            attention = to_attention(event.attention, self.geometry)
            self.entries.append(
                Entry(step=len(self.forwards), phase=self.phase, rows=rows, attention=attention)
            )
        elif event.op == "merge" and event.declared is not None and event.sizes is not None:
            sizes = zip(event.declared, event.sizes, strict=True)
            self.entries.append(Entry(phase="merge", rows=[Row(declared=d, size=s) for d, s in sizes]))
        elif event.op in EVENTS and event.index in (0, None):
            self.entries.append(Entry(phase=event.op, rows=self.rows if event.op == "finalize" else None))

    def _rows(self, event: StepEvent) -> list[Row]:
        left = next(call.left_padding for call in event.attention if call.kind == "batch")
        assert left is not None
        assert len(left) == len(self.rows)
        rows = [structs.replace(row, left_padding=n or None) for row, n in zip(self.rows, left, strict=True)]
        if self.feeding is None:
            return rows
        q = event.q
        fed = [max(0, min(q, length - self.done)) for length in self.feeding]
        self.done += q
        return [
            structs.replace(row, tokens=n, right_padding=q - n or None)
            for row, n in zip(rows, fed, strict=True)
        ]

    def prompt(self, uids: list[int], lengths: list[int]) -> None:
        self.rows, self.phase = [Row(seq=f"s{uid}") for uid in uids], "chunk"
        self.feeding, self.done = lengths, 0

    def decode(self, uids: list[int]) -> None:
        self.rows, self.phase = [Row(seq=f"s{uid}", tokens=1) for uid in uids], "decode"
        self.feeding = None

    def responses(self, responses: list[Any]) -> None:
        """Book the tokens that the last decode of each sequence put out."""
        for response in responses:
            for place in reversed(range(len(self.entries))):
                entry = self.entries[place]
                seqs = [row.seq for row in entry.rows or ()]
                if entry.phase == "decode" and f"s{response.uid}" in seqs:
                    rows = list(entry.rows or ())
                    index = seqs.index(f"s{response.uid}")
                    finish = "length" if response.finish_reason == "length" else None
                    rows[index] = structs.replace(
                        rows[index], emitted=1, classes="t", ids=[response.token], finish=finish
                    )
                    self.entries[place] = structs.replace(entry, rows=rows)
                    break


@contextmanager
def watched(scribe: Scribe) -> Iterator[None]:
    prompt, step = PromptProcessingBatch.prompt, GenerationBatch._step

    def told_prompt(batch: Any, tokens: list[list[int]]) -> Any:
        scribe.prompt(list(batch.uids), [len(t) for t in tokens])
        return prompt(batch, tokens)

    def told_step(batch: Any) -> Any:
        scribe.decode(list(batch.uids))
        return step(batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PromptProcessingBatch, "prompt", told_prompt)
        patch.setattr(GenerationBatch, "_step", told_step)
        yield


def tokens(count: int, start: int) -> list[int]:
    return [3 + (start * 7 + i) % 200 for i in range(count)]


def inspected(entries: list[Entry]) -> Report:
    inspector = Inspector(Header())
    for entry in entries:
        inspector.feed(entry)
    return inspector.close()


@pytest.fixture(scope="module", params=FAMILIES)
def entries(request: pytest.FixtureRequest) -> list[Entry]:
    built = tiny.build(catalogue.config(request.param), window=WINDOW, positions=64)
    assert isinstance(built, MlxInstance), built
    return serve(built)


def serve(instance: MlxInstance) -> list[Entry]:
    """A busy little server: twelve prompts of 1 to 45 tokens in four waves, answers of 1 to 30."""
    scribe = Scribe(instance)
    probe = Probe(scribe)
    probe.watch(instance.model)
    prompts = [tokens(n, n) for n in (1, 2, 45, 9, 8, 7, 30, 16, 3, 17, 24, 5)]
    answers = [5, 30, 12, 3, 20, 8, 16, 1, 9, 25, 2, 14]
    with probe, watched(scribe):
        generator = BatchGenerator(
            instance.model, prefill_step_size=6, prefill_batch_size=3, completion_batch_size=6
        )
        waiting = list(zip(prompts, answers, strict=True))
        live: set[int] = set()
        for turn in range(400):
            if turn % 9 == 0 and waiting:
                wave, waiting = waiting[:3], waiting[3:]
                live |= set(generator.insert([p for p, _ in wave], max_tokens=[a for _, a in wave]))
            _, responses = generator.next()
            scribe.responses(responses)
            live -= {r.uid for r in responses if r.finish_reason is not None}
            if turn == 25 and live:
                generator.remove([min(live)])
                live.remove(min(live))
            if not live and not waiting:
                break
        else:
            pytest.fail(f"never finished: {live}")
        generator.close()
    mx.synchronize()
    return scribe.entries


def test_a_ragged_server_run_has_no_finding(entries: list[Entry]) -> None:
    report = inspected(entries)
    assert report.findings == []
    assert report.summary.not_observed == 0
    batched = [entry for entry in entries if entry.attention and len(entry.rows or ()) > 1]
    ragged = [
        entry for entry in batched if any(isinstance(call.offset, list) for call in entry.attention or ())
    ]
    assert len(ragged) > 20, "the run was to have ragged batches"
    past = [
        call
        for entry in ragged
        for call in entry.attention or ()
        if call.window and max(_list(call.offset)) > WINDOW
    ]
    assert past, "the run was to go past the window"


def nudge_keys(call: Attention) -> Attention:
    return structs.replace(call, k=call.k + 1)


def nudge_rope(call: Attention) -> Attention:
    rope = list(_list(call.rope))
    rope[-1] += 1
    return structs.replace(call, rope=rope)


def nudge_row(call: Attention) -> Attention:
    offset = list(_list(call.offset))
    offset[0] += 1
    return structs.replace(call, offset=offset, rope=offset)


def nudge_mask(call: Attention) -> Attention:
    return structs.replace(call, mask=(*call.mask[:-1], call.mask[-1] - 1))


def drop_mask(call: Attention) -> Attention:
    return structs.replace(call, mask="causal")


@pytest.mark.parametrize(
    ("plant", "families", "code"),
    [
        (nudge_keys, ("sliding",), "MD201"),
        (nudge_keys, ("full",), "MD201"),
        (nudge_row, ("sliding",), "MD202"),
        (nudge_row, ("sliding", "full"), "MD203"),
        (nudge_rope, ("full",), "MD203"),
        (nudge_mask, ("sliding",), "MD101"),
        (drop_mask, ("full",), "MD501"),
    ],
    ids=lambda value: (
        getattr(value, "__name__", None) or "-".join([value] if isinstance(value, str) else value)
    ),
)
def test_one_wrong_number_in_the_same_run_is_found(
    entries: list[Entry], plant: Plant, families: tuple[str, ...], code: str
) -> None:
    entries = list(entries)
    place = next(
        at
        for at, entry in enumerate(entries)
        if entry.phase == "decode" and len(entry.rows or ()) > 2 and _ragged(entry) and _padded(entry)
    )
    calls = entries[place].attention or []
    calls = [plant(call) if call.family in families else call for call in calls]
    entries[place] = structs.replace(entries[place], attention=calls)
    assert code in codes(inspected(entries).findings)


def _ragged(entry: Entry) -> bool:
    return all(
        isinstance(call.offset, list) and isinstance(call.mask, tuple) for call in entry.attention or ()
    )


def _padded(entry: Entry) -> bool:
    """Some row of a full layer's batch is shorter than its cursor: it has padding in front."""
    return any(min(_list(call.offset)) < (call.cursor or 0) for call in entry.attention or ())


def _list(offset: Any) -> list[int]:
    return offset if isinstance(offset, list) else [offset or 0]
