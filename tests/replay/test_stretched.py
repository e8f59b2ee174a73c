"""RoPE that depends on the length seen so far: no longer single pass is what the pieces must equal."""

import pytest

from mlxdiag.models.adapter import Skipped
from mlxdiag.models.mlx import tiny as mlx_tiny
from mlxdiag.replay import experiment, stretched, verdict
from mlxdiag.replay.ops import Adopt, CacheChoice, Cut, Feed, Forward, Plan
from mlxdiag.traces.reader import parse
from mlxdiag.traces.types import Scheduler
from tests.replay.schedules import fired

LLAMA = {
    "model_type": "llama",
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "rms_norm_eps": 1e-5,
    "vocab_size": 512,
    "tie_word_embeddings": False,
}
ORIGINAL = 16
DYNAMIC = {"factor": 2.0, "rope_theta": 10000.0}
LONG = {
    "rope_theta": 10000.0,
    "factor": 2.0,
    "original_max_position_embeddings": ORIGINAL,
    "short_factor": [1.0] * 16,
    "long_factor": [3.0] * 16,
}
STEPS = """
- {step: 1, rows: [{seq: a, offset: 0, tokens: 13}]}
- {step: 2, rows: [{seq: a, offset: 13, tokens: 5}]}
- {step: 3, rows: [{seq: a, offset: 18, tokens: 1}]}
- {step: 4, rows: [{seq: b, offset: 0, tokens: 4}]}
"""


def forward(*feeds, again=()):
    return Forward(step=1, phase="prefill", feeds=feeds, anew=again)


def plan(*ops, shared=None, store=None):
    return Plan(
        source="t.yaml",
        architecture="llama",
        config={},
        families={},
        caches=dict[str, CacheChoice](),
        ops=ops,
        lengths={},
        shared=shared or {},
        scheduler=Scheduler(store=store),
        misfit="strict",
    )


def test_rows_within_the_limit_stay_comparable_and_those_beyond_it_do_not():
    laid = plan(forward(Feed("a", 0, 8)), forward(Feed("a", 8, 1)), forward(Feed("b", 0, 8)))
    assert stretched.rows(laid, 8) == {(1, "a")}
    assert stretched.rows(laid, None) == set()


def test_a_short_row_beside_a_long_one_is_rotated_by_the_long_ones_length_and_keeps_those_keys():
    laid = plan(forward(Feed("a", 0, 9), Feed("b", 0, 4, left=5)), forward(Feed("b", 4, 1)))
    assert stretched.rows(laid, 8) == {(0, "a"), (0, "b"), (1, "b")}


def test_keys_that_are_left_after_a_cut_were_made_beyond_the_limit_all_the_same():
    laid = plan(forward(Feed("a", 0, 9)), Cut(2, "trim", ("a",), 5), forward(Feed("a", 4, 1, generation=1)))
    assert (2, "a") in stretched.rows(laid, 8)


def test_a_sequence_fed_from_its_first_token_again_has_keys_of_its_own():
    laid = plan(forward(Feed("a", 0, 9)), forward(Feed("a", 0, 4), again=("a",)))
    assert stretched.rows(laid, 8) == {(0, "a")}


@pytest.mark.parametrize(
    ("entry", "shared", "store", "expected"),
    [
        (4, {}, None, False),
        (9, {}, None, True),
        (4, {"c": ("a", 4)}, None, True),
        (4, {}, "trie", True),
    ],
    ids=["short", "long entry", "of a sequence beyond it", "of a store that holds one"],
)
def test_an_adopted_prefix_is_as_its_donor_was(entry, shared, store, expected):
    taken = Adopt(2, "c", matched=4, entry=entry, trimmed=entry - 4)
    laid = plan(forward(Feed("a", 0, 9)), taken, forward(Feed("c", 4, 1)), shared=shared, store=store)
    assert ((2, "c") in stretched.rows(laid, 8)) is expected


def ran(instance, backend):
    loaded = parse(f"schema: mlxdiag.trace/1\nmodel: {{architecture: llama}}\nsteps:{STEPS}")
    prepared = experiment.prepare(loaded, source="t.yaml", config=dict(instance.config), backend=backend)
    return experiment.run_policies(prepared, instance, ("strict",))[0]


@pytest.mark.parametrize("word", ["type", "rope_type"])
def test_mlx_lm_with_a_dynamic_base_is_judged_within_its_length_and_said_to_be_left_out_beyond(word):
    config = {**LLAMA, "rope_scaling": {**DYNAMIC, word: "dynamic"}, "max_position_embeddings": ORIGINAL}
    instance = mlx_tiny.instance(config, name="t")
    assert not isinstance(instance, Skipped)
    found = ran(instance, "mlx")
    # Heads are taken off, for the one class that takes them for new tokens: 12 of 16.
    assert fired(found) == set()
    assert found.outcome.compared == 4
    assert "logits at 19 positions are not compared: beyond 12 tokens" in found.notes[0]


def test_mlx_lms_longrope_has_its_long_factors_at_any_length_and_is_judged_at_any_length():
    config = {**LLAMA, "rope_scaling": {**LONG, "rope_type": "longrope"}, "max_position_embeddings": 64}
    instance = mlx_tiny.instance(config, name="t")
    assert not isinstance(instance, Skipped)
    found = ran(instance, "mlx")
    assert (found.notes, fired(found), found.outcome.compared) == ((), set(), 23)


@pytest.mark.parametrize(
    ("field", "rope", "longest", "left_out", "compared", "limit"),
    [
        ("rope_parameters", {**DYNAMIC, "rope_type": "dynamic"}, ORIGINAL, 6, 17, 15),
        ("rope_scaling", {**DYNAMIC, "type": "dynamic"}, ORIGINAL, 6, 17, 15),
        ("rope_parameters", {**LONG, "rope_type": "longrope"}, 64, 6, 17, 16),
        ("rope_parameters", {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4,
                             "original_max_position_embeddings": ORIGINAL}, 64, 0, 23, None),
    ],
)  # fmt: skip
def test_transformers_is_judged_within_the_original_length(field, rope, longest, left_out, compared, limit):
    pytest.importorskip("torch", reason="no torch: pip install 'mlxdiag[torch]'")
    from mlxdiag.models.torch import library
    from mlxdiag.models.torch import tiny as torch_tiny

    config = {**LLAMA, field: rope, "max_position_embeddings": longest}
    instance = torch_tiny.instance(library.family("llama"), config, name="t", device="cpu")
    assert not isinstance(instance, Skipped), instance
    found = ran(instance, "torch")
    assert fired(found) == set()
    assert (instance.backend.rotation_limit(instance), found.outcome.compared) == (limit, compared)
    assert [f"logits at {left_out} positions are not compared" in note for note in found.notes] == [
        True
    ] * bool(left_out)
    assert f"the logits of {compared} positions agree" in verdict.sentences(found)[0]


def test_a_fault_within_the_original_length_is_still_found(monkeypatch):
    config = {**LLAMA, "rope_scaling": {**DYNAMIC, "type": "dynamic"}, "max_position_embeddings": 20}
    instance = mlx_tiny.instance(config, name="t")
    assert not isinstance(instance, Skipped)
    attention = type(instance.model.model.layers[0].self_attn.rope)
    original = attention.__call__
    monkeypatch.setattr(
        attention, "__call__", lambda rope, x, offset=0: original(rope, x, offset and offset - 1)
    )
    loaded = parse(
        "schema: mlxdiag.trace/1\nmodel: {architecture: llama}\nsteps:\n"
        "- {step: 1, rows: [{seq: a, offset: 0, tokens: 6}]}\n- {step: 2, rows: [{seq: a, offset: 6, tokens: 3}]}\n"
    )
    prepared = experiment.prepare(loaded, source="t.yaml", config=dict(instance.config), backend="mlx")
    assert "MD402" in fired(experiment.run_policies(prepared, instance, ("strict",))[0])
