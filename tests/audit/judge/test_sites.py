"""Noting who makes what: the family's own line, for the step and layer that used it."""

import sys
from pathlib import Path

import mlx_lm

from mlxdiag.audit.judge.judge import prepare
from mlxdiag.audit.judge.sites import CALL, MASK, STATE, Sites, place
from mlxdiag.audit.judge.trial import Trial
from mlxdiag.audit.schedules.scenarios import named
from mlxdiag.models.mlx import zoo

ROOT = Path(mlx_lm.__file__).parents[1]


def noted(family, scenario):
    instance = zoo.tiny(family)
    setting = prepare(instance, named(scenario))
    trial = Trial(instance, setting.plan, setting.prompts, None, 1.0)
    sites = Sites(trial)
    with sites.noting():
        trial.run()
    return sites


def text(where):
    file, number = where.rsplit(":", 1)
    return (ROOT / file).read_text().splitlines()[int(number) - 1]


def test_masks_of_two_kinds_of_layers_are_told_apart():
    sites = noted("gemma3_text", "fresh-over-window")
    sliding, full = sites.of(MASK, 1, [0]), sites.of(MASK, 1, [1])
    assert sliding != full
    assert all("mask" in text(where) for where in (sliding, full))
    assert "scaled_dot_product_attention" in text(sites.of(CALL, 1, [0]))


def test_states_of_recurrent_layers_are_found_and_nothing_is_invented():
    assert "cache[" in text(noted("mamba", "fresh-within-window").of(STATE, 1, [0]))
    assert noted("mixtral", "fresh-within-window").of(STATE, 1, [0]) == ""


def test_profiling_ends_with_the_context():
    before = sys.getprofile()
    noted("mixtral", "fresh-within-window")
    assert sys.getprofile() is before


def test_a_place_begins_at_the_library():
    assert place("/a/site-packages/mlx_lm/models/x.py", 3) == "mlx_lm/models/x.py:3"
