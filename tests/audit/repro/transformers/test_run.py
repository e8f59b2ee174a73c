from __future__ import annotations

import ast

import pytest

from mlxdiag.audit.repro.transformers import parts, run

PLAIN = parts.RUN.format(fresh="DynamicCache()", logits="out.logits")


def text(**asked):
    told = {"masks": False, "hidden": True, "samples": False, "columns": False, **asked}
    return run.text("DynamicCache()", "out.logits", **told)


def arguments(source):
    feed = next(
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.name == "feed"
    )
    return [one.arg for one in feed.args.args]


def test_a_program_that_adds_nothing_leaves_the_frame_as_it_is():
    assert text() == PLAIN


@pytest.mark.parametrize(
    ("asked", "argument", "line"),
    [
        ({"masks": True}, "masks", "        Handed.masks = masks\n"),
        ({"hidden": False}, "hidden", "            real = torch.ones_like(real)\n"),
        ({"samples": True}, "sampled", "                taken = logits[r, sampled[seq]]\n"),
        ({"columns": True}, "columns", "        logits = forward(ids, held, columns).float()\n"),
    ],
)
def test_each_thing_that_it_adds_is_an_argument_and_a_line(asked, argument, line):
    made = text(**asked)
    assert arguments(made) == ["self", "held", "rows", argument]
    assert line in made


def test_all_of_them_go_together():
    made = text(masks=True, hidden=False, samples=True, columns=True)
    assert arguments(made) == ["self", "held", "rows", "hidden", "columns", "masks", "sampled"]
    handed, forward = made.index("Handed.masks = masks"), made.index("forward(ids, held, columns).float()")
    assert handed < forward < made.index("Handed.masks = {}")
