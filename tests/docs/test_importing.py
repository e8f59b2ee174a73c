"""The page on importing shows what the importers do, and names all of them."""

import re
from pathlib import Path

import pytest

from mlxdiag.traces.importers.registry import IMPORTERS
from tests.traces.importers.reading import codes, trace_of

PAGE = (Path(__file__).parents[2] / "docs" / "importing.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"<!-- imports (\w+) -->\n```text\n(.*?)```", PAGE, re.DOTALL)


def test_every_format_has_its_line_and_no_other_is_promised():
    listed = re.findall(r"^\| `([\w.-]+)` \|", PAGE, re.MULTILINE)
    assert listed == [importer.name for importer in IMPORTERS]


def test_there_are_examples():
    assert [expected for expected, _ in EXAMPLES] == ["MD101", "info", "MD901"]


@pytest.mark.parametrize(("expected", "log"), EXAMPLES)
def test_a_shown_log_gives_the_shown_finding(expected, log):
    assert expected in {word for found in codes(log) for word in found}


def test_the_numbers_of_the_first_example_are_explained():
    step = next(entry for entry in trace_of(EXAMPLES[0][1]).entries if entry.phase == "chunk")
    assert (step.rows[0].tokens, step.rows[0].padded, step.mask.offset) == (153, 160, 0)
    assert step.attention[0].window == 512
