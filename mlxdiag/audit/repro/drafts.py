"""Speculative decoding in a script: the library's own loop, told what draft and target find."""

from __future__ import annotations

from mlxdiag.audit.judge import drafted
from mlxdiag.replay.ops import Plan
from mlxdiag.replay.prompts import Prompt

SPECULATE = '''\
def speculate(run, seq, given, prompt, drafted, found, bits=None):
    """Speculative decoding on caches that the caller gives, as the server does it. The sampler makes draft
    and target find the tokens of this schedule, round by round; the model is its own draft."""
    from mlx_lm.generate import speculative_generate_step

    coming, rounds = sum(drafted, []), list(found)

    class Target:
        def __getattr__(self, name):
            return getattr(model, name)

        def __call__(self, ids, cache):
            run.feed(cache, {seq: ids[0].tolist()})
            return run.fed[-1][2][None]

    def draft(ids, cache):
        Spy.forward = -1
        return model(ids, cache=cache)

    def sampler(logprobs):
        if logprobs.shape[0] == 1:
            return mx.array([coming.pop(0)], mx.uint32)
        taken = rounds.pop(0)
        rejected = logprobs.shape[0] - len(taken)
        if rejected:
            run.take_back(seq, rejected)
        return mx.array(taken + [0] * rejected, mx.uint32)

    steps = speculative_generate_step(
        mx.array(prompt), Target(), draft, num_draft_tokens=len(drafted[0]), max_tokens=sum(map(len, found)),
        sampler=sampler, prompt_cache=given, kv_bits=bits, kv_group_size=32, quantized_kv_start=0,
        stream=mx.default_stream(mx.default_device()),
    )  # fmt: skip
    try:
        list(steps)
    except ValueError as refusal:
        if "trimmable" not in str(refusal):
            raise
        raise Refused(refusal)
'''

BEGIN = '''\
def begin(cache, prompt, rest):
    """What the server does with a request once its prompt cache has answered."""
    from mlx_lm.generate import BatchGenerator, generate_step

    if all(hasattr(c, "merge") for c in cache):
        stored = prompt[: len(prompt) - len(rest)]
        BatchGenerator(model).insert_segments([[rest] if rest else []], caches=[cache], all_tokens=[stored])
    elif not rest:
        next(generate_step(mx.array(rest, mx.uint32), model, prompt_cache=cache))
'''


def lines(plan: Plan, prompt: Prompt, seq: str, name: str, fresh: str) -> list[str]:
    """The loop's part of a plan, on caches in a variable of this name."""
    told = drafted.rounds(plan, prompt)
    bits = f", bits={plan.scheduler.kv_bits}" if plan.scheduler.kv_bits else ""
    return [
        f"{name} = {fresh}",
        f"given = [*{name}, *{fresh}]  # of the model and of its draft, as the server makes them",
        f"drafted = {told.drafted}",
        f"found = {told.found}  # by round: drafts that are taken, and a token of the model's own",
        f"speculate(run, {seq!r}, given, {told.prompt}, drafted, found{bits})",
        f"{name} = given[: len({name})]",
    ]
