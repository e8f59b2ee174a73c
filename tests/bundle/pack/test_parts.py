from __future__ import annotations

from mlxdiag.bundle.pack.parts import listed


def test_parts_are_there_or_missing_with_a_reason_and_silent_otherwise():
    found = listed(frozenset({"trace.yaml", "logs/1.log"}), {"repro/repro.py": "mlx is not installed"})
    assert [(part.name, part.there, part.reason) for part in found] == [
        ("trace.yaml", True, ""),
        ("repro/repro.py", False, "mlx is not installed"),
        ("logs/", True, ""),
    ]
