from __future__ import annotations

import pytest

from mlxdiag.bundle.redact.records import RECORDS


def named(line: str) -> list[str]:
    return [name for name, pattern in RECORDS if pattern.match(line)]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("E       ValueError: x", "exception"),
        ("(VllmWorker rank=0 pid=48820) INFO x", "process first"),
        ("I1102 09:12:44.123456       1 server.go:120] x", "klog"),
        ("FAILED tests/test_cache.py::test_window - ValueError: x", "pytest"),
        ("===== 1 failed, 2 passed in 12.34s =====", "pytest"),
        ("/x/base.py:120: ValueError", "pytest frame"),
        ("│ /x/site-packages/mlx_lm/models/base.py:120 in __call__      │", "rich frame"),
        ("Current thread 0x00000001f0e3c240 (most recent call first):", "traceback"),
        ("panic: runtime error: x", "abort"),
        ("/x/ggml.c:12: GGML_ASSERT(a <= b) failed", "abort"),
        ("Greatest absolute difference: 2.8 at index (0, 12)", "statistics"),
        ("  left: 160", "two sides"),
        ("mlx==0.32.4", "requirement"),
    ],
)
def test_a_format_is_known_by_its_beginning(line, name):
    assert name in named(line)


@pytest.mark.parametrize(
    "line",
    [
        "write the cache",
        "E       - kestrel is here",
        "left: hi",
        "│ ❱ 12 │   kestrel(x) │",
        "│ prompt = 1 │",
        "zorblax==1.2.3",
        "> offset 4",
    ],
)
def test_what_people_write_begins_otherwise(line):
    assert named(line) == []
