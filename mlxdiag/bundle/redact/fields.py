"""What of a trace may enter a bundle, field by field. A field that is not in the table is left out."""

from __future__ import annotations

from typing import Any

from mlxdiag.traces import types

NUMBER = "number"
"""A count, an offset, a length: stays."""
NUMBERS = "numbers"
"""A list of positions: stays."""
CHOICE = "choice"
"""One of the schema's own words, to which the decoder has held it: stays."""
CLASSES = "classes"
"""A letter of `TOKEN_CLASSES` a token: stays."""
LOGPROB = "logprob"
"""A number, or the spelling of one that JSON lacks."""
SEQUENCE = "sequence"
"""Relabelled in order of appearance: servers put request ids here."""
MODEL = "model"
FAMILY = "family"
"""Stays where its parts are known words, else it is relabelled."""
NAME = "name"
"""Stays where its parts are known words, else it is left out."""
ARCHITECTURE = "architecture"
"""Stays where a library has it, or where its parts are known words."""
TEXT = "text"
"""Cleaned as a line of a log is."""
NOTE = "note"
"""Stays where nothing in it has to be cleaned."""
IDS = "ids"
"""Relabelled in order of appearance, unless real ids were asked for."""
TOKEN = "token"
"""One real id: left out, unless real ids were asked for."""
TIME = "time"
"""Seconds, told from the first one on."""
COUNTS = "counts"
"""A mapping of known names to numbers."""
CONFIG = "config"
"""A mapping of known names to what `settings` lets stay there."""
ENVIRONMENT = "environment"
"""The same, of systems and programs: texts may be several words and a version."""
SPECIAL = "special"
"""Special ids of a tokenizer: `special` says which."""
LAYERS = "layers"
"""Numbers of layers: ascending, none twice, and small."""
SHAPE = "shape"
"""Shapes: few axes."""
INSIDE = "inside"
"""A record or records of this table; a mapping has families as its keys."""

FIELDS: dict[type[Any], dict[str, str]] = {
    types.Header: {
        "schema": CHOICE,
        "source": ENVIRONMENT,
        "environment": ENVIRONMENT,
        "scheduler": INSIDE,
        "model": INSIDE,
        "planted": NOTE,
        "level": NAME,
        "ids": CHOICE,
        "note": NOTE,
    },
    types.Scheduler: {
        **dict.fromkeys(("chunk", "pad_to", "max_kv", "keep", "speculative", "kv_bits"), NUMBER),
        **dict.fromkeys(("cacheless", "looped"), NUMBER),
        "misfit": NAME,
        "store": NAME,
    },
    types.Model: {
        "name": NAME,
        "architecture": ARCHITECTURE,
        "config": CONFIG,
        "layers": INSIDE,
        "tokens": SPECIAL,
    },
    types.Family: {
        **dict.fromkeys(("window", "keep", "slack", "count", "shares", "sinks"), NUMBER),
        "attention": CHOICE,
        "cache": CHOICE,
        "layers": LAYERS,
    },
    types.Tokens: dict.fromkeys(("pad", "eos", "reserved", "control", "stop"), SPECIAL),
    types.Entry: {
        **dict.fromkeys(("step", "dropped", "exit"), NUMBER),
        "phase": CHOICE,
        "model": MODEL,
        **dict.fromkeys(("rows", "mask", "attention", "output", "error", "layers"), INSIDE),
        "tokens": SPECIAL,
        "refused": TEXT,
        "time": TIME,
        "note": NOTE,
        "name": NAME,
        "architecture": ARCHITECTURE,
        "config": CONFIG,
    },
    types.Row: {
        "seq": SEQUENCE,
        "phase": CHOICE,
        "finish": CHOICE,
        **dict.fromkeys(("offset", "tokens", "padded", "total", "left_padding", "right_padding"), NUMBER),
        **dict.fromkeys(("scheduled", "emitted", "asked", "done", "matched", "entry", "trimmed"), NUMBER),
        **dict.fromkeys(("restored", "declared", "size", "drafted", "accepted"), NUMBER),
        "classes": CLASSES,
        "ids": IDS,
        "logprob": LOGPROB,
    },
    types.Mask: {"shape": SHAPE, "offset": NUMBER, "source": NAME, "builder": NAME, "family": FAMILY},
    types.Attention: {
        "family": FAMILY,
        **dict.fromkeys(("cache", "fate", "fallback", "crop"), CHOICE),
        **dict.fromkeys(("window", "keep", "slack", "cursor", "live_start", "live", "buffer", "q"), NUMBER),
        **dict.fromkeys(("asked", "done", "kv_bits", "sinks", "key_padding", "opaque"), NUMBER),
        "builder": NAME,
        **dict.fromkeys(("offset", "k", "rope", "first", "last", "visible"), NUMBERS),
        **dict.fromkeys(("missing", "future", "padding", "foreign"), NUMBERS),
        "layers": LAYERS,
        "mask": SHAPE,
        "vectors": COUNTS,
        "totals": COUNTS,
    },
    types.Parity: {
        "reference": NAME,
        **dict.fromkeys(("max_abs", "first", "margin", "tolerance", "compared", "layer", "query"), NUMBER),
        "kind": CHOICE,
        **dict.fromkeys(("seen", "seen_there"), NUMBERS),
    },
    types.Output: {
        **dict.fromkeys(("row", "nan", "inf", "margin"), NUMBER),
        "argmax": TOKEN,
        "logprob": LOGPROB,
        "parity": INSIDE,
    },
    types.Fault: {"text": TEXT, "shapes": SHAPE, "where": TEXT},
}
"""Every record of the schema, and what is done with each of its fields."""
