import pytest

from mlxdiag.reports.audit.formats import renderer
from mlxdiag.reports.formats import FORMATS
from tests.reports.audit.examples import faulty, shown


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_shows_every_fault(format):
    out = renderer(format)(shown())
    assert all(fault.id in out for fault in faulty().faults)
    assert out.endswith("\n")
