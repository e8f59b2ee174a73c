"""`mlxdiag.recording` in this process, and what recording may and may not do to a program."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm.generate
import mlx_lm.models.cache as caches
import mlx_lm.utils
import pytest
from mlx_lm.models import gemma3_text

import mlxdiag
from mlxdiag.errors import UsageError
from mlxdiag.inspect.findings import codes
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.reader import read
from mlxdiag.traces.types import Entry, Scheduler, Trace
from tests.record import models

generate: Any = sys.modules["mlx_lm.generate"]
PROMPT, ANSWER = 40, 12


@pytest.fixture(scope="module")
def model() -> Any:
    return models.build()


def answer(model: Any, prompt: int = PROMPT, count: int = ANSWER, **settings: Any) -> list[int]:
    """`generate_step` of the module, as a program calls it."""
    ids = mx.arange(5, prompt + 5)
    steps = generate.generate_step(ids, model, max_tokens=count, prefill_step_size=16, **settings)
    return [token for token, _ in steps]


def of_phase(trace: Trace, phase: str) -> list[Entry]:
    return [entry for entry in trace.entries if entry.phase == phase]


def originals() -> list[Any]:
    names = [cls for cls in vars(caches).values() if isinstance(cls, type)]
    methods = [
        vars(cls).get(name) for cls in names for name in ("update_and_fetch", "trim", "merge", "filter")
    ]
    functions = [getattr(generate, name) for name in ("generate_step", "speculative_generate_step")]
    classes = [generate.BatchGenerator._next, generate.GenerationBatch._step]
    files = [caches.save_prompt_cache, caches.load_prompt_cache, mlx_lm.utils.load_model]
    calls = [mx.fast.scaled_dot_product_attention, mx.fast.rope, mx.compile]
    return [*methods, *functions, *classes, *files, *calls, gemma3_text.Model.__call__]


@pytest.mark.parametrize("level", ["shapes", "visibility"])
@pytest.mark.parametrize("lost", [True, False])
def test_a_prefill_that_lost_its_mask_is_named(
    tmp_path: Path, model: Any, monkeypatch: pytest.MonkeyPatch, level: str, lost: bool
) -> None:
    """The kernel is causal where it is told so ("causal"), and by nothing else."""
    if lost:
        monkeypatch.setattr(gemma3_text, "create_attention_mask", lambda *_, **__: None)
    with mlxdiag.recording(tmp_path / "t.yaml", level=level) as path:
        mx.eval(model(mx.arange(5, 17)[None], cache=caches.make_prompt_cache(model)))
        mx.eval(model(mx.arange(5, 6)[None], cache=caches.make_prompt_cache(model)))
    found = codes(inspect_trace(read(path)).findings)
    assert ("MD112" in found) == lost
    assert lost or not found


def test_the_header_says_on_which_device(tmp_path: Path, model: Any) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        answer(model, count=1)
    trace = read(path)
    assert trace.header.environment is not None
    assert trace.header.environment["device"] == "cpu"
    assert "attention" not in trace.header.environment
    assert inspect_trace(trace).summary.notes == ["recorded on cpu"]


def test_the_originals_are_back_when_the_block_ends(tmp_path: Path, model: Any) -> None:
    before = originals()
    with mlxdiag.recording(tmp_path / "t.yaml"):
        answer(model)
        assert any(a is not b for a, b in zip(before, originals(), strict=True))
    assert all(a is b for a, b in zip(before, originals(), strict=True))
    with pytest.raises(ZeroDivisionError), mlxdiag.recording(tmp_path / "u.yaml"):
        _ = 1 / 0
    assert all(a is b for a, b in zip(before, originals(), strict=True))


def test_only_what_happens_in_the_block_is_recorded(tmp_path: Path, model: Any) -> None:
    alone = answer(model)
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        inside = answer(model)
    answer(model)
    trace = read(path)
    assert inside == alone
    assert len(of_phase(trace, "decode")) == 1 + ANSWER
    assert trace.entries[-1].phase == "end"
    assert inspect_trace(trace).findings == []


def test_an_existing_file_is_kept_unless_forced(tmp_path: Path, model: Any) -> None:
    path = tmp_path / "t.yaml"
    path.write_text("mine")
    with pytest.raises(UsageError, match="exists already"), mlxdiag.recording(path):
        pass
    assert path.read_text() == "mine"
    with mlxdiag.recording(path, force=True):
        answer(model)
    assert len(of_phase(read(path), "decode")) == 1 + ANSWER


@pytest.fixture
def reads() -> Iterator[Counter[str]]:
    """Counts every way in which a program can make MLX compute, or take a value out of it."""
    counted: Counter[str] = Counter()

    def counting(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            counted[name] += 1
            return original(*args, **kwargs)

        return call

    methods = ("item", "tolist", "__array__", "__bool__", "__int__", "__float__", "__index__", "__iter__")
    places: list[tuple[Any, str]] = [(mx, name) for name in ("eval", "async_eval", "synchronize")]
    places += [(mx.array, name) for name in methods if hasattr(mx.array, name)]
    before = [(owner, name, getattr(owner, name)) for owner, name in places]
    for owner, name, original in before:
        setattr(owner, name, counting(name, original))
    yield counted
    for owner, name, original in before:
        setattr(owner, name, original)


def test_the_shapes_level_reads_no_array(tmp_path: Path, model: Any, reads: Counter[str]) -> None:
    def work() -> Counter[str]:
        reads.clear()
        answer(model)
        batch = generate.BatchGenerator(model, max_tokens=4)
        batch.insert([[5, 6, 7, 8], [9, 10]])
        while batch.next()[1]:
            pass
        batch.close()
        cache = model.make_cache()
        model(mx.arange(5, 15)[None], cache=cache)
        caches.trim_prompt_cache(cache, 3)
        model(mx.arange(5, 15)[None], cache=copy.deepcopy(cache))
        return Counter(reads)

    alone = work()
    assert alone["item"] >= ANSWER, "the counters count"
    with mlxdiag.recording(tmp_path / "t.yaml"):
        assert work() == alone


def test_a_loop_of_the_users_own_names_its_sequences_by_their_caches(tmp_path: Path, model: Any) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        first, second = model.make_cache(), model.make_cache()
        for cache in (first, second, first, second):
            model(mx.arange(5, 11)[None], cache=cache)
        fork = copy.deepcopy(first)
        model(mx.array([[7]]), cache=fork)
        model(mx.array([[8]]), cache=first)
    trace = read(path)
    rows = [(e.phase, row.seq, row.offset) for e in trace.entries for row in e.rows or ()]
    assert rows == [
        ("prefill", "seq-1", 0),
        ("prefill", "seq-2", 0),
        ("chunk", "seq-1", 6),
        ("chunk", "seq-2", 6),
        ("adopt", "seq-3", None),
        ("decode", "seq-3", 12),
        ("decode", "seq-1", 12),
    ]
    (adopted,) = of_phase(trace, "adopt")
    assert adopted.rows is not None
    assert (adopted.rows[0].entry, adopted.rows[0].restored) == (12, 12)
    assert inspect_trace(trace).findings == []


def test_a_trim_is_one_entry_for_all_layers(tmp_path: Path, model: Any) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        cache = model.make_cache()
        model(mx.arange(5, 15)[None], cache=cache)
        caches.trim_prompt_cache(cache, 3)
        model(mx.array([[7]]), cache=cache)
    trace = read(path)
    (trim,) = of_phase(trace, "trim")
    assert trim.rows is not None
    assert [(row.seq, row.asked, row.done) for row in trim.rows] == [("seq-1", 3, 3)]
    assert [(c.family, c.asked, c.done) for c in trim.attention or ()] == [("sliding", 3, 3), ("full", 3, 3)]
    assert of_phase(trace, "decode")[0].rows[0].offset == 7  # type: ignore[index]
    assert inspect_trace(trace).findings == []


def test_a_trim_of_one_layer_alone_is_found_out(tmp_path: Path, model: Any) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        cache = model.make_cache()
        model(mx.arange(5, 15)[None], cache=cache)
        cache[1].trim(3)
        model(mx.array([[7]]), cache=cache)
    assert {finding.code for finding in inspect_trace(read(path)).findings} & {"MD202", "MD204"}


def test_a_conversion_to_quantised_keys_is_an_entry(tmp_path: Path) -> None:
    from mlx_lm.models import qwen3

    arguments = qwen3.ModelArgs(
        model_type="qwen3", hidden_size=64, num_hidden_layers=2, intermediate_size=32, num_attention_heads=4,
        num_key_value_heads=2, head_dim=64, vocab_size=300, rms_norm_eps=1e-6, max_position_embeddings=512,
        rope_theta=1e4, tie_word_embeddings=True,
    )  # fmt: skip
    model = qwen3.Model(arguments)
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        answer(model, count=4, kv_bits=8, quantized_kv_start=20)
    trace = read(path)
    (quantised,) = of_phase(trace, "quantize")
    assert [row.seq for row in quantised.rows or ()] == ["seq-1"]
    assert [(c.cache, c.kv_bits) for c in quantised.attention or ()] == [("quantized", 8)]
    assert {row.seq for entry in trace.entries for row in entry.rows or ()} == {"seq-1"}
    assert inspect_trace(trace).findings == []


def test_a_rule_that_fires_freezes_a_copy_of_a_ring(
    tmp_path: Path, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml", ring=4) as path:
        answer(model)
        assert list(tmp_path.glob("*MD*")) == []
        # A causal mask lets the sliding layer see past its window.
        monkeypatch.setattr(gemma3_text, "create_attention_mask", lambda *a, **k: "causal")
        answer(model, count=1)
        monkeypatch.undo()
        answer(model, count=20)
    (frozen,) = tmp_path.glob("*MD*")
    assert frozen.name == "t.MD108.yaml"
    assert "MD108" in [finding.code for finding in inspect_trace(read(frozen)).findings]
    assert inspect_trace(read(path)).findings == [], "the ring itself has moved on"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.MD108.yaml", "t.yaml"]


def test_a_ring_never_grows(tmp_path: Path, model: Any) -> None:
    sizes = []
    with mlxdiag.recording(tmp_path / "t.yaml", ring=5):
        for _ in range(6):
            answer(model)
            sizes.append(sum(p.stat().st_size for p in tmp_path.iterdir()))
    lines = [(tmp_path / "t.yaml").read_text().count("\n- ")]
    assert max(sizes) < 2 * min(sizes)
    assert lines[0] <= 1 + 2 * 5 + 1, "a model, twice five entries, the end"


def test_the_visibility_level_counts_what_every_query_sees(tmp_path: Path, model: Any) -> None:
    alone = answer(model)
    with mlxdiag.recording(tmp_path / "t.yaml", level="visibility") as path:
        assert answer(model) == alone
        cache = model.make_cache()
        model(mx.arange(5, 25)[None], cache=cache)
        model(mx.array([[7, 8]]), cache=copy.deepcopy(cache))
        model(mx.array([[9]]), cache=cache)
    trace = read(path)
    forwards = [entry for entry in trace.entries if entry.phase in ("prefill", "chunk", "decode")]
    for entry, call in ((one, call) for one in forwards for call in one.attention or ()):
        start, window = (entry.rows or [])[0].offset or 0, 16 if call.family == "sliding" else 10**6
        assert call.visible == [[min(p + 1, window) for p in range(start, start + (call.q or 0))]]
        assert not any((call.totals or {}).values())
    assert inspect_trace(trace).findings == []


def test_the_visibility_level_finds_a_window_that_is_one_too_wide(
    tmp_path: Path, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = gemma3_text.create_attention_mask

    def wide(h: Any, cache: Any = None, window_size: int | None = None) -> Any:
        return real(h, cache, window_size=window_size and window_size + 1)

    monkeypatch.setattr(gemma3_text, "create_attention_mask", wide)
    with mlxdiag.recording(tmp_path / "shapes.yaml") as blind:
        answer(model)
    with mlxdiag.recording(tmp_path / "visibility.yaml", level="visibility") as path:
        answer(model)
    assert inspect_trace(read(blind)).findings == []
    assert "MD302" in [finding.code for finding in inspect_trace(read(path)).findings]


def test_the_digest_level_counts_what_two_queries_of_each_mask_see(tmp_path: Path, model: Any) -> None:
    alone = answer(model)
    with mlxdiag.recording(tmp_path / "t.yaml", level="digest") as path:
        assert answer(model) == alone
    trace = read(path)
    digests = [entry for entry in trace.entries if entry.note]
    (first, second) = [call for entry in digests for call in entry.attention or ()]
    assert [(call.offset, call.q) for call in (first, second)] == [(16, 16), (32, 7)]
    assert first.visible == [[16, *[-1] * 14, 16]], "a window of 16; the queries between were not read"
    assert second.visible == [[16, *[-1] * 5, 16]]
    report = inspect_trace(trace)
    assert report.findings == []


@pytest.mark.parametrize(("plant", "code"), [("wide", "MD302"), ("late", "MD303"), ("early", "MD305")])
def test_the_digest_level_finds_masks_of_the_right_shape_and_the_wrong_content(
    tmp_path: Path, model: Any, monkeypatch: pytest.MonkeyPatch, plant: str, code: str
) -> None:
    real = gemma3_text.create_attention_mask

    def planted(h: Any, cache: Any = None, window_size: int | None = None) -> Any:
        mask = real(h, cache, window_size=window_size and window_size + (plant == "wide"))
        if not isinstance(mask, mx.array) or plant == "wide":
            return mask
        return mx.roll(mask, {"late": 1, "early": -1}[plant], axis=-1)

    monkeypatch.setattr(gemma3_text, "create_attention_mask", planted)
    found = {}
    for level in ("shapes", "digest"):
        with mlxdiag.recording(tmp_path / f"{level}.yaml", level=level) as path:
            answer(model)
        found[level] = {finding.code for finding in inspect_trace(read(path)).findings}
    assert found["shapes"] == set()
    assert code in found["digest"]


@pytest.fixture
def compiling() -> Iterator[None]:
    """The tests of a CPU run with compilation off."""
    mx.enable_compile()
    yield
    if os.environ.get("MLX_DISABLE_COMPILE"):
        mx.disable_compile()


def test_a_compiled_model_is_marked_as_not_observed(tmp_path: Path, model: Any, compiling: None) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        compiled = mx.compile(lambda ids: model(ids))
        plain = mx.compile(lambda ids: ids + 1)
        for start in (1, 2, 3):
            mx.eval(compiled(mx.array([[start, 7, 8]])), plain(mx.array([start])))
    trace = read(path)
    assert len(of_phase(trace, "prefill")) == 3
    report = inspect_trace(trace)
    assert (report.summary.judged, report.summary.not_observed) == (2, 2)


def test_importing_mlxdiag_stays_light() -> None:
    heavy = "('mlx', 'mlx_lm', 'msgspec', 'numpy')"
    text = f"import sys, mlxdiag; mlxdiag.recording; print([m for m in sys.modules if m in {heavy}])"
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_the_header_tells_what_the_call_says_of_its_scheduler(tmp_path: Path, model: Any) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml"):
        answer(model)
    assert read(tmp_path / "t.yaml").header.scheduler == Scheduler(chunk=16)
    with mlxdiag.recording(tmp_path / "draft.yaml"):
        steps = generate.speculative_generate_step(
            mx.arange(5, 12), model, model, num_draft_tokens=3, max_tokens=4, prefill_step_size=64
        )
        assert len(list(steps)) == 4
    assert read(tmp_path / "draft.yaml").header.scheduler == Scheduler(chunk=64, speculative=3)
    with mlxdiag.recording(tmp_path / "batch.yaml"):
        generator = generate.BatchGenerator(model, max_tokens=2, prefill_step_size=32)
        generator.insert([[5, 6, 7]])
        generator.next()
    assert read(tmp_path / "batch.yaml").header.scheduler == Scheduler(chunk=32)


@pytest.mark.parametrize(("reason", "finish"), [("stop", "eos"), ("length", "length"), (None, "abort")])
def test_the_server_says_why_it_broke_off_an_answer(
    tmp_path: Path, model: Any, reason: str | None, finish: str
) -> None:
    """As `_serve_single` does: a response for each token, and no further token is asked for."""
    import mlx_lm.server as server

    with mlxdiag.recording(tmp_path / "t.yaml"):
        steps = generate.generate_step(mx.arange(5, 12), model, max_tokens=9)
        for number, (token, _) in enumerate(steps):
            last = number == 2
            server.Response("", token, 0.0, reason if last else None, ())
            if last:
                break
        steps.close()
    finishes = [row.finish for entry in read(tmp_path / "t.yaml").entries for row in entry.rows or ()]
    assert [one for one in finishes if one is not None] == [finish]
