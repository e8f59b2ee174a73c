"""Every shipped sample says what its report said, and its healthy twin says nothing."""

from __future__ import annotations

from functools import cache

import pytest

from mlxdiag.inspect.findings import codes
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.replay import experiment
from mlxdiag.traces.reader import read
from tests.record.accounts import accounts
from tests.samples.expected import FOLDER, RECORDED, SAMPLES, SHAPES

TWINS = [f"{name}-healthy" for name in SAMPLES]


@cache
def trace(name: str):
    return read(FOLDER / f"{name}.yaml")


@cache
def ran(name: str):
    prepared = experiment.prepare(trace(name), source=name)
    instance = experiment.instance_for(prepared)
    return experiment.run_policies(prepared, instance, (prepared.plan.misfit,))[0]


def fired(findings):
    return codes(f for f in findings if f.severity != "info")


def test_every_shipped_trace_is_expected_here():
    assert {path.stem for path in FOLDER.glob("*.yaml")} == {*SAMPLES, *TWINS, *RECORDED}


@pytest.mark.parametrize("name", SAMPLES)
def test_inspect_finds_the_fault_and_its_cause(name):
    assert fired(inspect_trace(trace(name)).findings) == SAMPLES[name].inspected


@pytest.mark.parametrize("name", [*TWINS, *RECORDED])
def test_inspect_finds_nothing_in_the_twin(name):
    report = inspect_trace(trace(name))
    assert report.findings == []
    assert report.summary.not_observed == 0


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_holds_the_numbers_of_its_report(name):
    assert _lengths(trace(name), name) == SHAPES[name]


@pytest.mark.parametrize("name", SAMPLES)
def test_real_model_code_gives_the_same_numbers(name):
    assert _lengths(ran(name).trace, name) == SHAPES[name]


@pytest.mark.parametrize("name", SAMPLES)
def test_the_replay_finds_the_fault_by_every_kind_of_evidence(name):
    expected, seen = SAMPLES[name], ran(name)
    assert fired(seen.report.findings) == expected.replayed
    assert seen.outcome.empty == expected.empty
    if expected.crash is not None:
        assert expected.crash in (seen.outcome.crash or "")
    else:
        assert seen.outcome.crash is None
        assert (seen.outcome.first_wrong is None) is expected.benign
        assert (seen.outcome.wrong_window == 0) is expected.benign


@pytest.mark.parametrize("name", [*TWINS, *RECORDED])
def test_the_twin_replays_clean_by_every_kind_of_evidence(name):
    seen = ran(name)
    assert seen.report.findings == []
    assert seen.outcome.crash is None
    assert seen.outcome.compared > 0
    assert seen.outcome.first_wrong is None
    assert (seen.outcome.empty, seen.outcome.wrong_window, seen.outcome.padding) == (0, 0, 0)


def test_the_recorded_server_run_is_the_one_that_its_note_tells_of():
    books = accounts(trace("mlx-lm-server"))
    assert len(books) == 1 + 8, "a first request, then eight at once"
    assert sum(book.finish == "abort" for book in books.values()) == 2
    assert sum(book.adopted > 0 for book in books.values()) >= 3
    assert all(book.prompt + book.adopted == book.total for book in books.values())


def test_the_recorded_server_of_transformers_is_the_one_that_its_note_tells_of():
    books = accounts(trace("transformers-serve"))
    assert set(books) == {f"client-{number}" for number in range(5)}
    assert sum(book.finish == "abort" for book in books.values()) == 2
    assert all(book.prompt == book.total for book in books.values())
    assert all(book.answered == book.emitted - 1 for book in books.values())


# A replay packs no rows: each forward of the recorded batch becomes several.
@pytest.mark.parametrize("name", [*SAMPLES, *TWINS, "mlx-lm-server"])
def test_every_returned_key_length_that_was_recorded_is_returned_again(name):
    assert _keys(ran(name).trace) == _keys(trace(name))


def test_raise_turns_the_harmless_verify_into_a_crash():
    prepared = experiment.prepare(trace("gemma4-speculative-verify"), source="t")
    outcome = experiment.run_policies(prepared, experiment.instance_for(prepared), ("raise",))[0].outcome
    assert "mask key axis (9) is shorter than the returned key length (10)" in (outcome.crash or "")


def _lengths(recorded, name):
    """Mask key axis and returned keys by step and family, for the steps and families of SHAPES."""
    found: dict[int, dict[str, tuple[int | None, int]]] = {}
    for entry in recorded.entries:
        wanted = SHAPES[name].get(entry.step, {}) if entry.attention else {}
        for call in entry.attention or []:
            if call.family in wanted and call.k is not None:
                m = call.mask[-1] if isinstance(call.mask, tuple) else None
                found.setdefault(entry.step, {})[call.family] = (m, call.k)
    return found


def _keys(recorded):
    return {
        (entry.step, call.family): call.k
        for entry in recorded.entries
        for call in entry.attention or []
        if call.k is not None
    }
