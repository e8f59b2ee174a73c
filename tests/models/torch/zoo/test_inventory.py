from __future__ import annotations

import sys

import pytest

from mlxdiag.models.torch import library, zoo
from mlxdiag.models.torch.families import CLASSES
from mlxdiag.models.torch.zoo.inventory import inventory
from mlxdiag.models.torch.zoo.rows import row
from mlxdiag.models.torch.zoo.rows import zoo as data

SURVEYED = """
afmoe beam cohere2 cohere2_moe cwm deepseek_v4 dory dots3_note_text exaone4 exaone_moe flint gemma2
gemma3_text gemma3n_text gemma4_text gemma4_unified_text gpt_oss granite_swa granitemoe_swa
inkling2_loop_text inkling2_text inkling_text kolibri1 lara_mini lfm3 llama4_text mellum
mimo_v2_flash ministral ministral3 mistral moshi olmo3 modernbert-decoder recurrent_gemma step3p5
diffusion_gemma_text vaultgemma qwen2 qwen2_moe qwen3 qwen3_moe smollm3 phi3 phimoe starcoder2
mixtral laguna dots1 doge minimax zaya cohere_compass_text muse_glimmer_text muse_spark_text
"""
"""Counted by hand over the library's config classes: a window or a block in the text config."""


def test_every_causal_model_type_of_the_library_is_in_exactly_one_place() -> None:
    found = zoo.inventory()
    places = [*found.reached, *found.broken, *found.others]
    assert sorted(places) == sorted({*library.causal_types(), *CLASSES})
    assert found.broken == {}


def test_every_type_that_is_left_out_says_why() -> None:
    others = zoo.inventory().others
    assert others["gemma3"] == "wraps gemma3_text"
    assert others["bert"] == "no local attention"
    assert "870 million" in others["phi4_multimodal"]
    assert all(others.values())


def test_all_types_that_the_survey_found_with_a_window_are_reached() -> None:
    assert set(SURVEYED.split()) <= set(zoo.inventory().reached)


def test_families_are_the_reached_types_and_their_variants() -> None:
    families = zoo.families()
    assert set(zoo.inventory().reached) < set(families)
    assert {"gemma4_text+k=v", "gemma4_text+shared", "gemma3n_text+shared"} < set(families)
    assert all(row(name).model_type in zoo.inventory().reached for name in families)


def test_the_data_file_names_only_types_that_the_library_has() -> None:
    known = {*library.causal_types(), *CLASSES}
    assert set(data().plain) | set(data().apart) <= known
    assert {row(name).model_type for name in data().rows} <= known
    assert all(entry.why for entry in data().rows.values())


def test_without_the_library_there_are_no_families(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    found = inventory.__wrapped__()
    assert (found.reached, found.broken, found.others) == ((), {}, {})
