"""What a replay says in two sentences: what the mask did, and what changed the answer."""

from __future__ import annotations

from mlxdiag.replay.experiment import Ran
from mlxdiag.replay.outcome import Outcome, StepOutcome
from mlxdiag.traces.types import Trace

CUTS = {
    "used:sliced:old": "keys cut at their old end",
    "used:sliced:new": "keys cut at their new end",
}
"""Fates as the trace writes them that nobody reads as a sentence."""


def sentences(ran: Ran) -> list[str]:
    """The verdict on one policy's run."""
    outcome = ran.outcome
    looked = (_leak(outcome), _mask(outcome), _padding(outcome, ran.trace), _rest(outcome))
    said = [text for text in looked if text]
    if outcome.crash is not None:
        said.append(_crash(outcome))
    if not said:
        said.append(_clean(outcome))
    return said


def _leak(outcome: Outcome) -> str | None:
    """Keys of another sequence: worse than any wrong answer, so it is said first."""
    step = next((s for s in outcome.steps if s.foreign), None)
    if step is None:
        return None
    return (
        f"Step {step.step} ({step.phase}) lets a sequence see another one's keys: {step.foreign} pairs of "
        f"query and key{_apart(step)}."
    )


def _mask(outcome: Outcome) -> str | None:
    """The first step with a mask that does not fit, and whether that changed attention."""
    step = next((s for s in outcome.steps if s.misfits and s.error is None), None)
    if step is None:
        return None
    lengths = " and ".join(f"{k} {family}" for family, _, k in step.misfits)
    columns = "/".join(dict.fromkeys(str(m) for _, m, _ in step.misfits))
    done = ", ".join(f"{family} {CUTS.get(fate, fate)}" for family, fate in step.fates) or "used as it is"
    opening = f"Step {step.step}: a mask of {columns} columns meets {lengths} keys ({done})"
    if not step.queries and step.max_abs is None:
        return f"{opening}; no mask was read and no logits compared, so what that changes is not known."
    if not step.queries and _right(step):
        return f"{opening}; that is a key-axis mismatch, and here it changes nothing{_agree(step, ': its')}."
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
    steps = [s for s in outcome.steps if s.padding and not s.foreign]
    padded = [s for s in steps if not s.only_taken_back]
    for what, seen in (
        ("padding", padded),
        ("tokens that were taken back are still in the cache and", [s for s in steps if s.taken_back]),
    ):
        if seen:
            verb = "left in the cache is attended" if seen is padded else "attended"
            times = f" (in {len(seen)} steps)" if len(seen) > 1 else ""
            parts.append(f"from step {seen[0].step} on {what} {verb}{times}{_apart(seen[0])}")
    if not parts:
        return None
    parts[:0] = _kept(trace) if steps else []
    opening = "The padding does change the answer" if padded or sampled else "The answer changes"
    return f"{opening}: " + "; ".join(parts) + "."


def _kept(trace: Trace) -> list[str]:
    """The first trim or rollback that left something behind."""
    for entry in trace.entries:
        for row in entry.rows or [] if entry.kind in ("trim", "rollback") else []:
            if row.asked is not None and row.done is not None and row.done < row.asked:
                return [f"step {entry.step} takes back {row.done} of the {row.asked} tokens asked"]
    return []


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


def _agree(step: StepOutcome, joined: str = ", and their") -> str:
    if step.max_abs is None:
        return ""
    return f"{joined} logits agree with the single pass (largest difference {step.max_abs:.2g})"


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
    elif step.compared and (step.empty or step.wrong_window) and not step.nan:
        parts.append(
            "and the single pass gives the same logits, so it has the same fault: it is the library's"
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
