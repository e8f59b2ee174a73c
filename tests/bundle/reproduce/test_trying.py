from __future__ import annotations

from itertools import islice

import pytest
from msgspec.structs import replace

from mlxdiag.bundle.reproduce import variants
from mlxdiag.bundle.reproduce.controls import FAILS, NOT_TRIED, OTHER, PASSES
from mlxdiag.bundle.reproduce.trying import Seen, Trial, _reason, run
from mlxdiag.traces.reader import parse, read
from tests.samples.expected import FOLDER

ONE_PASS = variants.middle(read(FOLDER / "gpt-oss-one-pass.yaml"))
FAULT = frozenset({"MD901", "MD101", "MD107"})


def tried(trace, fault, **settings):
    return {one.name: one for one in Trial(trace, None, fault, lambda _: None, **settings).all()}


@pytest.fixture(scope="module")
def controls():
    return tried(ONE_PASS, FAULT)


def test_the_fault_itself_fails_and_the_single_pass_with_own_masks_does_not(controls):
    assert controls["as-recorded"].result == FAILS
    assert "Shapes (19,8)" in controls["as-recorded"].reason
    assert controls["float32"].result == FAILS
    assert controls["single-pass"].result == PASSES


def test_the_exact_edge_is_the_window(controls):
    # A capped mask [q, min(8, q)] fits until a chunk is longer than the window of 8.
    assert controls["chunk-8"].result == PASSES
    assert controls["chunk-16"].result == FAILS
    assert controls["chunk-edge"].reason == "chunks of 8: passes; of 9: fails"


def test_every_other_policy_is_tried(controls):
    results = {name: one.result for name, one in controls.items() if name.startswith("misfit-")}
    assert len(results) == 8
    assert results["misfit-rebuild"] == results["misfit-discard:windowed"] == PASSES
    assert results["misfit-discard:none"] == results["misfit-raise"] == FAILS


def test_what_is_wrong_by_its_shapes_alone_is_not_said_to_be_wrong_in_its_numbers():
    seen = Seen(codes=("MD102",), errors=("MD102",), crash=None, wrong=0, empty=0, max_abs=0.0, agrees=True)
    assert _reason(seen) == "MD102: the shapes do not fit; the logits of this one agree all the same"
    assert _reason(replace(seen, wrong=2, agrees=False)) == "wrong queries: 2; logits off by up to 0"


def test_one_sequence_needs_no_other(controls):
    assert controls["concurrency-1"].result == FAILS
    assert "one sequence already" in controls["concurrency-1"].reason


def test_the_float32_control_names_what_was_recorded(controls):
    assert controls["float32"].what.endswith("recorded: not known")
    only = Trial(ONE_PASS, None, FAULT, lambda _: None, dtype="bfloat16")
    told = {one.name: one for one in islice(only.all(), 2)}
    assert told["float32"].what == "float32, in which every run here computes; recorded: bfloat16"
    assert "no matter of precision" in told["float32"].reason


def test_a_healthy_schedule_passes_everywhere():
    healthy = variants.middle(read(FOLDER / "gpt-oss-one-pass-healthy.yaml"))
    results = tried(healthy, frozenset())
    assert {one.result for one in results.values()} <= {PASSES, NOT_TRIED}
    assert "no policy can change" in results["misfit"].reason


def test_without_a_fault_whatever_a_variation_breaks_is_a_failure():
    results = tried(ONE_PASS, frozenset())
    assert {one.result for one in results.values()} == {PASSES, FAILS}


def test_a_cache_that_only_its_calls_show_is_not_carried_to_other_chunks():
    clamped = variants.middle(read(FOLDER / "gemma4-clamped-continuation.yaml"))
    results = tried(clamped, frozenset({"MD201"}))
    assert results["as-recorded"].result == FAILS
    assert results["chunk"].result == NOT_TRIED
    assert "not in the trace" in results["chunk"].reason


def test_another_fault_than_the_one_looked_for_is_told_apart():
    assert tried(ONE_PASS, frozenset({"MD203"}))["as-recorded"].result == OTHER


def test_what_cannot_run_gives_its_reason():
    trace = parse('model: {architecture: zorblax}\nsteps:\n- {"rows": [{"seq": "a", "tokens": 3}]}\n')
    assert "zorblax" in run(trace)
