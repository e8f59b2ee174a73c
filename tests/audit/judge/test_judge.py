"""The judge on real families: right ones pass, wrong ones fail with oracle, positions and line."""

import contextlib
from pathlib import Path

import mlx.core as mx
import mlx_lm
import numpy as np
import pytest

import mlxdiag
from mlxdiag.audit.judge import noise
from mlxdiag.audit.judge.judge import audit_family, judge
from mlxdiag.audit.judge.passes import Passes
from mlxdiag.audit.judge.reading import LISTED, WRAPPERS
from mlxdiag.audit.judge.trial import Trial
from mlxdiag.audit.schedules.scenarios import SCENARIOS, named
from mlxdiag.models.mlx import zoo
from mlxdiag.traces.reader import parse

PLAIN = [scenario.name for scenario in SCENARIOS if scenario.group in ("prefill", "decode")]
SITE_PACKAGES = Path(mlx_lm.__file__).parents[1]


@pytest.fixture(scope="module")
def subjects():
    """Instances with their single passes, made once."""
    made = {}

    def get(family):
        if family not in made:
            instance = zoo.tiny(family)
            made[family] = instance, Passes(instance), noise.floor(instance)
        return made[family]

    return get


@pytest.fixture
def cell(subjects):
    def run(family, scenario, *, fresh=False, **more):
        instance, passes, floor = subjects(family)
        # What is planted in the library must reach the single pass as well, as in a release.
        known = None if fresh else passes
        return judge(instance, named(scenario), noise=floor, passes=known, **more)

    return run


def source_line(where):
    file, number = where.rsplit(":", 1)
    return (SITE_PACKAGES / file).read_text().splitlines()[int(number) - 1]


@pytest.mark.parametrize("family", ["gemma3_text", "gpt_oss", "llama"])
@pytest.mark.parametrize("scenario", PLAIN)
def test_right_families_pass_and_every_oracle_judged(cell, family, scenario):
    found = cell(family, scenario)
    assert (found.result, found.codes, found.reason) == ("pass", [], "")
    assert all(count > 0 for count in found.judged.values())


SHARED = ("drafts-quantized", "drafts-stored", "key-cap-batch", "key-cap-below-pins", "trie-exact")
"""Scenarios that meet a fault of the library's shared code whatever the family."""


@pytest.mark.parametrize(
    "scenario",
    [
        s.name
        for s in SCENARIOS
        if s.group in ("trim", "reuse", "cap", "quantized", "batch") and s.name not in SHARED
    ],
)
def test_a_family_of_full_layers_has_nothing_that_could_fail(cell, scenario):
    found = cell("mixtral", scenario)
    assert found.result == "pass", found.reason
    assert found.judged["visibility"] > 0
    assert found.judged["parity"] > 0


def test_a_window_that_nobody_enforces_fails_though_the_single_pass_agrees(cell):
    found = cell("gemma2", "fresh-over-window")
    assert found.result == "fail"
    assert {"MD108", "MD302"} <= set(found.codes)
    assert found.oracles == ["geometry", "visibility"]
    tokens = parse(found.trace).entries[0].rows[0].tokens
    assert tokens > 16
    assert found.evidence["positions"] == list(range(8, tokens + 1))[:LISTED]
    assert found.evidence["max_abs"] == 0.0
    assert "create_attention_mask" in source_line(found.where)


def test_a_mask_wider_by_one_key_is_seen_in_what_each_query_attends(cell, monkeypatch):
    from mlx_lm.models import cache

    right = cache.RotatingKVCache.make_mask

    def wide(self, n, window_size=None, **more):
        return right(self, n, (window_size or self.max_size) + 1, **more)

    monkeypatch.setattr(cache.RotatingKVCache, "make_mask", wide)
    found = cell("gemma3_text", "fresh-over-window", fresh=True)
    assert found.result == "fail"
    assert "MD302" in found.codes
    assert "visibility" in found.oracles
    assert found.evidence["first"] == 8


def test_a_stale_position_is_seen_by_parity(cell, monkeypatch):
    from mlx_lm.models import cache

    right = cache.KVCache.update_and_fetch

    def late(self, keys, values):
        kept = right(self, keys, values)
        self.offset += int(self.offset == 7)
        return kept

    monkeypatch.setattr(cache.KVCache, "update_and_fetch", late)
    found = cell("mixtral", "decode-across-window", fresh=True)
    assert found.result == "fail"
    assert "parity" in found.oracles


def test_sequences_that_share_a_state_are_told_apart(cell, monkeypatch):
    from mlx_lm.models import mixtral

    right = mixtral.MixtralAttention.__call__

    def leaking(self, x, mask=None, cache=None):
        out = right(self, x, mask, cache)
        held = self.__dict__.setdefault("_leak", [])
        held.append(out[:, -1:])
        return out + 0.1 * held[-2] if len(held) > 1 else out

    monkeypatch.setattr(mixtral.MixtralAttention, "__call__", leaking)
    found = cell("mixtral", "interleaved")
    assert (found.result, found.oracles) == ("fail", ["parity"])


def test_a_batch_mask_on_the_wrong_axis_crashes_or_leaks(cell):
    crashed = cell("gemma2", "right-padding")
    assert (crashed.result, crashed.codes) == ("crash", ["MD901"])
    assert crashed.where.startswith("mlx_lm/models/gemma2.py:")
    assert "broadcast" in crashed.reason
    silent = cell("gemma2", "left-padding-as-heads")
    assert silent.result == "fail"
    assert "MD304" in silent.codes


def test_positions_of_rows_that_are_all_padding_are_nobody_s_fault(cell):
    """gemma3n rotates by the first layer's ring, which stands still where dense caches count padding on."""
    found = cell("gemma3n", "right-padding-chunked")
    assert (found.result, found.codes, found.excuse) == ("pass", [], "")


def test_rejected_drafts_past_the_window_stay_and_the_rewind_is_named(cell):
    found = cell("gemma3_text", "speculative-after-wrap")
    assert found.result == "fail"
    assert {"MD209", "MD304", "MD402"} <= set(found.codes)
    assert "trim_prompt_cache(model_cache" in source_line(found.where)
    assert found.evidence["max_abs"] > 100 * found.evidence["tolerance"]


def test_a_refusal_is_no_fault(cell):
    for scenario, said in (
        ("quantized-keys", "NYI"),
        ("trim-after-wrap-chunk", "can_trim_prompt_cache is false"),
        ("trie-longer-after-wrap", "prefilled again"),
    ):
        found = cell("gemma3_text", scenario)
        assert (found.result, found.codes, found.oracles) == ("unsupported", [], []), scenario
        assert said in found.reason


def test_a_stored_prefix_that_cannot_be_cut_is_refused_before_it_is_tried(cell):
    found = cell("mamba2", "adopt-trimmed-prefix")
    assert (found.result, found.codes, found.oracles) == ("unsupported", [], [])
    assert "is false of the stored prefix (ArraysCache)" in found.reason


def test_keys_that_no_group_of_a_quantised_cache_fits_are_the_tiny_instances_doing(cell):
    found = cell("helium", "quantized-keys")
    assert (found.result, found.codes) == ("skipped", [])
    assert found.reason.startswith("the keys of the tiny instance are too small")


def test_what_was_wrong_before_a_refusal_is_a_fault_and_the_refusal_no_crash(cell, monkeypatch):
    from mlx_lm.models import cache

    right = cache.RotatingKVCache.make_mask

    def wide(self, n, window_size=None, **more):
        return right(self, n, (window_size or self.max_size) + 1, **more)

    monkeypatch.setattr(cache.RotatingKVCache, "make_mask", wide)
    found = cell("gemma3_text", "quantized-keys", fresh=True)
    assert found.result == "fail"
    assert "MD302" in found.codes
    assert not {"MD901", "MD906"} & set(found.codes)
    assert "; then it is refused: " in found.reason
    assert "NYI" in found.reason


def test_what_cannot_be_capped_is_skipped_with_the_reason(cell):
    found = cell("gemma3_text", "key-cap")
    assert found.result == "skipped"
    assert "make_prompt_cache" in found.reason


def test_a_plant_is_there_for_the_run_only_and_the_passes_before_it(cell, subjects):
    from mlx_lm.models import cache

    seen = []

    class Trap:
        name = "trap"

        @contextlib.contextmanager
        def apply(self, instance, scenario):
            right = cache.KVCache.make_mask
            cache.KVCache.make_mask = lambda self, n, **_: mx.ones((n, self.offset + n), mx.bool_)
            seen.append((instance.name, scenario.name))
            try:
                yield
            finally:
                cache.KVCache.make_mask = right

    found = cell("mixtral", "fresh-over-window", plant=Trap())
    assert seen == [("mixtral", "fresh-over-window")]
    assert found.result == "fail"
    assert "MD303" in found.codes
    assert cell("mixtral", "fresh-over-window").result == "pass"


def test_nothing_judged_is_never_a_pass(cell, monkeypatch):
    monkeypatch.setattr(Trial, "_parity", lambda *_: None)
    monkeypatch.setattr(
        "mlxdiag.audit.judge.judge.reading.judged", lambda _run: dict.fromkeys(("geometry",), 0)
    )
    assert cell("mixtral", "fresh-over-window").result == "skipped"


def test_modules_that_only_call_the_library_are_where_they_are_said_to_be():
    assert all((Path(mlxdiag.__file__).parent / name).is_file() for name in WRAPPERS)


def test_a_fault_of_the_judge_itself_is_raised(cell, monkeypatch):
    monkeypatch.setattr(Trial, "_compare", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cell("mixtral", "fresh-over-window")


def test_cells_are_equal_run_after_run(cell):
    cells = [cell("gpt_oss", "ragged-batch") for _ in range(2)]
    for one in cells:
        one.seconds = 0.0
    assert cells[0] == cells[1]


def test_a_family_is_audited_in_the_order_asked_for():
    wanted = [named("decode-across-window"), named("fresh-within-window")]
    cells = list(audit_family("llama", wanted))
    assert [(c.family, c.scenario, c.result) for c in cells] == [
        ("llama", "decode-across-window", "pass"),
        ("llama", "fresh-within-window", "pass"),
    ]
    assert all(np.isfinite(c.seconds) and c.seconds > 0 for c in cells)


def test_a_family_that_cannot_run_here_is_skipped_in_every_cell():
    cells = list(audit_family("bitnet", [named("fresh-within-window"), named("no-cache")]))
    assert [c.result for c in cells] == ["skipped", "skipped"]
    assert all("Metal" in c.reason for c in cells)


def test_a_family_that_a_release_broke_crashes_in_every_cell(monkeypatch):
    from mlx_lm.models import mixtral

    def broken(self, inputs, *more):
        raise AttributeError("no such thing any more")

    monkeypatch.setattr(mixtral.MixtralModel, "__call__", broken)
    cells = list(audit_family("mixtral", [named("fresh-within-window"), named("no-cache")]))
    assert [(c.result, c.codes) for c in cells] == [("crash", ["MD906"])] * 2
    assert all("no such thing" in c.reason and "mixtral.py" in c.where for c in cells)


def test_a_single_pass_that_breaks_past_the_window_is_a_crash(cell, monkeypatch):
    from mlx_lm.models import mixtral

    right = mixtral.MixtralModel.__call__

    def short_only(self, inputs, *more):
        if inputs.shape[1] > 8:
            raise ValueError("[broadcast_shapes] Shapes (8,8) and (9,9) cannot be broadcast.")
        return right(self, inputs, *more)

    monkeypatch.setattr(mixtral.MixtralModel, "__call__", short_only)
    found = cell("mixtral", "fresh-over-window", fresh=True)
    assert (found.result, found.codes) == ("crash", ["MD901"])
    assert found.reason.startswith("the single pass: ValueError")
    assert found.trace
