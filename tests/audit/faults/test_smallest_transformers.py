"""What must stay the same while a schedule of transformers shrinks, and what it shrinks to."""

import msgspec
import pytest

pytest.importorskip("transformers")

from mlxdiag.audit.cell import Cell
from mlxdiag.audit.faults.minimal import in_words
from mlxdiag.audit.faults.smallest import circumstances, sight, smallest
from tests.audit.libraries.torch_cells import cell


def made(library, reason, trace=""):
    return Cell(
        library=library, family="x", scenario="y", result="fail", codes=["MD402"], oracles=["parity"],
        reason=reason, trace=trace,
    )  # fmt: skip


def test_the_phase_and_the_padding_of_what_is_wrong_stay():
    chunk, prefill = "step 2 (chunk): the logits differ", "step 1 (prefill): the logits differ"
    padded = '{"rows": [{"seq": "a", "left_padding": 3}]}'
    assert circumstances(made("transformers", chunk)).split() == ["chunk"]
    assert circumstances(made("transformers", prefill, padded)).split() == ["prefill", "padded"]
    assert sight(made("transformers", chunk)) != sight(made("transformers", prefill))
    assert sight(made("mlx-lm", chunk)) == sight(made("mlx-lm", prefill))


def test_a_crash_shrinks_and_a_loop_of_the_library_does_not():
    (found,) = smallest(msgspec.to_builtins(cell("gemma3_text", "crop-after-crop")), 0)
    assert found.wrong
    assert in_words(found.trace).startswith("prefill 7, verify 2, rollback 1 x 2, ")
    driven = msgspec.structs.replace(cell("gemma3_text", "crop-after-crop"), scenario="assisted")
    assert list(smallest(msgspec.to_builtins(driven), 0)) == []
