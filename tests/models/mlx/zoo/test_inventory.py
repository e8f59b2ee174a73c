"""Every module of the library is counted once, as a model or as something else with a reason."""

from __future__ import annotations

import shutil
from pathlib import Path

import mlx_lm.models
import pytest

from mlxdiag.audit.engine.pool import Site
from mlxdiag.audit.engine.run import Wanted, run
from mlxdiag.audit.faults.causes import Causes
from mlxdiag.models.mlx.library import Broken
from mlxdiag.models.mlx.zoo import broken, families, inventory, modules


def test_models_and_the_others_are_all_that_lies_in_the_folder() -> None:
    (folder,) = mlx_lm.models.__path__
    lying = {path.stem for path in Path(folder).glob("*.py")} - {"__init__"}
    found = inventory()
    assert {*found.models, *found.broken, *found.others} == lying
    assert len(found.models) + len(found.broken) + len(found.others) == len(lying)


@pytest.mark.skipif(mlx_lm.__version__ != "0.32.2", reason="counted by hand in mlx-lm 0.32.2")
def test_the_known_release_holds_as_many_as_counted_by_hand() -> None:
    assert (len(modules()) + len(inventory().broken), len(inventory().others)) == (126, 10)


def test_a_module_that_exits_at_import_for_a_missing_package_stays_a_family_and_says_which() -> None:
    assert all(inventory().others.values())
    assert "olmo" in families()
    olmo = broken("olmo")
    assert olmo is None or ("needs the package hf_olmo" in olmo.reason and "ai2-olmo" in olmo.hint)
    assert not isinstance(olmo, Broken)


@pytest.mark.parametrize(
    ("added", "says"),
    [
        ("\n((( def\n", "SyntaxError"),
        ("\nimport sys; sys.exit(0)\n", "SystemExit: 0"),
        ("\nraise KeyboardInterrupt\n", "KeyboardInterrupt"),
        ("\nfrom .base import gone\n", "ImportError"),
    ],
)
def test_a_family_that_the_library_breaks_at_import_crashes_and_is_not_lost(
    tmp_path: Path, added: str, says: str
) -> None:
    (folder,) = mlx_lm.__path__
    shutil.copytree(folder, tmp_path / "mlx_lm")
    file = tmp_path / "mlx_lm" / "models" / "qwen3.py"
    lines = file.read_text().count("\n") + 2
    with file.open("a") as text:
        text.write(added)
    site = Site(first=(str(tmp_path),))
    found = run(Wanted(families=("qwen3", "qwen3_moe"), scenarios=("no-cache",), site=site), causes=Causes())
    (qwen3, other) = found.cells
    assert (qwen3.result, qwen3.codes, other.result) == ("crash", ["MD906"], "pass")
    assert says in qwen3.reason
    assert qwen3.where == f"mlx_lm/models/qwen3.py:{lines}"
    assert [fault.families for fault in found.faults] == [["qwen3"]]


def test_model_types_that_another_module_runs_have_a_row() -> None:
    found = set(families()) - {*modules(), *inventory().broken}
    assert found == {
        "mistral",
        "falcon_mamba",
        "nemotron-nas-linear",
    }


@pytest.mark.parametrize(
    ("added", "says"),
    [("os._exit(0)", "ended with exit code 0"), ("os.kill(os.getpid(), 11)", "died of SIGSEGV")],
)
def test_a_family_that_ends_the_process_at_import_is_left_out_and_crashes(
    tmp_path: Path, added: str, says: str
) -> None:
    (folder,) = mlx_lm.__path__
    shutil.copytree(folder, tmp_path / "mlx_lm")
    for name in ("qwen3", "gemma2"):
        with (tmp_path / "mlx_lm" / "models" / f"{name}.py").open("a") as text:
            text.write(f"\nimport os\n{added}\n")
    site = Site(first=(str(tmp_path),))
    families = ("gemma2", "qwen3", "qwen3_moe")
    found = run(Wanted(families=families, scenarios=("no-cache",), site=site), causes=Causes())
    assert [cell.result for cell in found.cells] == ["crash", "crash", "pass"]
    assert [cell.where for cell in found.cells[:2]] == ["mlx_lm/models/gemma2.py", "mlx_lm/models/qwen3.py"]
    assert all(says in cell.reason for cell in found.cells[:2])
