"""From what the ranks said, or how they ended, to a cell of the table."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import msgspec

from mlxdiag.audit.cell import ORACLES, Cell
from mlxdiag.audit.distributed.launch import Launch
from mlxdiag.audit.distributed.schedules import SCHEDULES
from mlxdiag.audit.distributed.told import Difference, Seen, Told
from mlxdiag.audit.engine.death import UNFINISHED, message, where
from mlxdiag.audit.engine.pool import last_line
from mlxdiag.audit.judge.reading import LISTED, ORACLE_OF, REFUSALS, crash_code

PARITY = "MD402"
REFUSING = ("ValueError", "NotImplementedError", "RuntimeError")
"""What libraries raise that decline to split, as transformers does on Apple's GPUs."""


def told(library: str, item: str, words: Sequence[Told | None], seconds: float = 0.0) -> Cell:
    """The cell of an item of which every rank has said how it ended."""
    said = [word for word in words if word is not None]
    made = empty(library, item, seconds)
    if all(word.alike for word in said):
        return msgspec.structs.replace(refused_or_crashed(library, item, 0, said[0]), seconds=seconds)
    other = next((word for word in said if word.state != "done"), None)
    if other is not None:
        made.result = "unsupported" if other.state == "unsupported" else "skipped"
        made.reason = other.reason
        return made
    made.judged = _judged(said)
    if not made.judged["parity"]:
        made.reason = "no position was compared"
        return made
    whole = next((rank for rank, word in enumerate(said) if word.weights >= word.whole), None)
    if whole is not None:
        made.reason = f"rank {whole} holds the whole model, so nothing was split that could be judged"
        return made
    _compared(made, said)
    _watched(made, said)
    return made


def _judged(said: Sequence[Told]) -> dict[str, int]:
    """Over all ranks."""
    found = {"parity": sum(difference.compared for word in said for difference in word.differences)}
    for word in said:
        for oracle, count in word.judged.items():
            found[oracle] = found.get(oracle, 0) + count
    return {oracle: found[oracle] for oracle in ORACLES if oracle in found}


def _compared(made: Cell, said: Sequence[Told]) -> None:
    """A pass, or a fail by what is wrong with the logits."""
    wrong = [(rank, found) for rank, word in enumerate(said) for found in word.differences if found.positions]
    if not wrong:
        made.result = "pass"
        return
    made.result, made.codes, made.oracles = "fail", [PARITY], ["parity"]
    rank, worst = max(wrong, key=lambda pair: pair[1].max_abs)
    names = ", ".join(name for name in SCHEDULES if any(found.schedule == name for _, found in wrong))
    made.reason = (
        f"{names}: the logits of rank {rank} differ from those of one process by up to {worst.max_abs:.3g}, "
        f"first at position {wrong[0][1].positions[0]} (tolerance {worst.tolerance:.2g})"
    )
    made.evidence = evidence(rank, worst)


def _watched(made: Cell, said: Sequence[Told]) -> None:
    """What a rank's heads saw says more than logits do: the fault is in that rank, and not in what the other
    one was sent."""
    wrong = [(rank, seen) for rank, word in enumerate(said) for seen in word.seen]
    if not wrong:
        return
    made.result = "fail"
    made.codes = sorted({*made.codes, *(code for _, seen in wrong for code in seen.codes)})
    spoke = {ORACLE_OF[code[:3]] for code in made.codes}
    made.oracles = [oracle for oracle in ORACLES if oracle in spoke]
    rank, head = min(wrong, key=lambda pair: ORACLE_OF[pair[1].codes[0][:3]] != "visibility")
    ranks = sorted({rank for rank, _ in wrong})
    who = f"rank {rank}" if len(ranks) == 1 else "every rank"
    made.reason = f"{who}, {head.schedule}: {head.sentence}"
    made.where = head.where
    made.evidence = {**made.evidence, **_seen(rank, head)}


def _seen(rank: int, head: Seen) -> dict[str, object]:
    rows, pieces = SCHEDULES[head.schedule]
    found: dict[str, object] = {"rank": rank, "schedule": head.schedule, "rows": rows, "pieces": list(pieces)}
    more = {"step": head.step, "seq": head.seq, "layers": head.layers or None}
    if head.positions:
        more |= {"positions": head.positions, "first": head.positions[0]}
    return found | {name: value for name, value in more.items() if value is not None}


def evidence(rank: int, found: Difference) -> dict[str, object]:
    """As `Cell.evidence`, with the rank and the pieces that the sequence was fed in."""
    return {
        "rank": rank,
        "schedule": found.schedule,
        "rows": SCHEDULES[found.schedule][0],
        "pieces": list(SCHEDULES[found.schedule][1]),
        "positions": found.positions[:LISTED],
        "first": found.positions[0],
        "max_abs": found.max_abs,
        "tolerance": found.tolerance,
        "margin": found.margin,
    }


def broken(library: str, item: str, words: Sequence[Told | None], launch: Launch) -> Cell:
    """The launch ended in the midst of this item."""
    failed = [(rank, word) for rank, word in enumerate(words) if word is not None and word.state == "failed"]
    own = [(rank, word) for rank, word in failed if not any(text in word.reason for text in launch.lost)]
    if not own and launch.killed() is not None:
        return died(library, item, launch)
    if failed:
        return refused_or_crashed(library, item, *(own or failed)[0])
    return died(library, item, launch)


def refused_or_crashed(library: str, item: str, rank: int, word: Told) -> Cell:
    """A rank told of an exception."""
    made = empty(library, item)
    made.where = word.where
    who = "every rank" if word.alike else f"rank {rank}"
    made.reason = f"{who}, {word.during}: {word.error}: {word.reason}".rstrip(": ")
    clean = word.error in REFUSING and word.during == "splitting"
    if not word.where:
        made.reason = f"{UNFINISHED}: {made.reason}"
    elif clean and (REFUSALS.search(word.reason) or "divi" in word.reason):
        made.result = "unsupported"
    else:
        made.result, made.codes = "crash", [crash_code(word.reason)]
    return made


def died(library: str, item: str, launch: Launch) -> Cell:
    """No rank could say why it stopped: it was killed from inside, or both wait for ever."""
    made = empty(library, item)
    made.result, made.codes = "crash", ["MD902"]
    dead = launch.killed() or launch.ended()
    if dead is None:
        made.reason = "neither rank said anything more: they wait for each other"
        return made
    rank, code = dead
    name = signal.Signals(-code).name if code < 0 else f"status {code}"
    stderr = launch.stderr(rank)
    made.reason = f"rank {rank} ended with {name}: {message(stderr)}".rstrip(": ")
    made.where = where(stderr)
    return made


def unstarted(library: str, item: str, launch: Launch) -> Cell:
    """No rank said a word."""
    said = last_line(launch.stderr(0)) or last_line(launch.stderr(1)) or "they said nothing"
    return skipped(library, item, f"the ranks could not be started: {said}")


def skipped(library: str, item: str, reason: str) -> Cell:
    return msgspec.structs.replace(empty(library, item), reason=reason)


def empty(library: str, item: str, seconds: float = 0.0) -> Cell:
    family, kind = item.rsplit(":", 1)
    return Cell(library=library, family=family, scenario=kind, result="skipped", seconds=seconds)
