"""A script's parts against what they are written after."""

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from mlxdiag.audit import repro
from mlxdiag.audit.cell import Fault
from mlxdiag.audit.schedules import schedules
from mlxdiag.models.mlx import zoo


@pytest.mark.parametrize(
    "family",
    [
        "gemma3_text",
        "gpt_oss",
        "longcat_flash",
        "mamba2",
        "phi3small",
        "prism_hadamard_qwen35",
        "recurrent_gemma",
        "solar_open",
    ],
)
def test_a_script_builds_the_model_that_was_audited(family):
    """Bit for bit, also where weights are packed, or the family takes its `Model` from another module."""
    instance = zoo.tiny(family)
    control = schedules.build("fresh-within-window", instance)
    fault = Fault(id="x", code="MD402", codes=["MD402"], library="mlx-lm", families=[family], cause="")
    script = {"__name__": "repro"}
    exec(compile(repro.script(fault, control=control), "repro.py", "exec"), script)
    built, audited = (dict(tree_flatten(m.parameters())) for m in (script["model"], instance.model))
    assert built.keys() == audited.keys()
    assert [name for name in built if not mx.array_equal(built[name], audited[name])] == []
