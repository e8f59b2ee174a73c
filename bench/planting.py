"""Whether the audit finds faults: planted ones, over families of every kind and all scenarios."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from bench.clock import Result, at_least, fact
from mlxdiag.audit import noise
from mlxdiag.audit.cell import ORACLES
from mlxdiag.audit.plant_trials import Attempt, attempts
from mlxdiag.audit.plants import PLANTS
from mlxdiag.audit.scenarios import SCENARIOS
from mlxdiag.models.adapter import Skipped
from mlxdiag.models.mlx import zoo
from mlxdiag.models.mlx.instance import MlxInstance

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

LETTERS = {"geometry": "g", "visibility": "v", "parity": "p", "crash": "c"}


def measure() -> Iterator[Result]:
    """One line a plant, a table of plants and scenarios, and how many of those that show are found."""
    found: list[Attempt] = []
    for family in FAMILIES:
        instance = zoo.tiny(family)
        if isinstance(instance, Skipped):
            yield fact(f"planted in {family}: nothing", str(instance))
        else:
            found += _in(instance)
    for plant in PLANTS:
        of_plant = [attempt for attempt in found if attempt.plant == plant.name]
        yield fact(f"planted: {plant.name}", summary(of_plant))
        for oracle, why in plant.blind.items():
            caught = sum(oracle in attempt.caught_by for attempt in of_plant)
            yield fact(f"  {oracle} in {caught} of {len(of_plant)}", why)
    for line in table(found):
        print(line)
    observable = [attempt for attempt in found if attempt.observable]
    killed = sum(attempt.killed for attempt in observable)
    rate = killed / len(observable) if observable else 0.0
    yield at_least("planted faults found", f"{killed} of {len(observable)} observable ones", rate, 1.0)
    for attempt in found:
        if attempt.survived:
            yield fact(f"SURVIVED: {attempt.plant}", f"{attempt.family}, {attempt.scenario}")


def summary(found: Sequence[Attempt]) -> str:
    """What became of one plant: cells that it acted in, and who saw it."""
    if not found:
        return "acts in no cell that passes without it"
    observable = [attempt for attempt in found if attempt.observable]
    declined = sum(attempt.declined for attempt in found)
    counts = Counter(oracle for attempt in observable for oracle in attempt.caught_by)
    seen = ", ".join(f"{oracle} {counts[oracle]}" for oracle in (*ORACLES, "crash") if counts[oracle])
    killed = sum(attempt.killed for attempt in observable)
    return (
        f"acts in {len(found)} cells, seen in {killed} of {len(observable)} where it shows: {seen or '-'}"
        + (f"; {declined} declined by the library" if declined else "")
    )


def table(found: Iterable[Attempt]) -> Iterator[str]:
    """Plants down, scenarios across: who saw it in any family; "!" where it showed and nobody did, "." where
    it acted and nothing came of it.
    """
    cells: dict[tuple[str, str], list[Attempt]] = {}
    for attempt in found:
        cells.setdefault((attempt.plant, attempt.scenario), []).append(attempt)
    used = [scenario.name for scenario in SCENARIOS if any(key[1] == scenario.name for key in cells)]
    for number, name in enumerate(used, 1):
        yield f"{number:4}  {name}"
    yield " " * 24 + "".join(f"{number:>5}" for number in range(1, len(used) + 1))
    for plant in PLANTS:
        row = [cells.get((plant.name, scenario), []) for scenario in used]
        if any(row):
            yield f"{plant.name:24}" + "".join(f"{mark(cell):>5}" for cell in row)


def mark(found: Sequence[Attempt]) -> str:
    """One cell of the table."""
    if any(attempt.survived for attempt in found):
        return "!"
    seen = {oracle for attempt in found for oracle in attempt.caught_by}
    return "".join(letter for oracle, letter in LETTERS.items() if oracle in seen) or ("." if found else "")


def _in(instance: MlxInstance) -> Iterator[Attempt]:
    floor = noise.floor(instance)
    for scenario in SCENARIOS:
        yield from attempts(instance, scenario, PLANTS, noise=floor)
