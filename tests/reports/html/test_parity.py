import math
import re

from mlxdiag.reports.html import parity
from mlxdiag.reports.html.story import Compared
from tests.reports.html.pages import Page


def compared(start, stop, max_abs, first=None):
    return Compared(start, start, "a", start, stop, max_abs, first, 1e-3, 0.2, "single-pass")


RIGHT, WRONG, NAN = compared(0, 90, 0.0), compared(90, 100, 2.5, 93), compared(100, 101, math.inf, 100)


def heights(text, name):
    (path,) = re.findall(rf'<path d="([^"]*)" class="s {name}"', text)
    return [float(y) for y in re.findall(r"M[\d.]+ (-?[\d.]+)H", path)]


def test_differences_and_tolerance_share_a_logarithmic_axis():
    text = parity.panels([RIGHT, WRONG])
    assert heights(text, "apart") == [round(math.log10(2.5), 4)]
    assert heights(text, "tolerance") == [-3.0]
    assert heights(text, "agree")[0] < -3


def test_nan_stands_at_the_top():
    text = parity.panels([RIGHT, WRONG, NAN])
    assert max(heights(text, "apart")) > math.log10(2.5)
    assert "by up to NaN" in Page(text).text


def test_the_sentence_says_where_it_begins_and_how_far_it_goes():
    said = parity.sentence([RIGHT, WRONG], 1e-3)
    assert (
        "1 of 2 steps part from the single pass, first at position 93, by up to 2.5 (tolerance 0.001)" in said
    )
    assert parity.sentence([RIGHT], 1e-3).startswith("The logits of 90 positions agree")


def test_another_library_is_named():
    other = Compared(0, 0, "a", 0, 5, 0.5, 0, 1e-3, None, "transformers")
    assert "1 of 1 steps part from transformers, first at position 0" in parity.sentence([other], 1e-3)


def test_a_speck_of_wrong_positions_is_drawn_larger():
    text = parity.panels([compared(0, 2200, 0.0), compared(2200, 2201, 4.0, 2200)])
    assert "Positions before 2198 agree and are not drawn" in Page(text).text
    assert 'viewBox="2198' in text


def test_sequences_that_part_are_shown_and_the_others_folded():
    other = Compared(0, 0, "b", 0, 5, 0.0, None, 1e-3, None, "single-pass")
    read = Page(parity.panels([other, WRONG]))
    assert read.text.index("by up to 2.5") < read.text.index("agree with the single pass")


def test_equal_logits_are_said_and_not_drawn():
    read = Page(parity.panels([RIGHT]))
    assert "the largest difference is 0. Nothing to draw." in read.text
    assert not read.all("svg")
    assert read.all("table")


def test_a_few_sequences_are_shown_at_once_and_the_worst_first():
    parted = [Compared(n, n, f"s{n}", 0, 5, float(n), 0, 1e-3, None, "single-pass") for n in range(1, 6)]
    shown, *folded = parity.panels(parted).split("<details><summary>s")
    assert re.findall(r"<b>(s\d)</b>", shown) == ["s5", "s4", "s3"]
    assert [one[0] for one in folded] == ["2", "1"]


def test_noise_and_tolerance_are_drawn_at_their_heights():
    text = parity.panels([compared(0, 90, 1e-5), WRONG])
    assert heights(text, "noise") == [-5.0]
    ((low, high),) = re.findall(r'<rect x="\d+" y="(-?\d+)"[^>]* height="([\d.]+)" class="within"', text)
    assert int(low) + float(high) == -3


def test_the_table_says_where_each_step_parts():
    rows = re.findall(r"<tr>(<td>.*?)</tr>", parity.panels([RIGHT, WRONG]))
    assert [re.findall(r"<td>(.*?)</td>", row)[1::2] for row in rows] == [["0–89", "–"], ["90–99", "93"]]
