"""Drives the command line: in this process where only codes and texts matter, else as the real program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mlxdiag.cli.main import run

SCRIPT = Path(sys.executable).with_name("mlxdiag")

HEAD = "schema: mlxdiag.trace/1\nsteps:\n"
HEALTHY = (
    '- {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 4}], '
    '"attention": [{"family": "full", "q": 4, "k": 4, "offset": 0, "mask": [4, 4]}]}\n'
)
SHORT_MASK = (
    '- {"step": 2, "rows": [{"seq": "a", "offset": 4, "tokens": 3}], '
    '"attention": [{"family": "full", "q": 3, "k": 7, "offset": 4, "mask": [3, 3]}]}\n'
)
"""Three columns over seven keys, the fallback unknown: an error by the table of rules."""
SHORT_BUT_RIGHT = SHORT_MASK.replace("[3, 3]", '[3, 3], "fate": "discarded", "fallback": "causal"')
"""The plain causal fallback of a full layer equals the mask that was due: a warning by the same table."""
BLIND = '- {"step": 3, "rows": [{"seq": "a"}], "attention": [{"family": "full", "q": 3}]}\n'
BROKEN = '- {"step": 9, "rows": [{"seq": "a", "offset": "seven"}]}\n'


class Ran(NamedTuple):
    code: int
    out: str
    err: str


def call(capsys: pytest.CaptureFixture[str], *args: str) -> Ran:
    """Run in this process."""
    with pytest.raises(SystemExit) as ended:
        run(list(args))
    out, err = capsys.readouterr()
    return Ran(int(ended.value.code or 0), out, err)


def start(*args: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run the installed program."""
    settings = {"capture_output": True, "text": True, "timeout": 60, "check": False, **settings}
    return subprocess.run([SCRIPT, *args], **settings)


@pytest.fixture
def trace(tmp_path, monkeypatch):
    """Writes a trace into an empty folder that is also the working folder, and gives its name."""
    monkeypatch.chdir(tmp_path)

    def write(*lines: str, name: str = "t.yaml", head: str = HEAD) -> str:
        (tmp_path / name).write_text(head + "".join(lines))
        return name

    return write
