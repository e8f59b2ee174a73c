from __future__ import annotations

import importlib.machinery
import sys
import types

import pytest

from mlxdiag.bundle.collect import torchbuild

VERSION = """\
__version__ = '2.13.0+cu128'
debug = False
cuda: Optional[str] = '12.8'
git_version = 'cf30153c4c131c8164ee7798e5022d810682e2cb'
hip: Optional[str] = None
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A torch of which only the files are there."""
    (tmp_path / "version.py").write_text(VERSION)
    spec = importlib.machinery.ModuleSpec("torch", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(torchbuild, "find_spec", lambda _: spec)
    monkeypatch.setitem(sys.modules, "torch", None)
    return tmp_path


def cuda(count):
    return types.SimpleNamespace(
        is_available=lambda: count > 0,
        device_count=lambda: count,
        get_device_name=lambda number: f"NVIDIA H{number + 100}",
        get_device_capability=lambda number: (9, number),
    )


def loaded(count, mps):
    backends = types.SimpleNamespace(
        cudnn=types.SimpleNamespace(version=lambda: 91002),
        mps=types.SimpleNamespace(is_available=lambda: mps),
    )
    return types.SimpleNamespace(cuda=cuda(count), backends=backends)


def test_a_build_is_read_from_its_files_without_importing_it(installed):
    assert torchbuild.facts() == {
        "built for": "CUDA 12.8",
        "commit": "cf30153c4c13",
        "devices": torchbuild.NOT_ASKED,
    }


def test_a_loaded_torch_says_what_it_finds(installed, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", loaded(2, mps=False))
    told = torchbuild.facts()
    assert told["devices"] == [
        "NVIDIA H100 (compute capability 9.0)",
        "NVIDIA H101 (compute capability 9.1)",
        "CPU",
    ]
    assert told["cudnn"] == "91002"
    monkeypatch.setitem(sys.modules, "torch", loaded(0, mps=True))
    told = torchbuild.facts()
    assert told["devices"] == ["MPS", "CPU"]
    assert "cudnn" not in told


def test_files_that_are_not_there_tell_nothing(installed):
    (installed / "version.py").unlink()
    assert torchbuild.facts() == {"built for": "not known", "devices": torchbuild.NOT_ASKED}


def test_without_torch_nothing_is_told(monkeypatch):
    monkeypatch.setattr(torchbuild, "find_spec", lambda _: None)
    assert torchbuild.facts() is None
