import itertools
import re
from array import array

from mlxdiag.reports.html import series
from mlxdiag.reports.html.story import NONE, Track
from tests.reports.html.pages import BLIND, DECODE, Page, told


def simplified(values):
    return series._simplified(array("q", range(len(values))), array("q", values))


def at(points, place):
    """The height of a drawn line."""
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if x0 <= place <= x1:
            return y0 + (y1 - y0) * (place - x0) / (x1 - x0)
    raise AssertionError(place)


def test_a_straight_stretch_is_two_points():
    assert simplified(range(1000)) == [(0, 0), (999, 999)]


def test_the_line_still_passes_every_value():
    values = [0, 1, 2, 3, 3, 3, 10, 9, 8, 8, 0]
    points = simplified(values)
    assert len(points) < len(values)
    assert [at(points, place) for place in range(len(values))] == values


def test_what_was_not_observed_is_left_out():
    assert simplified([4, NONE, 6]) == [(0, 4), (2, 6)]


def test_one_spike_in_a_hundred_thousand_steps_is_drawn():
    values = [place % 7 for place in range(100_000)]
    values[54_321] = 500
    points = simplified(values)
    assert len(points) <= series.POINTS + 2
    assert (54_321, 500) in points


def test_a_misfit_is_marked_where_mask_and_keys_differ():
    track = Track("a", "f", None)
    for place, (keys, mask) in enumerate([(4, 4), (5, 3), (6, NONE)]):
        track.places.append(place)
        for column, value in zip(track.columns, (0, NONE, keys, mask), strict=True):
            column.append(value)
    assert list(series._misfits(track)) == [(1, 3)]


def test_the_panel_says_in_words_what_it_shows():
    text = Page(series.panels(told(BLIND, DECODE))).text
    assert "returned keys 4 to 8; mask columns 4; mask and keys differ at step 1" in text


def test_a_run_without_lengths_has_no_panel():
    assert series.panels(told("- {step: 1, rows: [{seq: a}]}\n")) == ""


def test_one_trough_in_a_hundred_thousand_steps_is_drawn():
    values = [100 + place % 7 for place in range(100_000)]
    values[54_321] = 3
    assert (54_321, 3) in simplified(values)


def test_the_sequence_of_the_first_finding_is_shown_and_the_others_are_folded():
    others = [DECODE.replace("seq: a", "seq: b").replace("step: 2", f"step: {n}") for n in (2, 3, 4)]
    shown, folded = series.panels(told(BLIND, *others)).split("<summary>b</summary>")
    assert "a: offset before the call" in Page(shown).text
    assert "b: offset before the call" not in Page(shown).text
    assert "b: offset before the call" in Page(folded).text


def test_a_sequence_that_is_a_speck_of_the_run_has_its_own_steps_drawn():
    others = [DECODE.replace("seq: a", "seq: b").replace("step: 2", f"step: {n}") for n in range(3, 11)]
    held = told(*others, BLIND, DECODE)
    assert series._range(held, held.tracks["a", "sliding"]) == (7.5, 9.5)
    assert series._range(held, held.tracks["b", "sliding"]) == (-0.5, 9.5)


def test_a_tick_is_the_number_of_its_step():
    held = told(BLIND.replace("step: 1", "step: 70"), DECODE.replace("step: 2", "step: 71"))
    assert series._steps(held, (-0.5, 1.5)) == [(0, "70"), (1, "71")]


def test_the_table_holds_the_lengths_at_the_corners():
    rows = re.findall(r"<tr>(<td>.*?)</tr>", series.panels(told(BLIND, DECODE)))
    held = [re.findall(r"<td>(.*?)</td>", row) for row in rows]
    assert held[:2] == [["1", "0", "–", "8", "4"], ["2", "8", "–", "4", "–"]]
