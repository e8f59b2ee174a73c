"""A script of one's own that calls `batch_generate`, unmodified, under `mlxdiag record`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.reader import read
from mlxdiag.traces.types import Row, Trace
from tests.record import tinymodel
from tests.record.accounts import accounts
from tests.record.serving import environment, recorded

SCRIPT = """\
import json, sys
from mlx_lm import load, batch_generate
from mlx_lm.sample_utils import make_sampler

model, tokenizer = load(sys.argv[1])
words = lambda n, start: tokenizer.encode(" ".join(f"word-{9 + start + i}" for i in range(n)))
common = dict(sampler=make_sampler(1.0), prefill_step_size=16, return_token_ids=True)
first = batch_generate(model, tokenizer, [words(n, 3 * n) for n in (3, 40, 12, 1)], max_tokens=[5, 20, 9, 50],
                       return_prompt_caches=True, **common)
again = batch_generate(model, tokenizer, [words(n, 90) for n in (6, 17)], max_tokens=[7, 4],
                       prompt_caches=[first.caches[0], first.caches[1]], **common)
print(json.dumps([first.token_ids, again.token_ids]))
"""
PROMPTS, GOING_ON = (3, 40, 12, 1), (6, 17)


class Run:
    def __init__(self, printed: list[list[list[int]]], trace: Trace, path: Path) -> None:
        self.printed, self.trace, self.path = printed, trace, path
        self.books = accounts(trace)


def record(folder: Path, *options: str) -> Run:
    script, path = folder / "script.py", folder / "trace.yaml"
    script.write_text(SCRIPT)
    command = recorded(path, str(script), str(folder / "model"), options=options)
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return Run(json.loads(done.stdout.splitlines()[-1]), read(path), path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("batch")
    tinymodel.save(folder / "model")
    return folder


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    return record(folder, "--tokens", "--force")


def test_every_sequence_ends_with_the_tokens_that_the_script_got(run: Run) -> None:
    got = sorted(tuple(ids) for ids in run.printed[0] + run.printed[1])
    assert sorted(tuple(book.labels) for book in run.books.values()) == got
    assert {book.finish for book in run.books.values()} == {"length"}


def test_prompts_add_up(run: Run) -> None:
    first, again = run.printed
    held = [n + len(ids) for n, ids in zip(PROMPTS, first, strict=True)]
    expected = [(n, 0) for n in PROMPTS] + [(h + n, h) for h, n in zip(held, GOING_ON, strict=False)]
    assert sorted((b.total, b.adopted) for b in run.books.values()) == sorted(expected)
    assert all(b.prompt + b.adopted == b.total for b in run.books.values())
    assert len(again) == len(GOING_ON)


def test_inspect_finds_nothing(run: Run) -> None:
    report = inspect_trace(run.trace)
    assert report.findings == []
    assert report.summary.not_observed == 0


def test_caches_handed_in_by_the_script_are_adopted_before_their_batch_is_made(run: Run) -> None:
    kinds = [entry.kind for entry in run.trace.entries]
    adopted = [i for i, kind in enumerate(kinds) if kind == "adopt"]
    assert len(adopted) == 2
    assert kinds[adopted[-1] + 1] == "merge"
    merged = run.trace.entries[adopted[-1] + 1].rows or []
    assert all(row.declared == row.size and row.declared for row in merged)


def test_without_tokens_ids_are_relabelled_and_say_only_which_are_equal(folder: Path) -> None:
    run = record(folder, "--force")
    by_length = {len(ids): ids for ids in run.printed[0] + run.printed[1]}
    assert len(by_length) == len(run.books)
    key: dict[int, int] = {}
    for book in run.books.values():
        real = by_length[book.emitted]
        assert book.labels != real
        for label, ident in zip(book.labels, real, strict=True):
            assert key.setdefault(label, ident) == ident
    assert len(set(key.values())) == len(key)
    assert run.trace.header.ids != "raw"


def test_padding_of_ragged_rows_is_told_on_the_side_where_it_is(run: Run) -> None:
    rows = [(entry, row) for entry in run.trace.entries if entry.attention for row in entry.rows or []]
    assert any(row.right_padding for _, row in rows)
    for entry, row in rows:
        width = max(call.q or 0 for call in entry.attention or [])
        assert (row.tokens or 0) + (row.right_padding or 0) == width
        assert (row.left_padding or 0) == _behind(entry, row)


def _behind(entry: Any, row: Row) -> int:
    """How far a row's offset is behind the cursor that all rows of the full layers share."""
    call = next(c for c in entry.attention if c.family == "full")
    offsets = call.offset if isinstance(call.offset, list) else [call.offset] * len(entry.rows)
    cursor = call.cursor if call.cursor is not None else offsets[0]
    return int(cursor - offsets[entry.rows.index(row)])
