from __future__ import annotations

from mlxdiag.bundle.reproduce.controls import FAILS, Control, document, in_words


def test_the_document_spells_each_control_out():
    control = Control(
        name="chunk-8", what="19 tokens in chunks of {}", value="8", result=FAILS, codes=("MD101",)
    )
    told = document((control,))
    assert told["schema"] == "mlxdiag.controls/1"
    assert told["controls"][0]["what"] == "19 tokens in chunks of 8"
    assert told["controls"][0]["result"] == "fails"


def test_the_document_says_what_was_recorded_in_and_what_was_tried():
    assert document((), "bfloat16")["dtype"] == {"recorded": "bfloat16", "tried": "float32"}
    assert document(())["dtype"] == {"recorded": None, "tried": "float32"}


def test_several_are_told_together():
    one, two = (Control(name=v, what="policy {} here", value=v, result=FAILS) for v in ("a", "b"))
    assert in_words(one, two) == "policy a, b here"
    assert in_words(one) == "policy a here"
