"""Every rule's own traces: those that must fire it do, their close neighbours do not."""

from __future__ import annotations

import pytest

from mlxdiag.inspect.findings import SEVERITIES, codes
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.inspect.rules import RULES
from mlxdiag.traces.reader import parse

FIRES = [
    pytest.param(rule, text, id=f"{rule.code}-{n}") for rule in RULES for n, text in enumerate(rule.fires)
]
QUIET = [
    pytest.param(rule, text, id=f"{rule.code}-{n}") for rule in RULES for n, text in enumerate(rule.quiet)
]


@pytest.mark.parametrize(("rule", "text"), FIRES)
def test_the_trace_that_must_fire_does(rule, text):
    assert rule.code in codes(inspect_trace(parse(text)).findings)


@pytest.mark.parametrize(("rule", "text"), QUIET)
def test_the_near_miss_stays_quiet(rule, text):
    assert rule.code not in codes(inspect_trace(parse(text)).findings)


@pytest.mark.parametrize(("rule", "text"), [*FIRES, *QUIET])
def test_the_rule_alone_says_the_same_as_in_company(rule, text):
    alone = codes(inspect_trace(parse(text), select=[rule.code]).findings)
    together = codes(inspect_trace(parse(text)).findings)
    assert (rule.code in alone) == (rule.code in together)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_explains_itself(rule):
    text = rule.__doc__ or ""
    assert rule.fires
    assert rule.quiet
    assert len(text.split("\n\n")) >= 2
    assert rule.severity in SEVERITIES


def test_codes_and_names_are_unique():
    assert len({rule.code for rule in RULES}) == len(RULES)
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_no_two_rules_explain_each_other():
    """A circle would fold every finding in it away."""
    explains = {rule.code: set(rule.absorbs) for rule in RULES}
    for code in explains:
        reached, todo = set(), [code]
        while todo:
            for symptom in explains.get(todo.pop(), ()):
                assert symptom != code
                if symptom not in reached:
                    reached.add(symptom)
                    todo.append(symptom)
