import itertools
import random

import pytest

from mlxdiag.reports.attended import Attended, Query, parts
from mlxdiag.reports.html.segments import STAIRS, outline, segments


def attended(queries):
    return Attended(row=0, seq="a", family="f", queries=tuple(queries), origin="observed")


def covered(found):
    return sorted((s.kind, query, *s.at(query)) for s in found for query in range(s.top, s.bottom + 1))


def wanted(row):
    return sorted(
        (kind, i, *interval) for i, query in enumerate(row.queries) for kind, interval in parts(query)
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_segments_are_the_rows_whatever_the_mask(seed):
    draw = random.Random(seed)
    queries = []
    for position in range(30):
        first = draw.choice([0, max(0, position - 4), draw.randrange(position + 1)])
        last = draw.choice([position, position + 2, first])
        queries.append(
            Query(position, draw.random() > 0.1, (max(0, position - 4), position), ((first, last),))
        )
    row = attended(queries)
    assert covered(segments(row)) == wanted(row)


def test_a_causal_band_of_a_thousand_queries_is_two_shapes():
    """The triangle up to the window and the band after it."""
    queries = [Query(p, True, (max(0, p - 99), p), ((max(0, p - 99), p),)) for p in range(1000)]
    assert len(segments(attended(queries))) == 2


def test_a_short_outline_is_made_of_stairs_of_exactly_its_keys():
    queries = [Query(p, True, (0, p), ((0, p),)) for p in range(4)]
    (segment,) = segments(attended(queries))
    corners = list(outline(segment))
    area = abs(
        sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in zip(corners, corners[1:] + corners[:1], strict=True))
    )
    assert area / 2 == 1 + 2 + 3 + 4
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in itertools.pairwise(corners))


def test_a_long_outline_is_four_corners():
    queries = [Query(p, True, (0, p), ((0, p),)) for p in range(STAIRS + 1)]
    (segment,) = segments(attended(queries))
    assert len(list(outline(segment))) == 4
