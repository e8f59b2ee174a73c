import pytest

from mlxdiag.reports import escape


@pytest.mark.parametrize(
    ("given", "shown"),
    [("plain ü 字", "plain ü 字"), ("a\nb", "a\\nb"), ("\x1b[2J", "\\x1b[2J"), ("\u202e", "\\u202e")],
)
def test_printable_shows_what_a_terminal_would_obey(given, shown):
    assert escape.printable(given) == shown


@pytest.mark.parametrize("line", ["::error::x", "   ::stop-commands::y", "\t::a"])
def test_a_log_line_never_begins_a_workflow_command(line):
    assert not escape.log_line(line).lstrip().startswith("::")


def test_double_colons_inside_a_line_stay():
    assert escape.log_line("a::b") == "a::b"


def test_command_escapes_are_those_of_the_manual():
    assert escape.command_data("100%\r\n") == "100%25%0D%0A"
    assert escape.command_property("a:b,c%") == "a%3Ab%2Cc%25"
