"""How the numbers of an attention call follow from where its sequence is, to be made anew. Pure.

A place is a plain dict of numbers: `q` queries, `tokens` real ones, `width` with padding, `held` tokens in
the cache before the call (padding included), `real` the position of the next real token, `cur` the cursor
that a batch shares, `W` the window, and what a call records beside them (`live`, `buffer`, `handed`, `k`,
`m`). A formula is None where the place lacks what it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

Place = Mapping[str, int | None]
Formula = Callable[[Place], int | None]


def _of(*names: str) -> Formula:
    """The sum of these numbers."""

    def total(place: Place) -> int | None:
        found = 0
        for name in names:
            value = place.get(name)
            if value is None:
                return None
            found += value
        return found

    return total


def _kept(place: Place) -> int | None:
    """What a ring keeps of its past for a call of several queries: W - 1 keys."""
    cur, window = place.get("cur"), place.get("W")
    return None if cur is None or window is None else min(cur, window - 1)


def _due(place: Place) -> int | None:
    """Returned keys by contract: a ring's `min(cur, W-1) + q`, one query's `min(cur+1, W)`, or `cur + q`."""
    q, cur = place.get("q"), place.get("cur")
    if q is None or cur is None:
        return None
    window = place.get("W")
    if window is None:
        return cur + q
    return min(cur + 1, window) if q == 1 else min(cur, window - 1) + q


def _kept_and_new(place: Place) -> int | None:
    kept, q = _kept(place), place.get("q")
    return None if kept is None or q is None else kept + q


def _clamped(place: Place) -> int | None:
    q, cur, window = place.get("q"), place.get("cur"), place.get("W")
    return None if q is None or cur is None or window is None else min(cur + q, window)


def _in_window(place: Place) -> int | None:
    cur, window = place.get("cur"), place.get("W")
    return None if cur is None or window is None else min(cur, window)


def _capped(place: Place) -> int | None:
    """What a key cap has left of the past."""
    cur, cap = place.get("cur"), place.get("cap")
    return None if cur is None or cap is None else min(cur, cap)


def _beyond_cap(place: Place) -> int | None:
    cur, cap = place.get("cur"), place.get("cap")
    return None if cur is None or cap is None else max(cur - cap, 0)


def _ring_buffer(place: Place) -> int | None:
    window, q = place.get("W"), place.get("q")
    return None if window is None or q is None else window - 1 + q


def _beyond_match(place: Place) -> int | None:
    entry, matched = place.get("entry"), place.get("matched")
    return None if entry is None or matched is None else entry - matched


def _asked_and_held(place: Place) -> int | None:
    asked, held = place.get("asked"), place.get("held")
    return None if asked is None or held is None else min(asked, held)


def _last(place: Place) -> int | None:
    left, tokens = place.get("left") or 0, place.get("tokens")
    return None if tokens is None else left + tokens - 1


def _last_of_all(place: Place) -> int | None:
    width = place.get("width")
    return None if width is None else width - 1


FORMULAS: dict[str, Formula] = {
    **{
        name: _of(name)
        for name in (
            "held",
            "real",
            "cur",
            "q",
            "tokens",
            "width",
            "W",
            "live",
            "buffer",
            "k",
            "m",
            "handed",
            "rows",
            "left",
            "cap",
            "asked",
            "matched",
            "entry",
            "restored",
        )
    },
    "zero": lambda _place: 0,
    "one": lambda _place: 1,
    "kept": _kept,
    "due": _due,
    "kept+q": _kept_and_new,
    "cur+q": _of("cur", "q"),
    "held+tokens": _of("held", "tokens"),
    "live+q": _of("live", "q"),
    "buffer+q": _of("buffer", "q"),
    "handed+q": _of("handed", "q"),
    "clamped": _clamped,
    "in window": _in_window,
    "capped": _capped,
    "beyond cap": _beyond_cap,
    "ring buffer": _ring_buffer,
    "entry-matched": _beyond_match,
    "asked, held": _asked_and_held,
    "last": _last,
    "last of all": _last_of_all,
}

OFFSET = ("held", "real", "cur", "kept", "live", "zero")
LIVE_START = ("zero", "beyond cap")
LIVE = ("capped", "held", "cur", "in window", "kept", "zero")
BUFFER = ("W", "ring buffer", "held", "held+tokens", "live")
WIDTH = ("width", "tokens", "one")
HANDED = ("held", "real", "kept", "live", "buffer", "width", "zero", "W")
KEYS = ("due", "live+q", "cur+q", "held+tokens", "kept+q", "clamped", "q", "W")
MASK_KEYS = ("k", "handed+q", "q", "W", "kept+q", "cur+q", "live+q", "buffer+q", "ring buffer", "tokens")
MASK_QUERIES = ("q", "width", "tokens", "one")
PADDING = ("held+tokens", "cur+q", "width", "one", "held", "real")
DONE = ("asked", "asked, held", "zero")
TRIMMED = ("entry-matched", "zero", "entry")
RESTORED = ("matched", "entry", "zero")
SIZE = ("held", "real", "cap", "zero")
SAMPLED = ("last", "last of all", "zero")
ERROR_KEYS = ("m", "k", "W", "q", "cur+q", "held", "real")
ERROR_OTHERS = ("k", "m", "q", "W", "cur+q", "held", "real")
ERROR_QUERIES = ("q", "tokens", "width", "one", "held", "real", "k")
"""Formulas to try, the likeliest first: fields of healthy calls should stay healthy at any size."""


def evaluate(name: str, place: Place) -> int | None:
    """The number that the formula gives here."""
    return FORMULAS[name](place)


def fitting(value: int, names: tuple[str, ...], place: Place) -> list[str]:
    """Which of these formulas give `value` here, in order."""
    return [name for name in names if evaluate(name, place) == value]
