from __future__ import annotations

import subprocess
import sys

from mlxdiag.models.adapter import Geometry, LayerSpec, Skipped
from mlxdiag.traces.types import Family, Tokens


def _sharing() -> Geometry:
    layers = (
        LayerSpec(index=0, family="sliding", attention="sliding", window=8, cache="rotating"),
        LayerSpec(index=2, family="full", attention="full", sinks=True),
        LayerSpec(index=3, family="sliding", attention="sliding", window=8, cache="rotating", shares=0),
    )
    return Geometry(architecture="made_up", layers=layers, depth=4, tokens=Tokens(pad=0), config={"a": 1})


def test_families_group_equal_layers_and_count_those_that_share_keys() -> None:
    assert _sharing().families() == {
        "sliding": Family(attention="sliding", cache="rotating", window=8, count=2, layers=[0, 3], shares=1),
        "full": Family(attention="full", cache="dense", count=1, layers=[2], sinks=True),
    }


def test_readers_are_the_owner_and_the_layers_that_share_its_keys() -> None:
    geometry = _sharing()
    assert geometry.readers(0) == (0, 3)
    assert geometry.readers(2) == (2,)
    assert [layer.index for layer in geometry.owners()] == [0, 2]


def test_a_layer_without_token_mixing_is_not_found() -> None:
    assert _sharing().layer(1) is None
    assert _sharing().layer(2) == _sharing().layers[1]


def test_the_model_entry_announces_layers_tokens_and_the_fields_they_came_from() -> None:
    entry = _sharing().model_entry("m")
    assert (entry.phase, entry.name, entry.architecture) == ("model", "m", "made_up")
    assert entry.layers == _sharing().families()
    assert entry.tokens == Tokens(pad=0)
    assert entry.config == {"a": 1}
    assert entry.note is None


def test_what_had_to_be_assumed_is_noted_in_the_model_entry() -> None:
    geometry = Geometry(architecture="a", layers=(), depth=1, notes=("this", "that"))
    assert geometry.model_entry("m").note == "this; that"


def test_skipped_reads_as_a_sentence_with_its_hint() -> None:
    assert str(Skipped("no mlx")) == "no mlx"
    assert str(Skipped("no mlx", "pip install mlx")) == "no mlx (pip install mlx)"


def test_the_interface_and_the_geometry_import_no_framework() -> None:
    program = (
        "import sys, mlxdiag.models.adapter, mlxdiag.models.catalogue, mlxdiag.models.doctor,"
        " mlxdiag.models.mlx.tiny, mlxdiag.models.mlx.checkpoint, mlxdiag.models.mlx.devices;"
        "print([name for name in ('mlx', 'mlx_lm', 'torch', 'transformers', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
