from __future__ import annotations

import pytest

from mlxdiag.errors import UnreadableError
from tests.traces.importers.reading import codes, imported, steps_of

TIME = "time=2026-09-14T08:00:00.000-03:00"


def ring(offset, q=1, size=1024, idx=0):
    return (
        f'{TIME} level=TRACE source=rotating.go:106 msg=(*RotatingKVCache).update keys_dim="[1 8 {q} 256]" '
        f'values_dim="[1 8 {q} 256]" offset={offset} idx={idx} max_size={size}\n'
    )


def dense(offset, q=1):
    return (
        f'{TIME} level=TRACE source=cache.go:41 msg=(*KVCache).update keys_dim="[1 8 {q} 256]" '
        f'values_dim="[1 8 {q} 256]" offset={offset}\n'
    )


def test_layers_of_one_forward_are_one_step():
    (step,) = steps_of(ring(1030) * 5 + dense(1030))
    assert step["rows"] == [{"offset": 1030, "tokens": 1}]
    assert step["attention"] == [
        {"family": "sliding", "cache": "rotating", "window": 1024, "offset": 1030, "q": 1},
        {"family": "full", "cache": "dense", "offset": 1030, "q": 1},
    ]


def test_forwards_follow_one_another():
    log = "".join((ring(at, q) * 2 + dense(at, q)) for at, q in ((0, 512), (512, 300), (812, 1), (813, 1)))
    steps = steps_of(log)
    assert [step["phase"] for step in steps] == ["prefill", "chunk", "decode", "decode"]
    assert codes(log) == []


def test_a_layer_that_is_out_of_step_is_found():
    assert ("MD202", "error") in codes(ring(1030) + ring(1029) + dense(1030))


def test_a_prompt_is_concatenated():
    (step,) = steps_of(ring(0, 512).replace(").update", ").concat") * 3)
    assert (step["phase"], step["rows"]) == ("prefill", [{"offset": 0, "tokens": 512}])


def test_a_new_request_begins_at_zero():
    assert len(steps_of(ring(900) + ring(0))) == 2


def test_the_repeat_limit_is_the_engines_own_guard():
    log = f'{TIME} level=DEBUG source=server.go:816 msg="prediction aborted, token repeat limit reached"'
    assert codes(log) == [("MD608", "info")]


def test_a_stored_prefix_is_adopted():
    said = 'msg="loading cache slot" id=0 cache=3050 prompt=3000 used=2900 remaining=100'
    log = f"{TIME} level=DEBUG source=cache.go:142 {said}"
    (step,) = steps_of(log)
    assert step["rows"] == [{"matched": 2900, "entry": 3050, "trimmed": 150, "restored": 2900, "total": 3000}]
    assert codes(log) == []


@pytest.mark.parametrize(
    "line",
    [
        f'{TIME} level=INFO source=routes.go:1205 msg="Listening on 127.0.0.1:11434 (version 0.9.0)"',
        '[GIN] 2026/09/14 - 08:00:00 | 200 | 1.2s | 127.0.0.1 | POST "/api/chat"',
        f'{TIME} level=DEBUG source=cache.go:142 msg="loading cache slot" cache=0 prompt=30 used=0',
        ring(1030).replace("[1 8 1 256]", "[8 256]"),
    ],
)
def test_lines_without_lengths_make_no_trace(line):
    with pytest.raises(UnreadableError, match="ollama"):
        imported(line)
