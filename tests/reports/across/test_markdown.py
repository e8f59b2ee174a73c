from mlxdiag.reports.across.markdown import render
from tests.reports.across.made import across


def test_the_page_has_the_table_the_differences_and_what_was_not_compared() -> None:
    page = render(across())
    assert page.startswith("# mlx-lm 0.32.2 and transformers 5.24.0 on the same weights, on cpu\n")
    assert "| llama | 8.0e-06 | `.` | `o` |" in page
    assert "| mistral |  | `D` | `r` |" in page
    assert "### window-not-read" in page
    assert "in one library only" in page.split("## Not compared")[1]
