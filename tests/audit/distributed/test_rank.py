"""What a rank tells of an item, and when it ends itself."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
import torch

from mlxdiag.audit.distributed.rank import BROKEN, Rank, report
from mlxdiag.audit.distributed.told import TENSOR, Told


class Scripted(Rank):
    """Fails as it is told to, and agrees with its peer or does not."""

    def __init__(self, report: Path, error: Exception | None = None, agrees: bool = False) -> None:
        super().__init__(report, 0)
        self.error = error
        self.agrees = agrees

    def trial(self, family: str, kind: str) -> Told:
        self.during = "chunked prefill"
        if self.error is not None:
            raise self.error
        return Told(family, kind, "done")

    def agreed(self, told: Told) -> bool:
        return self.agrees


def words(folder: Path) -> list[Told]:
    lines = report(folder, 0).read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Told) for line in lines]


def test_an_item_that_went_well_begins_and_is_done(tmp_path: Path) -> None:
    Scripted(report(tmp_path, 0)).work("gemma3_text", TENSOR)
    assert [word.state for word in words(tmp_path)] == ["begun", "done"]
    assert [word.final for word in words(tmp_path)] == [False, True]


def test_a_rank_that_fails_alone_tells_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []

    def leave(status: int) -> None:
        ended.append(status)
        raise SystemExit

    monkeypatch.setattr(os, "_exit", leave)
    with pytest.raises(SystemExit):
        Scripted(report(tmp_path, 0), ValueError("two\n lines")).work("gemma3_text", TENSOR)
    assert ended == [BROKEN]
    told = words(tmp_path)[-1]
    assert (told.state, told.error, told.reason, told.during) == (
        "failed",
        "ValueError",
        "two lines",
        "chunked prefill",
    )
    assert not told.final


def test_ranks_that_fail_alike_go_on(tmp_path: Path) -> None:
    Scripted(report(tmp_path, 0), ValueError("no"), agrees=True).work("gemma3_text", TENSOR)
    assert [(word.state, word.alike) for word in words(tmp_path)] == [
        ("begun", False),
        ("failed", False),
        ("failed", True),
    ]
    assert words(tmp_path)[-1].final


def test_a_fault_of_this_program_has_no_line_of_the_library(tmp_path: Path) -> None:
    from mlxdiag.models.torch import zoo

    family = zoo.tiny("qwen2")
    with pytest.raises(RuntimeError) as theirs:
        family.model(input_ids=torch.zeros((1, 2)))  # floats are no ids
    for name, error in (("ours", ValueError("no")), ("theirs", theirs.value)):
        folder = tmp_path / name
        folder.mkdir()
        Scripted(report(folder, 0), error, agrees=True).work("qwen2", TENSOR)
    assert words(tmp_path / "ours")[-1].where == ""
    assert words(tmp_path / "theirs")[-1].where.startswith("transformers/")
