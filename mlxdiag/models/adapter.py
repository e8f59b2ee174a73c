"""What a model library looks like from outside: the geometry that a config describes, and an instance to run.

Nothing here imports a framework. An adapter to another library fills the same types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from mlxdiag.traces.types import Entry, Family, Tokens

if TYPE_CHECKING:
    import numpy as np

CACHE_OF = {"full": "dense", "sliding": "rotating", "chunked": "chunked", "recurrent": "recurrent"}
"""The cache kind that an attention kind asks for; what a library really keeps is observed, never assumed."""


class LayerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One token-mixing layer, as the *config* says it is."""

    index: int
    """Position in the model's list of layers. Layers without token mixing are left out of a geometry."""
    family: str
    """Name of the group of equal layers: the attention kind, with its window where a kind has several."""
    attention: str
    """full, sliding, chunked or recurrent."""
    window: int | None = None
    """Keys that a query may see, itself included; for chunked layers the block length."""
    cache: str = "dense"
    keep: int | None = None
    shares: int | None = None
    """Index of the earlier layer whose keys and values this one reads; None where it owns them."""
    sinks: bool = False
    """The softmax has a learned sink term, so a row without visible keys is not NaN."""
    softmax: str = "fused"
    """fused; manual: computed by hand, without an attention call that a probe could hook; opaque: calls that
    cannot be related to the keys of a sequence (picked for each query, or made outside of the layer), so only
    logits can be judged."""
    positions: bool = True
    """False for layers without positional encoding."""


class Geometry(msgspec.Struct, frozen=True, kw_only=True):
    """What a config says about a model's layers and special ids."""

    architecture: str
    """`model_type` of the text model."""
    layers: tuple[LayerSpec, ...]
    depth: int
    """Entries in the model's list of layers, those without token mixing included."""
    vocab: int | None = None
    tokens: Tokens | None = None
    config: dict[str, Any] = {}
    """The few fields of the config that the layer kinds were read from."""
    notes: tuple[str, ...] = ()
    """Defaults that were assumed, and where the library is known to read the config otherwise."""

    def families(self) -> dict[str, Family]:
        """Equal layers grouped, in the order in which they first appear."""
        groups: dict[str, list[LayerSpec]] = {}
        for layer in self.layers:
            groups.setdefault(layer.family, []).append(layer)
        return {name: _family(members) for name, members in groups.items()}

    def layer(self, index: int) -> LayerSpec | None:
        """The layer with this index; None where there is none, or it does no token mixing."""
        return next((layer for layer in self.layers if layer.index == index), None)

    def owners(self) -> tuple[LayerSpec, ...]:
        """The layers that own a cache, in order."""
        return tuple(layer for layer in self.layers if layer.shares is None)

    def readers(self, owner: int) -> tuple[int, ...]:
        """Every layer that reads the keys of layer `owner`, itself first."""
        return tuple(layer.index for layer in self.layers if owner in (layer.index, layer.shares))

    def model_entry(self, name: str) -> Entry:
        """The trace entry that announces this model."""
        return Entry(
            phase="model",
            name=name,
            architecture=self.architecture,
            config=self.config or None,
            layers=self.families(),
            tokens=self.tokens,
            note="; ".join(self.notes) or None,
        )


class Skipped(msgspec.Struct, frozen=True):
    """A backend, a family or a device that cannot be used here. A value, so that a run goes on without it."""

    reason: str
    hint: str = ""
    """What to do about it, as a command where there is one."""

    def __str__(self) -> str:
        return f"{self.reason} ({self.hint})" if self.hint else self.reason


CacheMaker = Callable[[LayerSpec], Any]
"""Makes the attention cache of one layer."""


class _UseLibrary:
    def __repr__(self) -> str:
        return "USE_LIBRARY"


USE_LIBRARY: Final = _UseLibrary()
"""What a chooser of masks returns to let the library build its own."""

Chooser = Callable[[LayerSpec], Any]
"""The mask that a caller hands to layers of this kind: boolean `[q, K]` of any width, "causal", None, or
USE_LIBRARY.
"""


class Backend(Protocol):
    """What stands between a replay and the library that an instance runs on.

    `caches` is what `Instance.new_cache` makes: of one sequence, or of a batch.
    """

    @property
    def name(self) -> str:
        """mlx or torch."""
        ...

    @property
    def distributions(self) -> tuple[str, ...]:
        """Whose versions a trace names."""
        ...

    def probe(self, sink: Callable[[Any], Any], level: str, attend: Any = None, identity: Any = None) -> Any:
        """The library's probe; see `models.mlx.probe.Probe`."""
        ...

    def identity(self) -> Any:
        """A key identity that reads a whole forward at once: `arrays` before `read`, `settle` after it."""
        ...

    def read(self, logits: Any, *more: Any) -> np.ndarray[Any, Any]:
        """Evaluate logits, and `more` beside them; the logits as float32."""
        ...

    def rotation_limit(self, instance: Any) -> int | None:
        """Tokens up to which RoPE rotates a sequence alike in one pass and in pieces; None: however many.

        With rope types that depend on the length seen so far (dynamic, longrope) no longer single pass is
        what the pieces must equal.
        """
        ...

    def shaken(self, instance: Any, step: float, draw: np.random.Generator) -> AbstractContextManager[None]:
        """Every weight multiplied by 1 + or - `step` while it lasts; then they are those of before."""
        ...

    def as_mask(self, visible: np.ndarray[Any, Any], queries: Any) -> Any:
        """A boolean mask `[..., q, K]` as a caller would add it to the scores of these queries."""
        ...

    def caller_masks(self, instance: Any, caches: list[Any], choose: Chooser) -> AbstractContextManager[None]:
        """Ask `choose` for each mask of a forward.

        Raises UsageError where the family takes no mask from outside.
        """
        ...

    def cache(self, kind: str, layer: LayerSpec, slack: int, sinks: int) -> Any:
        """An attention cache of this kind for one layer: dense, buffered, clamped or front_trim.

        Raises UnjudgedError for a kind that the library has no place for.
        """
        ...

    def store(self) -> Any:
        """An empty prompt cache between requests, as the library's server keeps it.

        Raises UnjudgedError where it keeps none.
        """
        ...

    def merge(self, rows: list[list[Any]]) -> list[Any]:
        """Caches of one batch, a row per entry of `rows`.

        Raises UnjudgedError where they cannot be batched.
        """
        ...

    def pad_left(self, caches: list[Any], left: list[int]) -> None:
        """Announce `left[i]` padding tokens in front of row i of an empty batch."""
        ...

    def pad_right(self, caches: list[Any], lengths: list[int], right: list[int]) -> None:
        """Announce that the next forwards feed `lengths[i]` real tokens, then `right[i]` of padding."""
        ...

    def finalize(self, caches: list[Any]) -> None:
        """Roll the right padding of a batch to the front of its rows."""
        ...

    def keep_rows(self, caches: list[Any], indices: list[int]) -> None:
        """Drop every row of a batch but these, in place."""
        ...

    def extend(self, caches: list[Any], others: list[Any]) -> None:
        """Append the rows of another batch, in place."""
        ...

    def extract(self, caches: list[Any], row: int) -> list[Any]:
        """The caches of one row, as a single sequence."""
        ...

    def is_batch(self, caches: list[Any]) -> bool:
        """Whether these caches hold rows that can be taken apart."""
        ...

    def fed(self, caches: list[Any]) -> bool:
        """Whether anything was appended to them."""
        ...

    def capped(self, instance: Any, cap: int) -> list[Any]:
        """Fresh caches under the library's own key cap."""
        ...

    def trim(self, caches: list[Any], tokens: int) -> None:
        """Take `tokens` off the end of every layer as the library does; the probe tells what each gave.

        Raises what the library raises where it refuses.
        """
        ...

    def trim_some(self, instance: Any, caches: list[Any], tokens: int, kept: Mapping[str, int]) -> None:
        """As `trim`, but layers of a family give back `kept[family]` tokens less; "" is every family."""
        ...

    def evict(self, caches: list[Any], cap: int, sinks: int) -> None:
        """Drop the oldest keys of the dense layers down to `cap`, behind at most `sinks` that stay."""
        ...

    def fork(self, caches: list[Any]) -> list[Any]:
        """An independent copy, as a prompt cache hands out."""
        ...

    def through_a_file(self, caches: list[Any]) -> list[Any]:
        """Save them to a file and load them again."""
        ...

    def quantize(self, caches: list[Any], bits: int) -> None:
        """Replace what can be quantised, in place; raises what the library raises where it refuses."""
        ...

    def without_cache(self) -> Any:
        """What `Instance.forward` is given where the program passes no cache: None, or what can still be told
        of padding.
        """
        ...

    def padding_columns(self, caches: list[Any], columns: int) -> None:
        """Give the next forward the last `columns` columns of its 2-D padding mask, not all of them."""
        ...

    def expect_drafts(self, caches: list[Any]) -> None:
        """Tell fresh caches that tokens fed to them may be taken back, as speculative decoding does."""
        ...

    def in_few_threads(self, instance: Any) -> AbstractContextManager[None]:
        """While it lasts, a tiny instance computes in as many threads as its small products are worth; for a
        real checkpoint nothing changes.
        """
        ...

    def evaluate(self, caches: list[Any]) -> None:
        """Force the arrays that the caches hold."""
        ...


class Instance(Protocol):
    """A model that can run, with the library's own code."""

    @property
    def backend(self) -> Backend: ...

    @property
    def name(self) -> str: ...

    @property
    def geometry(self) -> Geometry: ...

    @property
    def device(self) -> str:
        """cpu, metal, cuda or mps."""
        ...

    @property
    def vocab(self) -> int:
        """Ids that may be fed: [0, vocab)."""
        ...

    @property
    def config(self) -> dict[str, Any]:
        """The config that the model was built from (after cutting, for a tiny instance)."""
        ...

    @property
    def model(self) -> Any: ...

    @property
    def module(self) -> ModuleType:
        """The module of the text model's forward; mlx-lm's calls its own global `create_attention_mask`."""
        ...

    def new_cache(self, kinds: Mapping[int | str, CacheMaker] | None = None) -> list[Any]:
        """Fresh caches as the library makes them.

        `kinds` replaces the attention cache of a layer (by index) or of a family (by name); the index wins.
        """
        ...

    def forward(self, tokens: Any, cache: list[Any] | None) -> Any:
        """Logits [B, L, V] for ids [B, L], in the library's own array type and not evaluated.

        Raises UsageError for an id outside the vocabulary.
        """
        ...

    def cache_layers(self, position: int) -> tuple[int, ...]:
        """Layers that read the cache at this position of the list, its owner first."""
        ...


def _family(members: list[LayerSpec]) -> Family:
    first = members[0]
    sharing = sum(layer.shares is not None for layer in members)
    return Family(
        attention=first.attention,
        cache=first.cache,
        window=first.window,
        keep=first.keep,
        count=len(members),
        layers=[layer.index for layer in members],
        shares=sharing or None,
        sinks=first.sinks or None,
    )
