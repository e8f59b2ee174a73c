"""Whether the audit finds faults: planted ones, over families of every kind and all scenarios."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from bench.clock import Result, at_least, fact
from mlxdiag.audit.cell import LIBRARY, ORACLES, Scenario
from mlxdiag.audit.judge import noise
from mlxdiag.audit.libraries import table as libraries
from mlxdiag.audit.plants.plant import Plant
from mlxdiag.audit.plants.plants import PLANTS
from mlxdiag.audit.plants.trials import Attempt, attempts
from mlxdiag.audit.schedules.scenarios import DRIVEN, SCENARIOS, TRANSFORMERS
from mlxdiag.models.adapter import Skipped

FAMILIES = (
    "gemma3_text",
    "gpt_oss",
    "llama",
    "llama4",
    "gemma3n",
    "cohere2",
    "recurrent_gemma",
    "baichuan_m1",
    "mamba2",
    "falcon_h1",
    "deepseek_v3",
    "qwen3_moe",
)
"""Rings, sinks, no window, blocks, shared keys, rings without a window in their masks, recurrent layers with
and without attention, compound caches, latent attention, experts."""

TORCH_FAMILIES = ("gemma3_text", "gpt_oss", "llama4_text", "llama", "lfm2")
"""Windows with sdpa, and with eager attention and sinks; blocks; no window, so that caches are quantised;
convolutions."""
FORWARDS = tuple(scenario for scenario in TRANSFORMERS if scenario.name not in DRIVEN)

LETTERS = {"geometry": "g", "visibility": "v", "parity": "p", "crash": "c"}


def measure() -> Iterator[Result]:
    """One line a plant, a table of plants and scenarios, and how many of those that show are found."""
    yield from _measured(LIBRARY, FAMILIES)


def measure_torch() -> Iterator[Result]:
    """The same in transformers."""
    yield from _measured("transformers", TORCH_FAMILIES)


def _measured(library: str, families: Sequence[str]) -> Iterator[Result]:
    plants, scenarios = _all(library)
    found: list[Attempt] = []
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for family, tried in zip(families, pool.map(partial(_in, library), families), strict=True):
            if isinstance(tried, str):
                yield fact(f"planted in {family}: nothing", tried)
            else:
                found += tried
    for plant in plants:
        of_plant = [attempt for attempt in found if attempt.plant == plant.name]
        yield fact(f"planted: {plant.name}", summary(of_plant))
        yield from unseen(plant, [attempt for attempt in of_plant if attempt.observable])
    for line in table(found, plants, scenarios):
        print(line)
    observable = [attempt for attempt in found if attempt.observable]
    killed = sum(attempt.killed for attempt in observable)
    rate = killed / len(observable) if observable else 0.0
    yield at_least("planted faults found", f"{killed} of {len(observable)} observable ones", rate, 1.0)
    for attempt in found:
        if attempt.survived:
            yield fact(f"SURVIVED: {attempt.plant}", f"{attempt.family}, {attempt.scenario}")


def unseen(plant: Plant, observable: Sequence[Attempt]) -> Iterator[Result]:
    """Oracles that never saw a fault which showed, and why."""
    for oracle in ORACLES:
        if observable and not any(oracle in attempt.caught_by for attempt in observable):
            yield fact(f"  never by {oracle}", plant.blind.get(oracle, "nobody knows why"))


def summary(found: Sequence[Attempt]) -> str:
    """What became of one plant: cells that it acted in, and who saw it."""
    if not found:
        return "acts in no cell that passes without it"
    observable = [attempt for attempt in found if attempt.observable]
    declined = sum(attempt.declined for attempt in found)
    silent = sum(attempt.killed for attempt in found if not attempt.observable)
    counts = Counter(oracle for attempt in observable for oracle in attempt.caught_by)
    seen = ", ".join(f"{oracle} {counts[oracle]}" for oracle in (*ORACLES, "crash") if counts[oracle])
    killed = sum(attempt.killed for attempt in observable)
    told = f"acts in {len(found)} cells, seen in {killed} of {len(observable)} where it shows: {seen or '-'}"
    if silent:
        told += f"; in {silent} where it changes no answer"
    return f"{told}; {declined} declined by the library" if declined else told


def table(found: Iterable[Attempt], plants: Sequence[Plant], scenarios: Sequence[Scenario]) -> Iterator[str]:
    """Plants down, scenarios across: who saw it in any family; "!" where it showed and nobody did, "." where
    it acted and nothing came of it.
    """
    cells: dict[tuple[str, str], list[Attempt]] = {}
    for attempt in found:
        cells.setdefault((attempt.plant, attempt.scenario), []).append(attempt)
    used = [scenario.name for scenario in scenarios if any(key[1] == scenario.name for key in cells)]
    for number, name in enumerate(used, 1):
        yield f"{number:4}  {name}"
    yield " " * 24 + "".join(f"{number:>5}" for number in range(1, len(used) + 1))
    for plant in plants:
        row = [cells.get((plant.name, scenario), []) for scenario in used]
        if any(row):
            yield f"{plant.name:24}" + "".join(f"{mark(cell):>5}" for cell in row)


def mark(found: Sequence[Attempt]) -> str:
    """One cell of the table."""
    if any(attempt.survived for attempt in found):
        return "!"
    seen = {oracle for attempt in found for oracle in attempt.caught_by}
    return "".join(letter for oracle, letter in LETTERS.items() if oracle in seen) or ("." if found else "")


def _in(library: str, family: str) -> list[Attempt] | str:
    """All attempts in one family, or why there are none. Runs in a process of its own."""
    audited = libraries.named(library)
    loaded = audited.load()
    instance = loaded if isinstance(loaded, Skipped) else audited.tiny(family, 0)
    if isinstance(instance, Skipped):
        return str(instance)
    floor, (plants, scenarios) = noise.floor(instance), _all(library)
    return [one for scenario in scenarios for one in attempts(instance, scenario, plants, noise=floor)]


def _all(library: str) -> tuple[Sequence[Plant], Sequence[Scenario]]:
    """Every plant of a library, and the scenarios that they are tried in."""
    if library == LIBRARY:
        return PLANTS, SCENARIOS
    from mlxdiag.audit.plants.torch.plants import PLANTS as OTHERS

    return OTHERS, FORWARDS
