"""What a script is made of, and what it says of itself and of its weights, in whatever library."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

import msgspec

from mlxdiag.models.adapter import Instance
from mlxdiag.models.configs.draws import DRAWS, QUERY_NORMS, Draw, sharpness
from mlxdiag.replay.ops import Forward, Plan
from mlxdiag.replay.prompts import Prompt

WIDTH = 110


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """All that a script is made of."""

    plan: Plan
    prompts: dict[str, Prompt]
    instance: Instance
    title: str
    """One line: the family and the schedule."""
    cause: str = ""
    where: str = ""
    codes: tuple[str, ...] = ()
    """What was found under this very schedule; decides what the script looks at."""
    raises: str = ""
    """The class of the exception that this schedule ends in, where it does."""
    policy: str = "strict"
    seed: int = 0
    tolerance: float = 1e-3
    """Of the standard deviation of the logits."""
    passes: bool = False
    """A control: the nearest schedule that is right."""


def docstring(subject: Subject, checks: list[str], needs: str = "mlx-lm") -> str:
    """What a script says of itself."""
    plan = subject.plan
    lines = [subject.title, ""]
    if subject.passes:
        lines += ["The nearest schedule that is right: a control for the script beside it.", ""]
    elif subject.cause:
        lines += [*textwrap.wrap(subject.cause, WIDTH - 6), ""]
    if subject.where and not subject.passes:
        lines += [f"Where: {subject.where}", ""]
    for planted in plan.planted:
        lines += textwrap.wrap(f"As recorded, and done by this script itself: {planted}.", WIDTH - 6)
    if plan.planted:
        lines.append("")
    shown = {
        "against_the_single_pass": "logits against one forward of the same tokens",
        "by_generating": "what speculative decoding answers",
        "the_sampled_row": "the row that was sampled from",
        "by_trimming": "what trims answer",
        "by_storing": "whether a token's own key and value are among those that attention gets",
        "by_sight": "which positions each query of a layer really sees",
    }
    looked = "; ".join(["no exception", *(shown[check] for check in checks)])
    lines += [
        f"Looked at: {looked}.",
        f"Needs {needs} and nothing else: no checkpoint, no network, tiny random weights.",
        "Exit code: 0 right, 1 the fault is there, 2 it could not run.",
    ]
    return quoted(lines)


def quoted(lines: Iterable[str]) -> str:
    """These lines as the docstring of a script."""
    body = "\n".join(lines).replace("\\", "\\\\").replace('"""', "'''")
    return f'"""{body}\n"""'


def joined(parts: Iterable[str]) -> str:
    """The parts of a script, a blank line between them."""
    return "\n\n".join(part.rstrip("\n") for part in parts).rstrip() + "\n"


def drawn(instance: Instance, seed: int, names: Iterable[str]) -> list[str]:
    """Constants that say how the weights are drawn. `names`: of the parameters."""
    draw = DRAWS.get(instance.geometry.architecture, Draw())
    owners = dict.fromkeys(name.split(".")[-2] for name in names if "." in name)
    normed = any(owner in QUERY_NORMS for owner in owners)
    factors = {owner: sharpness(owner, normed, draw.query) for owner in owners}
    sharper = {owner: factor for owner, factor in factors.items() if factor != 1.0}
    return [
        f"SEED = {seed}",
        f"SCALED_EMBEDDING = {draw.scaled_embedding}  # the model multiplies by the root of the width",
        f"SHARPER = {sharper!r}  # weights of queries, by their module",
        f"MEANS = {dict(draw.vectors)!r}",
    ]


def tolerance(relative: float) -> str:
    """The constant that logits are held against."""
    return f"TOLERANCE = {relative:.3g}  # of the spread of the logits: far above rounding"


def first_layers(subject: Subject) -> list[tuple[int, str, int | None, int]]:
    """The first layer of each kind that owns its keys and whose attention can be told apart."""
    plan = subject.plan
    found: dict[str, tuple[int, str, int | None, int]] = {}
    for layer in subject.instance.geometry.layers:
        if layer.shares is not None or layer.attention == "recurrent":
            continue
        choice = plan.caches.get(layer.family)
        if choice is not None and choice.cap and not layer.window:
            found.setdefault(layer.family, (layer.index, "capped", choice.cap - choice.sinks, choice.sinks))
        else:
            found.setdefault(layer.family, (layer.index, layer.family, layer.window, 0))
    return list(found.values())


def forwards(plan: Plan) -> str:
    """The schedule in one line: `prefill 9, decode 1`."""
    said = []
    for op in plan.ops:
        if isinstance(op, Forward):
            rows = "+".join(str(feed.tokens) for feed in op.feeds)
            said.append(f"{op.phase} {rows}")
        else:
            phase = getattr(op, "phase", type(op).__name__.lower())
            tokens = getattr(op, "tokens", None)
            said.append(f"{phase} {tokens}" if tokens else phase)
    return ", ".join(said)
