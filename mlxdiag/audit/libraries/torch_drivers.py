"""The loops of transformers itself, each called as a program calls it: text of the standalone scripts, too.

Every function takes a model and prompts, and returns for each answer its prompt, the tokens that followed,
and what the library says of them: logits `[n, V]`, log-probabilities `[n]`, or their mean. Greedy, and never
ended by a special id.
"""

# The source of these functions goes into scripts, which must run without this package.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import copy

import torch
from transformers import DynamicCache, GenerationConfig
from transformers.generation.configuration_utils import ContinuousBatchingConfig

NEW = 12
"""Tokens that follow each prompt: past a tiny window."""


def config(**more):
    """Greedy, `NEW` tokens, whatever they are."""
    settings = {"max_new_tokens": NEW, "do_sample": False, "pad_token_id": 0, "eos_token_id": -1}
    return GenerationConfig(**settings, output_logits=True, return_dict_in_generate=True, **more)


def alone(prompt):
    """A row of ids, all of them meant: without a mask the library takes padding ids for padding."""
    ids = torch.tensor([prompt])
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def one_by_one(model, prompts, **more):
    """Each prompt in a call of its own."""
    answers = []
    for prompt in prompts:
        out = model.generate(**alone(prompt), generation_config=config(**more))
        tokens = out.sequences[0, len(prompt) :].tolist()
        answers.append((prompt, tokens, torch.stack([step[0] for step in out.logits])))
    return answers


def padded(model, prompts, **more):
    """All prompts in one call, padded on the left."""
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    out = model.generate(ids, attention_mask=mask, generation_config=config(**more))
    return [
        (prompt, out.sequences[row, width:].tolist(), torch.stack([step[row] for step in out.logits]))
        for row, prompt in enumerate(prompts)
    ]


def generate_left_padding(model, prompts):
    return padded(model, prompts)


def generate_static(model, prompts):
    return padded(model, prompts, cache_implementation="static", disable_compile=True)


def generate_chunked_prefill(model, prompts):
    return one_by_one(model, prompts, prefill_chunk_size=5)


def generate_turns(model, prompts):
    """A second turn on the cache of the first one."""
    answers = []
    for prompt, more in zip(prompts, [*prompts[1:], prompts[0]], strict=True):
        cache = DynamicCache(config=model.config)
        first = model.generate(**alone(prompt), cache=cache, generation_config=config())
        whole = first.sequences[0].tolist() + more[:3]
        out = model.generate(**alone(whole), cache=cache, generation_config=config())
        tokens = out.sequences[0, len(whole) :].tolist()
        answers.append((whole, tokens, torch.stack([step[0] for step in out.logits])))
    return answers


def prompt_lookup(model, prompts):
    """Every prompt is said twice, so that there is something to look up."""
    return one_by_one(model, [prompt + prompt for prompt in prompts], prompt_lookup_num_tokens=3)


def assisted(model, prompts):
    """The draft model is the model itself, its weights shaken: some of what it drafts is taken."""
    draft = copy.deepcopy(model)
    noise = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for value in draft.parameters():
            value.mul_(1 + 0.05 * torch.randn(value.shape, generator=noise))
    answers = []
    for prompt in prompts:
        out = model.generate(**alone(prompt), assistant_model=draft, generation_config=config())
        tokens = out.sequences[0, len(prompt) :].tolist()
        answers.append((prompt, tokens, torch.stack([step[0] for step in out.logits])))
    return answers


def beams(model, prompts):
    """Three beams; the score of the best is the mean of its log-probabilities."""
    answers = []
    for prompt in prompts:
        told = config(num_beams=3, output_scores=True)
        out = model.generate(**alone(prompt), generation_config=told)
        tokens = out.sequences[0, len(prompt) :].tolist()
        answers.append((prompt, tokens, out.sequences_scores[0].item()))
    return answers


def paged(model, prompts, **more):
    """Continuous batching, a few tokens a step, so that prompts are cut and requests share forwards."""
    before = model.config._attn_implementation
    settings = {"page_size": 4, "num_blocks": 64, "max_batch_tokens": 16, "seed": 0, **more}
    told = ContinuousBatchingConfig(return_logprobs=True, **settings)
    greedy = GenerationConfig(max_new_tokens=NEW, do_sample=False, pad_token_id=0, eos_token_id=-1)
    try:
        out = model.generate_batch(
            prompts, generation_config=greedy, continuous_batching_config=told, warmup=False
        )
    finally:
        model.set_attn_implementation(before)
    found = sorted(out.values(), key=lambda answer: int(answer.request_id.rpartition("_")[2]))
    failed = sorted({str(answer.error) for answer in found if answer.error})
    if failed:
        raise RuntimeError("; ".join(failed))
    if len(found) != len(prompts):
        raise RuntimeError(f"{len(prompts) - len(found)} of {len(prompts)} requests were lost")
    return [(answer.prompt_ids, answer.generated_tokens, torch.tensor(answer.logprobs)) for answer in found]


def continuous_batching(model, prompts):
    return paged(model, prompts)


def continuous_batching_shared(model, prompts):
    """One request at a time, each beginning with what the first one left in its pages."""
    begun = prompts[0]
    return paged(model, [begun, *(begun[:8] + prompt for prompt in prompts[1:])], max_requests_per_batch=1)


def continuous_batching_crowded(model, prompts):
    """Too few pages for all requests at once."""
    return paged(model, prompts, num_blocks=12)
