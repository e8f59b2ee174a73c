"""The causes that were read in transformers: every line is in the installed copy, every name counts."""

from pathlib import Path

import pytest

transformers = pytest.importorskip("transformers")

from mlxdiag.audit.engine import table  # noqa: E402
from mlxdiag.audit.faults import causes, faults  # noqa: E402
from mlxdiag.audit.faults.causes import Locator  # noqa: E402
from tests.audit.libraries.torch_cells import cell  # noqa: E402

KNOWN = causes.load(library="transformers")
SOURCE = Locator(Path(transformers.__file__).parents[1])


def test_no_entry_is_stale():
    assert faults.stale(KNOWN, SOURCE) == []


def test_every_scenario_that_is_named_exists():
    from fnmatch import fnmatchcase

    names = table.names("transformers")
    for entry in [*KNOWN.causes, *KNOWN.excuses]:
        for match in entry.match:
            for pattern in match.scenarios:
                assert any(fnmatchcase(name, pattern) for name in names), (entry.name, pattern)


@pytest.mark.parametrize(
    ("family", "scenario", "name"),
    [
        ("gemma3_text", "crop-after-crop", "second-crop-loses-keys"),
        ("lfm2", "rows-leave", "convolutions-cannot-select-rows"),
        ("llama4_text", "left-padding-as-heads", "llama4-temperature-counts-padding"),
    ],
)
def test_a_wrong_cell_has_the_cause_that_was_read(family, scenario, name):
    (judged,), (fault,) = faults.group([cell(family, scenario)], KNOWN, SOURCE)
    assert fault.id == name
    assert fault.known
    assert judged.where.rpartition(":")[2].isdigit()
