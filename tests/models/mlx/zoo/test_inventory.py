"""Every module of the library is counted once, as a model or as something else with a reason."""

from __future__ import annotations

from pathlib import Path

import mlx_lm.models
import pytest

from mlxdiag.models.mlx.zoo import families, inventory, modules


def test_models_and_the_others_are_all_that_lies_in_the_folder() -> None:
    (folder,) = mlx_lm.models.__path__
    lying = {path.stem for path in Path(folder).glob("*.py")} - {"__init__"}
    found = inventory()
    assert set(found.models) | set(found.others) == lying
    assert len(found.models) + len(found.others) == len(lying)


@pytest.mark.skipif(mlx_lm.__version__ != "0.32.2", reason="counted by hand in mlx-lm 0.32.2")
def test_the_known_release_holds_as_many_as_counted_by_hand() -> None:
    assert (len(modules()), len(inventory().others)) == (125, 11)


def test_a_module_that_exits_at_import_has_a_reason() -> None:
    assert all(inventory().others.values())
    olmo = inventory().others.get("olmo")
    assert olmo is None or "cannot be imported" in olmo or "needs the package" in olmo


def test_model_types_that_another_module_runs_have_a_row() -> None:
    assert set(families()) - set(modules()) == {"mistral", "falcon_mamba", "nemotron-nas-linear"}
