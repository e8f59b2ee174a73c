"""The trace: what a scheduler and its attention layers really did, one entry a step.

Every field is optional, and an absent field means *not observed*, never zero and never healthy.
`mask` of an attention call is the one place where `null` is an observation of its own (the layer
was given no mask), so it is told apart from "absent" by `msgspec.UNSET`.

Lengths and offsets count tokens. Positions are absolute: the first token of a sequence is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mlxdiag.traces.kinds import event_kind, forward_kind

SCHEMA = "mlxdiag.trace/1"

Shape = tuple[int, ...]
Count = Annotated[int, Meta(ge=0)]
"""Of tokens, layers or bits: below zero it is no observation but a slip of the pen.
Lengths and positions that a faulty program can drive below zero stay plain integers, for rules to judge."""

Window = Annotated[int, Meta(ge=1)]
"""Keys that a query may see by the config, itself included: a window of none is no window."""

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
OTHER_PHASES = ("model", "end", "note")
"""`note` is never needed in a file: it is the kind of an entry that holds no forward and no event."""
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
FALLBACKS = ("windowed", "causal", "sliced", "oldest", "none")
"""sliced: keys cut to the newest, as many as the mask has columns; oldest: to the first `q`, plain causal."""
CROPS = ("old", "new")
FINISHES = ("eos", "length", "abort", "repetition")
ID_KINDS = ("relabelled", "raw")
PARTINGS = (
    "visibility",
    "positions",
    "attention",
    "experts",
    "norm",
    "embedding",
    "logits",
    "inside",
    "precision",
)
"""What makes two libraries differ, told by the first value in a forward that differs."""
TOKEN_CLASSES = "tcrpe0"

if TYPE_CHECKING:
    # Plain strings for whoever builds an entry: the decoder is what holds a file to the vocabularies.
    Phase = str
    CacheKind = str
    AttentionKind = str
    Fate = str
    Fallback = str
    Crop = str
    Finish = str
    IdKind = str
    PartingKind = str
    Causal = str
else:
    Phase = Literal[PHASES]
    CacheKind = Literal[CACHE_KINDS]
    AttentionKind = Literal[ATTENTION_KINDS]
    Fate = Literal[FATES]
    Fallback = Literal[FALLBACKS]
    Crop = Literal[CROPS]
    Finish = Literal[FINISHES]
    IdKind = Literal[ID_KINDS]
    PartingKind = Literal[PARTINGS]
    Causal = Literal["causal"]


class Record(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """Shared settings. Unknown fields are refused here and pruned, with a warning, by the slow reader."""


class Row(Record, frozen=True):
    """One sequence in a step; row i is batch index i."""

    seq: str | None = None
    phase: Phase | None = None
    offset: int | None = None
    """Where the scheduler believes the sequence is: the position of its next token."""
    tokens: Count | None = None
    """Real tokens fed in this step, padding not counted."""
    padded: Count | None = None
    """Tokens fed with tile padding on the right, >= tokens."""
    total: Count | None = None
    """Length of the whole prompt."""
    left_padding: int | None = None
    """Padding in front of the row; batch caches let it go negative once the ring has wrapped."""
    right_padding: Count | None = None
    scheduled: Count | None = None
    emitted: Count | None = None
    classes: str | None = None
    """One letter of TOKEN_CLASSES per emitted token."""
    ids: list[int] | None = None
    """Emitted ids, relabelled at random for this trace alone unless `--tokens` was asked for."""
    finish: Finish | None = None
    asked: int | None = None
    """Trim, rollback: tokens to cut and, in `done`, tokens cut. A faulty program asks for less than none."""
    done: int | None = None
    matched: Count | None = None
    """Adopt: tokens of the prompt found in the stored prefix."""
    entry: Count | None = None
    """Adopt: length of the stored prefix."""
    trimmed: int | None = None
    """Adopt: tokens cut from the stored prefix before use."""
    restored: Count | None = None
    """Adopt: tokens in the cache when the sequence goes on."""
    declared: Count | None = None
    """Merge: length that the row's cache reports."""
    size: Count | None = None
    """Merge: length of the row's key array."""
    logprob: float | str | UnsetType | None = UNSET
    """Of the chosen token. Null and "nan" are observations and stay apart from absent."""
    drafted: Count | None = None
    accepted: Count | None = None


class Mask(Record, frozen=True):
    """A mask that a scheduler handed to the model."""

    shape: Shape | None = None
    offset: int | None = None
    """The offset it was built with."""
    source: str | None = None
    builder: str | None = None
    """causal, padded (causal and padding columns blocked), window, capped (`[q, W]`), or batch."""
    family: str | None = None
    """The only layer family that is given this mask; absent: every layer."""


class Attention(Record, frozen=True):
    """One attention call, or several layers whose calls were equal."""

    family: str | None = None
    layers: list[int] | None = None
    cache: CacheKind | None = None
    window: int | None = None
    keep: Count | None = None
    slack: Count | None = None
    offset: int | list[int] | None = None
    """Before the call; a list when it differs by row."""
    cursor: int | None = None
    live_start: int | None = None
    live: int | None = None
    buffer: int | None = None
    q: Count | None = None
    k: int | list[int] | None = None
    """Returned key length."""
    rope: int | list[int] | None = None
    mask: Shape | Causal | UnsetType | None = UNSET
    fate: Fate | None = None
    fallback: Fallback | None = None
    builder: str | None = None
    """What an array mask was made as, where the library tells: causal, padded (causal and padding columns
    blocked) or window."""
    key_padding: Count | None = None
    """Columns of the 2-D padding mask that the mask was made with: one for each token, those held before the
    call included."""
    opaque: bool | None = None
    """The call was made by an attention function of the program's own: what that does with its mask, or
    without one, was not observed."""
    crop: Crop | None = None
    """The end that was cut off: old or new."""
    asked: int | None = None
    done: int | None = None
    kv_bits: Count | None = None
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


class Parity(Record, frozen=True):
    """Logits against the single pass, or against another library's run of the same schedule."""

    reference: str | None = None
    """`single-pass`, or the name of the other library."""
    max_abs: float | None = None
    first: int | None = None
    """First position whose logits differ beyond `tolerance`; absent when none does."""
    margin: float | None = None
    """Top-2 margin of the reference at `first`."""
    tolerance: float | None = None
    compared: Count | None = None
    kind: PartingKind | None = None
    """What makes the difference, where somebody has looked inside."""
    layer: Count | None = None
    """The first layer that differs; absent where it lies before or after the layers."""
    query: Count | None = None
    """The first position that sees other keys than in the reference."""
    seen: list[int] | None = None
    """What it sees here: first and last position of each run of keys, in turns; -1 is padding."""
    seen_there: list[int] | None = None
    """What it sees in the reference."""


class Output(Record, frozen=True):
    row: int | None = None
    """Query index sampled from."""
    argmax: int | None = None
    nan: Count | None = None
    inf: Count | None = None
    margin: float | None = None
    logprob: float | str | UnsetType | None = UNSET
    parity: Parity | None = None


class Fault(Record, frozen=True):
    """An error text as the program printed it."""

    text: str | None = None
    shapes: list[Shape] | None = None
    where: str | None = None


class Family(Record, frozen=True):
    """Layers of one kind, as the *config* says they are."""

    attention: AttentionKind | None = None
    cache: CacheKind | None = None
    window: Window | None = None
    keep: Count | None = None
    slack: Count | None = None
    count: Count | None = None
    layers: list[Count] | None = None
    shares: Count | None = None
    """How many of them borrow keys from an earlier layer."""
    sinks: bool | None = None


class Tokens(Record, frozen=True):
    pad: int | None = None
    eos: list[int] | None = None
    reserved: list[tuple[int, int]] | None = None
    control: list[int] | None = None
    stop: list[int] | None = None
    """Ids at which the engine stops."""


class Entry(Record, frozen=True):
    """A line of the file: a forward, a cache event, a model, or the end."""

    step: Count | None = None
    phase: Phase | None = None
    model: str | None = None
    rows: list[Row] | None = None
    mask: Mask | None = None
    attention: list[Attention] | None = None
    output: list[Output] | None = None
    error: Fault | None = None
    refused: str | None = None
    dropped: Count | None = None
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
        """The phase, derived where it is absent: from the events' own fields, else from the tokens fed.

        An error alone is the end of the program; one token is a decode, more are a prefill (nothing before
        them) or a chunk, or a verify where drafts are counted; an entry with nothing of these is a note.
        """
        return self.phase or event_kind(self) or forward_kind(self)


class Model(Record, frozen=True):
    """The `model:` of a hand-written header; a recorder appends it as an entry instead."""

    name: str | None = None
    architecture: str | None = None
    config: dict[str, Any] | None = None
    layers: dict[str, Family] | None = None
    tokens: Tokens | None = None


class Scheduler(Record, frozen=True):
    chunk: int | None = None
    pad_to: Count | None = None
    max_kv: int | None = None
    keep: int | None = None
    """Sinks kept in front by the key cap."""
    misfit: str | None = None
    """What the consumer does with a mask that does not fit; the values of `--misfit`."""
    speculative: Count | None = None
    kv_bits: Count | None = None
    store: str | None = None
    """Where prompts are kept between requests: `trie` is the prompt cache of mlx-lm's server. A save puts a
    sequence there, an adopt asks it for the nearest entry."""
    cacheless: bool | None = None
    """The model is called without any cache: each forward holds the whole of its sequences."""
    looped: bool | None = None
    """Drafts are verified and taken back by mlx-lm's own `speculative_generate_step`, on caches that its
    caller gives, as its server does: what is to run is that loop, and not its forwards one by one."""


class Header(Record, frozen=True):
    schema: str = SCHEMA
    source: dict[str, Any] | None = None
    environment: dict[str, Any] | None = None
    """Of the machine and what ran on it: os, python, device (cpu, metal, cuda, mps), the attention
    implementation of transformers (sdpa, eager, paged|eager) and the versions of libraries."""
    scheduler: Scheduler | None = None
    model: Model | None = None
    planted: str | None = None
    """Set when a fault was put in on purpose: what, and where."""
    level: str | None = None
    ids: IdKind | None = None
    """Whether emitted ids are the model's own; absent: relabelled for this trace alone."""
    note: str | None = None


class Trace(msgspec.Struct, frozen=True):
    """A whole trace in memory. Long files are read with `traces.reader.open_stream` instead."""

    header: Header
    entries: list[Entry]
    warnings: tuple[str, ...] = ()
    truncated: bool = False
