"""Folding causes into the finding they explain."""

from __future__ import annotations

from mlxdiag.inspect.findings import Finding, codes
from mlxdiag.inspect.headline import fold

EXPLAINS = {"B": frozenset({"A"}), "C": frozenset({"B"}), "D": frozenset({"A"})}


def finding(code, family=None, seq=None, severity="error", **more):
    return Finding(
        code=code,
        name=f"name-{code}",
        severity=severity,
        message=f"said {code}",
        family=family,
        seq=seq,
        **more,
    )


def shown(findings):
    return [(one.code, [cause.split(" ")[0] for cause in one.cause]) for one in fold(findings, EXPLAINS)]


def test_a_cause_goes_into_its_symptom():
    assert shown([finding("A"), finding("B")]) == [("A", ["B"])]


def test_a_cause_without_its_symptom_is_a_headline():
    assert shown([finding("B")]) == [("B", [])]


def test_causes_of_causes_follow_the_nearest_first():
    assert shown([finding("C"), finding("A"), finding("B"), finding("D")]) == [("A", ["B", "D", "C"])]


def test_another_family_or_sequence_is_another_fault():
    assert shown([finding("A", family="full"), finding("B", family="sliding")]) == [("A", []), ("B", [])]
    assert shown([finding("A", seq="x"), finding("B", seq="y")]) == [("A", []), ("B", [])]


def test_one_cause_can_explain_the_symptom_of_each_family():
    found = [finding("A", family="full"), finding("A", family="sliding"), finding("B")]
    (headline,) = fold(found, EXPLAINS)
    assert headline.family == "full, sliding"
    assert len(headline.cause) == 1


def test_two_symptoms_of_one_cause_are_one_fault_under_the_later_one():
    explains = {"B": frozenset({"A", "C"})}
    (headline,) = fold([finding("A"), finding("B"), finding("C")], explains)
    assert headline.code == "C"
    assert [cause.split(" ")[0] for cause in headline.cause] == ["B", "A"]


def test_two_symptoms_of_two_causes_stay_two_faults():
    explains = {"B": frozenset({"A"}), "D": frozenset({"C"})}
    found = fold([finding("A"), finding("B"), finding("C"), finding("D")], explains)
    assert [one.code for one in found] == ["A", "C"]


def test_the_headline_keeps_its_numbers_and_gains_those_of_its_causes():
    (one,) = fold(
        [finding("A", evidence={"k": 671}), finding("B", evidence={"k": 1, "mask_offset": 0})], EXPLAINS
    )
    assert one.evidence == {"k": 671, "mask_offset": 0}


def test_the_headline_is_as_severe_as_its_worst_cause():
    (one,) = fold([finding("A", severity="warning"), finding("B", severity="error")], EXPLAINS)
    assert one.severity == "error"


def test_sentences_of_a_folded_cause_are_kept():
    (one,) = fold([finding("A"), finding("B", cause=["because of the buffer"])], EXPLAINS)
    assert one.cause == ["B name-B: said B", "because of the buffer"]


def test_codes_count_folded_causes_and_no_sentences():
    one = finding("MD101", cause=["MD105 mask-from-stale-offset: x", "the mask was sized from MD9"])
    assert codes([one]) == {"MD101", "MD105"}


def lengths(mask_keys=16, expected=16, oldest=31):
    """A ring that evicted three keys too many, and a mask that was made for what is due."""
    explains = {
        "MD102": frozenset({"MD901"}),
        "MD201": frozenset({"MD102"}),
        "MD207": frozenset({"MD201"}),
    }
    evidence = {
        "MD901": {"by": -3},
        "MD102": {"mask_keys": mask_keys, "returned_keys": 13},
        "MD201": {"k": 13, "expected": expected},
        "MD207": {"oldest": oldest, "needed": 28},
    }
    found = [finding(code, evidence=values) for code, values in evidence.items()]
    return {(one.code, *(cause.split(" ")[0] for cause in one.cause)) for one in fold(found, explains)}


def test_missing_keys_explain_a_mask_that_fits_those_that_were_due():
    assert lengths() == {("MD901", "MD102", "MD201", "MD207")}


def test_missing_keys_do_not_explain_a_mask_of_another_length():
    assert lengths(mask_keys=20) == {("MD901", "MD102"), ("MD201", "MD207")}


def test_an_eviction_does_not_explain_more_than_it_took():
    assert lengths(oldest=29) == {("MD901", "MD102", "MD201"), ("MD207",)}
