import msgspec

from mlxdiag.audit.across.compared import Compared, Unlike, Wrong
from mlxdiag.audit.across.parting import Parting
from mlxdiag.audit.across.sentences import sentence, span
from mlxdiag.audit.across.watched import Place

BOTH = ("transformers", "mlx-lm")
AT = Place(0, 0)
FOUND = Compared(
    count=20,
    queries=80,
    unit=2.0,
    largest=4.5,
    tolerance=2e-4,
    wrong=(Wrong(AT, 3, "chunk", "a", 8, 1.7),),
    unlike=(Unlike(AT, 0, "a", 8, (1, 2, 3), (0, 1, 2, 3)),),
)
PARTED = Parting(
    layer=2,
    part="attention",
    end="queries",
    by=0.02,
    relative=1.0,
    seq="a",
    position=8,
    agreed="self_attn.v_proj (out)",
    inputs=0.0,
)
OPENING = "step 3 (chunk): logits part at position 8, by up to 4.5 of their spread; "


def test_spans_have_holes() -> None:
    assert span((0, 1, 2, 5, 7, 8)) == "0-2, 5, 7-8"
    assert span(()) == "nothing"


def test_other_keys_are_told_for_both() -> None:
    assert sentence(FOUND, PARTED, BOTH, "visibility") == (
        OPENING + "layer 0, position 8: transformers sees 1-3, mlx-lm sees 0-3"
    )


def test_the_keys_that_are_told_are_those_that_made_the_position_wrong() -> None:
    # Layer 0 sees other keys at a later position, which made nothing wrong at this one.
    later = Unlike(AT, 0, "a", 9, (2, 3), (1, 2, 3))
    cause = Unlike(AT, 2, "a", 7, (4, 5, 6, 7), (3, 4, 5, 6, 7))
    found = msgspec.structs.replace(FOUND, unlike=(later, cause))
    assert sentence(found, PARTED, BOTH, "visibility") == (
        OPENING + "layer 2, position 7: transformers sees 4-7, mlx-lm sees 3-7"
    )


def test_the_first_value_is_told_with_what_agreed_before_it() -> None:
    assert sentence(FOUND, PARTED, BOTH, "positions") == (
        OPENING + "layer 2: first in attention (queries), after self_attn.v_proj (out) agreed "
        "(by 0.02, position 8)"
    )


def test_nothing_inside_is_said_to_be_so() -> None:
    assert sentence(FOUND, None, BOTH, "inside") == OPENING + "nothing inside could be compared"
