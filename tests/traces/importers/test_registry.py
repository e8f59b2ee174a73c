"""Several formats in one log, unknown lines, and the summary of what went where."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys

import pytest

from mlxdiag.errors import UnreadableError
from mlxdiag.traces.importers.draft import Draft
from mlxdiag.traces.importers.registry import IMPORTERS
from mlxdiag.traces.types import Row
from tests.traces.importers.reading import codes, gemma4, imported, steps_of, trace_of

WARNING = (
    "2026-09-30T07:11:09.004512Z  WARN chunked_prefill_continue{seq_id=seq-6 offset=2048 total=2201}: "
    "mlxcel::models::gemma4: trim_mask_to_keys: mask shorter than key length, discarding caller mask "
    "mask_len=160 key_len=671 query_len=160"
)
CRASH = (
    "libc++abi: terminating due to uncaught exception of type std::invalid_argument:\n"
    "[broadcast_shapes] Shapes (160,160) and (1,8,160,671) cannot be broadcast."
)
ANSWER = (
    'data: {"id":"c1","choices":[{"index":0,"delta":{"content":"<unused2115><unused2102><unused2120>"}}]}'
)
MIXED = "\n".join(["$ mlxcel serve", WARNING, "some words", ANSWER, "more words", CRASH])


def test_one_file_may_hold_several_formats():
    found = imported(MIXED)
    assert found.taken == {"mlxcel": 1, "openai": 1, "mlx-abort": 1}
    assert found.unknown == 2
    assert [step["phase"] for step in steps_of(MIXED)] == ["chunk", "decode", "chunk", "end"]
    assert found.trace.header.source["importer"] == "mlxcel, openai, mlx-abort"
    assert found.trace.header.source["program"] == "mlxcel"


def test_the_collapse_is_laid_beside_the_mask():
    assert {"MD101", "MD601"} <= {code for code, _ in codes("\n".join([WARNING, ANSWER]))}


def test_several_files_are_one_trace_in_the_order_given():
    assert [step["phase"] for step in steps_of(WARNING, CRASH)] == ["chunk", "chunk", "end"]
    assert [step["phase"] for step in steps_of(CRASH, WARNING)] == ["chunk", "end", "chunk"]


def test_unknown_lines_are_counted_and_kept_out():
    found = imported("\n".join(["a secret line"] * 7 + [WARNING]))
    assert found.unknown == 7
    assert len([entry for entry in found.trace.entries if entry.phase != "model"]) == 1


def test_numbers_that_cannot_be_are_left_out_and_counted():
    step = {"type": "scheduler_output", "payload": {"num_scheduled_tokens": {"a": 10**20, "b": -3}}}
    good = {"type": "scheduler_output", "payload": {"num_scheduled_tokens": {"a": 4}}}
    found = imported(json.dumps([step, good]))
    assert [[row.tokens for row in entry.rows] for entry in found.trace.entries] == [[4]]
    # Real tokens that no padded length holds: 12 of a piece of which the log says that it was padded to 8.
    draft = Draft()
    draft.step("prefill").rows = [Row(tokens=12, padded=8)]
    draft.step("prefill").rows = [Row(tokens=-1)]
    draft.step("prefill").rows = [Row(tokens=12)]
    assert [entry.step for entry in draft.trace().entries] == [1]
    assert draft.impossible == 2


@pytest.mark.parametrize("text", ["", "\n\n", "hello\nworld", "# a heading\n\nsome prose about masks"])
def test_a_text_of_no_known_format_is_unreadable(text):
    with pytest.raises(UnreadableError, match=r"log-0: none of \d lines is of a known format"):
        imported(text)


@pytest.mark.parametrize("packed", [gzip.compress(WARNING.encode()), b"PK\x03\x04rest", b"BZh9rest"])
def test_a_compressed_log_says_what_to_do(packed):
    with pytest.raises(UnreadableError, match=r"log-0: compressed .*unpack it first"):
        imported(packed)


def test_the_config_stands_for_the_model():
    (model, *_) = trace_of(WARNING, model=gemma4(512)).entries
    assert model.layers["sliding"].count == 10
    (step,) = steps_of(WARNING, model=gemma4(512))
    assert step["attention"][0]["family"] == "sliding"
    assert "window" not in step["attention"][0]


def test_a_config_of_another_window_is_contradicted_by_the_keys():
    (step,) = steps_of(WARNING, model=gemma4(1024))
    assert "family" not in step["attention"][0]


def test_names_of_formats_are_unique():
    names = [kind.name for kind in IMPORTERS]
    assert len(names) == len(set(names))


def test_an_importer_takes_no_framework_along():
    code = (
        "import sys, mlxdiag.traces.importers.registry as r\nprint(*{n.split('.')[0] for n in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"mlx", "mlx_lm", "torch", "transformers", "numpy", "rich", "typer", "yaml"}
    assert not set(done.stdout.split()) & heavy
