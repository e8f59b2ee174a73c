"""What a difference is, and which library departs from what the config means."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mlxdiag.audit.across.cell import Kind
from mlxdiag.audit.across.compared import Compared, Unlike
from mlxdiag.audit.across.parting import Parting
from mlxdiag.models.adapter import Geometry
from mlxdiag.models.inside import ATTENTION, EMBED, OPERANDS

HALF = 2.0**-8
"""bfloat16 keeps eight bits: a value rounded to it, and one rounded otherwise, lie no further apart."""
NORM = re.compile(r"norm|ln_\d")
EXPERTS = re.compile(r"mlp|feed_forward|moe|expert|ffn")


def other_keys(compared: Compared) -> Unlike | None:
    """The first query that sees other keys, of the sequence that is wrong first and not behind its first
    wrong position; None where there is none. Another row of a batch makes no position of this one wrong.
    """
    first = compared.first
    if first is None:
        return None
    end = (first.place.op, first.position)
    before = (one for one in compared.unlike if one.seq == first.seq)
    return next((one for one in before if (one.place.op, one.position) <= end), None)


def shown(compared: Compared) -> Unlike | None:
    """The query whose keys are told: the one that the difference is called after, or else the first of all,
    which is another difference.
    """
    return other_keys(compared) or next(iter(compared.unlike), None)


def kind_of(compared: Compared, parting: Parting | None) -> Kind:
    """What a difference is, told by the first value that differs.

    Queries that see other keys behind the first wrong position are another difference.
    """
    if other_keys(compared) is not None:
        return "visibility"
    if parting is None:
        return "inside"
    if parting.layer is None:
        before = parting.agreed == "" or EMBED.match(parting.part) is not None
        if parting.relative <= HALF:
            return "precision"
        return "embedding" if before else "logits"
    if parting.part == "" and parting.end == "in":
        return "embedding" if parting.layer == 0 else "inside"
    if parting.part == ATTENTION and parting.end in OPERANDS[:2]:
        return "positions"
    if parting.part == ATTENTION:
        return "attention"
    if NORM.search(parting.part.rsplit(".", 1)[-1]):
        return "norm"
    if EXPERTS.search(parting.part):
        return "experts"
    return "inside"


def meant(geometry: Geometry, unlike: Unlike) -> tuple[int, ...] | None:
    """The positions that a query must see by its config; None for a layer that does not say so."""
    spec, position = geometry.layer(unlike.layer), unlike.position
    if spec is None or spec.attention not in ("full", "sliding", "chunked"):
        return None
    window = spec.window or position + 1
    if spec.attention == "chunked":
        return tuple(range(position // window * window, position + 1))
    first = max(0, position + 1 - window) if spec.attention == "sliding" else 0
    return tuple(range(first, position + 1))


def seeing(
    libraries: tuple[str, str], own: Mapping[str, bool], compared: Compared, geometry: Geometry
) -> str:
    """The library whose query sees other keys than the config means (the query of `shown`); where that does
    not tell, as `leaving`. Of a difference in anything but the keys seen it says nothing.
    """
    unlike = shown(compared)
    if unlike is not None:
        wanted = meant(geometry, unlike)
        right = [seen == wanted for seen in (unlike.first, unlike.second)]
        if right.count(True) == 1:
            return libraries[right.index(False)]
    return leaving(libraries, own)


def leaving(libraries: tuple[str, str], own: Mapping[str, bool]) -> str:
    """The library that leaves its own single pass while the other keeps to it; "" for none or both."""
    left = [name for name in libraries if not own[name]]
    return left[0] if len(left) == 1 else ""
