"""Cut, shuffled and binary input: an answer or an UnreadableError, in bounded time, and a readable trace."""

from __future__ import annotations

import faulthandler
import io
import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxdiag.errors import UnreadableError
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.importers.records import records
from mlxdiag.traces.importers.text import lines_of
from tests.traces.importers.reading import gemma4, imported, written
from tests.traces.importers.test_privacy import LOGS

WHOLE = "\n".join(LOGS.values())
PIECES = [piece for log in LOGS.values() for piece in log.split("\n")]
ENDLESS = 20
"""Seconds after which a hang is shown with its stack; the inputs here take well under one."""


@pytest.fixture(autouse=True)
def show_hangs():
    faulthandler.dump_traceback_later(ENDLESS, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def answer(data, model=None):
    """What was imported must read again: only the import itself may refuse."""
    try:
        found = imported(data, model=model)
    except UnreadableError as error:
        said = str(error)
    else:
        said = str(inspect_trace(written(found)).summary)
    assert said


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400))
def test_binary_input(data):
    answer(data)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(WHOLE)), st.integers(0, len(WHOLE)), st.booleans())
def test_logs_cut_anywhere(start, end, config):
    answer(WHOLE[min(start, end) : max(start, end)], gemma4(512) if config else None)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=30), st.randoms(use_true_random=False))
def test_lines_shuffled_and_spliced(lines, random):
    spliced = [line[: random.randint(0, len(line))] if random.random() < 0.3 else line for line in lines]
    answer("\n".join(spliced))


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(list(LOGS.values())), st.lists(st.tuples(st.integers(0), st.characters()), max_size=12)
)
def test_letters_changed(log, changes):
    letters = list(log)
    for at, letter in changes:
        letters[at % len(letters)] = letter
    answer("".join(letters).encode("utf-8", "surrogatepass"))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(list(LOGS.values())), st.integers(-(10**30), 10**30), st.integers(0, 40))
def test_numbers_changed(log, number, which):
    found = list(re.finditer(r"\d+", log))
    one = found[which % len(found)]
    answer(log[: one.start()] + str(number) + log[one.end() :])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=60), max_size=30))
def test_every_line_is_in_a_record_and_none_is_invented(lines):
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    cleaned = list(lines_of(io.BytesIO(data)))
    words = sum(1 for line in cleaned if line.strip())
    assert sum(1 for _ in records(cleaned)) <= words


ATTACKS = {
    "one long line": "x" * 4_000_000,
    "fields": "mlxcel:: " + "a=[" * 400_000,
    "quotes": "mlxcel:: " + 'a="' * 400_000,
    "spans": "chunked_prefill_continue{" * 60_000,
    "wrapped": "mask_len=1\n" * 100_000,
    "open braces": "{\n" * 200_000,
    "open brackets": "[" * 1_000_000,
    "json heads": '{"a":\n' * 100_000,
    "half a json line": '{"a": "' + "b" * 2_000_000,
    "nested": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "dump": "SchedulerOutput(" + "(" * 1_000_000,
    "dump lines": "SchedulerOutput(\n" + "x(\n" * 100_000,
    "dump names": "SchedulerOutput(num_scheduled_tokens={" + "a" * 2_000_000,
    "new requests": "SchedulerOutput(" + "NewRequestData(req_id=" * 60_000,
    "completions": "CompletionOutput(index=0,token_ids=[" * 40_000,
    "frames": 'File "' * 200_000,
    "errors": "Traceback (most recent call last)\n" + "a.Error" * 200_000,
    "tuples": "[broadcast_shapes] Shapes (" + "1," * 500_000,
    "shapes": "[broadcast_shapes] Shapes (1,2) and (" * 50_000,
    "sizes": "shapes are (1,2), (" * 100_000,
    "specials": "<unused1" * 300_000,
    "pads": "<pad>" * 300_000,
    "na": "[mlxcel][na-attention] phase=a route=b q=[" * 40_000,
    "slots": "slot update_slots: id  1 | task 1 | " * 40_000,
    "fields of slots": "slot update_slots: id  1 | task 1 | " + "n_past = " * 200_000,
    "logfmt": "time=2026-01-01T00 level=DEBUG " + 'a="\\' * 200_000,
    "tags": "INFO:rapid_mlx.a:[cache_fetch] " + "a=" * 300_000,
    "escapes": "\x1b[" * 500_000,
    "lost escapes": "[0m" + "[1" * 500_000,
    "carriage returns": "a\r" * 500_000,
    "at": "[2026-09-14 08:00:00] [error] [full] Negative dimensions not allowed\nAt:\n" + "(" * 1_000_000,
    "events": "data: " + "{" * 500_000,
    "spaces": "]" + " " * 2_000_000 + "x",
    "blank frames": "Traceback (most recent call last)\n" + ("]" + " " * 100_000 + "\n") * 10,
}


@pytest.mark.parametrize("name", ATTACKS)
def test_what_is_meant_to_hang_it_does_not(name):
    with suppress(UnreadableError):
        imported(ATTACKS[name])
