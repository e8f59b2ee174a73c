"""From findings to a verdict: which of them count, which speaks, and the positions that are named."""

import pytest

from mlxdiag.audit.judge import reading
from mlxdiag.errors import UnjudgedError
from mlxdiag.inspect.findings import Finding
from mlxdiag.models.adapter import Geometry, LayerSpec
from mlxdiag.traces.types import Attention, Entry, Header, Row, Trace


def geometry(*softmaxes):
    layers = (
        LayerSpec(index=i, family=softmax, attention="full", softmax=softmax)
        for i, softmax in enumerate(softmaxes)
    )
    return Geometry(architecture="made_up", layers=tuple(layers), depth=len(softmaxes))


def finding(code, severity="error", **fields):
    return Finding(code=code, name="made-up", severity=severity, message="made up", **fields)


@pytest.mark.parametrize(
    ("code", "severity", "counts"),
    [
        ("MD101", "error", True),
        ("MD302", "warning", True),
        ("MD101", "warning", False),
        ("MD302", "info", False),
    ],
)
def test_errors_count_and_whatever_a_query_sees_wrongly(code, severity, counts):
    assert reading.damning(finding(code, severity), geometry("fused")) is counts


@pytest.mark.parametrize(
    ("code", "family", "counts"),
    [
        ("MD305", "opaque", False),
        ("MD204", "opaque", False),
        ("MD402", "opaque", True),
        ("MD305", "fused", True),
        ("MD305", "fused, opaque", True),
        ("MD204", None, True),
    ],
)
def test_of_opaque_layers_only_the_logits_count(code, family, counts):
    assert reading.damning(finding(code, family=family), geometry("fused", "opaque")) is counts


def test_what_is_of_no_layer_does_not_count_where_all_are_opaque():
    assert not reading.damning(finding("MD204"), geometry("opaque", "opaque"))


def test_visibility_speaks_before_geometry_before_parity_and_the_earliest_of_a_kind():
    found = [
        finding("MD402", step=1),
        finding("MD204", step=2),
        finding("MD305", step=4),
        finding("MD302", step=3),
    ]
    assert reading.headline(found).code == "MD302"
    assert reading.headline(found[:2]).code == "MD204"


def test_positions_are_the_rows_own_without_the_padding_in_front():
    call = Attention(family="full", missing=[(0, 3, 0), (1, 1, 4)])
    rows = [Row(seq="a", offset=0, tokens=4, left_padding=2), Row(seq="b", offset=5, tokens=6)]
    trace = Trace(Header(), [Entry(step=1, rows=rows, attention=[call])])
    assert list(reading.wrong_queries(trace, {})) == [1, 6]


def test_a_query_that_sees_more_keys_than_its_window_is_named():
    call = Attention(family="sliding", visible=[[1, 2, 3, 3, 4]], totals={"old": 1})
    trace = Trace(Header(), [Entry(step=1, rows=[Row(seq="a", offset=2, tokens=5)], attention=[call])])
    assert list(reading.wrong_queries(trace, {"sliding": 3})) == [6]
    assert list(reading.wrong_queries(trace, {"sliding": None})) == []


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (ValueError("Speculative decoding requires a trimmable prompt cache"), True),
        # What transformers says of tokens that are taken back, whatever it raises.
        (RuntimeError("`crop` was called, but the current layer does not track past states."), True),
        (NotImplementedError("later"), True),
        (UnjudgedError("nothing to judge"), True),
        (RuntimeError("The size of tensor a (3) must match the size of tensor b (13)"), False),
        # Only a ValueError declines in these words: of another kind it is a library that breaks.
        (TypeError("unsupported operand type(s) for +: 'NoneType' and 'int'"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_refusal_is_told_from_a_crash(error, refused):
    assert reading.refuses(error, str(error)) is refused
