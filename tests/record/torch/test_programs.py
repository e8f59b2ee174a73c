"""Unmodified transformers programs under `mlxdiag record`, each a real process."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.record.launcher import variables
from mlxdiag.record.options import Options
from mlxdiag.traces.reader import read
from tests.record import programs
from tests.record.accounts import accounts
from tests.record.torch.programs import ANSWER, PLAIN, PROMPT, ending

LAST = """
import sys
print("to stderr", file=sys.stderr)
print([name for name in ("mlx", "mlx_lm", "mlxdiag.models.mlx") if name in sys.modules])
sys.exit(3)
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """The program as it is."""
    return programs.bare(tmp_path_factory.mktemp("alone"), PLAIN + LAST)


def test_what_the_program_prints_and_returns_is_its_own(
    tmp_path: Path, alone: subprocess.CompletedProcess[str]
) -> None:
    recorded = programs.recorded(tmp_path, PLAIN + LAST)
    assert recorded.stdout == alone.stdout
    assert alone.stdout.endswith("[]\n"), "mlx is not imported for it"
    assert (alone.returncode, recorded.returncode) == (3, 3)
    assert recorded.stderr.startswith(alone.stderr), "the summary comes after it"
    trace = programs.trace_of(tmp_path)
    book = accounts(trace)["seq-1"]
    assert (book.total, book.prompt, book.answered, book.emitted) == (PROMPT, PROMPT, ANSWER - 1, ANSWER)
    assert trace.entries[-1].exit == 3
    assert trace.header.environment is not None
    assert set(trace.header.environment["libraries"]) == {"torch", "transformers"}
    assert inspect_trace(trace).findings == []


def test_a_killed_program_that_recorded_itself_leaves_all_but_the_step_it_died_in(tmp_path: Path) -> None:
    text = ending("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    given = variables(Options(tmp_path / "own.yaml"), programs.environment())
    killed = subprocess.run(
        [sys.executable, str(programs.written(tmp_path, text))],
        cwd=tmp_path,
        env=programs.environment(**given),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (killed.returncode, killed.stderr) == (-signal.SIGKILL, "")
    # The fifth token came out of the fifth forward, of which the prompt was the first.
    assert programs.forwards(read(tmp_path / "own.yaml")) == 5


def test_a_program_of_mlx_does_without_the_hooks_of_torch(tmp_path: Path) -> None:
    told = (
        "print([name for name in sys.modules if name.startswith('mlxdiag.record.torch')"
        " or name.startswith('mlxdiag.models.torch') or name == 'transformers.modeling_utils'])"
    )
    assert programs.recorded(tmp_path, programs.MODEL + told).stdout == "[]\n"


def test_a_fault_of_the_recorder_is_said_once_and_the_program_goes_on(
    tmp_path: Path, alone: subprocess.CompletedProcess[str]
) -> None:
    spoilt = (
        "import transformers.modeling_utils\n"
        "import mlxdiag.record.torch.generation as generation\n"
        "def broken(*_): raise RuntimeError('planted')\n"
        "generation.Generation.rows = broken\n"
    )
    recorded = programs.recorded(tmp_path, spoilt + PLAIN + LAST)
    assert (recorded.stdout, recorded.returncode) == (alone.stdout, 3)
    assert recorded.stderr.count("recording stopped, the program goes on: RuntimeError: planted") == 1


def test_a_program_that_makes_no_model_says_so(tmp_path: Path) -> None:
    done = programs.recorded(tmp_path, "import transformers")
    assert done.returncode == 0
    assert "never imported mlx_lm, nor a model of transformers" in done.stderr
