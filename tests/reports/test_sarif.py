"""The expected shape is written down from the SARIF 2.1.0 specification (OASIS, sections 3.13 to 3.30)."""

import json

import jsonschema
import pytest

from mlxdiag.reports import sarif
from mlxdiag.reports.view import View
from tests.reports.examples import clean, faulty, hostile

MESSAGE = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
URI = {"type": "string", "pattern": r"^[A-Za-z0-9._~:/%()!$&'*+,;=@-]+$"}
LOCATION = {
    "type": "object",
    "required": ["physicalLocation"],
    "properties": {
        "physicalLocation": {
            "type": "object",
            "required": ["artifactLocation"],
            "properties": {
                "artifactLocation": {
                    "type": "object",
                    "required": ["uri"],
                    "properties": {
                        "uri": {"type": "string", "pattern": r"^[A-Za-z0-9._~:/%()!$&'*+,;=@-]+$"}
                    },
                },
                "region": {
                    "type": "object",
                    "properties": {"startLine": {"type": "integer", "minimum": 1}},
                },
            },
        },
        "logicalLocations": {"type": "array", "items": {"type": "object"}},
    },
}
RULE = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "string"},
        "name": {"type": "string", "pattern": "^[A-Z][A-Za-z]*$"},
        "shortDescription": MESSAGE,
        "help": MESSAGE,
        "defaultConfiguration": {"type": "object", "properties": {"level": LEVEL}},
    },
}
RESULT = {
    "type": "object",
    "required": ["message", "ruleId", "ruleIndex", "level", "locations"],
    "properties": {
        "message": MESSAGE,
        "level": LEVEL,
        "ruleIndex": {"type": "integer", "minimum": 0},
        "occurrenceCount": {"type": "integer", "minimum": 1},
        "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
        "locations": {"type": "array", "minItems": 1, "items": LOCATION},
    },
}
RUN = {
    "type": "object",
    "required": ["tool", "results"],
    "properties": {
        "tool": {
            "type": "object",
            "required": ["driver"],
            "properties": {
                "driver": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {"rules": {"type": "array", "uniqueItems": True, "items": RULE}},
                }
            },
        },
        "results": {"type": "array", "items": RESULT},
    },
}
LOG = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {"version": {"const": "2.1.0"}, "runs": {"type": "array", "items": RUN}},
}


def load(*reports, **settings):
    return json.loads(sarif.render(reports, View(**settings)))


@pytest.mark.parametrize("reports", [(faulty(),), (clean(),), (hostile(),), (faulty(), hostile())])
def test_the_log_has_the_shape_that_the_specification_asks_for(reports):
    jsonschema.validate(load(*reports), LOG)


def test_each_result_points_at_its_rule():
    run = load(faulty(), faulty())["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert len(rules) == 3
    assert len(run["results"]) == 6
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]


def test_info_is_a_note():
    levels = [result["level"] for result in load(faulty())["runs"][0]["results"]]
    assert levels == ["error", "warning", "note"]


def test_a_result_stands_on_the_line_of_its_step():
    run = load(faulty(), lines={"runs/a.yaml": {5: 11}})["runs"][0]
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert places[0] == {"artifactLocation": {"uri": "runs/a.yaml"}, "region": {"startLine": 11}}
    assert "region" not in places[1]


def test_no_message_holds_a_link():
    message = load(hostile())["runs"][0]["results"][0]["message"]["text"]
    assert "](" not in message


def test_paths_become_uris():
    report = clean()
    report.source = "/tmp/a b#c.yaml"
    report.findings = faulty().findings
    result = load(report)["runs"][0]["results"][0]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "file:///tmp/a%20b%23c.yaml"
