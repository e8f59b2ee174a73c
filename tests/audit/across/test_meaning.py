"""What a difference is called, and who departs."""

from __future__ import annotations

import pytest

from mlxdiag.audit.across.compared import Compared, Unlike, Wrong
from mlxdiag.audit.across.meaning import kind_of, leaving, meant, other_keys, seeing, shown
from mlxdiag.audit.across.parting import Parting
from mlxdiag.audit.across.watched import Place
from mlxdiag.models.adapter import Geometry, LayerSpec

LIBRARIES = ("transformers", "mlx-lm")
GEOMETRY = Geometry(
    architecture="x",
    depth=4,
    layers=(
        LayerSpec(index=0, family="sliding", attention="sliding", window=8),
        LayerSpec(index=1, family="full", attention="full"),
        LayerSpec(index=2, family="chunked", attention="chunked", window=4),
        LayerSpec(index=3, family="recurrent", attention="recurrent"),
    ),
)


def wrong(position: int = 9, op: int = 0) -> Wrong:
    return Wrong(Place(op, 0), 1, "prefill", "a", position, 1.0)


def unlike(position: int, first: range, second: range, *, op: int = 0, layer: int = 0) -> Unlike:
    return Unlike(Place(op, 0), layer, "a", position, tuple(first), tuple(second))


def compared(*others: Unlike, at: Wrong | None = None) -> Compared:
    return Compared(
        count=20,
        queries=80,
        unit=1.0,
        largest=1.0,
        tolerance=2e-4,
        wrong=(at or wrong(),),
        unlike=others,
    )


def parted(
    layer: int | None = 1, part: str = "", end: str = "out", relative: float = 1.0, agreed: str = "x"
) -> Parting:
    return Parting(
        layer=layer,
        part=part,
        end=end,
        by=1.0,
        relative=relative,
        seq="a",
        position=9,
        agreed="x",
        inputs=0.0,
    )


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (parted(part="attention", end="queries"), "positions"),
        (parted(part="attention", end="keys"), "positions"),
        (parted(part="attention", end="values"), "attention"),
        (parted(part="attention"), "attention"),
        (parted(part="self_attn.q_norm"), "norm"),
        (parted(part="post_attention_layernorm"), "norm"),
        (parted(part="mlp.down_proj", end="in"), "experts"),
        (parted(part="block_sparse_moe.gate"), "experts"),
        (parted(part="self_attn.q_proj"), "inside"),
        (parted(part="mamba.x_proj", end="in"), "inside"),
        (parted(layer=0, part="", end="in"), "embedding"),
        (parted(layer=None, part="embed_tokens"), "embedding"),
        (parted(layer=None, part="lm_head"), "logits"),
        (parted(layer=None, part="embed_tokens", relative=2**-9), "precision"),
        (parted(layer=1, part="mlp.up_proj", relative=2**-9), "experts"),
        (None, "inside"),
    ],
)
def test_kinds(found: Parting | None, kind: str) -> None:
    assert kind_of(compared(), found) == kind


def test_other_keys_before_the_first_wrong_position_are_what_makes_it_wrong() -> None:
    seen = unlike(8, range(1, 9), range(9))
    assert kind_of(compared(seen, at=wrong(8)), parted(part="attention")) == "visibility"
    assert other_keys(compared(seen, at=wrong(7))) is None
    assert kind_of(compared(seen, at=wrong(0)), parted(part="mlp", end="in")) == "experts"
    assert other_keys(compared(seen, at=wrong(2, op=1))) is seen


def test_a_lower_layers_later_query_is_not_what_makes_a_position_wrong() -> None:
    later = unlike(9, range(2, 10), range(10))
    cause = unlike(4, range(1, 5), range(5), layer=2)
    found = compared(later, cause, at=wrong(4))
    assert other_keys(found) is shown(found) is cause
    assert shown(compared(later, at=wrong(4))) is later
    assert shown(compared()) is None


def test_another_row_of_the_batch_makes_no_position_wrong() -> None:
    other = Unlike(Place(0, 1), 0, "b", 3, (0, 1, 2), (1, 2))
    assert other_keys(compared(other, at=wrong(9))) is None
    assert kind_of(compared(other, at=wrong(9)), parted(part="attention", end="queries")) == "positions"


@pytest.mark.parametrize(
    ("layer", "position", "positions"),
    [
        (0, 3, range(4)),
        (0, 8, range(1, 9)),
        (1, 8, range(9)),
        (2, 9, range(8, 10)),
        (2, 8, range(8, 9)),
    ],
)
def test_what_a_config_means(layer: int, position: int, positions: range) -> None:
    assert meant(GEOMETRY, unlike(position, range(1), range(1), layer=layer)) == tuple(positions)


def test_a_recurrent_layer_means_no_keys() -> None:
    assert meant(GEOMETRY, unlike(3, range(1), range(1), layer=3)) is None


BOTH = {"transformers": True, "mlx-lm": True}


@pytest.mark.parametrize(
    ("seen", "own", "library"),
    [
        (unlike(8, range(1, 9), range(9)), BOTH, "mlx-lm"),
        (unlike(8, range(9), range(1, 9)), BOTH, "transformers"),
        (unlike(8, range(2, 9), range(9)), BOTH, ""),
        (None, BOTH, ""),
        (None, {**BOTH, "transformers": False}, "transformers"),
        (None, {"transformers": False, "mlx-lm": False}, ""),
        (unlike(8, range(1, 9), range(9)), {**BOTH, "transformers": False}, "mlx-lm"),
    ],
)
def test_who_sees_other_keys_than_are_meant(seen: Unlike | None, own: dict[str, bool], library: str) -> None:
    found = compared(*([seen] if seen is not None else []))
    assert seeing(LIBRARIES, own, found, GEOMETRY) == library


def test_of_anything_but_keys_only_a_pass_of_ones_own_tells_who_departs() -> None:
    assert leaving(LIBRARIES, BOTH) == ""
    assert leaving(LIBRARIES, {**BOTH, "mlx-lm": False}) == "mlx-lm"
    assert leaving(LIBRARIES, dict.fromkeys(BOTH, False)) == ""


def test_who_sees_other_keys_is_told_by_the_query_that_decided() -> None:
    # The lower layer's later query is another difference, and the other library's.
    later = unlike(9, range(2, 10), range(10))
    cause = unlike(4, range(5), range(4, 5), layer=2)
    assert seeing(LIBRARIES, BOTH, compared(later, at=wrong(9)), GEOMETRY) == "mlx-lm"
    assert seeing(LIBRARIES, BOTH, compared(later, cause, at=wrong(4)), GEOMETRY) == "transformers"
