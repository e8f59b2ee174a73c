import re

from mlxdiag.reports.html import mask_map
from tests.reports.html.pages import Page
from tests.reports.test_attended import SLIDING, calls

BLIND = (
    SLIDING + "{step: 3, rows: [{seq: a, offset: 0, tokens: 8}], attention: [{family: sliding, k: 8, "
    "mask: [8, 4], fate: discarded, fallback: sliced}]}"
)
FOREIGN = (
    SLIDING
    + "{step: 3, rows: [{seq: a, offset: 3, tokens: 1}], attention: [{family: full, k: 9, first: [[0]], "
    "last: [[3]], visible: [[9]], foreign: [[0, 0, 7]], padding: [[0, 0, -1]], "
    "totals: {foreign: 4, padding: 1}}]}"
)


def figure(text):
    return mask_map.figure(calls(text)[0])


def shapes(text, kind):
    """Each polygon as its corners in percent."""
    found = re.findall(rf'<i class="{kind}" style="clip-path:polygon\(([^)]*)\)"', figure(text))
    return [[tuple(map(float, re.findall(r"[\d.]+", corner))) for corner in one.split(",")] for one in found]


def area(corners):
    pairs = zip(corners, corners[1:] + corners[:1], strict=True)
    return abs(sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in pairs)) / 2


def test_the_shapes_cover_exactly_the_keys_of_their_class():
    """W = 4 over 8 keys: 26 pairs are due, 10 of them (keys 4 to 7) are seen; a pair is 1/64 of the box."""
    cell = 100 * 100 / 64
    assert round(sum(map(area, shapes(BLIND, "right"))) / cell) == 10
    assert round(sum(map(area, shapes(BLIND, "missing"))) / cell) == 16


def test_the_words_say_what_the_picture_shows():
    text = Page(figure(BLIND)).text
    assert "Derived from shapes, not observed (a capped mask over the newest 4 of the returned keys)" in text
    assert "7 of 8 do not see what they must, 4 of them no key at all" in text
    assert "4 keys have no column. The mask was discarded: sliced." in text


def test_the_legend_names_the_classes_that_are_drawn_and_no_others():
    legend = figure(BLIND).split('class="legend"')[1].split("</ul>")[0]
    assert "due, not seen" in legend
    assert "future" not in legend


def test_keys_of_others_are_marked_by_letters_beside_the_picture():
    text = figure(FOREIGN)
    assert re.findall(r'<b class="(\w+)"[^>]*>(\w)</b>', text) == [("foreign", "f"), ("padding", "p")]
    assert "4 foreign pairs (1 of them drawn)" in Page(text).text


def test_what_was_not_seen_to_be_seen_is_said_to_be_so():
    text = Page(figure(BLIND.replace("fate: discarded, fallback: sliced", "fate: used"))).text
    assert "What was seen is not recorded" in text


def test_of_a_batch_only_the_wrong_rows_are_drawn():
    rows = ", ".join("{offset: 0, tokens: 2}" for _ in range(5))
    observed = (
        SLIDING
        + f"{{step: 1, rows: [{rows}], attention: [{{family: full, q: 2, k: 2, offset: [0, 0, 0, 0, 0], "
        "first: [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]], last: [[0, 1], [0, 1], [0, 1], [0, 1], [0, 1]], "
        "visible: [[1, 2], [1, 2], [1, 2], [1, 2], [1, 2]], missing: [], totals: {wrong_queries: 0}}]}"
    )
    read = Page(figure(observed))
    assert len(read.all("figure")) == 1
    assert "4 further rows of this batch not drawn" in read.text


def test_a_call_of_which_nothing_is_known_is_not_drawn():
    assert figure(SLIDING + "{rows: [{seq: a}], attention: [{family: full, k: 4}]}") is None
