"""SmolLM2-135M through the recorder: a healthy run, a collapse, and an answer that is fluent and wrong.

The last two run with a window that nobody trained, on 20 of the 30 layers; what they are compared with is
the geometry of their masks and, for the text, the model as it is.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from mlxdiag.inspect.findings import Finding, codes
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.reader import read
from mlxdiag.traces.types import Mask, Scheduler, Trace
from mlxdiag.traces.writer import dump
from tests.realweights import package

GGUF = package.weights()
pytestmark = pytest.mark.skipif(GGUF is None, reason=package.REASON)

SCRIPT = Path(sys.executable).with_name("mlxdiag")
ENGINE = Path(__file__).with_name("engine.py")
WINDOW, PERIOD, CHUNK = 48, 3, 64
FAMILY = "sliding"
EMPTY = "<|endoftext|>"
"""Id 0 of this vocabulary: what an argmax over NaN gives. The end of an answer is another token."""

STORY = (
    "The lighthouse on the northern cape was built of grey stone{}. Its keeper, a quiet woman named Hanna, "
    "lit the lamp every evening and wrote the weather into a thick book. {}One morning she found a small "
    "boat on the beach with a boy asleep in it. He had rowed all night from the island of Sild to ask for a "
    "doctor, because his mother had a fever.{}\n\nWho keeps the lighthouse, and why did the boy come?\n"
)
SHORT = STORY.format("", "", "")
"""124 tokens in the model's own chat template; the long form has 189."""
LONG = STORY.format(
    " in the year of the great storm",
    "In winter the supply boat came only once a month, so she kept goats, dried fish on the rocks and mended "
    "her nets by the stove. ",
    " Hanna gave him bread and warm milk, raised the signal flag, and waited with him until the doctor's "
    "ship turned towards the cape.",
)


class Models(NamedTuple):
    plain: Path
    windowed: Path


@pytest.fixture(scope="module")
def models() -> Iterator[Models]:
    from tests.realweights import checkpoint

    assert GGUF is not None
    # Not in pytest's own folder, which keeps the last three: the weights take half a gigabyte.
    with tempfile.TemporaryDirectory(prefix="smollm2-") as folder:
        plain = checkpoint.save(GGUF, Path(folder) / "plain")
        yield Models(plain, checkpoint.with_window(plain, Path(folder) / "windowed", WINDOW, PERIOD))


def run(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "MLX_DISABLE_COMPILE": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        list(command), cwd=folder, env=env, capture_output=True, text=True, timeout=600, check=False
    )


def recorded(
    folder: Path, model: Path, prompt: str, masks: str, tokens: int, level: str = "shapes"
) -> tuple[str, Trace]:
    """The answer and the trace of the serving program under `mlxdiag record`."""
    (folder / "prompt.txt").write_text(prompt)
    program = [sys.executable, ENGINE, model, "prompt.txt", masks, str(tokens)]
    done = run(folder, SCRIPT, "record", "-o", "t.yaml", "--level", level, "--", *program)
    assert done.returncode == 0, done.stderr
    assert "recording stopped" not in done.stderr
    return done.stdout.strip(), read(folder / "t.yaml")


def emitted(trace: Trace) -> str:
    """The classes of the answer's tokens."""
    return "".join(row.classes or "" for entry in trace.entries for row in entry.rows or ())


def by_code(trace: Trace, code: str) -> list[Finding]:
    return [f for f in inspect_trace(trace).findings if f.code == code]


def test_the_weights_are_read_right_and_a_healthy_run_is_clean(models: Models, tmp_path: Path) -> None:
    text, trace = recorded(tmp_path, models.plain, SHORT, "library", 12)
    assert text.startswith("The lighthouse on the northern cape was built of grey stone")
    fed = [row.tokens or 0 for e in trace.entries if e.attention for row in e.rows or ()]
    assert fed[:2] == [CHUNK, 124 - 1 - CHUNK]
    assert emitted(trace) == "t" * 12
    assert inspect_trace(trace).findings == []
    ran = run(tmp_path, SCRIPT, "replay", "t.yaml", "--model", models.plain, "--expect", "none")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "attend exactly the positions they must" in ran.stdout
    assert "agree with the single pass" in ran.stdout


def test_a_capped_mask_on_sliced_keys_is_a_collapse_with_its_cause(models: Models, tmp_path: Path) -> None:
    """The first `q - W` queries of a chunk see no key: NaN, and id 0 from the first token on."""
    text, trace = recorded(tmp_path, models.windowed, SHORT, "capped", 12)
    assert text == EMPTY * 12
    assert emitted(trace) == "0" * 12
    assert codes(inspect_trace(trace).findings) == {"MD101", "MD107", "MD603", "MD609"}
    (collapse,) = by_code(trace, "MD603")
    assert (collapse.evidence["run"], collapse.evidence["onset"]) == (12, 0)
    assert any("MD101" in cause for cause in collapse.cause)
    (mask,) = by_code(trace, "MD101")
    assert any("MD107" in cause for cause in mask.cause)
    assert mask.evidence["empty_rows"] == CHUNK - WINDOW
    assert mask.evidence["fallback"] == "sliced"


def test_a_wrongly_cropped_mask_is_fluent_and_found_by_visibility_and_parity(
    models: Models, tmp_path: Path
) -> None:
    text, trace = recorded(tmp_path, models.windowed, LONG, "cropped", 24, "visibility")
    assert text.startswith("The boy's journey is a")
    assert emitted(trace) == "t" * 24
    found = inspect_trace(trace).findings
    assert codes(found) == {"MD302", "MD303"}, "by what is seen alone, no length and no token is wrong"
    (future,) = by_code(trace, "MD303")
    assert future.evidence["total"] == future_pairs(CHUNK, CHUNK)

    # What only the program knows of its masks, as its log would tell it.
    dump(with_masks(trace), tmp_path / "told.yaml")
    ran = run(tmp_path, SCRIPT, "replay", "told.yaml", "--model", models.windowed)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    for told in ("MD402 parity-broken", "MD302 window-count", "MD303 future-visible"):
        assert told in ran.stdout
    assert f"{future_pairs(CHUNK, CHUNK)} pairs of query and key" in ran.stdout
    assert f"first at position {WINDOW}" in ran.stdout, "the first query with more keys than its window"


def future_pairs(offset: int, q: int) -> int:
    """Pairs of a query and a later key under a causal mask [q, offset + q] cut to its first columns.

    A rotating cache returns the last `W - 1` keys and the new ones, so column j is not position j.
    """
    keys = range(offset - min(offset, WINDOW - 1), offset + q)
    seen = [(i, position) for i in range(q) for j, position in enumerate(keys) if j <= offset + i]
    return sum(position > offset + i for i, position in seen)


def with_masks(trace: Trace) -> Trace:
    """The prompt's part of a trace with the scheduler's masks, and what becomes of one that does not fit."""
    entries = []
    for entry in trace.entries:
        if entry.kind in ("prefill", "chunk") and entry.rows:
            (row,) = entry.rows
            offset, q = row.offset or 0, row.tokens or 0
            mask = Mask(
                shape=(q, offset + q), offset=offset, source="scheduler", builder="causal", family=FAMILY
            )
            entry = msgspec.structs.replace(entry, mask=mask)
        if entry.kind in ("model", "prefill", "chunk"):
            entries.append(entry)
    header = msgspec.structs.replace(trace.header, scheduler=Scheduler(misfit="crop:new"))
    return Trace(header, entries)
