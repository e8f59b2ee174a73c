from __future__ import annotations

import pytest

from mlxdiag.errors import UnreadableError
from tests.traces.importers.reading import codes, imported, steps_of


def log(message, level="DEBUG", request="-", logger="omlx.scheduler"):
    return f"2026-09-14 08:00:00,100 - {logger} - {level} - [{request}] - {message}"


SNAPSHOT = log(
    "Normalized RotatingKVCache snapshot: len 1535->1024, idx 1535->1024, offset=4096, max_size=1024"
)
RESTORE = log(
    "Prefix cache restore for 00000000-0000-0000-0000-000000000001: source=paged cached=8192 suffix=310 "
    "blocks=4 lookup=1.2ms reconstruct=20.5ms promote=False",
    level="INFO",
)


def test_a_snapshot_of_a_ring():
    (step,) = steps_of(SNAPSHOT)
    assert step["phase"] == "save"
    assert step["attention"] == [
        {"family": "sliding", "cache": "rotating", "window": 1024, "offset": 4096, "buffer": 1024}
    ]


def test_a_restored_prefix():
    (step,) = steps_of(RESTORE)
    assert step["rows"] == [{"seq": "req-1", "matched": 8192, "restored": 8192, "total": 8502}]


def test_requests_keep_their_labels():
    first, second, third = steps_of("\n".join([RESTORE, RESTORE.replace("0001:", "0002:"), RESTORE]))
    assert [step["rows"][0]["seq"] for step in (first, second, third)] == ["req-1", "req-2", "req-1"]


def test_a_refusal_is_a_note():
    assert codes(log("cache incompatible, falling back to full prefill", level="WARNING")) == [
        ("MD905", "info")
    ]


def test_restores_and_snapshots_are_healthy():
    assert codes("\n".join([SNAPSHOT, RESTORE])) == []


def test_layers_of_one_snapshot_are_one_step():
    layers = "\n".join(SNAPSHOT.replace("- Normalized", f"- layer {i}: Normalized") for i in range(5))
    assert len(steps_of(layers)) == 1
    assert len(steps_of(layers + "\n" + SNAPSHOT.replace("4096", "4608"))) == 2


def test_what_is_fed_again_of_a_prompt():
    said = (
        "prefix cache: request 964228db re-prefills 5220 of 71530 tokens (reused 66310); closest stored one"
    )
    (step,) = steps_of(log(said, level="INFO"))
    assert step["rows"] == [{"seq": "req-1", "matched": 66310, "restored": 66310, "total": 71530}]


def test_a_restore_from_another_tier():
    (step,) = steps_of(RESTORE.replace("source=paged", "source=ssd").replace("cached=8192", "cached=256"))
    assert step["rows"][0]["restored"] == 256


@pytest.mark.parametrize(
    "line",
    [
        log("Loaded model from cache dir", logger="omlx.engine"),
        log("Prefix cache miss"),
        SNAPSHOT.replace("omlx.scheduler", "myapp.scheduler"),
    ],
)
def test_other_lines_make_no_trace(line):
    with pytest.raises(UnreadableError):
        imported(line)
