"""Who makes what in transformers: the family's own line, by kind of layer."""

from tests.audit.libraries.torch_cells import family, line

from mlxdiag.audit.judge import judge  # isort: skip
from mlxdiag.audit.judge.sites import CALL, MASK, STATE  # isort: skip
from mlxdiag.audit.judge.trial import Trial  # isort: skip
from mlxdiag.audit.libraries import table  # isort: skip
from mlxdiag.audit.schedules.scenarios import named  # isort: skip


def noted(name, scenario):
    instance = family(name)[0]
    setting = judge.prepare(instance, named(scenario))
    trial = Trial(instance, setting.plan, setting.prompts, None, 1.0)
    sites = table.named("transformers").sites(trial)
    with sites.noting():
        trial.run()
    return sites


def test_masks_calls_and_states_are_those_of_the_family():
    sites = noted("olmo3", "fresh-over-window")
    sliding, full = sites.of(MASK, 1, [0]), sites.of(MASK, 1, [1])
    assert sliding.startswith("transformers/models/olmo3/modeling_olmo3.py:")
    assert sliding != full
    assert "sliding" in line(sliding)
    assert "attention_interface(" in line(sites.of(CALL, 1, [0]))
    assert sites.of(STATE, 1, [0]) == ""
    assert "conv" in line(noted("lfm2", "fresh-within-window").of(STATE, 1, [0]))


def test_the_method_of_a_cache_is_found_by_the_layer():
    library, instance = table.named("transformers"), family("olmo3")[0]
    assert "def crop" in line(library.cache_method(instance, [0], "trim"))
    assert "def update" in line(library.cache_method(instance, [0], "update"))
    assert library.cache_method(instance, [0], "update") != library.cache_method(instance, [1], "update")
    assert "cache.crop(" in line(library.rewinding())
