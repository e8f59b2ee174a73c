"""What MD902 may say of a file without an `end` line: its program need not be dead."""

import pytest

from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.reader import parse

RECORDED = "schema: mlxdiag.trace/1\nlevel: shapes\n"
STEP = "steps:\n- {step: 0, phase: prefill, rows: [{offset: 0, tokens: 8}]}\n"


def message(text):
    (finding,) = inspect_trace(parse(text)).findings
    assert finding.code == "MD902"
    return finding.message


def test_a_file_without_an_end_may_belong_to_a_program_that_still_runs():
    assert message(RECORDED + STEP) == (
        "no `end` line: the program was killed in or after step 0 (prefill), or it is still running"
    )


@pytest.mark.parametrize("code", [134, -11])
def test_a_fatal_signal_is_no_maybe(code):
    assert message(RECORDED + STEP + f"- {{phase: end, exit: {code}}}\n") == (
        f"the program ended by a fatal signal (exit {code}), in or after step 0 (prefill)"
    )
