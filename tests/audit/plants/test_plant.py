"""Every planted fault is found in some cell that passes without it, and nothing of it stays behind."""

from contextlib import contextmanager

import mlx.core as mx
import mlx.nn as nn
import mlx_lm.models.base as library_base
import mlx_lm.models.cache as library_caches
import msgspec
import numpy as np
import pytest

from mlxdiag.audit.cell import ORACLES, Cell
from mlxdiag.audit.judge import noise
from mlxdiag.audit.judge.judge import judge
from mlxdiag.audit.plants.outputs import Effect
from mlxdiag.audit.plants.plant import NOTHING, named
from mlxdiag.audit.plants.plants import PLANTS
from mlxdiag.audit.plants.trials import Attempt, attempts, control
from mlxdiag.audit.schedules.scenarios import SCENARIOS
from mlxdiag.audit.schedules.scenarios import named as scenario_named
from mlxdiag.errors import UsageError
from mlxdiag.models.mlx import zoo

FOUND = {
    "window-one-wide": ("gemma3_text", "no-cache", "visibility"),
    "window-one-narrow": ("gemma3_text", "fresh-over-window", "visibility"),
    "window-dropped": ("gemma3_text", "chunks-above-window", "visibility"),
    "blocks-dropped": ("llama4", "fresh-over-window", "visibility"),
    "future-visible": ("gemma3_text", "no-cache", "visibility"),
    "self-hidden": ("gemma3_text", "fresh-within-window", "visibility"),
    "mask-stale": ("gemma3_text", "chunks-equal-window", "geometry"),
    "mask-stale-fitted": ("gemma3_text", "chunks-equal-window", "visibility"),
    "sinks-dropped": ("gpt_oss", "decode-across-window", "parity"),
    "keys-clamped": ("gemma3_text", "continue-after-wrap", "geometry"),
    "oldest-dropped": ("gemma3_text", "fresh-within-window", "geometry"),
    "offset-slips": ("gemma3_text", "chunks-below-window", "visibility"),
    "ring-one-small": ("gemma3_text", "decode-across-window", "visibility"),
    "ring-one-large": ("qwen3_moe", "key-cap", "geometry"),
    "ring-restarts-late": ("gemma3_text", "decode-across-window", "visibility"),
    "pinned-sinks-lost": ("qwen3_moe", "key-cap", "visibility"),
    "trim-one-short": ("gemma3_text", "trim-then-decode", "geometry"),
    "trim-one-long": ("gemma3_text", "trim-then-decode", "geometry"),
    "trim-skips-a-layer": ("gemma3_text", "trim-then-decode", "geometry"),
    "trim-keeps-cursor": ("gemma3_text", "trim-then-chunk", "crash"),
    "quantised-group-lost": ("qwen3_moe", "quantized-keys", "parity"),
    "quantised-offset-short": ("qwen3_moe", "quantized-keys", "visibility"),
    "left-padding-visible": ("gemma3_text", "left-padding", "visibility"),
    "padding-in-state": ("mamba2", "left-padding", "parity"),
    "padding-not-counted-down": ("mamba2", "left-padding", "parity"),
    "finalize-skipped": ("gemma3_text", "right-padding", "visibility"),
    "finalize-one-short": ("gemma3_text", "right-padding", "visibility"),
    "filter-keeps-neighbours": ("gemma3_text", "ragged-batch", "visibility"),
    "filter-keeps-paddings": ("gemma3_text", "ragged-batch", "visibility"),
    "extend-puts-in-front": ("gemma3_text", "ragged-batch", "visibility"),
    "extend-forgets-padding": ("gemma3_text", "ragged-batch", "visibility"),
    "merge-pads-more": ("gemma3_text", "ragged-batch", "visibility"),
    "merge-pads-less": ("gemma3_text", "ragged-batch", "visibility"),
    "merge-flattens-offsets": ("gemma3_text", "ragged-batch", "parity"),
    "merge-reverses-states": ("mamba2", "ragged-batch", "parity"),
    "extract-one-short": ("gemma3_text", "ragged-batch", "visibility"),
    "extract-takes-neighbour": ("recurrent_gemma", "ragged-batch", "parity"),
    "first-rows-position": ("gemma3_text", "ragged-batch", "parity"),
    "first-cache-shared": ("mamba2", "interleaved", "parity"),
    "state-on-the-layer": ("mamba2", "interleaved", "parity"),
    "position-on-the-module": ("gemma3_text", "interleaved", "parity"),
    "conv-state-lost": ("mamba2", "chunks-below-window", "parity"),
    "memory-lost": ("mamba2", "chunks-below-window", "parity"),
    "rope-stale": ("gemma3_text", "chunks-below-window", "geometry"),
    "rope-ahead": ("gemma3_text", "decode-across-window", "geometry"),
    "load-takes-buffer": ("gemma3_text", "save-and-load", "visibility"),
    "load-loses-offset": ("gemma3_text", "save-and-load", "geometry"),
    "load-loses-cursor": ("gemma3_text", "save-and-load", "visibility"),
    "load-loses-state": ("mamba2", "save-and-load", "parity"),
    "load-swaps-layers": ("gemma3_text", "save-and-load", "parity"),
    "entry-handed-out": ("gemma3_text", "trie-shorter", "geometry"),
    "hit-counts-more": ("gemma3_text", "trie-shorter", "geometry"),
    "longer-entry-cut": ("qwen3", "trie-longer", "geometry"),
    "common-counts-more": ("qwen3", "trie-longer", "geometry"),
    "quantised-load-takes-buffer": ("qwen3_moe", "quantized-keys", "visibility"),
    "filter-keeps-shifted-padding": ("qwen3", "ragged-batch", "visibility"),
    "filter-cuts-wrong-end": ("qwen3", "ragged-batch", "parity"),
    "merge-takes-slots": ("gemma3_text", "ragged-batch", "visibility"),
    "ring-size-unbounded": ("gemma3_text", "ragged-batch", "crash"),
    "growth-loses-newest": ("qwen3", "chunks-not-dividing", "parity"),
    "large-batches-sharpened": ("qwen3", "left-padding", "parity"),
    "positions-off-far-out": ("qwen3", "fresh-over-window", "parity"),
}
"""By plant: a family and scenario in which it must be found, and an oracle that must see it there."""


HARMLESS = ("hit-counts-more",)
"""The schedule feeds its own tokens, whatever the store claims."""


@pytest.fixture(scope="module")
def subjects():
    made = {}

    def get(family):
        if family not in made:
            instance = zoo.tiny(family)
            made[family] = instance, noise.floor(instance)
        return made[family]

    return get


@pytest.fixture
def attempt(subjects):
    def run(plant, family, scenario):
        instance, floor = subjects(family)
        (found,) = attempts(instance, scenario_named(scenario), [named(plant)], noise=floor)
        return found

    return run


def test_every_plant_has_its_cell():
    assert list(FOUND) == [plant.name for plant in PLANTS]


@pytest.mark.parametrize("name", FOUND)
def test_a_planted_fault_is_found_where_the_library_as_it_is_passes(attempt, name):
    family, scenario, oracle = FOUND[name]
    found = attempt(name, family, scenario)
    assert found.observable or name in HARMLESS
    assert found.killed
    assert oracle in (*found.caught_by, found.cell.result)


def test_a_fault_that_changes_no_output_does_not_count_as_observable(attempt):
    """Rings one key too large, under masks that are built for the right window."""
    found = attempt("ring-one-large", "gemma3_text", "chunks-above-window")
    assert found.acted
    assert not found.observable
    assert not found.survived


def test_a_refusal_is_neither_found_nor_survived(attempt):
    """A smaller ring is full when the prefix is to be cut, and the library says that it cannot."""
    found = attempt("ring-one-small", "gemma3_text", "adopt-trimmed-prefix")
    assert found.declined
    assert not found.observable


def test_a_fault_that_cannot_act_is_no_attempt(subjects):
    instance, floor = subjects("mamba2")
    plants = [named("window-dropped"), named("sinks-dropped"), named("ring-one-small")]
    assert list(attempts(instance, scenario_named("chunks-below-window"), plants, noise=floor)) == []


def test_a_plant_is_tried_only_where_its_path_leads(subjects):
    instance, floor = subjects("qwen3_moe")
    plant, scenario = named("quantised-offset-short"), scenario_named("quantized-keys")
    astray = msgspec.structs.replace(plant, groups=("cap",))
    (tried,) = attempts(instance, scenario, [astray, plant], noise=floor)
    assert tried.acted


def test_nothing_is_tried_where_the_cell_fails_anyway():
    """The library runs another model without caches: layers that share keys compute their own."""
    instance = zoo.tiny("gemma3n")
    floor = noise.floor(instance)
    scenario = scenario_named("no-cache")
    assert control(instance, scenario, noise=floor)[0].result == "fail"
    assert list(attempts(instance, scenario, PLANTS, noise=floor)) == []


def test_an_audit_that_says_nothing_is_told_of(attempt):
    found = attempt("window-dropped", "gemma3_text", "no-cache")
    silent = Cell(library="mlx-lm", family="gemma3_text", scenario="no-cache", result="pass")
    assert Attempt(plant="x", family="f", scenario="s", acted=1, moved=found.moved, cell=silent).survived


def test_a_recurrent_state_from_before_shows_behind_a_prefix(attempt):
    """Weights under which a state forgets within a prefix would hide that it was not empty at first."""
    assert attempt("state-on-the-layer", "mamba2", "adopt-prefix").killed


def test_a_wrong_window_in_the_single_pass_too_leaves_parity_blind(attempt):
    """The fault of a release is on both sides of the comparison; only visibility knows better."""
    assert attempt("window-one-narrow", "gemma3_text", "fresh-over-window").caught_by == ("visibility",)


def test_a_plant_that_judge_puts_in_spares_the_single_pass(subjects):
    """Then parity sees it as well, and keys of another sequence are known for what they are."""
    instance, floor = subjects("gemma3_text")
    for plant, scenario in (
        ("window-one-narrow", "fresh-over-window"),
        ("first-cache-shared", "interleaved"),
    ):
        observed = Observed(named(plant))
        found = judge(instance, scenario_named(scenario), noise=floor, plant=observed)
        assert found.result in ("fail", "crash")
        (effect,) = observed.effects
        assert effect.acted
        if plant == "window-one-narrow":
            assert found.oracles == ["visibility", "parity"]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_the_library_is_as_it_was_afterwards(subjects, plant):
    instance, _ = subjects("gemma3_text")
    before = _library()
    with plant.apply(instance, SCENARIOS[0]) as effect:
        assert isinstance(effect, Effect)
    assert _library() == before


def test_the_library_is_as_it_was_after_an_exception(subjects):
    instance, _ = subjects("gemma3_text")
    before = _library()
    with pytest.raises(RuntimeError, match="in the middle"):
        _fail_under(named("rope-stale"), instance)
    assert _library() == before


def test_outputs_are_kept_and_padding_is_not_looked_at(subjects):
    instance, floor = subjects("gemma3_text")
    scenario = scenario_named("tile-padding")
    _, healthy = control(instance, scenario, noise=floor)
    _, again = control(instance, scenario, noise=floor)
    assert healthy.outputs
    assert again.moved(healthy) == 0
    ids, logits = again.outputs[0]
    padded = np.argwhere(ids == 0)
    assert len(padded)
    wrong = logits.copy()
    wrong[tuple(padded[0])] += 1.0
    again.outputs[0] = ids, wrong
    assert again.moved(healthy) == 0
    wrong[0, 0] += 1.0
    assert again.moved(healthy) == 1
    wrong[0, 1] = np.nan
    assert again.moved(healthy) == 2
    again.outputs.pop()
    assert again.moved(healthy) == 3


def test_plants_say_what_they_are():
    names = [plant.name for plant in PLANTS]
    assert len(set(names)) == len(names)
    groups = {scenario.group for scenario in SCENARIOS}
    for plant in PLANTS:
        assert plant.title
        assert set(plant.groups) <= groups
        assert set(plant.blind) <= set(ORACLES)
        assert all(plant.blind.values())


def test_an_unknown_plant_is_a_usage_error():
    with pytest.raises(UsageError, match="no plant 'nonsense'"):
        named("nonsense")


def test_the_control_changes_nothing(subjects):
    instance, _ = subjects("gemma3_text")
    before = _library()
    with NOTHING.apply(instance, SCENARIOS[0]):
        model = type(instance.model)
        assert {k: v for k, v in _library().items() if k[0] is not model} == before


class Observed:
    """A plant that keeps what it does."""

    def __init__(self, plant):
        self.plant, self.effects = plant, []

    @contextmanager
    def apply(self, instance, scenario):
        with self.plant.apply(instance, scenario) as effect:
            self.effects.append(effect)
            yield


def _fail_under(plant, instance):
    before = _library()
    with plant.apply(instance, SCENARIOS[0]):
        assert _library() != before
        raise RuntimeError("in the middle")


def _library():
    """Every attribute of the library that a plant may replace."""
    owners = [library_base, library_caches, mx.fast, nn.RoPE]
    owners += [value for value in vars(library_caches).values() if isinstance(value, type)]
    held = {(owner, name): value for owner in owners for name, value in vars(owner).items()}
    return {key: value for key, value in held.items() if callable(value) or isinstance(value, classmethod)}
