"""What of an audit fails a run, beside a baseline and where faults are expected."""

from pathlib import Path

import msgspec
import pytest

from mlxdiag.audit.faults.baseline import Difference
from mlxdiag.cli.audit_result import Given, exit_code, failing_faults, finish
from mlxdiag.cli.settings import settle
from mlxdiag.errors import UsageError
from mlxdiag.reports.audit.shown import Shown
from tests.reports.audit.examples import ABORT, ACCEPTED, DIFFERENCE, WINDOW, blind, clean, faulty


@pytest.mark.parametrize(
    ("difference", "failing"),
    [
        (None, [WINDOW.id, ABORT.id]),
        (ACCEPTED, [ABORT.id]),
        (DIFFERENCE, [WINDOW.id, ABORT.id]),  # accepted, but not in all of its cells
        (Difference(accepted=[WINDOW.id, ABORT.id], fixed_cells={WINDOW.id: ["gemma2/key-cap"]}), []),
    ],
)
def test_a_fault_fails_that_no_baseline_accepts_in_all_of_its_cells(difference, failing):
    assert [fault.id for fault in failing_faults(Shown(audit=faulty(), difference=difference))] == failing


def test_expected_are_the_faults_that_fail():
    shown = Shown(audit=faulty(), difference=DIFFERENCE)
    assert exit_code(shown, settle(expect="MD108,MD902")) == 0
    assert exit_code(shown, settle(expect="MD902")) == 1


def test_a_stale_cause_fails_where_warnings_do():
    audit = msgspec.structs.replace(clean(), notes=faulty().notes)
    assert exit_code(Shown(audit=audit), settle()) == 0
    assert exit_code(Shown(audit=audit), settle(fail_on="warning")) == 1


def test_what_judged_nothing_is_never_clean():
    assert exit_code(Shown(audit=blind()), settle()) == 4


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("lost", ["output", "baseline"])
def test_a_file_that_cannot_be_written_takes_no_result_along(lost, capsys):
    full = Path("/dev/full")
    settings = settle(output=full, force=True) if lost == "output" else settle()
    given = Given(settings=settings, write_baseline=full if lost == "baseline" else None)
    with pytest.raises(UsageError, match="cannot write /dev/full: No space left"):
        finish(faulty(), given)
    assert WINDOW.id in capsys.readouterr().out
