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


def test_no_module_and_no_reached_family_is_left_out() -> None:
    library.load()
    held = families()
    assert set(torch_zoo.families()) <= set(held.all)
    from mlx_lm.utils import MODEL_REMAPPING

    covered = {MODEL_REMAPPING.get(name, name) for name in held.all}
    covered |= {MODEL_REMAPPING.get(row(name).model_type, row(name).model_type) for name in held.both}
    assert set(mlx_zoo.modules()) <= covered | set(held.apart)
