"""A script for transformers from a plan, a tiny model and what is known of the fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlxdiag.audit.repro import looks as shared
from mlxdiag.audit.repro.subject import Subject, docstring, first_layers, tolerance
from mlxdiag.audit.repro.transformers import caller, looks, parts, run
from mlxdiag.audit.repro.transformers.emit import TorchEmitter
from mlxdiag.audit.repro.transformers.model import Model, head_lines, weights
from mlxdiag.errors import UnjudgedError
from mlxdiag.replay.ops import Cut, Evict

FRESH = {
    "dynamic": "DynamicCache(config=model.config)",
    "static": "StaticCache(config=model.config, max_cache_len={most})",
    "quantized": 'QuantizedCache(backend="fp8", config=model.config)',
}
"""By cache kind: the expression of a program that makes one."""


def compose(subject: Subject) -> str:
    """The text of the script.

    Raises:
        UnjudgedError: the schedule asks for what the library has no call for.
    """
    opening, *rest = (part.strip("\n") for part in _parts(subject))
    return "\n\n".join([opening, "\n\n\n".join(rest)]) + "\n"


def _parts(subject: Subject) -> Iterator[str]:
    instance: Any = subject.instance
    emitter = TorchEmitter(subject.plan, subject.prompts, instance, "Held()")
    lines = emitter.emit()
    unknown = [name for name in emitter.functions() if name not in parts.CALLS]
    if unknown:
        raise UnjudgedError(f"transformers has nothing for a cache to {' or '.join(unknown)}")
    checks = _checks(subject, samples=emitter.samples)
    sight = "by_sight" in checks
    made = Model(instance)
    source, own = caller.own_layers(subject.plan, instance)
    program = list(caller.parts(subject.policy, subject.plan, instance))
    yield "#!/usr/bin/env python3\n" + docstring(subject, checks, needs="torch and transformers")
    imports = [*made.imports, *([caller.IMPORT] if program else [])]
    needed = sorted({*_caches(instance), *caller.imported(subject.plan)})
    future = "from __future__ import annotations\n\n" if source else ""
    yield future + parts.OPENING.format(imports="\n    ".join(imports), caches=", ".join(needed))
    yield _settings(subject, made, checks)
    yield parts.BUILD.format(config=made.expression)
    fresh = _fresh(subject)
    logits = "out.logits" if instance.head is None else "out.last_hidden_state @ HEAD.T"
    if fresh.startswith("recording("):
        yield RECORDING
    yield from source
    if own:
        yield FRESH_OWN.format(made=fresh, lines="\n    ".join(own))
        fresh = "fresh()"
    yield run.text(
        fresh,
        logits,
        masks=bool(program),
        hidden=not any("hidden=False" in line for line in lines),
        samples=emitter.samples,
        columns=any("columns=" in line for line in lines),
    )
    yield looks.SPY if sight else parts.NO_SPY
    yield from program
    yield from (parts.CALLS[name] for name in emitter.functions())
    yield "def schedule(run):\n" + "\n".join(f"    {line}" for line in lines)
    if "the_sampled_row" in checks:
        yield looks.SAMPLED
    if "against_the_single_pass" in checks:
        yield looks.SINGLE_PASS
    if sight:
        yield looks.SIGHT
        yield shared.JUDGE
    yield _main(checks, instance)


def _fresh(subject: Subject) -> str:
    """The expression for a cache; of drafts that may be taken back, the library must be told."""
    from mlxdiag.models.torch.cache_kinds import MOST

    instance: Any = subject.instance
    made = FRESH[instance.cache_kind].format(most=MOST)
    drafts = any(isinstance(op, Cut) and op.phase == "rollback" for op in subject.plan.ops)
    return f"recording({made})" if drafts else made


def _caches(instance: Any) -> list[str]:
    return sorted({"DynamicCache", FRESH[instance.cache_kind].partition("(")[0]})


def _checks(subject: Subject, *, samples: bool) -> list[str]:
    """What a script looks at: logits where the single pass is right and comparable, else sight.

    Where keys are dropped on purpose, logits part from the single pass without any fault.
    """
    codes, instance = subject.codes, subject.instance
    if getattr(instance, "cache_kind", "") == "quantized":
        return []
    crashed = not {"MD901", "MD906"}.isdisjoint(codes)
    fewer = any(isinstance(op, Evict) for op in subject.plan.ops)
    if fewer and crashed:
        return []
    if not fewer and (crashed or any(code.startswith("MD4") for code in codes)):
        return [*(["the_sampled_row"] if samples else []), "against_the_single_pass"]
    return ["by_sight"]


def _settings(subject: Subject, made: Model, checks: list[str]) -> str:
    lines = [f"TITLE = {subject.title!r}", *weights(subject.instance, subject.seed)]
    if "against_the_single_pass" in checks:
        lines.append(tolerance(subject.tolerance))
    if "by_sight" in checks:
        lines.append(f"LAYERS = {first_layers(subject)!r}  # index, kind, window, pinned keys")
    lines += made.lines()
    return "\n".join(lines)


def _main(checks: list[str], instance: Any) -> str:
    lines = [parts.MAIN]
    if checks:
        looked = " or ".join(f"{check}(run)" for check in checks)
        watched = ", watched=True" if "by_sight" in checks else ""
        lines.append(
            f"    try:\n        wrong = {looked}\n"
            "    except Exception as error:\n"
            f'        return broken(error, "while it is looked at"{watched})\n'
            '    print("FAULT" if wrong else "OK: the fault is not there")\n'
            "    return 1 if wrong else 0\n"
        )
    else:
        lines.append('    print("OK: it runs")\n    return 0\n')
    lines.append("\n\ntry:\n    model = build()\n")
    lines.append(head_lines(instance))
    lines.append('except Exception as error:\n    print(f"could not run: {error}")\n    sys.exit(2)\n')
    lines.append('\nif __name__ == "__main__":\n    sys.exit(main())\n')
    return "".join(lines)


FRESH_OWN = '''\
def fresh():
    """The library's cache, with layers as the recorded program has them."""
    cache = {made}
    {lines}
    return cache
'''

RECORDING = '''\
def recording(cache):
    """A cache that is told that tokens may be taken back, as assisted decoding tells it."""
    cache.activate_past_recording()
    return cache
'''
