"""What a replay says in two sentences: what the mask did, and what changed the answer."""

from __future__ import annotations

from mlxdiag.replay.experiment import Ran
from mlxdiag.replay.outcome import Outcome, StepOutcome
from mlxdiag.traces.types import Trace


def sentences(ran: Ran) -> list[str]:
    """The verdict on one policy's run."""
    outcome = ran.outcome
    said = [text for text in (_mask(outcome), _padding(outcome, ran.trace), _rest(outcome)) if text]
    if outcome.crash is not None:
        said.append(_crash(outcome))
    if not said:
        said.append(_clean(outcome))
    return said


def _mask(outcome: Outcome) -> str | None:
    """The first step with a mask that does not fit, and whether that changed attention."""
    step = next((s for s in outcome.steps if s.misfits and s.error is None), None)
    if step is None:
        return None
    lengths = " and ".join(f"{k} {family}" for family, _, k in step.misfits)
    columns = "/".join(dict.fromkeys(str(m) for _, m, _ in step.misfits))
    done = ", ".join(f"{family} {fate}" for family, fate in step.fates) or "used as it is"
    opening = f"Step {step.step}: a mask of {columns} columns meets {lengths} keys ({done})"
    if _right(step):
        return (
            f"{opening}; that is a key-axis mismatch, and here it changes nothing: all {step.queries} real "
            f"queries attend exactly the positions they must{_agree(step)}."
        )
    return f"{opening}; this changes attention: {_damage(step)}."


def _padding(outcome: Outcome, trace: Trace) -> str | None:
    """Padding that stays visible, and a token sampled from a padding row."""
    parts = []
    sampled = _sampled_from_padding(trace)
    if sampled is not None:
        step, row, last = sampled
        parts.append(f"step {step} samples from row {row}, a padding row (the last real one is {last})")
    seen = next((s for s in outcome.steps if s.padding), None)
    if seen is not None:
        more = sum(1 for s in outcome.steps if s.padding) - 1
        parts.append(
            f"from step {seen.step} on padding left in the cache is attended"
            + (f" (in {more + 1} steps)" if more else "")
            + _apart(seen)
        )
    if not parts:
        return None
    return "The padding does change the answer: " + "; ".join(parts) + "."


def _rest(outcome: Outcome) -> str | None:
    """The first wrong step that neither a misfit nor padding explains."""
    step = next((s for s in outcome.steps if not _right(s) and not s.misfits and not s.padding), None)
    if step is None or any((s.misfits and not _right(s)) or s.padding for s in _before(outcome, step)):
        return None
    return f"Step {step.step} ({step.phase}) is wrong though every length fits: {_damage(step)}."


def _before(outcome: Outcome, step: StepOutcome) -> list[StepOutcome]:
    return list(outcome.steps[: outcome.steps.index(step)])


def _crash(outcome: Outcome) -> str:
    return f"The run ends at step {outcome.crash_step}: {outcome.crash}"


def _clean(outcome: Outcome) -> str:
    queries = sum(step.queries for step in outcome.steps)
    read = (
        f"All {queries} real queries attend exactly the positions they must"
        if queries
        else "No mask was read"
    )
    if outcome.max_abs is None:
        return f"{read}; logits were not compared."
    return (
        f"{read}; the logits of {outcome.compared} positions agree with the single pass "
        f"(largest difference {outcome.max_abs:.2g}, tolerance {outcome.tolerance:.2g})."
    )


def _right(step: StepOutcome) -> bool:
    return not (step.empty or step.wrong_window or step.padding or step.nan or step.first is not None)


def _agree(step: StepOutcome) -> str:
    if step.max_abs is None:
        return ""
    return f", and their logits agree with the single pass (largest difference {step.max_abs:.2g})"


def _damage(step: StepOutcome) -> str:
    parts = []
    if step.empty:
        parts.append(f"{step.empty} queries see no key at all")
    if step.wrong_window:
        parts.append(f"{step.wrong_window} of {step.queries} queries do not see what they must")
    if step.nan:
        parts.append(f"{step.nan} positions have NaN logits")
    if step.first is not None:
        parts.append(
            f"logits part from the single pass at position {step.first} (by up to {step.max_abs:.2g})"
        )
    return ", ".join(parts) or "padding is attended"


def _apart(step: StepOutcome) -> str:
    if step.first is None:
        return ""
    return f", and the logits are off by up to {step.max_abs:.2g} at position {step.first}"


def _sampled_from_padding(trace: Trace) -> tuple[int | None, int, int] | None:
    for entry in trace.entries:
        for row, output in zip(entry.rows or [], entry.output or [], strict=False):
            if output.row is None or not row.tokens:
                continue
            last = (row.left_padding or 0) + row.tokens - 1
            if output.row > last:
                return entry.step, output.row, last
    return None
