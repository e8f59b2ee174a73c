"""Replaced attributes come back as the very objects they were."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from mlxdiag.models.patches import Patches


class Parent:
    def inherited(self) -> str:
        return "parent"


class Child(Parent):
    def own(self) -> str:
        return "own"

    @classmethod
    def made(cls) -> str:
        return cls.__name__


def louder(original: Any) -> Any:
    return lambda *args: original(*args) + "!"


@pytest.fixture(autouse=True)
def _untouched() -> Any:
    before = dict(vars(Child))
    yield
    assert dict(vars(Child)) == before
    assert all(vars(Child)[name] is value for name, value in before.items())


def test_methods_class_methods_and_inherited_ones() -> None:
    patches = Patches()
    for name in ("own", "made", "inherited"):
        patches.add(Child, name, louder)
    child = Child()
    assert (child.own(), Child.made(), child.inherited()) == ("own!", "Child!", "parent!")
    assert Parent().inherited() == "parent"
    patches.undo()
    assert (child.own(), Child.made(), child.inherited()) == ("own", "Child", "parent")


def test_functions_of_a_module() -> None:
    module = ModuleType("some")
    function = module.f = lambda: "f"  # type: ignore[attr-defined]
    patches = Patches()
    patches.add(module, "f", louder)
    assert module.f() == "f!"
    patches.undo()
    assert module.f is function


def test_an_attribute_is_wrapped_once() -> None:
    patches = Patches()
    patches.add(Child, "own", louder)
    patches.add(Child, "own", louder)
    assert Child().own() == "own!"
    patches.undo()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0), (0, 2, 1), (2, 0, 1)])
def test_layers_of_patches_go_in_any_order(order: tuple[int, ...]) -> None:
    layers = [Patches() for _ in range(3)]
    for patches in layers:
        patches.add(Child, "own", louder)
    assert Child().own() == "own!!!"
    for index in order:
        layers[index].undo()
    assert Child().own() == "own"


def test_a_wrapper_keeps_the_name_and_module_of_what_it_wraps() -> None:
    patches = Patches()
    patches.add(Child, "own", louder)
    assert (Child.own.__name__, Child.own.__module__) == ("own", __name__)
    patches.undo()


def test_a_foreign_wrapper_on_top_is_left_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as outer:
        original = Child.own
        patches = Patches()
        patches.add(Child, "own", louder)
        foreign = louder(Child.own)
        outer.setattr(Child, "own", foreign)
        patches.undo()
        assert Child.own is foreign
        Child.own = original  # type: ignore[method-assign]
        outer.undo()
    Child.own = original  # type: ignore[method-assign]


def test_a_function_imported_by_value_is_replaced_too_and_put_back() -> None:
    def function() -> str:
        return "f"

    home, guest, stranger = ModuleType("home"), ModuleType("guest"), ModuleType("stranger")
    home.f = guest.f = function  # type: ignore[attr-defined]
    stranger.f = other = lambda: "g"  # type: ignore[attr-defined]
    patches = Patches()
    patches.add(home, "f", louder)
    patches.spread([home, guest, stranger])
    assert home.f() == guest.f() == "f!"
    assert stranger.f is other
    patches.undo()
    assert home.f is guest.f is function
