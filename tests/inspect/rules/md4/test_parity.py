"""What is said where two libraries differ and somebody has looked inside."""

import pytest

from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.types import PARTINGS, Entry, Header, Output, Parity, Row, Trace


def finding(**inside):
    parity = Parity(reference="transformers", max_abs=4.5, first=8, tolerance=0.0002, compared=19, **inside)
    step = Entry(step=1, rows=[Row(seq="a", offset=0, tokens=19)], output=[Output(parity=parity)])
    (found,) = inspect_trace(Trace(Header(), [step])).findings
    return found


@pytest.mark.parametrize("kind", PARTINGS)
def test_every_kind_of_parting_has_words_and_rounding_alone_is_no_error(kind):
    found = finding(kind=kind, layer=3)
    assert "; first in layer 3: " in found.message
    assert (found.code, found.severity) == ("MD403", "warning" if kind == "precision" else "error")


def test_what_a_query_sees_here_is_told_before_what_it_sees_there():
    found = finding(kind="visibility", layer=0, query=8, seen=[0, 0, 3, 8], seen_there=[])
    assert found.message.endswith("; position 8 sees 0, 3-8 here and nothing there")


def test_nothing_is_added_where_nobody_has_looked():
    assert finding().message.endswith("first at position 8")
