"""The scenarios: every path by which a scheduler reaches a model. `schedules` makes their traces."""

from __future__ import annotations

from mlxdiag.audit.cell import Scenario
from mlxdiag.errors import UsageError


def _of(group: str, *named: tuple[str, str]) -> tuple[Scenario, ...]:
    return tuple(Scenario(name=name, title=title, group=group) for name, title in named)


SCENARIOS: tuple[Scenario, ...] = (
    *_of(
        "prefill",
        ("fresh-within-window", "one pass shorter than the window"),
        ("fresh-over-window", "one pass longer than the window"),
        ("chunks-below-window", "chunks shorter than the window"),
        ("chunks-equal-window", "chunks as long as the window"),
        ("chunks-above-window", "chunks longer than the window"),
        ("chunks-not-dividing", "chunks that do not divide the window"),
        ("continue-after-wrap", "a chunk after the ring has rolled over"),
        ("no-cache", "no cache at all against a cache"),
    ),
    *_of("decode", ("decode-across-window", "token by token across the window")),
    *_of(
        "trim",
        ("speculative-before-wrap", "drafts verified and rolled back within the window"),
        ("speculative-across-wrap", "drafts that end past the window, rolled back behind it"),
        ("speculative-after-wrap", "drafts verified and rolled back after the ring has rolled over"),
        ("drafts", "the library's speculative decoding, on caches that the caller gives"),
        ("drafts-quantized", "the same, keys and values quantised to 8 bits from the prompt on"),
        ("drafts-stored", "the server's prompt cache after speculative decoding"),
        ("trim-then-decode", "tail trim, then token by token"),
        ("trim-then-chunk", "tail trim, then a chunk"),
        ("trim-after-wrap-decode", "tail trim past the window, then token by token"),
        ("trim-after-wrap-chunk", "tail trim past the window, then a chunk"),
        ("tile-padding", "chunks padded to half a window, the padding trimmed off"),
        ("tile-padding-32", "a chunk padded to 32, the padding trimmed off"),
    ),
    *_of(
        "reuse",
        ("adopt-prefix", "a copy of a stored prefix, longer than the window"),
        ("adopt-trimmed-prefix", "a copy of a stored prefix, its end cut off"),
        ("save-and-load", "saved to a file and loaded, in the middle"),
        ("trie-shorter", "the server's prompt cache: a stored beginning, for two requests"),
        ("trie-exact", "the server's prompt cache: exactly the stored prompt"),
        ("trie-longer", "the server's prompt cache: a longer prompt, cut to what is common"),
        ("trie-longer-after-wrap", "the same, past the window"),
    ),
    *_of(
        "cap",
        ("key-cap", "max_kv_size, filled by chunks and tokens"),
        ("key-cap-over", "max_kv_size, one pass longer than it"),
        ("key-cap-below-pins", "max_kv_size no larger than the tokens that it pins"),
        ("key-cap-batch", "max_kv_size for two rows of a batch"),
    ),
    *_of(
        "quantized",
        ("quantized-keys", "keys and values quantised to 8 bits in the middle, then saved and loaded"),
    ),
    *_of(
        "batch",
        ("left-padding", "rows padded on the left, more than key heads"),
        ("left-padding-as-heads", "rows padded on the left, as many as key heads"),
        ("left-padding-after-wrap", "a chunk for rows padded on the left, their ring rolled over"),
        ("right-padding", "rows padded on the right and finalized, more than key heads"),
        ("right-padding-as-heads", "rows padded on the right and finalized, as many as key heads"),
        ("right-padding-chunked", "right-padded rows in pieces, some of them all padding"),
        ("right-padding-last-token", "right-padded rows in pieces, the last of one token"),
        ("ragged-batch", "merge, extend, filter and extract between steps"),
        ("ragged-prompts", "rows with histories go on with prompts of different lengths"),
        ("ragged-join", "a prompt joins a batch of prompts that are under way"),
        ("ragged-fresh-row", "a fresh row joins one with a history, both fed as many tokens"),
        ("ragged-save-and-load", "a batch saved to a file and loaded, in the middle"),
    ),
    *_of("isolation", ("interleaved", "three sequences in turns on one model object")),
)
"""In the order of the table."""

_BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def _shared(*names: str) -> tuple[Scenario, ...]:
    return tuple(_BY_NAME[name] for name in names)


TRANSFORMERS: tuple[Scenario, ...] = (
    *(scenario for scenario in SCENARIOS if scenario.group in ("prefill", "decode")),
    *_shared(
        "speculative-before-wrap",
        "speculative-across-wrap",
        "speculative-after-wrap",
    ),
    *_of("trim", ("crop-after-crop", "drafts rolled back behind a token of an earlier rollback")),
    *_shared(
        "trim-then-decode",
        "trim-then-chunk",
        "trim-after-wrap-decode",
        "trim-after-wrap-chunk",
        "tile-padding",
        "tile-padding-32",
        "adopt-prefix",
        "adopt-trimmed-prefix",
        "save-and-load",
        "left-padding",
        "left-padding-as-heads",
        "left-padding-after-wrap",
    ),
    *_of(
        "batch",
        ("right-padding-scored", "rows padded on the right, in one forward"),
        ("rows-leave", "rows padded on the left, of which the longest leaves"),
    ),
    *_shared("interleaved"),
    *_of(
        "static",
        ("static-fresh-over-window", "a StaticCache: one pass longer than the window"),
        ("static-chunks", "a StaticCache: chunks that do not divide the window"),
        ("static-chunks-above-window", "a StaticCache: chunks longer than the window"),
        ("static-continue-after-wrap", "a StaticCache: a chunk after the window was passed"),
        ("static-decode-across-window", "a StaticCache: token by token across the window"),
        ("static-left-padding", "a StaticCache: rows padded on the left"),
        ("static-trim", "a StaticCache: tail trim, then a chunk"),
    ),
    *_of("quantized", ("quantized-cache", "a QuantizedCache of 8-bit floats")),
    *_of(
        "generation",
        ("generate-left-padding", "generate: prompts of unlike lengths in one batch"),
        ("generate-static", "generate: the same, with a static cache"),
        ("generate-chunked-prefill", "generate: a prompt in chunks"),
        ("generate-turns", "generate: a second turn on the cache of the first"),
        ("prompt-lookup", "generate: drafts that are looked up in the prompt"),
        ("assisted", "generate: drafts of another model"),
        ("beams", "generate: three beams"),
        ("continuous-batching", "generate_batch: prompts of unlike lengths, on pages"),
        ("continuous-batching-shared", "generate_batch: a prompt that begins with another one's pages"),
        ("continuous-batching-crowded", "generate_batch: fewer pages than all requests need"),
    ),
)
"""Those of transformers, in the order of its table: what its caches can do, and what no other library has."""

DRIVEN = tuple(scenario.name for scenario in TRANSFORMERS if scenario.group == "generation")
"""Run as a whole by a loop of the library's."""

NAMES = tuple(scenario.name for scenario in SCENARIOS)


def named(name: str) -> Scenario:
    """The scenario of this name.

    Raises:
        UsageError: there is none.
    """
    found = next((scenario for scenario in (*SCENARIOS, *TRANSFORMERS) if scenario.name == name), None)
    if found is None:
        raise UsageError(f"no scenario {name!r}; known: {', '.join(NAMES)}")
    return found
