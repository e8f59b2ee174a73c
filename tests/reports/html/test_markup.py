import json

import pytest

from mlxdiag.reports.html.markup import Html, data, join, lines, tag, text
from tests.reports.html.pages import ATTACK


def test_a_plain_string_is_escaped_and_markup_is_not():
    assert tag("p", "a < b", tag("b", "c")) == "<p>a &lt; b<b>c</b></p>"


def test_attributes_are_escaped_and_named_for_html():
    assert tag("p", class_='x" y', data_step=5, hidden=True, title=None, id=False) == (
        '<p class="x&quot; y" data-step="5" hidden></p>'
    )


def test_an_attribute_may_be_called_name():
    assert tag("meta", name="viewport") == '<meta name="viewport">'


@pytest.mark.parametrize("text_", ["\x00", "\u202e", "\ud800", "\x1b[31m", "a\nb"])
def test_what_a_browser_would_obey_is_made_visible(text_):
    shown = text(text_)
    assert shown.isprintable()
    shown.encode()


def test_lines_keep_their_breaks_and_nothing_else():
    assert lines("a <\n\tb") == "a &lt;\n\\tb"


def test_join_escapes_what_is_not_markup():
    assert join(["<", Html("<br>")]) == "&lt;<br>"


def test_no_text_ends_a_block_of_data():
    block = data("x", {"name": ATTACK, "html": "<!-- &amp; \u2028"})
    assert block.count("<") == 2
    body = block[block.index(">") + 1 : block.rindex("<")]
    assert json.loads(body) == {"name": ATTACK, "html": "<!-- &amp; \u2028"}


def test_what_json_lacks_is_refused_rather_than_written():
    with pytest.raises(ValueError, match="JSON"):
        data("x", float("nan"))
