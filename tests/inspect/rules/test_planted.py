"""Each near miss is near: some one change to it makes its rule fire.

A fixture that lacks the rule's evidence could never fail. The change is a number moved by one, doubled or
set to zero, a value cut out, or a value taken from the same place in a trace that must fire the rule.
Where the near miss is one of layers, the change is tried on the layers of a trace that must fire, too.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from mlxdiag.errors import UnreadableError
from mlxdiag.inspect.findings import codes
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.inspect.rules import RULES
from mlxdiag.traces.reader import parse

QUIET = [
    pytest.param(rule, text, id=f"{rule.code}-{n}") for rule in RULES for n, text in enumerate(rule.quiet)
]

Path = tuple[Any, ...]


def places(node: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value of a tree with its path, the leaves first."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))
    if path:
        yield path, node


def at(tree: Any, path: Path) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def replaced(tree: Any, path: Path, value: Any) -> Any:
    tree = copy.deepcopy(tree)
    at(tree, path[:-1])[path[-1]] = copy.deepcopy(value)
    return tree


def without(tree: Any, path: Path) -> Any:
    tree = copy.deepcopy(tree)
    del at(tree, path[:-1])[path[-1]]
    return tree


def numbers(value: Any) -> tuple[Any, ...]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ()
    return (value + 1, value - 1, value * 2, 0, value * 16)


def neighbours(quiet: Any, fires: list[Any]) -> Iterator[Any]:
    for path, value in places(quiet):
        for number in numbers(value):
            yield replaced(quiet, path, number)
        yield without(quiet, path)
    for firing in fires:
        for path, value in places(firing):
            try:
                home = at(quiet, path[:-1])
            except (KeyError, IndexError, TypeError):
                continue
            if isinstance(home, dict) or (isinstance(home, list) and path[-1] < len(home)):
                yield replaced(quiet, path, value)
            elif isinstance(home, list) and path[-1] == len(home):
                yield replaced(quiet, path[:-1], [*home, value])


def written(tree: Any) -> str:
    """The trace as a recorder writes it, a line an entry: much faster to read than block style."""
    head = [f"{key}: {json.dumps(value)}" for key, value in tree.items() if key != "steps"]
    steps = tree.get("steps") or []
    return "\n".join([*head, "steps:" if steps else "steps: []", *(f"- {json.dumps(one)}" for one in steps)])


def fires(rule: Any, tree: Any) -> bool:
    try:
        trace = parse(written(tree))
    except UnreadableError:
        return False
    return rule.code in codes(inspect_trace(trace, select=[rule.code]).findings)


@pytest.mark.parametrize(("rule", "text"), QUIET)
def test_one_planted_change_makes_the_near_miss_fire(rule, text):
    quiet = yaml.safe_load(text)
    firing = [yaml.safe_load(one) for one in rule.fires]
    models = [{**quiet, "model": one["model"]} for one in firing if "model" in one]
    assert any(fires(rule, tree) for base in (quiet, *models) for tree in neighbours(base, firing))
