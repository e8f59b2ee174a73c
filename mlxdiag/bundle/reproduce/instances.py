"""Tiny models for the controls, each built once: schedules differ, and the model seldom does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from mlxdiag.errors import UnjudgedError
from mlxdiag.models.adapter import Instance
from mlxdiag.replay import experiment, prompts
from mlxdiag.replay.experiment import Prepared

ATTENTIONS = ("eager", "sdpa")
"""Implementations of attention in transformers that need no package beside torch."""


ROOM = 256
"""Ids of a tiny vocabulary that no prompt uses."""


class Instances:
    """By what a model is built from."""

    def __init__(self) -> None:
        self._held: dict[bytes, Instance] = {}

    def of(self, prepared: Prepared) -> Instance:
        """A tiny instance for a prepared plan.

        Raises:
            UnjudgedError: the library lacks the family.
        """
        key = msgspec.json.encode([prepared.backend, prepared.config, prepared.families], order="sorted")
        held = self._held.get(key)
        # A vocabulary must hold a token of its own for each position.
        if held is None or held.vocab < prompts.needed(prepared.plan) + ROOM:
            held = self._held[key] = experiment.instance_for(prepared)
        return held

    @contextmanager
    def attending(self, prepared: Prepared, attention: str | None) -> Iterator[Instance]:
        """As `of`, with an implementation of attention in place of the library's choice, within.

        Raises:
            UnjudgedError: also where the library has no such attention for the family.
        """
        held: Any = self.of(prepared)
        if attention is None:
            yield held
            return
        _choose(held.model, attention)
        try:
            yield msgspec.structs.replace(held, attention=attention)
        finally:
            _choose(held.model, held.attention)


def others(instance: Instance) -> list[str]:
    """Implementations that the model could attend with, beside the one that it does."""
    own: Any = getattr(instance, "attention", None)
    return [name for name in ATTENTIONS if name != own] if own is not None else []


def _choose(model: Any, attention: str) -> None:
    from mlxdiag.models.torch import library

    try:
        with library.quiet():
            model.set_attn_implementation(attention)
    except (ValueError, ImportError) as error:
        said = " ".join(str(error).split()).partition(". ")[0]
        raise UnjudgedError(f"transformers refuses it: {said[:200]}") from None
