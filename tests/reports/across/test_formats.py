import pytest

from mlxdiag.reports.across import FORMATS, renderer
from tests.reports.across.made import across


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_renders(format: str) -> None:
    assert "mistral" in renderer(format)(across())
