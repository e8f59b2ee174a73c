"""A repro script from a plan, a model and what is known of the fault."""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from pprint import pformat

from mlxdiag.audit.repro import caller, looks, parts
from mlxdiag.audit.repro.emit import Emitter
from mlxdiag.audit.repro.library_calls import HELPERS
from mlxdiag.audit.repro.subject import WIDTH, Subject, docstring, drawn, first_layers, joined, tolerance
from mlxdiag.audit.schedules.schedules import KEEP
from mlxdiag.models.adapter import Instance, Skipped
from mlxdiag.replay.ops import Cut, Event, Evict, Plan

GENERATED = 16
"""Tokens that speculative decoding is asked for: enough to pass a tiny window from below."""


def compose(subject: Subject) -> str:
    """The text of the script.

    Raises:
        UnjudgedError: drafts that the library's loop cannot make.
    """
    return joined(_parts(subject))


def _parts(subject: Subject) -> Iterator[str]:
    plan, instance = subject.plan, subject.instance
    source, fresh = caller.own_caches(plan, instance)
    emitter = Emitter(plan, subject.prompts, instance, fresh)
    lines = emitter.emit()
    masks = list(caller.masks(plan))
    consumer = list(caller.consumer(subject.policy, plan, instance))
    checks = _checks(subject, samples=emitter.samples)
    sight = "by_sight" in checks
    yield "#!/usr/bin/env python3\n" + docstring(subject, checks)
    future = "from __future__ import annotations\n\n" if source else ""
    imports = [_imported(module_of(instance), "family")]
    if masks:
        imports.append(_imported(instance.module.__name__, "text_family"))
    opening = parts.OPENING.format(family="\n    ".join(imports))
    if any("importlib" in line for line in imports):
        opening = opening.replace("import hashlib\n", "import hashlib\nimport importlib\n")
    yield future + opening
    yield _settings(subject, checks)
    yield parts.BUILD
    yield from source
    yield _run(bool(masks), emitter.samples)
    yield looks.SPY if sight else parts.NO_SPY
    yield from masks
    yield from consumer
    yield from (HELPERS[name] for name in emitter.used)
    yield "def schedule(run):\n" + "\n".join(f"    {line}" for line in lines)
    if "the_sampled_row" in checks:
        yield looks.SAMPLED
    if "by_generating" in checks:
        yield looks.GENERATE
    if "against_the_single_pass" in checks:
        yield looks.SINGLE_PASS
    if "by_trimming" in checks:
        yield looks.TRIMMING
    if "by_storing" in checks:
        yield looks.STORING
    if sight or consumer:
        yield looks.ATTENTION_OF
    if sight:
        yield looks.SIGHT
        yield looks.JUDGE
    yield _main(checks, bool(consumer), subject)


def _checks(subject: Subject, *, samples: bool) -> list[str]:
    """What a script looks at: logits where the single pass is right and comparable, else sight.

    Where the cap leaves nothing but a token itself to see, what changes with its input tells nothing: then at
    what the caches are given and give back.
    """
    plan, codes = subject.plan, subject.codes
    quantised = any(isinstance(op, Event) and op.phase == "quantize" for op in plan.ops)
    fewer = any(isinstance(op, Evict) for op in plan.ops) or any(c.cap for c in plan.caches.values())
    comparable = not quantised and not fewer
    crashed = not {"MD901", "MD906"}.isdisjoint(codes)
    parity = comparable and (any(code.startswith("MD4") for code in codes) or crashed)
    if parity:
        checks = [*(["the_sampled_row"] if samples else []), "against_the_single_pass"]
        return [*checks, "by_generating"] if _drafts(plan) else checks
    if crashed:
        return []
    if any(0 < choice.cap <= KEEP for choice in plan.caches.values()):
        return ["by_storing"]
    trims = any(isinstance(op, Cut) and not op.kept for op in plan.ops)
    return ["by_trimming", "by_sight"] if trims and "MD204" in codes else ["by_sight"]


def _drafts(plan: Plan) -> int:
    """Tokens of the longest draft, where some are rolled back as the library itself does it; else 0."""
    if plan.scheduler.looped:
        return 0  # the schedule itself runs in the library's loop
    cuts = [op for op in plan.ops if isinstance(op, Cut) and op.phase == "rollback"]
    own = not plan.planted and not any(op.kept for op in cuts)
    verified = [op.width for op in plan.forwards if op.phase == "verify"]
    if not cuts or not own or not verified or any(len(op.feeds) > 1 for op in plan.forwards):
        return 0
    return max(max(verified) - 1, 1)


def module_of(instance: Instance) -> str:
    """The module that the script builds: what the config names, which may take its `Model` from another."""
    from mlxdiag.models.mlx import library

    module = library.family_of(instance.config)
    assert not isinstance(module, Skipped)
    return module.__name__


def _imported(module: str, name: str) -> str:
    """The line that imports a module of the library; some bear names that no import statement takes."""
    last = module.rpartition(".")[2]
    if last.isidentifier() and not keyword.iskeyword(last):
        return f"from mlx_lm.models import {last} as {name}"
    return f"{name} = importlib.import_module({module!r})"


def _settings(subject: Subject, checks: list[str]) -> str:
    from mlx.utils import tree_flatten

    from mlxdiag.models.mlx.families import EMPTIED

    instance = subject.instance
    names = [name for name, _ in tree_flatten(instance.model.parameters())]
    lines = [
        f"TITLE = {subject.title!r}",
        f"RAISES = {subject.raises!r}  # the exception that is the fault, where it is one",
        *drawn(instance, subject.seed, names),
        f"EMPTIED = {EMPTIED.get(instance.geometry.architecture)!r}  # ids beyond a tiny vocabulary",
    ]
    if "against_the_single_pass" in checks:
        lines.append(tolerance(subject.tolerance))
    if longest := _drafts(subject.plan):
        first = next(op.feeds[0] for op in subject.plan.forwards)
        prompt = [int(i) for i in subject.prompts[first.seq].of(first.codes)]
        lines.append(f"PROMPT, DRAFTS, TOKENS = {prompt}, {longest}, {GENERATED}")
    if "by_sight" in checks:
        lines.append(f"LAYERS = {first_layers(subject)!r}  # index, kind, window, pinned keys")
    lines.append(f"CONFIG = {pformat(instance.config, width=WIDTH - 10, compact=True)}")
    return "\n".join(lines)


def _run(masks: bool, samples: bool) -> str:
    text = parts.RUN
    if masks:
        text = text.replace("def feed(self, cache, rows):", "def feed(self, cache, rows, masks=()):")
        text = text.replace(
            "        Spy.forward = self.forwards\n",
            "        Spy.forward = self.forwards\n        Handed.cache, Handed.masks = cache, masks\n",
        )
        text = text.replace(
            "        for r, (seq, row) in enumerate(rows.items()):\n",
            "        Handed.cache, Handed.masks = None, ()\n"
            "        for r, (seq, row) in enumerate(rows.items()):\n",
            1,
        )
    if samples:
        text = parts.sampling(text.replace("(self, cache, rows", "(self, cache, rows, sampled=()"))
    return text


def _main(checks: list[str], consumer: bool, subject: Subject) -> str:
    lines = [parts.MAIN_OPENING]
    if "by_generating" in checks:
        # A library may mend its caches, or keep speculative decoding away from them: either is right.
        looked = "against_the_single_pass(run) and by_generating()"
    else:
        looked = " or ".join(f"{check}(run)" for check in checks)
    if checks:
        lines.append(f"    try:\n        wrong = {looked}\n")
        lines.append("    except Refused as refusal:\n        return refused(refusal)\n")
        lines.append("    except Exception as error:\n")
        watched = ", watched=True" if {"by_sight", "by_storing"} & set(checks) else ""
        lines.append(f'        return broken(error, "while it is looked at"{watched})\n')
    if checks:
        right = "the schedule is right" if subject.passes else "the fault is not there"
        lines.append(f'    print("FAULT" if wrong else "OK: {right}")\n')
        lines.append("    return 1 if wrong else 0\n")
    else:
        lines.append('    print("OK: it runs")\n    return 0\n')
    lines.append("\n\ntry:\n    model = build()\n")
    if consumer:
        lines.append("    note_layers(model)\n")
    lines.append('except Exception as error:\n    print(f"could not run: {error}")\n    sys.exit(2)\n')
    lines.append('\nif __name__ == "__main__":\n    sys.exit(main())\n')
    return "".join(lines)
