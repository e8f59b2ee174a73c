import re

import msgspec

from mlxdiag.audit.cell import Audit
from mlxdiag.reports.html import audit_page
from tests.reports.audit.examples import blind, faulty, hostile
from tests.reports.html.pages import ATTACK, Page, embedded


def attacked(value):
    """Every text of an audit replaced; keys too."""
    if isinstance(value, str):
        return ATTACK
    if isinstance(value, list | tuple):
        return [attacked(one) for one in value]
    return {key: attacked(one) for key, one in value.items()} if isinstance(value, dict) else value


def test_faults_come_first_then_the_matrix():
    read = Page(audit_page.render(faulty(), "a.json"))
    assert read.faults == []
    assert [one["id"] for one in read.all("section")][:3] == ["faults", "matrix", "causes"]


def test_every_cell_is_a_button_that_says_what_it_is():
    audit = faulty()
    buttons = [one for one in Page(audit_page.render(audit, "a.json")).all("button") if "data-c" in one]
    assert len(buttons) == len(audit.cells)
    for cell in audit.cells:
        said = [
            one["aria-label"] for one in buttons if f"{cell.family}, {cell.scenario}: " in one["aria-label"]
        ]
        assert len(said) == 1
        assert ("excused" if cell.excuse else cell.result) in said[0]


def test_the_evidence_behind_a_cell_is_the_audits():
    audit = faulty()
    held = embedded(audit_page.render(audit, "a.json"), "matrix-data")
    rows = dict(held["rows"])
    for cell in audit.cells:
        told = rows[cell.family][str(held["scenarios"].index(cell.scenario))]
        assert told.get("codes", []) == cell.codes
        assert (held["texts"][told["reason"]] if "reason" in told else "") == cell.reason
        assert (held["texts"][told["trace"]] if "trace" in told else "") == cell.trace


def test_no_text_of_an_audit_becomes_markup_or_script():
    plain = msgspec.to_builtins(faulty())
    for cell in plain["cells"]:
        for key in ("family", "scenario", "reason", "excuse", "where", "trace", "codes"):
            if key in cell:
                cell[key] = attacked(cell[key])
    for fault in plain["faults"]:
        for key in ("id", "code", "cause", "where", "smallest", "schedule", "families", "repro"):
            if key in fault:
                fault[key] = attacked(fault[key])
    plain["notes"] = [ATTACK]
    plain["libraries"] = {ATTACK: ATTACK}
    read = Page(audit_page.render(msgspec.convert(plain, Audit), ATTACK))
    assert read.faults == []
    assert len(read.all("script")) == 2  # one of ours, one of data
    assert not read.all("img")
    assert not [name for _, attributes in read.elements for name in attributes if name.startswith("on")]


def test_a_hostile_audit_is_a_well_formed_page():
    assert Page(audit_page.render(hostile(), "a.json")).faults == []


def test_what_was_not_judged_is_not_called_clean():
    assert "not the same as clean" in Page(audit_page.render(blind(), "a.json")).text


def test_numbers_that_json_lacks_are_told_as_text():
    audit = faulty()
    audit.cells[0].evidence = {"max_abs": float("nan"), "steps": [float("inf")]}
    held = embedded(audit_page.render(audit, "a.json"), "matrix-data")
    cell = dict(held["rows"])[audit.cells[0].family][str(held["scenarios"].index(audit.cells[0].scenario))]
    assert cell["evidence"] == {"max_abs": "nan", "steps": ["inf"]}


def test_times_are_left_out():
    slow = faulty()
    slow.seconds = 99.0
    assert audit_page.render(slow, "a") == audit_page.render(faulty(), "a")


def test_every_part_of_an_audit_has_its_section():
    audit = faulty()
    audit.noise = {"gemma2": 0.001}
    text = audit_page.render(audit, "a.json")
    read = Page(text)
    ids = [one["id"] for one in read.all("section")]
    assert ids == ["faults", "matrix", "causes", "excused", "skipped", "noise", "notes"]
    for part in ("Sinks are kept by design.", "metal runs on Metal only", "0.001", "stale cause gone"):
        assert part in read.text
    assert "schema: mlxdiag.trace/1\nsteps:" in text


def test_every_link_leads_to_its_fault():
    read = Page(audit_page.render(faulty(), "a.json"))
    wanted = [one["href"][1:] for one in read.all("a") if one["href"].startswith("#fault-")]
    assert wanted == [one["id"] for one in read.all("h3") if (one.get("id") or "").startswith("fault-")]


def test_a_cell_has_the_class_of_its_result():
    text = audit_page.render(faulty(), "a.json")
    for family, name, result in (("old", "no-cache", "crash"), ("llama", "key-cap", "excused")):
        (found,) = re.findall(rf'<td class="(r-\w+)"><button[^>]* aria-label="{family}, {name}:', text)
        assert found == f"r-{result}"
    assert re.findall(r'<i class="sample (r-\w+)">X</i>', text) == ["r-crash"]
