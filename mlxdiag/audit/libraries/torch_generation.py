"""The loops of transformers judged: whatever drives, a generated token has the logits of the single pass.

There is no schedule to compare step by step: the library decides what it feeds when. So only parity speaks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from mlxdiag.audit.cell import Cell
from mlxdiag.audit.faults import text
from mlxdiag.audit.judge import noise as noises
from mlxdiag.audit.judge import reading
from mlxdiag.audit.judge.passes import Passes
from mlxdiag.audit.judge.tame import tamed
from mlxdiag.audit.schedules.schedules import model_of, sizes_of
from mlxdiag.audit.schedules.script import Script
from mlxdiag.models.adapter import Instance
from mlxdiag.replay.parity import Floats
from mlxdiag.replay.prompts import special_ids

Answers = list[tuple[list[int], list[int], Any]]
Driver = Callable[[Any, list[list[int]]], Answers]

MISUSED = re.compile(r"Calling `\w+` with|`\w+` was called, but|can only be cropped")
"""What a cache says to a caller that uses it wrongly. Here the caller is the library's own loop: it breaks,
which is no refusal."""


def driver(scenario: str) -> Driver:
    """The function that drives: named like the scenario."""
    from mlxdiag.audit.libraries import torch_drivers

    found: Driver = getattr(torch_drivers, scenario.replace("-", "_"))
    return found


def prompts(instance: Instance, seed: int = 0) -> list[list[int]]:
    """Three prompts without a common token: past the window, below it, and as long as it."""
    window = sizes_of(instance).window
    lengths = (2 * window + 5, window - 3, window)
    usable = np.setdiff1d(
        np.arange(instance.vocab), sorted(special_ids(instance.geometry.tokens, instance.vocab))
    )
    ids = np.random.default_rng(seed).permutation(usable)
    cuts = np.cumsum((0, *lengths))
    return [ids[begin:end].tolist() for begin, end in pairwise(cuts)]


def judge(cell: Cell, instance: Instance, noise: float, seed: int) -> None:
    """Fill the cell. Raises what this program itself raised."""
    from mlxdiag.models.torch import library

    if not hasattr(instance.model, "generate") or getattr(instance, "head", None) is not None:
        cell.reason = "the class has no head for tokens, so that it generates none"
        return
    asked = prompts(instance, seed)
    try:
        with library.quiet():
            answers = driver(cell.scenario)(instance.model, asked)
    except BaseException as wild:  # noqa: BLE001  a family may fail in any way
        _broke(cell, tamed(wild))
    else:
        _compare(cell, answers, Passes(instance), noises.tolerance(noise))
    if cell.wrong:
        cell.trace = _trace(instance, cell.scenario, asked)


def _broke(cell: Cell, error: Exception) -> None:
    said = " ".join(str(error).split())
    refused = isinstance(error, NotImplementedError) or reading.declines(error, said)
    if refused and MISUSED.search(said) is None:
        cell.result, cell.reason, cell.where = "unsupported", said[:300], reading.crash_site(error)
        return
    reading.crashed(cell, error, cell.scenario)


def _compare(cell: Cell, answers: Answers, passes: Passes, tolerance: float) -> None:
    """Against one pass over each whole answer."""
    wrong: list[int] = []
    worst, limit, compared = 0.0, 0.0, 0
    for prompt, tokens, told in answers:
        logits, unit = passes.of(np.array([*prompt, *tokens], dtype=np.int32))
        apart = differences(logits[len(prompt) - 1 : -1], tokens, told)
        allowed = tolerance * unit
        compared += len(apart)
        wrong += [len(prompt) - 1 + at for at, by in enumerate(apart) if not by <= allowed]
        if len(apart) and (float(np.max(apart)) > worst or not limit):
            worst, limit = float(np.max(apart)), allowed
    cell.judged = {"parity": compared}
    if not compared:
        cell.reason = "no token was generated"
        return
    cell.result = "pass"
    if wrong:
        cell.result, cell.codes, cell.oracles = "fail", ["MD402"], ["parity"]
        cell.reason = (
            f"{len(wrong)} of {compared} generated tokens have other logits than the single pass, by up to "
            f"{worst:.3g}, first behind position {wrong[0]}"
        )
        cell.evidence = {
            "positions": sorted(set(wrong))[: reading.LISTED],
            "first": min(wrong),
            "max_abs": worst,
            "tolerance": limit,
        }


def differences(logits: Floats, tokens: list[int], told: Any) -> Floats:
    """How far what the library tells of its tokens lies from these logits `[n, V]` of the single pass."""
    if isinstance(told, float):
        own = _log_softmax(logits)[np.arange(len(tokens)), tokens].mean()
        return np.array([abs(own - told)], dtype=np.float32)
    given = np.asarray(told, dtype=np.float32)
    if given.ndim == 1:
        own = _log_softmax(logits)[np.arange(len(tokens)), tokens]
        return np.asarray(np.abs(own - given), dtype=np.float32)
    return np.asarray(np.abs(logits - given).max(axis=-1), dtype=np.float32)


def _log_softmax(logits: Floats) -> Floats:
    top = logits.max(axis=-1, keepdims=True)
    return np.asarray(logits - top - np.log(np.exp(logits - top).sum(axis=-1, keepdims=True)))


def _trace(instance: Instance, scenario: str, asked: list[list[int]]) -> str:
    """What any of these loops does in the end: prompts, and a token at a time."""
    script = Script()
    for name, prompt in zip("abc", asked, strict=True):
        script.feed(len(prompt), name)
        script.decode(1, name)
    return text.of(script.trace(model_of(instance), scenario=scenario))
