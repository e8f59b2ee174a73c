import json as stdlib_json
import math

from mlxdiag.reports import json
from mlxdiag.reports.view import View
from tests.reports.examples import NASTY, clean, faulty, hostile


def load(*reports):
    return stdlib_json.loads(json.render(reports, View()))


def test_one_report_is_the_findings_document():
    document = load(faulty())
    assert document["schema"] == "mlxdiag.findings/1"
    assert document["source"] == "runs/a.yaml"
    assert document["summary"]["not_observed"] == 2
    first = document["findings"][0]
    assert (first["code"], first["severity"], first["step"], first["seq"]) == ("MD101", "error", 5, "seq-6")
    assert first["evidence"] == {"q": 160, "k": 671, "mask": [160, 160]}
    assert first["cause"] == ["MD105 mask-from-stale-offset: built with offset 0 where 2048 were held"]
    assert first["hint"] == "mlxdiag replay trace.yaml"


def test_every_field_is_there_even_when_empty():
    guard = load(faulty())["findings"][2]
    assert guard["step"] is None
    assert guard["seq"] is None
    assert guard["evidence"] == {}


def test_several_reports_keep_the_shape_and_add_up():
    document = load(faulty(), clean())
    assert document["source"] is None
    assert [finding["source"] for finding in document["findings"]] == ["runs/a.yaml"] * 3
    assert document["summary"]["judged"] == 22 + 6
    assert [part["source"] for part in document["sources"]] == ["runs/a.yaml", "b.yaml"]


def test_sections_carry_their_table_and_data():
    section = load(faulty())["sections"][0]
    assert section["name"] == "policies"
    assert section["rows"][0] == ["strict", True, None, None]
    assert section["data"] == {"seed": 0}


def test_hostile_text_comes_back_unchanged():
    assert load(hostile())["findings"][0]["message"] == NASTY


def test_numbers_and_letters_that_json_lacks_do_not_break_the_document():
    report = faulty()
    report.findings[0].evidence["gap"] = math.nan
    report.findings[0].evidence["id"] = "\ud800"
    evidence = load(report)["findings"][0]["evidence"]
    assert evidence["gap"] is None
    assert evidence["id"] == "\\ud800"
    del report.findings[0].evidence["gap"], report.findings[0].evidence["id"]
