"""Speculative decoding by the library's own loop: what it does is seen, and what is wrong is found."""

import importlib

import msgspec
import pytest

from mlxdiag.audit.judge import drafted, judge, noise
from mlxdiag.audit.judge.passes import Passes, Reference
from mlxdiag.audit.schedules.scenarios import named
from mlxdiag.errors import UnjudgedError
from mlxdiag.models.mlx import zoo
from mlxdiag.replay import plan as planning

generate = importlib.import_module("mlx_lm.generate")  # the package has a function of that name


@pytest.fixture(scope="module")
def instances():
    made = {}
    return lambda family: made.setdefault(family, zoo.tiny(family))


@pytest.fixture
def cell(instances):
    def run(family, scenario="drafts"):
        return judge.judge(instances(family), named(scenario), noise=noise.FLOOR / noise.ROOM)

    return run


@pytest.fixture
def trial(instances):
    def run(family, scenario="drafts"):
        instance = instances(family)
        setting = judge.prepare(instance, named(scenario))
        reference = Reference(Passes(instance), setting.plan, setting.prompts)
        made = drafted.DraftedTrial(instance, setting.plan, setting.prompts, reference, 1e-3)
        return made, made.run()

    return run


@pytest.mark.parametrize("family", ["gemma3_text", "gpt_oss", "llama4", "mixtral"])
def test_right_families_pass_and_every_oracle_judged(cell, family):
    found = cell(family)
    assert (found.result, found.codes, found.reason) == ("pass", [], "")
    assert all(count > 0 for count in found.judged.values())


def test_the_loop_drafts_takes_and_rejects_as_the_schedule_says(trial):
    made, trace = trial("mixtral")
    steps = [(e.kind, e.rows[0].tokens or e.rows[0].asked, e.rows[0].offset) for e in trace.entries if e.rows]
    assert steps == [
        ("prefill", 2, 0),
        ("verify", 3, 2),
        ("rollback", 2, None),
        ("verify", 3, 3),
        ("rollback", 1, None),
        ("verify", 3, 5),
        ("decode", 1, 8),
    ]
    assert [e.rows[0].done for e in trace.entries if e.kind == "rollback"] == [2, 1]
    assert made.differences == []


def test_a_rollback_that_leaves_a_token_is_seen(cell, monkeypatch):
    right = generate.trim_prompt_cache
    monkeypatch.setattr(generate, "trim_prompt_cache", lambda caches, n: right(caches, max(n - 1, 0)))
    found = cell("mixtral")
    assert found.result == "fail"
    assert {"MD204", "MD402"} & set(found.codes)
    assert "visibility" in found.oracles


def test_tokens_that_nobody_took_are_a_crash_of_the_library(cell, monkeypatch):
    right = drafted._Sampler.__call__

    def another(self, logprobs):
        found = right(self, logprobs)
        return found if logprobs.shape[0] == 1 else (found + 1) % 7

    monkeypatch.setattr(drafted._Sampler, "__call__", another)
    found = cell("mixtral")
    assert found.result == "crash"
    assert "the loop feeds other tokens" in found.reason


def test_tokens_that_are_swallowed_are_a_crash_of_the_library(cell, monkeypatch):
    right = generate.speculative_generate_step

    def all_but_one(*args, **more):
        steps = right(*args, **more)
        next(steps)
        yield from steps

    monkeypatch.setattr(generate, "speculative_generate_step", all_but_one)
    found = cell("mixtral")
    assert found.result == "crash"
    assert "the loop emits other tokens" in found.reason


@pytest.mark.parametrize("family", ["afm7", "gemma3n", "gemma4_text", "iquestloopcoder", "nanbeige"])
def test_caches_that_are_not_one_a_layer_are_taken_apart_wrongly(cell, family, monkeypatch):
    broken = cell(family)
    assert broken.result in ("crash", "fail")

    # The same where the library counts caches in place of layers.
    def counted(self, name):
        return range(self._trial.instance.cache_count) if name == "layers" else right(self, name)

    right = drafted._Target.__getattr__
    monkeypatch.setattr(drafted._Target, "__getattr__", counted)
    mended = cell(family)
    assert mended.result == "pass", mended.reason


def test_untrimmable_caches_are_refused_by_the_library_itself(cell):
    found = cell("mamba2")
    assert (found.result, found.codes) == ("unsupported", [])
    assert found.reason.startswith("Speculative decoding requires a trimmable prompt cache")
    assert found.where.startswith("mlx_lm/generate.py:")


def test_the_draft_is_not_looked_at(trial, monkeypatch):
    fed = []
    right = drafted._Draft.__call__
    monkeypatch.setattr(
        drafted._Draft, "__call__", lambda s, y, cache: fed.append(y.shape) or right(s, y, cache)
    )
    made, _ = trial("mixtral")
    assert len(fed) > 3
    assert made.probe._installed == 0  # taken out at the end, however often it paused
    assert not made.identity.arrays()


def test_quantised_keys_agree_within_the_loop_and_the_caller_goes_on_with_the_old_ones(cell):
    found = cell("mixtral", "drafts-quantized")
    assert found.result == "fail"
    assert found.evidence["step"] == 6  # the decode of the caller, after three forwards and a rollback
    assert "MD305" in found.codes


def test_quantised_keys_pass_where_the_caller_gets_what_the_loop_has(cell, monkeypatch):
    right = drafted.DraftedTrial._speculate

    def handed_back(self):
        right(self)
        self.stage.enter("a", self._held)

    monkeypatch.setattr(drafted.DraftedTrial, "_speculate", handed_back)
    found = cell("mixtral", "drafts-quantized")
    assert found.result == "pass", found.reason


def test_rings_refuse_to_be_quantised(cell):
    found = cell("gemma3_text", "drafts-quantized")
    assert (found.result, found.codes) == ("unsupported", [])
    assert "NYI" in found.reason


@pytest.mark.parametrize("family", ["gemma3_text", "mixtral"])
def test_what_the_server_stores_is_one_token_short(cell, family, monkeypatch):
    found = cell(family, "drafts-stored")
    assert found.result == "fail"
    assert {"MD205", "MD305"} <= set(found.codes)
    assert found.evidence["step"] == 5

    def as_held(self, op):
        (seq,) = op.seqs
        self.store.insert(self.prompts[seq].of(self.tapes[seq].own), self._given)

    monkeypatch.setattr(drafted.DraftedTrial, "_save", as_held)
    mended = cell(family, "drafts-stored")
    assert mended.result == "pass", mended.reason


@pytest.mark.parametrize(
    ("changes", "why"),
    [({"phase": "chunk"}, "a schedule without rounds"), ({"tokens": 2}, "a round of one draft")],
)
def test_rounds_that_the_loop_could_not_make_are_not_judged(instances, changes, why):
    instance = instances("mixtral")
    setting = judge.prepare(instance, named("drafts-stored"))
    first, verified = setting.trace.entries[:2]
    row = msgspec.structs.replace(verified.rows[0], tokens=changes.get("tokens", 3))
    verified = msgspec.structs.replace(verified, phase=changes.get("phase", "verify"), rows=[row])
    trace = msgspec.structs.replace(setting.trace, entries=[first, verified])
    plan = planning.lay(trace, instance.geometry.families())
    with pytest.raises(UnjudgedError, match="no rounds of 2 drafts"):
        drafted.DraftedTrial(instance, plan, setting.prompts, None, 1e-3)
