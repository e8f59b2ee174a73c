"""Every family of either library, once."""

from mlxdiag.audit.across.rows import families
from mlxdiag.models.convert.rows import row, table
from mlxdiag.models.mlx import zoo as mlx_zoo
from mlxdiag.models.torch import library
from mlxdiag.models.torch import zoo as torch_zoo


def test_every_row_is_in_one_place_only() -> None:
    library.load()
    held = families()
    assert set(held.both).isdisjoint(held.apart)
    assert len(held.all) == len(held.both) + len(held.apart)
    assert held.all == tuple(sorted(held.all))
    assert len(held.both) > 80


def test_families_under_other_names_are_found_in_the_other_library() -> None:
    library.load()
    held = families()
    # mistral runs on llama's module, gemma3n_text is published as a part of gemma3n.
    assert {"mistral", "gemma3n_text", "step3p5", "qwen3_5_text", "gemma3_text"} <= set(held.both)
    assert {name for name in table() if "+" in name} <= set(held.both)


def test_what_only_one_library_has_says_which() -> None:
    library.load()
    held = families()
    assert held.apart["beam"] == ("mlx-lm", "mlx-lm has no family beam")
    assert held.apart["baichuan_m1"][0] == "transformers"
    assert held.apart["gemma3"][0] == ""


def test_a_wrapper_that_only_one_library_has_as_a_language_model_names_what_it_wraps() -> None:
    library.load()
    held = families()
    # transformers has both as models of images, too; mlx-lm drops what sees.
    assert held.apart["kimi_k25"] == ("", "wraps deepseek_v3, which is compared as the text model that it is")
    assert held.apart["mistral3"][1].startswith("wraps llama or ministral3 or mistral4,")
    # transformers has no such model at all, though mlx-lm makes it of deepseek_v3, too.
    assert held.apart["kimi_vl"] == ("transformers", "transformers has no language model of the type kimi_vl")
    # mlx-lm has it, under the name of the whole.
    assert held.apart["muse_glimmer_text"][0] == ""
    assert "a part of muse_glimmer" in held.apart["muse_glimmer_text"][1]
    assert "muse_glimmer" not in held.all


def test_models_of_one_type_are_told_apart_by_the_class_that_is_published() -> None:
    library.load()
    held = families()
    assert "bailing_hybrid" in held.both
    assert "bailing_moe_v3" not in held.all
    assert {"mistral4", "youtu", "minimax_m3_vl_text"} <= set(held.both)
    assert not {"youtu_llm", "minimax_m3_vl"} & set(held.all)


def test_no_module_and_no_reached_family_is_left_out() -> None:
    library.load()
    held = families()
    assert set(torch_zoo.families()) <= set(held.all)
    from mlx_lm.utils import MODEL_ARCHITECTURE_REMAPPING, MODEL_REMAPPING

    covered = {MODEL_REMAPPING.get(name, name) for name in held.all}
    covered |= {MODEL_REMAPPING.get(row(name).model_type, row(name).model_type) for name in held.both}
    covered |= set(MODEL_ARCHITECTURE_REMAPPING.values())
    # Parts of these stand in the table, each with its reason.
    covered |= {"muse_glimmer", "muse_spark", "qwen2_vl"}
    assert set(mlx_zoo.modules()) <= covered | set(held.apart)
