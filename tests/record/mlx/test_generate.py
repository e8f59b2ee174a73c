"""mlx-lm's own command line under `mlxdiag record`: one sequence, a prompt cache file, drafts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mlxdiag.inspect.findings import codes
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.replay import experiment
from mlxdiag.traces.reader import read
from mlxdiag.traces.types import Trace
from tests.record import tinymodel, words
from tests.record.accounts import accounts
from tests.record.serving import environment, recorded

GENERATE = ("-m", "mlx_lm", "generate")
TEMPLATE = 5
"""Tokens that the chat template adds."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generate")
    tinymodel.save(folder / "model")
    tinymodel.draft_of(folder / "model", folder / "draft")
    return folder


def record(folder: Path, *program: str) -> Trace:
    path = folder / "trace.yaml"
    command = recorded(path, *program, options=("--force",))
    done = subprocess.run(
        command, env=environment(), cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "recording stopped" not in done.stderr
    return read(path)


def drafted(folder: Path, answer: int) -> Trace:
    return record(
        folder,
        *GENERATE,
        *("--model", "model", "--draft-model", "draft", "--num-draft-tokens", "2"),
        *("--prompt", words.text(9), "--max-tokens", str(answer)),
    )


def target(trace: Trace) -> str | None:
    return next(e.model for e in trace.entries if e.kind == "verify")


def test_one_sequence_is_fed_its_prompt_in_chunks_and_its_answer(folder: Path) -> None:
    trace = record(
        folder,
        *GENERATE,
        *("--model", "model", "--prompt", words.text(50), "--max-tokens", "30", "--temp", "1"),
        *("--prefill-step-size", "16"),
    )
    (book,) = accounts(trace).values()
    chunks = [e.rows[0].tokens for e in trace.entries if e.kind in ("prefill", "chunk") and e.rows]
    assert chunks == [16, 16, 16, 6]
    assert sum(chunks) + 1 == 50 + TEMPLATE
    assert (book.emitted, book.finish) == (30, "length")
    assert inspect_trace(trace).findings == []


def test_a_prompt_cache_file_is_saved_and_goes_on_where_it_ended(folder: Path) -> None:
    saved = record(
        folder,
        *("-m", "mlx_lm", "cache_prompt", "--model", "model"),
        *("--prompt", words.text(20), "--prompt-cache-file", "prompt.safetensors"),
    )
    (stored,) = (e.rows[0] for e in saved.entries if e.kind == "save" and e.rows)
    fed = sum(row.tokens or 0 for e in saved.entries if e.attention for row in e.rows or [])
    assert stored.offset == fed
    trace = record(
        folder,
        *(*GENERATE, "--prompt-cache-file", "prompt.safetensors"),
        *("--prompt", words.text(9, start=60), "--max-tokens", "30", "--temp", "1"),
    )
    (loaded,) = (e for e in trace.entries if e.kind == "load")
    first = next(e for e in trace.entries if e.attention)
    assert loaded.rows is not None
    assert first.rows is not None
    assert loaded.model == first.model
    assert loaded.rows[0].restored == first.rows[0].offset == fed
    assert inspect_trace(saved).findings == inspect_trace(trace).findings == []
    ran = replayed(trace)
    assert ran.report.findings == []
    assert ran.outcome.compared > 0


def test_drafts_within_the_window_are_taken_back_and_nothing_is_wrong(folder: Path) -> None:
    trace = drafted(folder, 12)
    model = target(trace)
    assert [e.name for e in trace.entries if e.kind == "model"] == ["draft", "model"]
    assert accounts(trace, model)["seq-1"].emitted == 12
    rounds = [e.rows[0] for e in trace.entries if e.kind == "rollback" and e.model == model and e.rows]
    verified = [e.rows[0] for e in trace.entries if e.kind == "verify" and e.rows]
    assert len(rounds) == len(verified)
    for row, block in zip(rounds, verified, strict=True):
        assert row.drafted == (block.tokens or 0) - 1
        assert (row.accepted or 0) + (row.asked or 0) == row.drafted
    assert any(row.asked for row in rounds), "some draft was to be rejected"
    assert inspect_trace(trace).findings == []
    ran = replayed(trace)
    assert ran.report.findings == []
    assert ran.outcome.first_wrong is None


def test_drafts_past_the_window_are_not_taken_back_by_mlx_lm_and_inspect_says_so(folder: Path) -> None:
    """mlx-lm 0.32.2: `trim_prompt_cache` returns 0 once a rotating cache has wrapped, and
    `speculative_generate_step` asks only at its start whether its caches can be trimmed.
    """
    trace = drafted(folder, 40)
    refused = [e.rows[0] for e in trace.entries if e.kind == "rollback" and e.rows and e.rows[0].done == 0]
    assert any(row.asked for row in refused)
    found = inspect_trace(trace).findings
    assert codes(found) == {"MD204", "MD209"}
    first = min(f.step for f in found if f.step is not None)
    before = max(
        (row.offset or 0) + (row.tokens or 0)
        for e in trace.entries
        if e.attention and (e.step or 0) <= first
        for row in e.rows or []
    )
    assert before >= tinymodel.WINDOW
    assert "MD304" in codes(replayed(trace).report.findings), "tokens taken back were to be seen"


def test_what_the_program_prints_is_what_it_prints_alone(folder: Path) -> None:
    program = (*GENERATE, "--model", "model", "--prompt", words.text(9), "--max-tokens", "8")
    outputs = []
    for command in (
        recorded(folder / "trace.yaml", *program, options=("--force",)),
        [sys.executable, *program],
    ):
        done = subprocess.run(
            command, env=environment(), cwd=folder, capture_output=True, timeout=120, check=True
        )
        outputs.append([line for line in done.stdout.splitlines() if b"per-sec" not in line])
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) > 2


def replayed(trace: Trace) -> experiment.Ran:
    prepared = experiment.prepare(trace, source="trace.yaml")
    return experiment.run_policies(prepared, experiment.instance_for(prepared), (prepared.plan.misfit,))[0]
