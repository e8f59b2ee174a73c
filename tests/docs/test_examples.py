"""What the documents show is what the program does."""

import re
from pathlib import Path

import pytest

from mlxdiag.cli.settings import KEYS
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.reports.formats import FORMATS
from mlxdiag.traces.reader import parse

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = re.compile(r"<!-- finds (\w+) -->\n```yaml\n(.*?)```", re.DOTALL)
EXAMPLES = EXAMPLE.findall((DOCS / "writing-a-trace.md").read_text(encoding="utf-8"))


def test_there_are_examples():
    assert len(EXAMPLES) == 4


@pytest.mark.parametrize(("code", "text"), EXAMPLES)
def test_a_shown_trace_gives_the_shown_finding(code, text):
    report = inspect_trace(parse(text))
    assert {finding.code for finding in report.findings} == ({code} - {"none"})
    assert report.summary.judged > 0
    assert report.summary.not_observed == 0


def test_every_format_and_key_is_explained():
    text = (DOCS / "in-ci.md").read_text(encoding="utf-8")
    for word in (*FORMATS, *KEYS):
        assert word in text
