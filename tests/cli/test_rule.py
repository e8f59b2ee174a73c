import json
from pathlib import Path

import pytest

from mlxdiag.inspect.rules import RULES
from mlxdiag.reports import rulebook
from tests.cli.program import call

BOOK = Path(__file__).parents[2] / "docs" / "rules.md"


def test_the_list_has_every_rule_in_order(capsys):
    lines = call(capsys, "rule").out.splitlines()
    assert [line.split()[0] for line in lines] == sorted(rule.code for rule in RULES)


@pytest.mark.parametrize("asked", ["MD101", "md101", "mask-shorter-than-keys"])
def test_a_rule_is_found_by_code_or_name(capsys, asked):
    ran = call(capsys, "rule", asked)
    assert ran.code == 0
    assert ran.out.startswith("MD101 mask-shorter-than-keys\n")
    assert "Fires on:" in ran.out
    assert "Does not fire on:" in ran.out


def test_the_beginning_of_a_code_lists_its_group(capsys):
    lines = call(capsys, "rule", "MD1").out.splitlines()
    assert {line[:3] for line in lines} == {"MD1"}
    assert len(lines) > 5


def test_an_unknown_rule_is_a_usage_error_with_a_guess(capsys):
    ran = call(capsys, "rule", "mask-shorter-than-key")
    assert ran.code == 2
    assert "did you mean mask-shorter-than-keys" in ran.err


def test_json_is_plain_data(capsys):
    entries = json.loads(call(capsys, "rule", "MD101", "--format", "json").out)
    assert entries[0]["code"] == "MD101"
    assert entries[0]["fires"]


def test_the_printed_book_is_the_shipped_one():
    """After changing a rule: make docs."""
    assert BOOK.read_text(encoding="utf-8") == rulebook.book(sorted(RULES, key=lambda rule: rule.code))
