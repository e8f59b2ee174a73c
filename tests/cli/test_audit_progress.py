"""Progress on standard error: a line for every tenth in a log, a bar on a terminal."""

import io

from mlxdiag.audit.cell import Cell
from mlxdiag.audit.engine.run import Progress
from mlxdiag.cli.audit_progress import SEARCHING, shown_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def told(monkeypatch, stream, total, wrong=()):
    """What is written while `total` cells are finished, those of these numbers wrong."""
    monkeypatch.setattr("sys.stderr", stream)
    with shown_progress() as watch:
        for done in range(1, total + 1):
            result = "fail" if done in wrong else "pass"
            cell = Cell(library="mlx-lm", family="a", scenario=f"s{done}", result=result)
            watch(Progress(done, total, cell))
    return stream.getvalue()


def test_a_log_gets_a_line_for_every_tenth(monkeypatch):
    lines = told(monkeypatch, io.StringIO(), 40, wrong=(6,)).splitlines()
    assert lines[0] == "mlxdiag: 4 of 40 cells, 0 wrong"
    assert lines[1:3] == ["mlxdiag: 8 of 40 cells, 1 wrong", "mlxdiag: 12 of 40 cells, 1 wrong"]
    assert lines[9:] == ["mlxdiag: 40 of 40 cells, 1 wrong", f"mlxdiag: {SEARCHING}"]


def test_a_clean_audit_looks_for_no_smallest_schedule(monkeypatch):
    assert SEARCHING not in told(monkeypatch, io.StringIO(), 3)


def test_a_terminal_gets_a_bar_that_counts_wrong_cells(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    out = told(monkeypatch, Terminal(), 3, wrong=(2, 3))
    assert "3/3 2 wrong" in out
    assert SEARCHING in out
    assert "of 3 cells" not in out
