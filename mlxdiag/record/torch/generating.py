"""`generate`: its decoding loops, and what they let be known of tokens without waiting for a device.

Read against `transformers/generation/utils.py` of transformers 5.24.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from transformers.generation import GenerationMixin, candidate_generator
from transformers.generation.stopping_criteria import StoppingCriteriaList

from mlxdiag.models.torch import probe_rows
from mlxdiag.record.recorder import Recorder
from mlxdiag.record.torch.announce import has_encoder
from mlxdiag.record.torch.caches import Caches
from mlxdiag.record.torch.generation import Generation, Given, Threads

LOOPS = ("_sample", "_beam_search", "_assisted_decoding")
Wrapper = Callable[..., Any]


def install(recorder: Recorder, caches: Caches) -> None:
    """Follow every decoding loop that begins from now on."""
    hooks = Loops(recorder, caches)
    add = recorder.patches.add
    for name in LOOPS:
        if hasattr(GenerationMixin, name):
            add(GenerationMixin, name, hooks.loop)
    add(StoppingCriteriaList, "__call__", hooks.judged)
    for drafter in vars(candidate_generator).values():
        if isinstance(drafter, type) and "get_candidates" in vars(drafter):
            add(drafter, "get_candidates", hooks.drafted)


class Loops:
    """Makes the wrappers; one for each recorder."""

    def __init__(self, recorder: Recorder, caches: Caches) -> None:
        self.recorder = recorder
        self.caches = caches
        self._threads = Threads()

    def loop(self, original: Wrapper) -> Wrapper:
        beams = original.__name__ == "_beam_search"

        def decode(model: Any, input_ids: Any, *args: Any, **kwargs: Any) -> Any:
            outer = self._threads.running
            answer = self.recorder.guarded(self._begin, model, input_ids, kwargs, beams)
            if answer is None:
                return original(model, input_ids, *args, **kwargs)
            self._threads.running = answer
            self.recorder.naming(answer.rows)
            result, failed = None, True
            # Beams take each other's keys over; what a row is stays the same.
            quiet = self.recorder.unheard() if beams else nullcontext()
            try:
                with quiet:
                    result = original(model, input_ids, *args, **kwargs)
                failed = False
                return result
            finally:
                self._threads.running = outer
                self.recorder.naming(outer.rows if outer is not None else None)
                self.recorder.guarded(answer.end, result, failed)

        return decode

    def _begin(self, model: Any, ids: Any, kwargs: dict[str, Any], beams: bool) -> Generation | None:
        if has_encoder(model):
            return None
        self.recorder.models.name_of(model)
        cache, mask = kwargs.get("cache"), kwargs.get("attention_mask")
        real = probe_rows.real_of(mask, ids.shape[0])
        left = [0] * ids.shape[0] if mask is None else None if real is None else probe_rows.in_front(real)
        if cache is not None and hasattr(cache, "__dict__"):
            # A static cache is given masks that are made already, which say nothing of single rows.
            probe_rows.rows_of(cache).told = left if mask is not None else None
        uids, held = self.caches.uids(cache), self.caches.held(cache)
        right = _behind(real, ids.shape[1], held)
        given = Given(model, ids, kwargs.get("generation_config"), left, right, beams)
        return Generation(self.recorder, given, uids, held, self._threads.running)

    def judged(self, original: Wrapper) -> Wrapper:
        """Called once a round with all tokens so far; they are read when the loop has waited for them."""

        def __call__(criteria: Any, input_ids: Any, *args: Any, **kwargs: Any) -> Any:
            done = original(criteria, input_ids, *args, **kwargs)
            answer = self._threads.running
            if answer is not None:
                self.recorder.guarded(answer.judged, input_ids, done)
            return done

        return __call__

    def drafted(self, original: Wrapper) -> Wrapper:
        def get_candidates(drafter: Any, input_ids: Any, *args: Any, **kwargs: Any) -> Any:
            answer = self._threads.running
            found = original(drafter, input_ids, *args, **kwargs)
            if answer is not None and self._threads.running is answer:
                self.recorder.guarded(answer.drafted, found[0])
            return found

        return get_candidates


def _behind(real: probe_rows.Real | None, prompt: int, held: int) -> list[int] | None:
    """Padding behind the prompt of each row; None where there is none, or nothing tells."""
    # The mask is that of all tokens, of which those that the loop is given may be the new ones alone.
    if real is None or real.shape[1] not in (prompt, held + prompt):
        return None
    return probe_rows.behind(real, range(real.shape[1] - prompt, real.shape[1]))
