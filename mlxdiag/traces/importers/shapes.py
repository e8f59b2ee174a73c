"""Error texts that hold shapes: rebuilt from what a pattern understood, so that nothing else of a line stays.

The texts of several faults are alike. `[broadcast_shapes] Shapes (a) and (b)` is a mask against scores in
attention and a row against a buffer in a cache merge; the frame of the traceback tells, and where there is
none, the ranks do: scores have four axes and the mask fewer, or no heads.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from mlxdiag.traces.types import Attention, Fault

Shape = tuple[int, ...]

_AXES = r"(?:\d{1,12}\s*,\s*){0,7}\d{0,12}"
_TUPLE = rf"\(({_AXES})\)"
_EITHER = rf"[(\[]({_AXES})[)\]]"

_CLASS = (
    r"(?:Batch|Buffered)?(?:Rotating|Quantized|Chunked|Concatenate|TurboQuant|Paged)?KVCache|ArraysCache|"
    r"CacheList|MambaCache|(?:Dynamic|Static|Hybrid|SlidingWindow|Quantized|Offloaded)Cache"
)
_MEMBER = (
    r"offset|keys|values|trim|is_trimmable|state|meta_state|merge|extract|extend|filter|prepare|finalize|size|"
    r"update_and_fetch|update|make_mask|left_padding|lengths|max_size|keep|step|advance|empty|bits|_idx|nbytes|"
    r"start_position|to_quantized|get_seq_length|get_max_cache_shape|get_usable_length|seen_tokens|key_cache|"
    r"value_cache|layers|caches"
)
"""Names that the libraries' own caches have: a user's class or field says too much about its owner."""


class _Family(NamedTuple):
    pattern: re.Pattern[str]
    form: str
    """The text again, from the pattern's groups."""
    shapes: int = 0
    """How many of the first groups are shapes."""


_FAMILIES = (
    _Family(
        re.compile(rf"\[broadcast_shapes\] Shapes {_TUPLE} and {_TUPLE} cannot be broadcast"),
        "[broadcast_shapes] Shapes ({0}) and ({1}) cannot be broadcast.",
        2,
    ),
    _Family(
        re.compile(rf"\bbroadcast_shapes: shapes {_EITHER} and {_EITHER}", re.IGNORECASE),
        "broadcast_shapes: shapes ({0}) and ({1}) cannot be broadcast.",
        2,
    ),
    _Family(
        re.compile(rf"Cannot broadcast array of shape {_TUPLE} into shape {_TUPLE}"),
        "Cannot broadcast array of shape ({0}) into shape ({1}).",
        2,
    ),
    _Family(
        re.compile(rf"shapes are {_TUPLE},? (?:and )?{_TUPLE},? and the concatenation axis is (\d)"),
        "[concatenate] All the input array dimensions must match exactly except for the concatenation axis. "
        "However, the provided shapes are ({0}), ({1}), and the concatenation axis is {2}.",
        2,
    ),
    _Family(
        re.compile(rf"shapes are {_TUPLE}, {_TUPLE}, axis (\d)"),
        "[concatenate] The provided shapes are ({0}), ({1}), and the concatenation axis is {2}.",
        2,
    ),
    _Family(
        re.compile(rf"operands could not be broadcast together with shapes {_TUPLE} {_TUPLE}"),
        "operands could not be broadcast together with shapes ({0}) ({1})",
        2,
    ),
    _Family(
        re.compile(
            r"The size of tensor a \((\d{1,12})\) must match the size of tensor b \((\d{1,12})\) "
            r"at non-singleton dimension (\d)"
        ),
        "The size of tensor a ({0}) must match the size of tensor b ({1}) at non-singleton dimension {2}",
    ),
    _Family(
        re.compile(
            r"Sizes of tensors must match except in dimension (\d)\. "
            r"(?:Expected|Got) (?:size )?(\d{1,12}) (?:but got size|and) (\d{1,12})"
        ),
        "Sizes of tensors must match except in dimension {0}. Expected size {1} but got size {2}",
    ),
    _Family(
        re.compile(
            r"mask key axis \((\d{1,12})\) is (shorter|longer) than the returned key length \((\d{1,12})\)"
        ),
        "mask key axis ({0}) is {1} than the returned key length ({2})",
    ),
    _Family(
        re.compile(r"\[rope\] offset must be a scalar or vector with (\d{1,12}) el"),
        "[rope] offset must be a scalar or vector with {0} elements",
    ),
    _Family(
        re.compile(r"sliding KV length (\d{1,12}) exceeds slidingWindow (\d{1,12})"),
        "sliding KV length {0} exceeds slidingWindow {1}",
    ),
    _Family(re.compile(rf"\b({_CLASS}) Quantization NYI"), "NotImplementedError: {0} Quantization NYI"),
    _Family(
        re.compile(rf"'({_CLASS})' object has no attribute '({_MEMBER})'"),
        "AttributeError: '{0}' object has no attribute '{1}'",
    ),
)

_PLAIN = {
    "Cannot infer the shape of an empty array": "[reshape] Cannot infer the shape of an empty array",
    "Cannot do a non-empty take": "[take] Cannot do a non-empty take from an array with zero elements.",
    "Negative dimensions not allowed": "[full] Negative dimensions not allowed.",
    "NaN in the logits": "NaN in the logits",
    "not JSON compliant": "Out of range float values are not JSON compliant",
    "probability tensor contains": "probability tensor contains either `inf`, `nan` or element < 0",
    "no tokens to sample from": "no tokens to sample from",
}


class Told(msgspec.Struct, frozen=True):
    """An error text that was understood."""

    text: str
    shapes: tuple[Shape, ...] = ()

    def fault(self, where: str | None = None) -> Fault:
        return Fault(text=self.text, shapes=[*self.shapes] or None, where=where)


def read(line: str) -> Told | None:
    """The error in a line, in the words of its message family; None where there is none.

    Of several, the one that starts first counts.
    """
    found = [(match.start(), family, match) for family in _FAMILIES if (match := family.pattern.search(line))]
    if found:
        _, family, match = min(found, key=lambda one: one[0])
        axes = [_axes(group) for group in match.groups()[: family.shapes]]
        told = [",".join(map(str, one)) for one in axes] + list(match.groups()[family.shapes :])
        return Told(family.form.format(*told), tuple(axes))
    return next((Told(text) for marker, text in _PLAIN.items() if marker in line), None)


def _axes(text: str) -> Shape:
    return tuple(int(part) for part in text.split(",") if part.strip())


def attention_of(told: Told, where: str) -> Attention | None:
    """The attention call that a broadcast error describes; None where it is no such error.

    Only where the text leaves no doubt: the scores are the side of four axes with heads, the mask has fewer
    axes or no heads and differs in the last axis alone, and `where` (frames, lower case) names no cache.
    """
    if len(told.shapes) != 2 or not told.text.startswith(("[broadcast", "broadcast")):
        return None
    if any(word in where for word in ("cache", "merge", "extend", "filter")):
        return None
    mask, scores = sorted(told.shapes, key=lambda shape: (len(shape), shape[1] if len(shape) == 4 else 0))
    if len(scores) != 4 or not 2 <= len(mask) <= 4 or min(*mask, *scores) < 1:
        return None
    if len(mask) == 4 and (mask[1] != 1 or scores[1] < 2):
        return None
    q, k = scores[-2], scores[-1]
    if mask[-2] not in (1, q) or mask[-1] in (1, k):
        return None
    return Attention(q=q, k=k, mask=mask, fate="rejected")
