import json

import jsonschema

from mlxdiag.reports.audit import sarif
from tests.reports.audit.examples import ACCEPTED, DIFFERENCE, clean, hostile, shown
from tests.reports.test_sarif import LOG


def log(*arguments, **more):
    document = json.loads(sarif.render(shown(*arguments, **more)))
    jsonschema.validate(document, LOG)
    return document["runs"][0]


def test_a_result_per_fault_at_the_line_of_the_library():
    window, abort = log()["results"]
    physical = window["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"]["uri"] == "mlx_lm/models/gemma2.py"
    assert physical["region"] == {"startLine": 176}
    assert window["occurrenceCount"] == 2
    assert window["partialFingerprints"] == {"mlxdiag/audit/v1": "gemma2-window"}
    assert abort["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "md902-old-1a2b3c"


def test_results_name_their_rule():
    run = log()
    rules = run["tool"]["driver"]["rules"]
    assert [rules[result["ruleIndex"]]["id"] for result in run["results"]] == ["MD108", "MD902"]


def test_a_baseline_gives_every_result_its_state():
    for difference, state in ((ACCEPTED, ("unchanged", "note")), (DIFFERENCE, ("updated", "error"))):
        results = log(difference=difference)["results"]
        assert [(result["baselineState"], result["level"]) for result in results] == [state, ("new", "error")]
    assert "baselineState" not in log()["results"][0]


def test_a_clean_audit_has_no_result_and_says_what_was_covered():
    run = log(clean())
    assert run["results"] == []
    assert run["properties"]["coverage"] == "1 family known: 1 reached, 0 skipped"


def test_hostile_text_makes_no_link_and_a_valid_uri():
    (result,) = log(hostile())["results"]
    assert "](" not in result["message"]["text"].replace("]\\(", "")
    assert "\x1b" not in result["message"]["text"]
