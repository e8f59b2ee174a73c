from __future__ import annotations

import json

import pytest

from mlxdiag.bundle.detect import figures
from mlxdiag.traces.types import Attention, Parity

HEAD = "schema: mlxdiag.trace/1\nsteps:\n"


def kinds(entry, name: str = "trace.yaml", raw_ids: bool = False) -> list[str]:
    text = f"{HEAD}- {json.dumps(entry)}\n" if name.endswith("yaml") else json.dumps(entry)
    return [kind for _, kind in figures.private(name, text, raw_ids)]


def test_what_a_trace_holds_by_its_schema_passes():
    entry = {
        "rows": [{"seq": "seq-1", "offset": 9906, "ids": [1, 2, 1, 3]}],
        "mask": {"shape": [160, 9906]},
        "attention": [{"family": "full", "offset": [9906, 5], "k": [9907, 6], "layers": [1, 3],
                       "mask": [5, 9906], "first": [[0, 0]], "missing": [[0, 1, 9906]],
                       "vectors": {"offset": 2}}],
    }  # fmt: skip
    assert kinds(entry) == []


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        ({"rows": [{"ids": [9906]}]}, "a token id that is no label"),
        ({"rows": [{"ids": [1, 3]}]}, "a token id that is no label"),
        ({"output": [{"argmax": 9906}]}, "a token id"),
        ({"config": {"step": [9906, 1917]}}, "a list of numbers under 'step'"),
        ({"config": {"step": {"mask": 9906}}}, "a number under 'mask'"),
        ({"config": {"layer_types": ["9906"]}}, "numbers as text under 'layer_types'"),
        ({"config": {"mask": "9906 1917"}}, "numbers as text under 'mask'"),
        ({"config": {"9906": True}}, "a number as a name"),
        ({"attention": [{"vectors": {"9906": 2}}]}, "a number as a name"),
        ({"attention": [{"layers": [9906, 1917]}]}, "a list that is none of layers"),
        ({"attention": [{"mask": [1, 2, 3, 4, 5, 6, 7, 8, 9]}]}, "a shape of too many axes"),
        ({"tokens": {"eos": [1, 2, 3, 4, 5]}}, "too many ids that end an answer"),
        ({"tokens": {"control": [9906]}}, "a list of control ids"),
        ({"tokens": {"eos": [1], "stop": [1, 9906]}}, "stop ids that are not special"),
        ({"tokens": {"reserved": [[9906, 9906]]}}, "a reserved id that is no range"),
        ({"refused": "9906 1917"}, "numbers without a word"),
        ({"extra": [9906, 1917]}, "a list of numbers under 'extra'"),
    ],
)
def test_what_could_be_token_ids_does_not(entry, kind):
    assert kinds(entry) == [kind]
    assert kinds(entry, raw_ids=True) == []


@pytest.mark.parametrize(
    "values",
    [
        [1, 3, 5, 7],
        [0, 1, 1, 0, 0],
        [16384] * 10 + [8192] * 20,
        [16, 24, 24],
        [1.0, 1.25, 64.5],
        [],
    ],
)
def test_layers_flags_sizes_parts_and_factors_of_a_config_pass(values):
    assert kinds({"config": {"head_sizes": values}}) == []


def test_control_ids_pass_where_the_card_was_read_from_a_checkpoint():
    card = {"from": "checkpoint", "tokens": {"control": [9906]}}
    assert kinds(card, "model.json") == []
    assert kinds({**card, "from": "trace"}, "model.json") == ["a list of control ids"]


def test_labels_go_on_from_line_to_line():
    lines = '{"ids": [1, 2]}\n{"ids": [2, 3]}\n'
    assert list(figures.private("tokens.jsonl", lines, False)) == []
    assert list(figures.private("tokens.jsonl", lines + '{"ids": [7]}\n', False)) == [
        (3, "a token id that is no label")
    ]


def test_a_line_that_is_no_json_cannot_be_searched():
    text = f"{HEAD}- {{step: 1, rows: [9906]}}\n"
    assert list(figures.private("trace.yaml", text, False)) == [(3, "a line that cannot be searched")]
    assert list(figures.private("logs/1.log", text, False)) == []


def test_every_list_of_a_call_and_of_a_comparison_that_the_schema_knows_passes():
    lists = {name: [[0, 9906]] for name in Attention.__struct_fields__ if name not in ("layers", "mask")}
    seen = {name: [0, 9906] for name in Parity.__struct_fields__}
    assert kinds({"attention": [lists], "output": [{"parity": seen}]}) == []
