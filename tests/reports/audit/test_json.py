import json

import msgspec

from mlxdiag.audit.cell import Audit
from mlxdiag.reports.audit import json as report
from tests.reports.audit.examples import COMPARISON, DIFFERENCE, blind, faulty, hostile, shown


def document(*arguments, **more):
    return json.loads(report.render(shown(*arguments, **more)))


def test_the_document_names_its_schema_first():
    assert next(iter(document())) == "schema"
    assert document()["schema"] == "mlxdiag.audit/1"


def test_the_document_is_the_audit_without_times():
    again = msgspec.convert(document(), Audit)
    untimed = [msgspec.structs.replace(cell, seconds=0.0) for cell in faulty().cells]
    assert again == msgspec.structs.replace(faulty(), seconds=0.0, cells=untimed)
    assert "seconds" not in report.render(shown())


def test_cells_and_faults_have_the_fields_of_the_contract():
    whole = document()
    cell = whole["cells"][1]
    assert {"library", "family", "scenario", "result", "codes", "reason"} <= cell.keys()
    assert {"code", "families", "cause", "where", "smallest"} <= whole["faults"][0].keys()


def test_the_summary_adds_up():
    summary = document()["summary"]
    assert sum(summary["results"].values()) == len(document()["cells"])
    assert summary["reached"] + len(summary["skipped"]) == 4
    assert document(blind())["summary"]["reached"] == 0


def test_what_was_compared_stands_beside_it():
    whole = document(difference=DIFFERENCE, comparison=COMPARISON)
    assert whole["baseline"]["new_faults"] == ["md902-old-1a2b3c"]
    assert whole["against"]["broke"][0]["family"] == "old"
    assert "baseline" not in document()


def test_hostile_text_comes_back_as_it_was():
    assert document(hostile())["faults"][0]["cause"] == hostile().faults[0].cause
