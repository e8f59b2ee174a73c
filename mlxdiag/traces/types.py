"""The trace: what a scheduler and its attention layers really did, one entry a step.

Every field is optional, and an absent field means *not observed*, never zero and never healthy.
`mask` of an attention call is the one place where `null` is an observation of its own (the layer
was given no mask), so it is told apart from "absent" by `msgspec.UNSET`.

Lengths and offsets count tokens. Positions are absolute: the first token of a sequence is 0.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

SCHEMA = "mlxdiag.trace/1"

Phase = str
Shape = tuple[int, ...]

FORWARD_PHASES = ("prefill", "chunk", "decode", "verify")
EVENT_PHASES = (
    "trim",
    "rollback",
    "adopt",
    "save",
    "load",
    "merge",
    "extract",
    "filter",
    "extend",
    "finalize",
    "quantize",
    "evict",
)
OTHER_PHASES = ("model", "end")
PHASES = FORWARD_PHASES + EVENT_PHASES + OTHER_PHASES

CACHE_KINDS = (
    "dense",
    "rotating",
    "buffered",
    "chunked",
    "batch",
    "batch_rotating",
    "paged",
    "quantized",
    "static",
    "static_sliding",
    "recurrent",
)
ATTENTION_KINDS = ("full", "sliding", "chunked", "recurrent")
FATES = ("used", "cropped", "discarded", "rebuilt", "rejected")
FALLBACKS = ("windowed", "causal", "sliced", "none")
FINISHES = ("eos", "length", "abort", "repetition")
TOKEN_CLASSES = "tcrpe0"


class _Record(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True
):
    """Shared settings. Unknown fields are refused here and pruned, with a warning, by the slow reader."""


class Row(_Record):
    """One sequence in a step; row i is batch index i."""

    seq: str | None = None
    phase: Phase | None = None
    offset: int | None = None
    """Where the scheduler believes the sequence is: the position of its next token."""
    tokens: int | None = None
    """Real tokens fed in this step, padding not counted."""
    padded: int | None = None
    """Tokens fed with tile padding on the right, >= tokens."""
    total: int | None = None
    """Length of the whole prompt."""
    left_padding: int | None = None
    right_padding: int | None = None
    scheduled: int | None = None
    emitted: int | None = None
    classes: str | None = None
    """One letter of TOKEN_CLASSES per emitted token."""
    ids: list[int] | None = None
    """Emitted ids, relabelled at random for this trace alone unless `--tokens` was asked for."""
    finish: str | None = None
    asked: int | None = None
    done: int | None = None
    matched: int | None = None
    """Adopt: tokens of the prompt found in the stored prefix."""
    entry: int | None = None
    """Adopt: length of the stored prefix."""
    trimmed: int | None = None
    """Adopt: tokens cut from the stored prefix before use."""
    restored: int | None = None
    """Adopt: tokens in the cache when the sequence goes on."""
    declared: int | None = None
    """Merge: length that the row's cache reports."""
    size: int | None = None
    """Merge: length of the row's key array."""
    logprob: float | str | None | UnsetType = UNSET
    """Of the chosen token. Null and "nan" are observations and stay apart from absent."""
    drafted: int | None = None
    accepted: int | None = None


class Mask(_Record):
    """A mask that a scheduler handed to the model."""

    shape: Shape | None = None
    offset: int | None = None
    """The offset it was built with."""
    source: str | None = None
    builder: str | None = None
    """causal, padded (causal and padding columns blocked), window, capped (`[q, W]`), or batch."""
    family: str | None = None
    """The only layer family that is given this mask; absent: every layer."""


class Attention(_Record):
    """One attention call, or several layers whose calls were equal."""

    family: str | None = None
    layers: list[int] | None = None
    cache: str | None = None
    window: int | None = None
    keep: int | None = None
    slack: int | None = None
    offset: int | list[int] | None = None
    """Before the call; a list when it differs by row."""
    cursor: int | None = None
    live_start: int | None = None
    live: int | None = None
    buffer: int | None = None
    q: int | None = None
    k: int | list[int] | None = None
    """Returned key length."""
    rope: int | list[int] | None = None
    mask: Shape | str | None | UnsetType = UNSET
    fate: str | None = None
    fallback: str | None = None
    crop: str | None = None
    """The end that was cut off: old or new."""
    asked: int | None = None
    done: int | None = None
    kv_bits: int | None = None
    sinks: bool | None = None
    vectors: dict[str, int] | None = None
    first: list[list[int]] | None = None
    """Oldest visible position per (row, query); -1 where a query sees nothing."""
    last: list[list[int]] | None = None
    visible: list[list[int]] | None = None
    """Count of visible keys per (row, query); padding queries are -1."""
    missing: list[Shape] | None = None
    future: list[Shape] | None = None
    padding: list[Shape] | None = None
    foreign: list[Shape] | None = None
    totals: dict[str, int] | None = None
    """How many (row, query, position) triples each bounded list above stands for."""


class Parity(_Record):
    """Logits against the single pass."""

    reference: str | None = None
    max_abs: float | None = None
    first: int | None = None
    """First position whose logits differ beyond `tolerance`; absent when none does."""
    margin: float | None = None
    """Top-2 margin of the reference at `first`."""
    tolerance: float | None = None
    compared: int | None = None


class Output(_Record):
    row: int | None = None
    """Query index sampled from."""
    argmax: int | None = None
    nan: int | None = None
    inf: int | None = None
    margin: float | None = None
    logprob: float | str | None | UnsetType = UNSET
    parity: Parity | None = None


class Fault(_Record):
    """An error text as the program printed it."""

    text: str | None = None
    shapes: list[Shape] | None = None
    where: str | None = None


class Family(_Record):
    """Layers of one kind, as the *config* says they are."""

    attention: str | None = None
    cache: str | None = None
    window: int | None = None
    keep: int | None = None
    slack: int | None = None
    count: int | None = None
    layers: list[int] | None = None
    shares: int | None = None
    """How many of them borrow keys from an earlier layer."""
    sinks: bool | None = None


class Tokens(_Record):
    pad: int | None = None
    eos: list[int] | None = None
    reserved: list[tuple[int, int]] | None = None
    control: list[int] | None = None
    stop: list[int] | None = None
    """Ids at which the engine stops."""


class Entry(_Record):
    """A line of the file: a forward, a cache event, a model, or the end."""

    step: int | None = None
    phase: Phase | None = None
    model: str | None = None
    rows: list[Row] | None = None
    mask: Mask | None = None
    attention: list[Attention] | None = None
    output: list[Output] | None = None
    error: Fault | None = None
    refused: str | None = None
    dropped: int | None = None
    time: float | None = None
    note: str | None = None
    name: str | None = None
    architecture: str | None = None
    config: dict[str, Any] | None = None
    layers: dict[str, Family] | None = None
    tokens: Tokens | None = None
    exit: int | None = None

    @property
    def kind(self) -> Phase:
        """The phase, derived where it is absent: an error alone is "end", one token decode, more prefill or chunk."""
        if self.phase:
            return self.phase
        if not self.rows:
            return "decode" if self.attention and all(a.q == 1 for a in self.attention) else "chunk"
        most = max((row.tokens or 0) for row in self.rows)
        if most <= 1:
            return "decode"
        return "chunk" if any(row.offset for row in self.rows) else "prefill"


class Model(_Record):
    """The `model:` of a hand-written header; a recorder appends it as an entry instead."""

    name: str | None = None
    architecture: str | None = None
    config: dict[str, Any] | None = None
    layers: dict[str, Family] | None = None
    tokens: Tokens | None = None


class Scheduler(_Record):
    chunk: int | None = None
    pad_to: int | None = None
    max_kv: int | None = None
    keep: int | None = None
    """Sinks kept in front by the key cap."""
    misfit: str | None = None
    """What the consumer does with a mask that does not fit; the values of `--misfit`."""
    speculative: int | None = None
    kv_bits: int | None = None


class Header(_Record):
    schema: str = SCHEMA
    source: dict[str, Any] | None = None
    environment: dict[str, Any] | None = None
    scheduler: Scheduler | None = None
    model: Model | None = None
    planted: str | None = None
    """Set when a fault was put in on purpose: what, and where."""
    level: str | None = None
    note: str | None = None


class Trace(msgspec.Struct, frozen=True):
    """A whole trace in memory. Long files are read with `traces.reader.stream` instead."""

    header: Header
    entries: list[Entry]
    warnings: tuple[str, ...] = ()
    truncated: bool = False
