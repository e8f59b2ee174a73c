"""The file of causes: its form, how lines are found, and that the shipped one holds."""

from pathlib import Path

import mlx_lm
import pytest

from mlxdiag.audit.faults.causes import Locator, Where, load
from mlxdiag.audit.schedules.scenarios import NAMES
from mlxdiag.errors import UnreadableError
from mlxdiag.inspect.rules import RULES

SHIPPED = load()
ENTRIES = [*SHIPPED.causes, *SHIPPED.excuses]
INSTALLED = Locator(Path(mlx_lm.__file__).parents[1])

GOOD = """
causes:
- name: a-fault
  code: MD302
  match: [{families: [a], scenarios: [one], codes: [MD302]}]
  text: It is wrong.
  where: {file: mlx_lm/models/a.py, snippet: x}
excuses:
- name: an-excuse
  match: [{families: [a], scenarios: [one], codes: [MD402]}]
  text: It is right.
  where: {file: mlx_lm/models/a.py, snippet: x}
"""


def loaded(tmp_path, text):
    path = tmp_path / "causes.yaml"
    path.write_text(text)
    return load(path)


def test_a_whole_file_is_read(tmp_path):
    held = loaded(tmp_path, GOOD)
    assert [entry.name for entry in (*held.causes, *held.excuses)] == ["a-fault", "an-excuse"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("name: a-fault", "name: A Fault", "name"),
        ("name: an-excuse", "name: a-fault", "two entries are named a-fault"),
        ("text: It is wrong.", "text: ''", "text"),
        ("  text: It is wrong.\n", "", "text"),
        ("codes: [MD302]", "codes: []", "codes"),
        ("codes: [MD302]", "codes: [302]", "codes"),
        ("codes: [MD302]", "codes: [MD30]", "codes"),
        ("families: [a], scenarios: [one], codes: [MD402]", "scenarios: [one], codes: [MD402]", "families"),
        ("scenarios: [one], codes: [MD402]", "scenarios: ['*'], codes: [MD402]", "which scenarios"),
        ("code: MD302\n", "code: MD302\n  colour: red\n", "colour"),
        ("snippet: x}\nexcuses", "snippet: ''}\nexcuses", "snippet"),
        ("codes: [MD302]}", "codes: [MD302], reason: '('}", "a-fault: reason"),
        ("causes:\n", "causes: {\n", "causes.yaml"),
    ],
)
def test_what_is_not_of_its_form_is_named(tmp_path, old, new, says):
    assert old in GOOD
    with pytest.raises(UnreadableError, match=says):
        loaded(tmp_path, GOOD.replace(old, new))


def test_a_missing_file_is_unreadable(tmp_path):
    with pytest.raises(UnreadableError, match="No such file"):
        load(tmp_path / "none.yaml")


LINES = "def first():\n    return mask\n\ndef second():\n    x = 1\n    return mask\n"


@pytest.mark.parametrize(
    ("snippet", "after", "line"),
    [
        ("return mask", "", 2),
        ("return mask", "def second", 6),
        ("x = 1\n  return mask", "", 5),
        ("x = 1\n\nreturn mask", "", None),
        ("return mask", "def third", None),
        ("nothing", "", None),
    ],
)
def test_a_line_is_found_by_what_is_written_on_it(tmp_path, snippet, after, line):
    (tmp_path / "a.py").write_text(LINES)
    assert Locator(tmp_path).line(Where(file="a.py", snippet=snippet, after=after)) == line


def test_a_file_that_is_not_there_has_no_lines(tmp_path):
    assert Locator(tmp_path).line(Where(file="b.py", snippet="x")) is None


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_shipped_entry_points_at_the_installed_library(entry):
    assert INSTALLED.line(entry.where) is not None
    assert len(entry.text.split()) >= 8


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_shipped_entry_speaks_of_things_that_exist(entry):
    from fnmatch import fnmatchcase

    from mlxdiag.models.mlx import zoo

    for one in entry.match:
        for patterns, known in ((one.families, zoo.families()), (one.scenarios, NAMES)):
            for pattern in patterns:
                assert any(fnmatchcase(name, pattern) for name in known), pattern
        assert set(one.codes) <= {rule.code for rule in RULES}


@pytest.mark.parametrize("excuse", SHIPPED.excuses, ids=lambda entry: entry.name)
def test_no_shipped_excuse_covers_everything(excuse):
    for one in excuse.match:
        assert "*" not in one.scenarios
        assert len(one.codes) < 8
