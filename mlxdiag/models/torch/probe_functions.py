"""Which attention functions are the library's own: of no other is it known what it does with its mask.

A program may register a function of its own under any name, or put one in the place of the library's. So not
the name counts but where the code was written, of the function and of all that it is wrapped in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import transformers

SDPA, FLASH, ADDED, FOREIGN = "sdpa", "flash", "added", "foreign"
"""What an attention function does with a mask; `probe_effect` says what that means. added: to the scores, as
eager attention does; foreign: nobody knows."""

_LIBRARY = Path(transformers.__file__).parent.resolve()
_OWN = Path(__file__).parents[2].resolve()
"""This package: its interventions name what they wrap as `__wrapped__`."""
_BY_MODULE = {
    "transformers.integrations.sdpa_attention": SDPA,
    "transformers.integrations.sdpa_paged": SDPA,
    "transformers.integrations.flash_attention": FLASH,
    "transformers.integrations.flash_paged": FLASH,
}


def kind_of(function: Callable[..., Any]) -> str:
    """SDPA, FLASH or ADDED of a function that transformers ships, in any of its modules; else FOREIGN."""
    module = ""
    for layer in _layers(function):
        code = getattr(layer, "__code__", None)
        home = _home(code.co_filename) if code is not None else None
        if home == _OWN:
            continue
        if home != _LIBRARY:
            return FOREIGN
        module = str(getattr(layer, "__module__", ""))
    return _BY_MODULE.get(module, ADDED) if module else FOREIGN


@lru_cache(maxsize=256)
def _home(file: str) -> Path | None:
    """The one of the two packages that a source file is part of."""
    path = Path(file).resolve()
    return next((home for home in (_LIBRARY, _OWN) if path.is_relative_to(home)), None)


def _layers(function: Any) -> Iterator[Any]:
    """A function and what it wraps, from the outside in."""
    seen: set[int] = set()
    while function is not None and id(function) not in seen:
        seen.add(id(function))
        if isinstance(function, partial):
            function = function.func
            continue
        yield function
        function = getattr(function, "__wrapped__", None)
