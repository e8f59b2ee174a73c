"""One schedule on a model that stands for a rank's part: what is told of it, and what is not."""

from __future__ import annotations

import pytest

from mlxdiag.audit.distributed.schedules import SCHEDULES
from mlxdiag.audit.distributed.torchrun.watched import Alone, watch
from mlxdiag.models.torch import zoo
from mlxdiag.models.torch.instance import TorchInstance
from tests.audit.distributed.torchrun.faulty_rank import drops_its_window

TOLERANCE = 1e-3


def tiny(family: str) -> TorchInstance:
    made = zoo.tiny(family)
    assert isinstance(made, TorchInstance)
    return made


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_same_model_is_right_at_every_position_and_for_every_query(name: str) -> None:
    rows, pieces = SCHEDULES[name]
    found = watch(tiny("gemma3_text"), Alone(tiny("gemma3_text"), name, 0), TOLERANCE)
    assert found.seen == []
    assert found.difference.positions == []
    assert found.difference.compared == 19 * rows
    # One call of each kind of layer and piece holds its queries.
    assert found.judged["visibility"] == 2 * 19 * rows
    assert found.judged["geometry"] >= 2 * len(pieces)


def test_a_window_that_is_dropped_is_seen_with_its_line_and_layers() -> None:
    part = tiny("gemma3_text")
    drops_its_window(part)
    found = watch(part, Alone(tiny("gemma3_text"), "two rows of one length", 0), TOLERANCE)
    assert {code for seen in found.seen for code in seen.codes} == {"MD302"}
    first = found.seen[0]
    # Rows are fed by five: the second piece holds position 8, the first with more than a window behind it.
    assert first.step == 2
    assert first.layers == [0, 2]
    assert first.positions[0] == 8
    assert first.where.startswith("transformers/models/gemma3/modeling_gemma3.py:")
    # The second row's positions follow on the first's.
    assert found.difference.positions[0] == 8
    assert 19 + 8 in found.difference.positions


def test_what_one_process_sees_as_well_is_not_told_of_the_split() -> None:
    whole, part = tiny("gemma3_text"), tiny("gemma3_text")
    drops_its_window(whole)
    drops_its_window(part)
    found = watch(part, Alone(whole, "fresh over the window", 0), TOLERANCE)
    assert found.seen == []
    assert found.difference.positions == []
