from __future__ import annotations

from mlxdiag.models.torch.zoo.rows import row, zoo


def test_a_family_without_an_entry_has_an_empty_one_of_its_own_type() -> None:
    assert row("qwen2").model_type == "qwen2"
    assert row("qwen2").set == {}


def test_an_entry_like_another_comes_over_it() -> None:
    # inkling2_loop_text is like inkling_text, and adds its loop.
    loop = row("inkling2_loop_text").set
    assert loop["rel_extent"] == row("inkling_text").set["rel_extent"]
    assert loop["loop_num_passes"] == 2


def test_the_base_has_two_layers_of_each_kind_and_untied_embeddings() -> None:
    base = zoo().base
    assert base["layer_types"] == ["sliding_attention", "full_attention"] * 2
    assert base["tie_word_embeddings"] is False
    assert base["num_attention_heads"] == 2 * base["num_key_value_heads"] == 4
