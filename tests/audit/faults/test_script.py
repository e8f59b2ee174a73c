"""Scripts in workers: written, run once, and told of."""

import msgspec
import pytest

from mlxdiag.audit.cell import Fault
from mlxdiag.audit.faults import text
from mlxdiag.audit.faults.script import script
from mlxdiag.audit.schedules import schedules
from mlxdiag.models.mlx import zoo


def made(family, scenario, code, folder):
    trace = schedules.build(scenario, zoo.tiny(family))
    fault = Fault(
        id="it",
        code=code,
        codes=[code],
        library="mlx-lm",
        families=[family],
        cause="x",
        smallest=text.of(trace),
    )
    (told,) = script(msgspec.to_builtins(fault), str(folder), 0)
    return told


@pytest.mark.parametrize(("family", "shown"), [("gemma2", True), ("llama", False)])
def test_a_script_is_run_once_it_is_written(family, shown, tmp_path):
    """Full attention has no window to ignore."""
    told = made(family, "fresh-over-window", "MD302", tmp_path)
    assert (told.name, told.shown) == ("it.py", shown)
    assert told.said == ("FAULT" if shown else "OK: the fault is not there")
    assert "from mlx_lm" in (tmp_path / "it.py").read_text()


def test_without_a_schedule_the_reason_is_told(tmp_path):
    fault = Fault(id="it", code="MD302", library="mlx-lm", families=["gemma2"], cause="x")
    (told,) = script(msgspec.to_builtins(fault), str(tmp_path), 0)
    assert not told.shown
    assert told.said == "there is no schedule to write it of"
    assert list(tmp_path.iterdir()) == []
