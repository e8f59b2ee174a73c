"""Each fault once, however often it comes back, in bounded memory."""

from __future__ import annotations

from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.ledger import PER_CODE, Ledger


def finding(step=0, code="MD101", severity="error", family="sliding", seq=None, **more):
    return Finding(
        code=code, name="n", severity=severity, message="m", family=family, seq=seq, step=step, **more
    )


def test_a_repeat_is_counted_and_the_first_step_kept():
    ledger = Ledger(None)
    assert len(ledger.add_all([finding(3), finding(5), finding(9)])) == 1
    (one,) = ledger.findings()
    assert (one.step, one.count, one.evidence["last_step"]) == (3, 3, 9)


def test_another_severity_family_or_cause_is_another_fault():
    ledger = Ledger(None)
    found = [
        finding(),
        finding(severity="warning"),
        finding(family="full"),
        finding(cause=["MD105 mask-from-stale-offset: x"]),
    ]
    assert len(ledger.add_all(found)) == 4


def test_a_poisoned_step_without_a_cause_of_its_own_is_the_same_fault_again():
    ledger = Ledger(None)
    caused = finding(3, code="MD402", cause=["MD304 padding-visible: x", "MD206 pads-left-in-cache: y"])
    poisoned = [finding(4, code="MD402", cause=["MD304 padding-visible: x"]), finding(5, code="MD402")]
    assert len(ledger.add_all([caused, *poisoned])) == 1
    (one,) = ledger.findings()
    assert (one.step, one.count, len(one.cause)) == (3, 3, 2)


def test_one_wrong_mask_on_two_sequences_is_one_fault_and_two_bad_rows_are_two():
    ledger = Ledger(None)
    assert len(ledger.add_all([finding(seq="a"), finding(seq="b")])) == 1
    rows = [finding(code="MD203", family=None, seq="a"), finding(code="MD203", family=None, seq="b")]
    assert len(ledger.add_all(rows)) == 2


def test_the_worst_come_first_and_then_the_earliest():
    ledger = Ledger(None)
    ledger.add_all(
        [finding(1, severity="info"), finding(9, code="MD201"), finding(2), finding(4, severity="warning")]
    )
    assert [(one.severity, one.step) for one in ledger.findings()] == [
        ("error", 2),
        ("error", 9),
        ("warning", 4),
        ("info", 1),
    ]


def test_endless_distinct_faults_are_bounded_and_the_rest_is_said():
    ledger = Ledger(None)
    for number in range(PER_CODE + 50):
        ledger.add_all([finding(number, code="MD203", family=None, seq=f"seq-{number}")])
    assert len(ledger.findings()) == PER_CODE
    assert ledger.notes() == ["50 further findings of MD203 on other sequences are not listed"]


def test_hints_name_the_file_and_the_code():
    ledger = Ledger("run.yaml")
    (one,) = ledger.add_all([finding(hint="mlxdiag replay {trace} --misfit strict")])
    assert one.hint == "mlxdiag replay run.yaml --misfit strict"
    (two,) = Ledger(None).add_all([finding(hint="mlxdiag rule {code}")])
    assert two.hint == "mlxdiag rule MD101"
