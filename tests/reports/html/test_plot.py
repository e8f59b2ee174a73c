import itertools
import re

import pytest

from mlxdiag.reports.html.plot import plot, ticks
from tests.reports.html.pages import Page


@pytest.mark.parametrize(("low", "high"), [(0, 7), (0, 2215), (1690, 2201), (3, 3), (-5, 100_000)])
def test_ticks_are_round_whole_and_inside(low, high):
    found = ticks(low, high)
    assert 1 <= len(found) <= 12
    assert all(low <= at <= high and float(at).is_integer() for at, _ in found)
    steps = {b[0] - a[0] for a, b in itertools.pairwise(found)}
    assert len(steps) <= 1
    for step in steps:
        assert str(int(step)).rstrip("0") in ("1", "2", "5")


def drawn(**settings):
    ends = {"x_ticks": [(5, "five")], "y_ticks": [(1, "one")], "x_title": "x", "y_title": "y"}
    return plot("", (0, 10), (0, 4), label="said", height=150, **ends, **settings)


def test_ticks_stand_where_their_values_are():
    assert 'left:50.000%">five' in drawn()
    assert 'top:75.000%">one' in drawn()
    assert 'top:25.000%">one' in drawn(down=True)


def test_the_picture_is_named():
    assert Page(drawn()).all("svg", role="img", **{"aria-label": "said"})


def test_a_point_and_its_tick_have_one_height():
    """The drawing is turned over as a whole: y = 1 of 0..4 lies at 4 - 1 = 3 parts from the top."""
    (turned,) = re.findall(r"matrix\(1 0 0 -1 0 ([\d.]+)\)", drawn())
    assert float(turned) - 1 == 3
