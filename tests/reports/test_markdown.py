import re

from mlxdiag.reports import markdown
from mlxdiag.reports.view import View
from tests.reports.examples import faulty, hostile


def test_findings_are_a_table_and_then_told_in_full():
    shown = markdown.render([faulty()], View()).split("\n")
    assert shown[0] == "## runs/a.yaml: 1 error, 1 warning, 1 info"
    assert "| severity | rule | where | what |" in shown
    assert any(
        line.startswith("| error | MD101 mask-shorter-than-keys | step 5, seq-6, sliding") for line in shown
    )
    assert "- next: mlxdiag replay trace.yaml" in shown


def test_sections_are_tables():
    shown = markdown.render([faulty()], View()).split("\n")
    start = shown.index("| policy | crash | empty rows | parity |")
    assert shown[start + 1] == "| --- | --- | --- | --- |"
    assert shown[start + 2] == "| strict | yes | - | - |"


def test_hostile_text_neither_splits_cells_nor_formats_nor_mentions():
    for line in markdown.render([hostile()], View()).split("\n"):
        assert line.isprintable()
        assert "<b>" not in line
        assert "@all" not in line
        assert not re.search(r"(?<!\\)`", line)
        assert not re.search(r"(?<!\\)\]\(", line)
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) in (2, 5)
