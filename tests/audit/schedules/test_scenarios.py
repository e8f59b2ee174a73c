"""The list of scenarios: whole, named once, each with a schedule."""

import re

import pytest

from mlxdiag.audit.schedules.scenarios import NAMES, SCENARIOS, named
from mlxdiag.audit.schedules.schedules import SCHEDULES
from mlxdiag.errors import UsageError

GROUPS = {"prefill", "decode", "trim", "reuse", "cap", "quantized", "batch", "isolation", "distributed"}


def test_every_scenario_has_a_schedule_and_every_schedule_a_scenario():
    assert set(NAMES) == set(SCHEDULES)


def test_names_are_kebab_case_and_stand_once():
    assert len(set(NAMES)) == len(NAMES)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in NAMES)


def test_groups_are_those_of_the_contract_and_titles_are_for_people():
    assert {scenario.group for scenario in SCENARIOS} <= GROUPS
    assert len({scenario.title for scenario in SCENARIOS}) == len(SCENARIOS)


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="fresh-within-window"):
        named("fresh")
