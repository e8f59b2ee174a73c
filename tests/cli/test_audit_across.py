"""Both tables and the comparison behind one command; a comparison made by hand stands for the slow one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlxdiag.audit.across.cell import Row
from mlxdiag.audit.cell import Audit, Cell
from mlxdiag.audit.engine.run import Wanted
from mlxdiag.cli import audit_across
from mlxdiag.cli.audit_result import Given
from mlxdiag.cli.settings import Settings, settle
from mlxdiag.errors import UsageError
from tests.cli.program import call
from tests.reports.across.made import across


def settings(format: str = "text", output: Path | None = None, **more: object) -> Settings:
    told = {"select": None, "ignore": None, "fail_on": None, "expect": None} | more
    return settle(format=format, output=output, force=False, **told)  # type: ignore[arg-type]


def audit(library: str) -> Audit:
    cell = Cell(library=library, family="llama", scenario="no-cache", result="pass", judged={"parity": 3})
    return Audit(libraries={library: "1.0"}, device="cpu", families=1, cells=[cell])


BOTH = [audit("mlx-lm"), audit("transformers")]


def finish(capsys, found, **more: object) -> tuple[int, str, str]:
    code = audit_across.finish(BOTH, found, Given(settings=settings(**more)))
    out, err = capsys.readouterr()
    return code, out, err


def test_a_difference_is_a_finding(capsys):
    code, out, err = finish(capsys, across())
    assert code == 1
    assert (
        out.index("mlx-lm 1.0 on cpu")
        < out.index("transformers 1.0 on cpu")
        < out.index("MD403 window-not-read")
    )
    assert "1 difference in 1 of 2 families that could be compared" in err


def test_agreement_is_clean(capsys):
    assert finish(capsys, across(differences=[]))[0] == 0


def test_nothing_compared_is_never_clean(capsys):
    code, _, err = finish(capsys, across(cells=[], differences=[]))
    assert code == 4
    assert "could not compare" in err


def test_what_mlxdiag_could_not_judge_is_never_clean(capsys):
    rows = [*across().rows, Row(family="x", result="unjudged", reason="a worker ended")]
    assert finish(capsys, across(rows=rows, differences=[]))[0] == 4
    assert finish(capsys, across(rows=rows))[0] == 1


def test_a_rule_that_is_ignored_fails_nothing(capsys):
    assert finish(capsys, across(), ignore=["MD403"])[0] == 0


def test_json_is_one_document(capsys):
    code, out, _ = finish(capsys, across(), format="json")
    found = json.loads(out)
    assert code == 1
    assert found["schema"] == "mlxdiag.audits/1"
    assert [one["cells"][0]["library"] for one in found["audits"]] == ["mlx-lm", "transformers"]
    assert found["across"]["schema"] == "mlxdiag.across/1"


def test_a_file_holds_all_three(capsys, tmp_path):
    page = tmp_path / "page.md"
    assert finish(capsys, across(), format="markdown", output=page)[0] == 1
    assert page.read_text().count("\n# ") + 1 == 3


def test_a_file_is_not_written_where_nothing_was_compared(capsys, tmp_path):
    page = tmp_path / "page.md"
    code, _, err = finish(capsys, across(cells=[], differences=[]), format="markdown", output=page)
    assert (code, page.exists()) == (4, False)
    assert "was not written" in err


@pytest.mark.parametrize(
    ("asked", "mlx", "torch"),
    [
        (["no-cache"], ("no-cache",), ("no-cache",)),
        (["as-saved"], (), ()),
        (["key-cap"], ("key-cap",), ()),
        (["static-trim,no-cache"], ("no-cache",), ("no-cache", "static-trim")),
    ],
)
def test_each_library_gets_the_scenarios_that_it_has(asked, mlx, torch):
    assert audit_across.scenarios_of("mlx-lm", asked) == mlx
    assert set(audit_across.scenarios_of("transformers", asked)) == set(torch)


def test_a_scenario_that_nobody_has_is_a_mistake():
    with pytest.raises(UsageError, match="no scenario 'no-cash'"):
        audit_across.scenarios_of("mlx-lm", ["no-cash"])


def test_only_the_comparison_is_run_for_its_own_scenario(capsys, monkeypatch):
    ran: list[object] = []
    monkeypatch.setattr(audit_across, "_compared", lambda wanted: ran.append(wanted) or across())
    wanted = [Wanted(library=name, scenarios=("no-cache",)) for name in ("mlx-lm", "transformers")]
    code = audit_across.several(wanted, ["as-saved"], Given(settings=settings()), pytest.fail)
    assert code == 1
    assert [one.scenarios for one in ran] == [("as-saved",)]


def test_the_comparison_alone_runs_no_table(capsys, monkeypatch):
    monkeypatch.setattr(audit_across, "_compared", lambda wanted: across())
    wanted = [Wanted(library=name, scenarios=("no-cache",)) for name in ("mlx-lm", "transformers")]
    assert audit_across.several(wanted, [], Given(settings=settings()), None) == 1
    assert capsys.readouterr().out.startswith("mlx-lm 0.32.2 and transformers 5.24.0 on the same weights")


def test_the_comparison_needs_two(capsys):
    ran = call(capsys, "audit-models", "--across-only")
    assert ran.code == 2
    assert "give two libraries" in ran.err


@pytest.mark.parametrize("option", [("--expect", "MD403"), ("--shard", "1/2")])
def test_what_is_for_one_library_is_refused(option, capsys):
    ran = call(capsys, "audit-models", "--library", "mlx-lm,transformers", *option)
    assert ran.code == 2
    assert "is for one library at a time" in ran.err


def test_a_format_without_a_form_for_two_is_refused_before_the_work(capsys):
    ran = call(capsys, "audit-models", "--library", "mlx-lm,transformers", "--format", "sarif")
    assert ran.code == 2
    assert "--format sarif: give one library at a time" in ran.err
