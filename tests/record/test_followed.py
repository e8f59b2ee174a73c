"""Which modules are told of, and when a library can be followed."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from mlxdiag.record.followed import MLX_LM, TRANSFORMERS, executed, library_of


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("mlx_lm.models.cache", MLX_LM),
        ("mlx_lm.models.gemma3_text", MLX_LM),
        ("transformers.modeling_utils", TRANSFORMERS),
        ("transformers.cli.serving.utils", TRANSFORMERS),
        ("transformers.tokenization_utils_base", None),
        ("transformers", None),
        ("torch", None),
    ],
)
def test_few_modules_of_transformers_matter_and_all_of_mlx_lm(name: str, library: object) -> None:
    assert library_of(name) is library


def test_a_library_is_complete_with_the_module_that_has_just_run(monkeypatch: pytest.MonkeyPatch) -> None:
    first, last = TRANSFORMERS.needs
    for name in TRANSFORMERS.needs:
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert not TRANSFORMERS.ready(first)
    monkeypatch.setitem(sys.modules, first, ModuleType(first))
    assert not TRANSFORMERS.ready()
    assert TRANSFORMERS.ready(last)


def test_a_module_that_is_still_being_executed_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    class Spec:
        _initializing = True

    module = ModuleType("half_done")
    module.__spec__ = Spec()  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "half_done", module)
    assert not executed("half_done")
    Spec._initializing = False
    assert executed("half_done")
