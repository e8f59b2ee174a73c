"""The import hook, which must neither disturb an import nor miss one."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from mlxdiag.record import hook
from mlxdiag.record.hook import Finder


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package named as the real one, with its modules out of the way."""
    held = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "mlx_lm"}
    package = tmp_path / "mlx_lm"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "generate.py").write_text(
        "import sys\nready = hook_was_here = 'tokens' in globals()\ntokens = 1\n"
        "def main():\n    return tokens\nif __name__ == '__main__':\n    print(main(), __file__)\n"
    )
    (package / "broken.py").write_text("raise ValueError('its own')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield package
    for name in list(sys.modules):
        if name.split(".")[0] == "mlx_lm":
            del sys.modules[name]
    sys.modules.update(held)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ModuleType, str]]:
    found: list[tuple[ModuleType, str]] = []
    finder = Finder(lambda module, name: found.append((module, name)))
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    return found


def test_it_is_told_once_when_the_module_is_ready(library: Path, told: list[tuple[ModuleType, str]]) -> None:
    module = importlib.import_module("mlx_lm.generate")
    importlib.import_module("mlx_lm.generate")
    assert told == [(module, "mlx_lm.generate")]
    assert module.tokens == 1
    assert module.__spec__ is not None
    assert "exec_module" not in vars(module.__spec__.loader), "the loader is as it was"


def test_a_reload_works_as_before(library: Path, told: list[tuple[ModuleType, str]]) -> None:
    module = importlib.import_module("mlx_lm.generate")
    assert importlib.reload(module) is module


def test_other_modules_are_not_looked_at(library: Path, told: list[tuple[ModuleType, str]]) -> None:
    (library.parent / "another_module.py").write_text("")
    importlib.import_module("another_module")
    assert told == []


def test_an_import_that_fails_fails_as_before(library: Path, told: list[tuple[ModuleType, str]]) -> None:
    with pytest.raises(ValueError, match="its own"):
        importlib.import_module("mlx_lm.broken")
    with pytest.raises(ModuleNotFoundError, match=r"mlx_lm\.nowhere"):
        importlib.import_module("mlx_lm.nowhere")
    assert told == []


def test_the_main_module_is_told_of_between_its_definitions_and_its_end(
    library: Path, told: list[tuple[ModuleType, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.find_spec("mlx_lm.generate")
    assert spec is not None
    assert spec.loader is not None
    code = spec.loader.get_code("mlx_lm.generate")  # type: ignore[attr-defined]
    main = ModuleType("__main__")
    main.__spec__ = spec
    main.__file__ = str(library / "generate.py")
    before = sys.modules["__main__"]
    sys.modules["__main__"] = main
    sys.meta_path[0].imported = lambda module, name: setattr(module, "tokens", name)  # type: ignore[attr-defined]
    try:
        exec(code, vars(main))
    finally:
        sys.modules["__main__"] = before
    assert capsys.readouterr().out == f"mlx_lm.generate {library / 'generate.py'}\n"
    assert "main_is_defined" not in vars(main)


def test_lines_of_the_main_module_keep_their_numbers(
    library: Path, told: list[tuple[ModuleType, str]]
) -> None:
    text = "x = 1\n\nif __name__ == '__main__':\n    raise KeyError\n"
    (library / "server.py").write_text(text)
    spec = importlib.util.find_spec("mlx_lm.server")
    assert spec is not None
    assert spec.loader is not None
    code = spec.loader.get_code("mlx_lm.server")  # type: ignore[attr-defined]
    lines = {line for _, _, line in code.co_lines() if line}
    assert lines <= {1, 2, 3, 4}
    assert code.co_filename == str(library / "server.py")


def test_a_wrong_variable_is_said_and_nothing_is_recorded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLXDIAG_RECORD", "t.yaml")
    monkeypatch.setenv("MLXDIAG_RING", "many")
    before = list(sys.meta_path)
    hook.start()
    assert sys.meta_path == before
    assert capsys.readouterr().err == "mlxdiag: not recorded: MLXDIAG_RING=many: must be a count of steps\n"
