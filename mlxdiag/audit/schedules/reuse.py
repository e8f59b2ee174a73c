"""Schedules that give tokens back, keep them for another request, or hold fewer or rounder keys."""

from __future__ import annotations

from collections.abc import Mapping

from mlxdiag.audit.schedules.script import Schedule, Script, Sizes

DRAFTS = 2
"""Tokens that are drafted in a round of the library's speculative decoding."""


def speculative_before_wrap(script: Script, sizes: Sizes) -> None:
    script.feed(sizes.window - 5)
    script.feed(3, phase="verify")
    script.cut(2, phase="rollback")
    script.feed(3, phase="verify")
    script.cut(2, phase="rollback")
    script.decode(2)


def speculative_across_wrap(script: Script, sizes: Sizes) -> None:
    script.feed(sizes.window - 2)
    script.feed(4, phase="verify")
    script.cut(3, phase="rollback")
    script.feed(3, phase="verify")
    script.decode()


def speculative_after_wrap(script: Script, sizes: Sizes) -> None:
    script.feed(sizes.window + 2)
    script.feed(3, phase="verify")
    script.cut(2, phase="rollback")
    script.feed(3, phase="verify")
    script.decode()


def drafts(script: Script, sizes: Sizes) -> None:
    """Both drafts rejected, one taken, both taken: all within the window. Then the caller's caches go on."""
    script.feed(sizes.window - 6)
    _round(script, rejected=2)
    _round(script, rejected=1)
    _round(script, rejected=0)
    script.decode()


def drafts_quantized(script: Script, sizes: Sizes) -> None:
    script.feed(sizes.window - 6)
    script.event("quantize")
    _round(script, rejected=1)
    _round(script, rejected=0)
    script.decode()


def drafts_stored(script: Script, sizes: Sizes) -> None:
    """What was emitted last is not in the caches yet: it was never fed."""
    script.feed(sizes.window - 6)
    _round(script, rejected=0)
    script.event("save")
    script.adopt("b", matched=sizes.window - 2, entry=sizes.window - 2)
    script.feed(sizes.window // 2, "b")
    script.decode(1, "b")


def _round(script: Script, rejected: int) -> None:
    """The token before, and two drafts."""
    script.feed(1 + DRAFTS, phase="verify")
    if rejected:
        script.cut(rejected, phase="rollback")


def trim_then_decode(script: Script, sizes: Sizes) -> None:
    script.feed(sizes.window - 4)
    script.decode(2)
    script.cut(3)
    script.decode(2)


def trim_then_chunk(script: Script, sizes: Sizes) -> None:
    script.feed(sizes.window - 1)
    script.cut(3)
    script.feed(sizes.window - 1)
    script.decode()


def trim_after_wrap_decode(script: Script, sizes: Sizes) -> None:
    """Back into the block before: a cache that dropped its beginning for good has not all of it any more."""
    script.feed(2 * sizes.window)
    script.decode(2)
    script.cut(4)
    script.decode(2)


def trim_after_wrap_chunk(script: Script, sizes: Sizes) -> None:
    script.feed(2 * sizes.window + 2)
    script.decode()
    script.cut(5)
    script.feed(sizes.window // 2)
    script.decode()


def adopt_prefix(script: Script, sizes: Sizes) -> None:
    script.adopt("a", matched=sizes.window + 4, entry=sizes.window + 4)
    script.feed(sizes.window // 2 + 1)
    script.decode()


def adopt_trimmed_prefix(script: Script, sizes: Sizes) -> None:
    script.adopt("a", matched=sizes.window - 4, entry=sizes.window - 1)
    script.feed(sizes.window)
    script.decode()


def save_and_load(script: Script, sizes: Sizes) -> None:
    script.feed(sizes.window - 3)
    _through_a_file(script)
    script.feed(sizes.window)
    script.decode()
    _through_a_file(script)
    script.decode()


def trie_shorter(script: Script, sizes: Sizes) -> None:
    """A conversation goes on, twice from the same entry: what one request does to its copy is its own."""
    script.feed(sizes.window + 3)
    script.event("save")
    for seq in ("b", "c"):
        script.adopt(seq, matched=sizes.window + 3, entry=sizes.window + 3)
        script.feed(sizes.window // 2, seq)
        script.decode(1, seq)


def trie_exact(script: Script, sizes: Sizes) -> None:
    """The same prompt again, of which nothing is left to be fed."""
    script.feed(sizes.window + 2)
    script.decode()
    script.event("save")
    script.adopt("b", matched=sizes.window + 3, entry=sizes.window + 3, total=sizes.window + 3)
    script.decode(2, "b")


def trie_longer(script: Script, sizes: Sizes) -> None:
    """Twice from the same entry: the first request cuts its copy, and the entry is as long as before."""
    script.feed(sizes.window - 1)
    script.event("save")
    for seq in ("b", "c"):
        script.adopt(seq, matched=sizes.window - 4, entry=sizes.window - 1)
        script.feed(sizes.window, seq)
        script.decode(1, seq)


def trie_longer_after_wrap(script: Script, sizes: Sizes) -> None:
    script.feed(2 * sizes.window)
    script.decode(2)
    script.event("save")
    script.adopt("b", matched=sizes.window + 4, entry=2 * sizes.window + 2)
    script.feed(sizes.window // 2, "b")
    script.decode(1, "b")


def key_cap(script: Script, sizes: Sizes) -> None:
    script.feed(sizes.window - 1)
    script.decode(3)
    script.feed(sizes.window // 2)
    script.decode(2)


def key_cap_over(script: Script, sizes: Sizes) -> None:
    script.feed(sizes.window + 5)
    script.decode(2)


def key_cap_below_pins(script: Script, _sizes: Sizes) -> None:
    """Lengths in terms of the pinned tokens: the cap is as many."""
    script.feed(3)
    script.decode(4)


def quantized_keys(script: Script, sizes: Sizes) -> None:
    script.feed(sizes.window + 3)
    script.event("quantize")
    script.decode(2)
    _through_a_file(script)
    script.feed(sizes.window // 2)
    script.decode()


def tile_padding(script: Script, sizes: Sizes) -> None:
    """A tile of half a window, as 32 is to a window of 64: each chunk is filled up, then cut off again."""
    tile = sizes.window // 2
    for tokens in (tile - 1, tile - 2):
        script.feed(tokens, padded=tile)
        script.cut(tile - tokens)
    script.decode()


def tile_padding_32(script: Script, sizes: Sizes) -> None:
    """The tile as servers have it."""
    tokens = 2 * sizes.window + 3
    script.feed(tokens, padded=-(-tokens // 32) * 32)
    script.cut(-tokens % 32)
    script.decode(2)


def interleaved(script: Script, sizes: Sizes) -> None:
    """Two sequences in turns, then a third: whatever the model keeps beside its caches must not matter."""
    script.feed(sizes.window + 3, "a")
    script.feed(sizes.window - 3, "b")
    script.feed(sizes.window // 2, "a")
    script.decode(1, "b")
    script.decode(1, "a")
    script.feed(sizes.window, "b")
    script.feed(3, "c")


def _through_a_file(script: Script) -> None:
    script.event("save")
    script.event("load")


REUSE: Mapping[str, Schedule] = {
    "speculative-before-wrap": speculative_before_wrap,
    "speculative-across-wrap": speculative_across_wrap,
    "speculative-after-wrap": speculative_after_wrap,
    "drafts": drafts,
    "drafts-quantized": drafts_quantized,
    "drafts-stored": drafts_stored,
    "trim-then-decode": trim_then_decode,
    "trim-then-chunk": trim_then_chunk,
    "trim-after-wrap-decode": trim_after_wrap_decode,
    "trim-after-wrap-chunk": trim_after_wrap_chunk,
    "tile-padding": tile_padding,
    "tile-padding-32": tile_padding_32,
    "adopt-prefix": adopt_prefix,
    "adopt-trimmed-prefix": adopt_trimmed_prefix,
    "save-and-load": save_and_load,
    "trie-shorter": trie_shorter,
    "trie-exact": trie_exact,
    "trie-longer": trie_longer,
    "trie-longer-after-wrap": trie_longer_after_wrap,
    "key-cap": key_cap,
    "key-cap-over": key_cap_over,
    "key-cap-below-pins": key_cap_below_pins,
    "quantized-keys": quantized_keys,
    "interleaved": interleaved,
}
