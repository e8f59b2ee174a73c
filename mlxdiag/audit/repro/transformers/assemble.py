"""A script for transformers from a plan, a tiny model and what is known of the fault."""

from __future__ import annotations

from collections.abc import Iterator
from pprint import pformat
from typing import Any

from mlxdiag.audit.repro import looks as shared
from mlxdiag.audit.repro.subject import WIDTH, Subject, docstring, first_layers
from mlxdiag.audit.repro.transformers import looks, parts
from mlxdiag.audit.repro.transformers.emit import TorchEmitter
from mlxdiag.errors import UnjudgedError
from mlxdiag.models.adapter import Skipped
from mlxdiag.models.configs.draws import DRAWS, QUERY_NORMS, Draw, sharpness
from mlxdiag.replay.ops import Cut

FRESH = {
    "dynamic": "DynamicCache(config=model.config)",
    "static": "StaticCache(config=model.config, max_cache_len={most})",
    "quantized": 'QuantizedCache(backend="fp8", config=model.config)',
}
"""By cache kind: the expression of a program that makes one."""


def compose(subject: Subject) -> str:
    """The text of the script."""
    text = "\n\n".join(part.rstrip("\n") for part in _parts(subject))
    return text.rstrip() + "\n"


def _parts(subject: Subject) -> Iterator[str]:
    instance: Any = subject.instance
    emitter = TorchEmitter(subject.plan, subject.prompts, instance, "Held()")
    lines = emitter.emit()
    checks = _checks(subject)
    sight = "by_sight" in checks
    made = _Model(instance)
    yield "#!/usr/bin/env python3\n" + docstring(subject, checks, needs="torch and transformers")
    yield parts.OPENING.format(imports="\n    ".join(made.imports), caches=", ".join(_caches(instance)))
    yield _settings(subject, made, checks)
    yield parts.BUILD.format(config=made.expression)
    fresh = _fresh(subject)
    logits = "out.logits" if instance.head is None else "out.last_hidden_state @ HEAD.T"
    if fresh.startswith("recording("):
        yield RECORDING
    yield parts.RUN.format(fresh=fresh, logits=logits)
    yield looks.SPY if sight else parts.NO_SPY
    yield from (parts.CALLS[name] for name in emitter.functions())
    yield "def schedule(run):\n" + "\n".join(f"    {line}" for line in lines)
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


def _checks(subject: Subject) -> list[str]:
    """What a script looks at: logits where the single pass is right and comparable, else sight."""
    codes, instance = subject.codes, subject.instance
    if getattr(instance, "cache_kind", "") == "quantized":
        return []
    crashed = not {"MD901", "MD906"}.isdisjoint(codes)
    if crashed or any(code.startswith("MD4") for code in codes):
        return ["against_the_single_pass"]
    return ["by_sight"]


class _Model:
    """How a script comes by the model: what it imports, and the expression for the config."""

    def __init__(self, instance: Any) -> None:
        from mlxdiag.models.torch import library
        from mlxdiag.models.torch.zoo.build import tiny_config
        from mlxdiag.models.torch.zoo.rows import row

        family = instance.name.partition(":")[0]
        classes = library.family(row(family).model_type)
        if isinstance(classes, Skipped):
            raise UnjudgedError(f"{family}: {classes}")
        self.config = tiny_config(family, classes)
        config = classes.wrapper or classes.config
        self.imports = [
            f"from {classes.model.__module__} import {classes.model.__name__} as Model",
            f"from {config.__module__} import {config.__name__} as Config",
        ]
        self.outer = classes.outer
        inside = "copy.deepcopy(CONFIG)"
        self.expression = (
            f"Config(text_config={inside}, **OUTER)" if classes.wrapper is not None else f"Config(**{inside})"
        )


def _settings(subject: Subject, made: _Model, checks: list[str]) -> str:
    instance: Any = subject.instance
    draw = DRAWS.get(instance.geometry.architecture, Draw())
    lines = [
        f"TITLE = {subject.title!r}",
        f"SEED = {subject.seed}",
        f"ATTENTION = {instance.attention!r}",
        f"SCALED_EMBEDDING = {draw.scaled_embedding}  # the model multiplies by the root of the width",
        f"SHARPER = {_sharper(instance, draw.query)!r}  # weights of queries, by their module",
        f"MEANS = {dict(draw.vectors)!r}",
    ]
    if "against_the_single_pass" in checks:
        lines.append(
            f"TOLERANCE = {subject.tolerance:.3g}  # of the spread of the logits: far above rounding"
        )
    if "by_sight" in checks:
        lines.append(f"LAYERS = {first_layers(subject)!r}  # index, kind, window, pinned keys")
    if made.outer:
        lines.append(f"OUTER = {pformat(made.outer, width=WIDTH - 10, compact=True)}")
    lines.append(f"CONFIG = {pformat(made.config, width=WIDTH - 10, compact=True)}")
    return "\n".join(lines)


def _sharper(instance: Any, query: float) -> dict[str, float]:
    owners = [name.split(".")[-2] for name, _ in instance.model.named_parameters() if "." in name]
    normed = any(owner in QUERY_NORMS for owner in owners)
    found = {owner: sharpness(owner, normed, query) for owner in dict.fromkeys(owners)}
    return {owner: factor for owner, factor in found.items() if factor != 1.0}


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
    if instance.head is not None:
        lines.append(
            "    rows, width = model.get_input_embeddings().weight.shape\n"
            "    HEAD = torch.randn((rows, width), generator=torch.Generator().manual_seed(SEED + 1))\n"
            "    HEAD = HEAD * width**-0.5  # it makes no logits: hidden states are looked at from here\n"
        )
    lines.append('except Exception as error:\n    print(f"could not run: {error}")\n    sys.exit(2)\n')
    lines.append('\nif __name__ == "__main__":\n    sys.exit(main())\n')
    return "".join(lines)


RECORDING = '''\
def recording(cache):
    """A cache that is told that tokens may be taken back, as assisted decoding tells it."""
    cache.activate_past_recording()
    return cache
'''
