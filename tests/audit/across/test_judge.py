"""Real families in both libraries: where both are right they agree, and differences are told as they are."""

from __future__ import annotations

from functools import cache
from typing import Any

import mlx.core as mx
import pytest
import torch
from mlx.utils import tree_map

from mlxdiag.audit.across.cell import SAVED, Cell, Row
from mlxdiag.audit.across.judge import Session, compare_family
from mlxdiag.audit.schedules.scenarios import named
from tests.audit.across.models import moved, pair, replaced

SHORT, LONG, CHUNKS, DECODE = (
    "fresh-within-window",
    "fresh-over-window",
    "chunks-not-dividing",
    "decode-across-window",
)


@cache
def session(family: str) -> Session:
    return Session(pair(family))


def cell(family: str, scenario: str = LONG) -> Cell:
    return session(family).cell(named(scenario))


def planted(family: str) -> Cell:
    """Of a session of its own: passes and noise are those of the model with its fault."""
    return Session(pair(family)).cell(named(LONG))


@pytest.mark.parametrize("scenario", [SHORT, LONG, CHUNKS, DECODE, "left-padding", "adopt-prefix"])
def test_both_are_right_about_gemma3_in_every_schedule(scenario: str) -> None:
    found = cell("gemma3_text", scenario)
    assert (found.result, found.library, found.kind, found.codes) == ("agree", "", None, [])
    assert found.largest is not None
    assert found.largest < 3e-5
    assert found.tolerance == 2e-4
    assert found.queries == 4 * found.compared > 0


def test_both_are_right_about_a_model_without_a_window() -> None:
    assert [cell("llama", name).result for name in (LONG, CHUNKS, DECODE)] == ["agree"] * 3


def test_a_window_that_one_side_does_not_read() -> None:
    found = cell("mistral")
    assert (found.result, found.kind, found.library, found.codes) == (
        "differ",
        "visibility",
        "mlx-lm",
        ["MD403"],
    )
    # A window of 8 leaves its first key at position 8.
    assert found.evidence["position"] == 8
    assert found.evidence["query"] == {"layer": 0, "seq": "a", "position": 8}
    assert found.evidence["seen"] == {"transformers": [1, 2, 3, 4, 5, 6, 7, 8], "mlx-lm": list(range(9))}
    assert found.evidence["meant"] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert found.evidence["own"] == {"transformers": True, "mlx-lm": True}


def test_within_the_window_nothing_differs() -> None:
    assert cell("mistral", SHORT).result == "agree"


def test_one_key_too_few_in_a_window() -> None:
    found = cell("mimo_v2_flash")
    assert (found.kind, found.library, found.evidence["position"]) == ("visibility", "mlx-lm", 7)
    assert found.evidence["seen"]["mlx-lm"] == [1, 2, 3, 4, 5, 6, 7]


def test_a_field_of_the_rotation_that_one_side_does_not_read() -> None:
    found = cell("gpt_oss")
    assert (found.result, found.kind, found.evidence["layer"], found.evidence["position"]) == (
        "differ",
        "positions",
        0,
        1,
    )
    assert (found.evidence["part"], found.evidence["end"]) == ("attention", "queries")
    assert cell("gpt_oss+truncated").result == "agree"


def test_an_activation_is_no_rounding_though_it_is_small() -> None:
    found = cell("gemma")
    assert (found.result, found.kind) == ("differ", "experts")
    assert found.largest is not None
    assert 2e-4 < found.largest < 3e-3
    assert (found.evidence["part"], found.evidence["end"]) == ("mlp.down_proj", "in")
    assert found.evidence["agreed"] == "mlp.up_proj (out)"


def test_two_differences_of_one_family_are_both_told() -> None:
    found = cell("starcoder2")
    assert (found.kind, found.also, found.evidence["position"]) == ("experts", "visibility", 0)
    # Keys beyond the window say nothing of who computes the activation that is meant.
    assert (found.library, found.also_library) == ("", "mlx-lm")


def test_a_schedule_that_one_library_gets_wrong_by_itself_is_its_own() -> None:
    found = cell("gemma3_text", "speculative-after-wrap")
    assert (found.result, found.library, found.codes) == ("own", "mlx-lm", [])
    assert found.evidence["own"] == {"transformers": True, "mlx-lm": False}


def test_a_fault_of_ones_own_does_not_hide_that_the_models_differ() -> None:
    found = cell("jamba", CHUNKS)
    assert (found.result, found.kind, found.evidence["layer"]) == ("differ", "experts", 1)
    assert found.evidence["own"] == {"transformers": False, "mlx-lm": True}
    assert found.reason.endswith("besides, transformers leaves its own single pass here")


def test_a_refusal_names_who_refuses() -> None:
    found = cell("gemma3_text", "trim-after-wrap-decode")
    assert (found.result, found.library) == ("refused", "transformers")


def test_a_fault_of_our_own_is_no_crash_of_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    from mlxdiag.audit.across.watched import Watching

    def broken(run: object, op: object, step: int) -> None:
        raise AttributeError("ours")

    monkeypatch.setattr(Watching, "_output", broken)
    with pytest.raises((AttributeError, TypeError)):
        planted("llama")


# --- planted differences ---


def test_the_query_that_is_told_is_the_one_that_the_difference_is_called_after() -> None:
    model = pair("olmo3").torch.model.model

    def narrowed(window: int) -> Any:
        def hook(_module: Any, given: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
            mask, count = named["attention_mask"], named["hidden_states"].shape[1]
            if mask is None or count == 1:
                return given, named
            queries, keys = torch.arange(count)[:, None], torch.arange(mask.shape[-1])[None]
            seen = (keys <= queries) & (keys > queries - window)
            return given, {**named, "attention_mask": seen[None, None]}

        return hook

    # One side's layer 0 sees more than its window of 8, from position 8 on; its layer 2 less, from 4 on.
    planted_in = [
        model.layers[layer].self_attn.register_forward_pre_hook(narrowed(window), with_kwargs=True)
        for layer, window in ((0, 12), (2, 4))
    ]
    try:
        found = planted("olmo3")
    finally:
        for hook in planted_in:
            hook.remove()
    assert (found.kind, found.library, found.evidence["position"]) == ("visibility", "transformers", 4)
    assert found.evidence["query"] == {"layer": 2, "seq": "a", "position": 4}
    assert found.evidence["seen"] == {"transformers": [1, 2, 3, 4], "mlx-lm": [0, 1, 2, 3, 4]}
    assert found.evidence["due"] == 5
    assert "layer 2, position 4: transformers sees 1-4, mlx-lm sees 0-4" in found.reason


def test_one_moved_norm_is_found_in_its_layer() -> None:
    layer = pair("gemma3_text").mlx.model.model.layers[2]
    with moved(layer.post_attention_layernorm, "weight", 1.05):
        found = planted("gemma3_text")
    assert (found.result, found.kind, found.evidence["layer"], found.evidence["position"]) == (
        "differ",
        "norm",
        2,
        0,
    )
    assert found.evidence["part"] == "post_attention_layernorm"
    assert cell("gemma3_text").result == "agree"


def test_another_base_of_the_rotation_is_found_in_its_layer_from_the_second_token_on() -> None:
    attention = pair("gemma3_text").mlx.model.model.layers[1].self_attn
    with replaced(attention.rope, "base", 20000.0):
        found = planted("gemma3_text")
    assert (found.kind, found.evidence["layer"], found.evidence["position"]) == ("positions", 1, 1)


@pytest.mark.parametrize(("window", "first", "seen"), [(9, 8, 9), (7, 7, 7)])
def test_a_window_off_by_one_is_seen_in_the_keys(window: int, first: int, seen: int) -> None:
    model = pair("gemma3_text").mlx.model
    with replaced(model.model, "window_size", window):
        found = planted("gemma3_text")
    assert (found.kind, found.library, found.evidence["position"]) == ("visibility", "mlx-lm", first)
    assert found.evidence["keys"] == {"transformers": min(first + 1, 8), "mlx-lm": seen}


def test_a_moved_expert_is_found_behind_its_router() -> None:
    layer = pair("gpt_oss+truncated").mlx.model.model.layers[3]
    with moved(layer.mlp.experts.down_proj, "weight", 1.1):
        found = planted("gpt_oss+truncated")
    assert (found.kind, found.evidence["layer"]) == ("experts", 3)


def test_a_moved_head_is_found_behind_the_layers() -> None:
    with moved(pair("llama").mlx.model.lm_head, "weight", 1.01):
        found = planted("llama")
    assert (found.kind, "layer" in found.evidence, found.evidence["part"]) == ("logits", False, "lm_head")


def test_a_moved_last_norm_is_found_though_the_embeddings_are_scaled_in_other_places() -> None:
    """One library scales within the embedding, the other behind it: it differs, and means the same."""
    with moved(pair("gemma3_text").mlx.model.model.norm, "weight", 1.5):
        found = planted("gemma3_text")
    assert (found.kind, "layer" in found.evidence, found.evidence["part"]) == ("logits", False, "norm")


def test_rounded_weights_are_told_from_other_weights() -> None:
    """bfloat16 keeps eight bits: an embedding moves by 2**-9 of itself at most, the logits by about 0.01."""
    model = pair("llama").mlx.model
    before = model.parameters()
    model.update(tree_map(lambda weight: weight.astype(mx.bfloat16).astype(mx.float32), before))
    try:
        found = planted("llama")
    finally:
        model.update(before)
    assert (found.result, found.kind) == ("differ", "precision")
    assert found.largest is not None
    assert found.largest > 1e-3


# --- rows ---


def test_a_family_ends_with_its_row() -> None:
    *cells, row = compare_family("cohere", [named(SHORT), SAVED])
    assert isinstance(row, Row)
    assert [found.scenario for found in cells if isinstance(found, Cell)] == [SHORT, "as-saved"]
    assert (row.result, sorted(row.noise)) == ("differ", ["mlx-lm", "transformers"])
    saved = cells[1]
    assert isinstance(saved, Cell)
    # rope_theta is 10000 by default here and 8000000 there, and what is saved is not read.
    assert (saved.kind, saved.evidence["layer"], saved.evidence["position"]) == ("positions", 0, 1)


def test_layer_types_that_are_not_read() -> None:
    *_, saved, _row = compare_family("gemma3_text+pattern", [named(LONG), SAVED])
    assert isinstance(saved, Cell)
    # Layer 1 is full in the config, and slides by the default pattern of six.
    assert saved.also == "visibility" or saved.kind == "visibility"
    assert saved.evidence["query"]["layer"] == 1


@pytest.mark.parametrize(
    ("family", "result", "library"), [("beam", "lacks", "mlx-lm"), ("bitnet", "apart", "")]
)
def test_a_family_without_a_pair_has_a_row_alone(family: str, result: str, library: str) -> None:
    (row,) = compare_family(family, [named(SHORT)])
    assert isinstance(row, Row)
    assert (row.result, row.library) == (result, library)
    assert row.reason
