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


def test_padding_is_counted_apart_from_the_queries_and_their_positions():
    text = Page(
        figure(
            SLIDING + "{step: 1, rows: [{seq: a, offset: 4, tokens: 3, padded: 5}], attention: "
            "[{family: full, k: 9, mask: causal}]}"
        )
    ).text
    assert "3 queries at 4–6 and 2 of padding over 9 returned keys" in text


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


def test_lengths_are_bars_at_one_scale():
    assert re.findall(r'<span>(.*?)</span><i style="width:([\d.]+)%', figure(BLIND)) == [
        ("returned keys 8", "100.00"),
        ("mask columns 4", "50.00"),
    ]


def test_rows_that_lie_end_to_end_are_each_told_their_own_queries_and_share_the_key_axis():
    text = figure(
        SLIDING
        + "{step: 8, rows: [{seq: a, offset: 21, tokens: 1}, {seq: b, offset: 66, tokens: 1}], attention: "
        "[{family: sliding, cache: paged, window: 4, offset: [21, 66], q: 2, k: [4, 4], mask: [1, 1, 2, 8]}]}"
    )
    assert re.findall(r'<span>(.*?)</span><i style="width:([\d.]+)%', text) == [
        ("returned keys 8", "100.00"),
        ("mask columns 8", "100.00"),
    ]
    assert "1 query at 21 over 4 returned keys" in Page(text).text


def test_the_offset_a_misfitting_mask_was_built_at_is_told():
    text = figure(BLIND.replace("attention:", "mask: {shape: [8, 4], offset: 2}, attention:"))
    assert "The mask was built at offset 2; the call's first query is at 0." in Page(text).text


def test_each_class_of_keys_of_others_has_a_column_of_its_own():
    """Both left of the picture of keys 0 to 3, whose two columns are one key wide each."""
    lefts = re.findall(r'<b class="\w+" style="left:([\d.]+)%', figure(FOREIGN))
    assert [round(float(left) * 6 / 100, 2) for left in lefts] == [0.5, 1.5]


def test_a_token_taken_back_and_a_gap_are_marked_at_their_keys():
    text = figure(
        SLIDING + "{rows: [{offset: 5, tokens: 1}], attention: [{family: full, k: 6, first: [[0]], "
        "last: [[5]], visible: [[4]], missing: [[0, 0, 2]], padding: [[0, 0, 3]]}]}"
    )
    marks = re.findall(r'<b class="(\w+)" style="left:([\d.]+)%', text)
    assert [(kind, round(float(left) * 6 / 100, 2)) for kind, left in marks] == [
        ("missing", 2.5),
        ("padding", 3.5),
    ]


def test_ticks_and_table_speak_of_positions():
    """Eight queries from offset 16: number 20 is the fifth, four and a half rows of eight down."""
    text = figure(BLIND.replace("offset: 0", "offset: 16").replace("k: 8", "k: 11"))
    assert 'top:56.250%">20<' in text
    (first, *_) = re.findall(r"<tr><td>(.*?)</td>", text)
    assert first.startswith("16")
