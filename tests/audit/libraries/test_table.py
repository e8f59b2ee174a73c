"""Which libraries are audited, and which of them an instance runs on."""

import pytest

from mlxdiag.audit.engine import table as columns
from mlxdiag.audit.faults import causes
from mlxdiag.audit.libraries import table
from mlxdiag.models.mlx import zoo


def test_an_instance_is_of_the_library_whose_backend_it_has():
    assert table.of(zoo.tiny("llama")).name == "mlx-lm"


@pytest.mark.parametrize("name", table.NAMES)
def test_a_library_is_what_its_name_says_and_has_scenarios_and_causes(name):
    library = table.named(name)
    assert library.name == name
    assert library.backend == table.MODULES[name][1]
    assert columns.usual(name)
    assert set(columns.usual(name)) <= set(columns.names(name))
    assert causes.load(library=name) is not None


def test_every_column_has_a_title_once():
    names = [scenario.name for scenario in columns.COLUMNS]
    assert len(names) == len(set(names))
    assert {*columns.names("mlx-lm"), *columns.names("transformers")} == set(names)
