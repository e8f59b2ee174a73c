"""Attributes replaced for a while, and put back as the very objects they were."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial, update_wrapper
from types import ModuleType
from typing import Any

_MISSING: Any = object()


class Patch:
    """One replaced attribute of a class or module. Patches of one attribute may be undone in any order."""

    __slots__ = ("alive", "name", "original", "owner", "wrapper")

    def __init__(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        self.owner = owner
        self.name = name
        self.original = vars(owner).get(name, _MISSING)
        wrapped_class_method = isinstance(self.original, classmethod)
        target = self.original.__func__ if wrapped_class_method else getattr(owner, name)
        wrapper = update_wrapper(make(target), target)
        self.wrapper = classmethod(wrapper) if wrapped_class_method else wrapper
        self.alive = True
        setattr(owner, name, self.wrapper)
        _STACKS.setdefault((owner, name), []).append(self)

    def undo(self) -> None:
        """Put the original back, at once or, below a later patch of the same attribute, when that one goes.

        A wrapper that something else has wrapped in the meantime stays, and only passes calls on.
        """
        self.alive = False
        stack = _STACKS.get((self.owner, self.name), [])
        while stack and not stack[-1].alive and vars(self.owner).get(self.name) is stack[-1].wrapper:
            top = stack.pop()
            if top.original is _MISSING:
                delattr(top.owner, top.name)
            else:
                setattr(top.owner, top.name, top.original)
        if not stack:
            _STACKS.pop((self.owner, self.name), None)


_STACKS: dict[tuple[Any, str], list[Patch]] = {}


def _instead(wrapper: Any, _original: Any) -> Any:
    return wrapper


class Patches:
    """The patches of one probe; each attribute is patched once."""

    def __init__(self) -> None:
        self._done: dict[tuple[Any, str], Patch] = {}

    def add(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace `owner.name` by `make(its present value)`. A second call for the same attribute does
        nothing.
        """
        if (owner, name) not in self._done:
            self._done[(owner, name)] = Patch(owner, name, make)

    def spread(self, modules: Iterable[Any]) -> None:
        """Replace functions of a patched module in `modules` too, where those imported them by value."""
        for patch in [p for p in self._done.values() if isinstance(p.owner, ModuleType)]:
            for module in modules:
                names = getattr(module, "__dict__", {})
                if module is not patch.owner and names.get(patch.name) is patch.original:
                    self.add(module, patch.name, partial(_instead, patch.wrapper))

    def __len__(self) -> int:
        return len(self._done)

    def undo(self, since: int = 0) -> None:
        """Put the originals back, of the patches after the first `since`."""
        for key in reversed(list(self._done)[since:]):
            self._done.pop(key).undo()
