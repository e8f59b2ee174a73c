"""Token ids, hosts, paths and names in the structured fields of a trace and of a config, one at a time.

Each plant is a mapping that is laid over a record of a small healthy trace; `IDS` and `WORDS` are what must
not be found in any part of the bundle. No length or offset of the trace is one of `IDS`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

IDS = (791, 4062, 14198, 39935)
ROW = list(IDS)
SPELT = " ".join(map(str, IDS))
WORDS = ("kestrel", "annabel", "zorblax")
HOST, PATH = "kestrel.corp.internal", "/Users/annabel/zorblax"

HEADER: dict[str, Any] = {
    "source": {"program": "mlxcel-server", "version": "0.4.1"},
    "environment": {"os": "macOS 26", "device": "metal", "libraries": {"mlx": "0.32.1"}},
    "scheduler": {"chunk": 512},
}
MODEL: dict[str, Any] = {
    "phase": "model",
    "name": "gemma-3-4b-it",
    "architecture": "gemma3_text",
    "config": {"sliding_window": 512, "num_hidden_layers": 6, "layer_types": ["sliding_attention"] * 6},
    "layers": {"sliding": {"attention": "sliding", "window": 512, "layers": [0, 1, 2]}},
    "tokens": {"pad": 0, "eos": [1, 106], "reserved": [[6, 98]], "stop": [1, 106]},
}
STEP: dict[str, Any] = {
    "step": 1,
    "rows": [{"seq": "seq-1", "offset": 0, "tokens": 5, "emitted": 1, "classes": "t", "ids": [1]}],
    "mask": {"shape": [5, 5], "source": "scheduler"},
    "attention": [{"family": "sliding", "q": 5, "k": 5}],
    "output": [{"row": 4}],
    "error": {
        "text": "[reshape] Cannot infer the shape of an empty array",
        "where": "mlx_lm/models/cache.py:12",
    },
}

LISTS = (
    "shape", "offsets", "tokens", "mask", "layer_types", "sliding_window", "num_query_heads",
    "vocab_size", "sliding_window_layers", "full_attn_idxs", "no_rope_layers", "intermediate_size",
    "layer_rope_theta", "hybrid_layer_pattern", "mrope_section", "eos", "head_dim", "rope_scaling",
    "swiglu_limits", "step",
)  # fmt: skip
"""Names of known words, under which a list of ids is planted."""


def lists() -> Iterator[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """Name of the plant, and the header, the model and the step with it."""
    for name in LISTS:
        for where in ("environment", "source"):
            yield f"{where}.{name}", _over(HEADER, where, {name: ROW}), MODEL, STEP
        for value in (
            ROW,
            [ROW],
            {"mask": ROW},
            [{"mask": ROW}],
            list(map(str, ROW)),
            SPELT,
            list(map(float, ROW)),
        ):
            yield f"config.{name} {value}", HEADER, _over(MODEL, "config", {name: value}), STEP
    yield "config.eos_token_id", HEADER, _over(MODEL, "config", {"eos_token_id": [*ROW, 5]}), STEP
    for name, value in (
        ("stop", [1, *ROW]),
        ("control", ROW),
        ("eos", [1, *ROW]),
        ("reserved", [[one, one] for one in ROW]),
        ("reserved", [[791, 792], [4062, 4063]]),
    ):
        yield f"tokens.{name}", HEADER, _over(MODEL, "tokens", {name: value}), STEP
    family = {"sliding": {"attention": "sliding", "window": 512, "layers": ROW}}
    yield "layers.layers", HEADER, {**MODEL, "layers": family}, STEP
    yield "attention.layers", HEADER, MODEL, _first(STEP, "attention", {"layers": ROW})
    yield "attention.mask", HEADER, MODEL, _first(STEP, "attention", {"mask": [*ROW, 1, 2, 3, 4, 5]})
    yield "mask.shape", HEADER, MODEL, _over(STEP, "mask", {"shape": [*ROW, 1, 2, 3, 4, 5]})
    yield "error.shapes", HEADER, MODEL, _over(STEP, "error", {"shapes": [[*ROW, 1, 2, 3, 4, 5]]})


def singles() -> Iterator[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """One id, a host or a path in a field that holds a name, a text or a number."""
    for text in (str(IDS[1]), f"{IDS[1]},{IDS[2]}", SPELT, HOST, PATH):
        yield f"seq {text}", HEADER, MODEL, _first(STEP, "rows", {"seq": text})
        yield f"family {text}", HEADER, MODEL, _first(STEP, "attention", {"family": text})
        yield f"vectors {text}", HEADER, MODEL, _first(STEP, "attention", {"vectors": {text: 1}})
        yield f"reference {text}", HEADER, MODEL, _first(STEP, "output", {"parity": {"reference": text}})
        yield f"name {text}", HEADER, {**MODEL, "name": text}, STEP
        yield f"architecture {text}", HEADER, {**MODEL, "architecture": text}, STEP
        yield f"model note {text}", HEADER, {**MODEL, "note": text}, STEP
        yield f"model {text}", HEADER, MODEL, {**STEP, "model": text}
        yield f"refused {text}", HEADER, MODEL, {**STEP, "refused": text}
        yield f"step note {text}", HEADER, MODEL, {**STEP, "note": text}
        for name in ("text", "where"):
            yield f"error.{name} {text}", HEADER, MODEL, _over(STEP, "error", {name: text})
        for name in ("source", "builder", "family"):
            yield f"mask.{name} {text}", HEADER, MODEL, _over(STEP, "mask", {name: text})
        for name in ("planted", "note", "level"):
            yield f"{name} {text}", {**HEADER, name: text}, MODEL, STEP
        for name in ("program", "version", "importer", "of", "recorder", text):
            yield f"source.{name} {text}", _over(HEADER, "source", {name: text}), MODEL, STEP
        for name in ("os", "device", "python", text):
            yield f"environment.{name} {text}", _over(HEADER, "environment", {name: text}), MODEL, STEP
        for name in ("misfit", "store"):
            yield f"scheduler.{name} {text}", _over(HEADER, "scheduler", {name: text}), MODEL, STEP
    for name in ("offset", "count", "mask", "token"):
        yield f"environment.{name}", _over(HEADER, "environment", {name: IDS[1]}), MODEL, STEP
        yield f"config.{name}", HEADER, _over(MODEL, "config", {name: IDS[1]}), STEP
    yield "argmax", HEADER, MODEL, _first(STEP, "output", {"argmax": IDS[1]})
    yield "ids", {**HEADER, "ids": "raw"}, MODEL, _first(STEP, "rows", {"ids": [IDS[1]]})


def systems() -> Iterator[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """A system and an attention implementation, of which the part that is known stays."""
    for text in (str(IDS[1]), HOST, PATH, *WORDS):
        for system in (f"Linux {text}", f"Linux 6.1.0-{text}", f"Linux {text} 6.1.0", f"{text} 6.1.0"):
            yield f"os {system}", _over(HEADER, "environment", {"os": system}), MODEL, STEP
        for own in (text, f"paged|{text}"):
            yield f"attention {own}", _over(HEADER, "environment", {"attention": own}), MODEL, STEP


def trace(header: dict[str, Any], *entries: dict[str, Any]) -> str:
    """The file."""
    head = "".join(f"{name}: {json.dumps(value)}\n" for name, value in header.items())
    steps = "".join(f"- {json.dumps(entry)}\n" for entry in (*entries, {"phase": "end", "exit": 0}))
    return f"schema: mlxdiag.trace/1\n{head}steps:\n{steps}"


def _over(record: dict[str, Any], name: str, more: dict[str, Any]) -> dict[str, Any]:
    return {**record, name: {**record.get(name, {}), **more}}


def _first(record: dict[str, Any], name: str, more: dict[str, Any]) -> dict[str, Any]:
    changed = copy.deepcopy(record)
    changed[name][0].update(more)
    return changed
