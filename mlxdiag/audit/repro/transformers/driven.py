"""A script of a scenario that a loop of transformers runs as a whole."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pprint import pformat
from typing import Any

import msgspec

from mlxdiag.audit.repro.subject import WIDTH, joined, quoted, tolerance
from mlxdiag.audit.repro.transformers import parts
from mlxdiag.audit.repro.transformers.model import Model, weights

CALLED = {
    "generate_left_padding": ("padded",),
    "generate_static": ("padded",),
    "generate_chunked_prefill": ("alone", "one_by_one"),
    "generate_turns": ("alone",),
    "prompt_lookup": ("alone", "one_by_one"),
    "assisted": ("alone",),
    "beams": ("alone",),
    "continuous_batching": ("paged",),
    "continuous_batching_shared": ("paged",),
    "continuous_batching_crowded": ("paged",),
}
"""What each driver needs beside `config`."""

LOOK = '''\
def forward(ids):
    with torch.no_grad():
        return model(input_ids=ids, use_cache=True, cache=DynamicCache(config=model.config)).logits


def against_the_single_pass(answers):
    """What the library tells of its tokens against one forward of the same tokens with a fresh cache."""
    wrong = []
    for number, (prompt, tokens, told) in enumerate(answers):
        whole = forward(torch.tensor([[*prompt, *tokens]]))[0].float()
        logits = whole[len(prompt) - 1 : -1]
        said = logits.log_softmax(-1)[range(len(tokens)), tokens]
        if isinstance(told, float):
            apart = [abs(said.mean().item() - told)]
        elif told.ndim == 1:
            apart = (said - told).abs().tolist()
        else:
            apart = (logits - told.float()).abs().amax(dim=-1).nan_to_num(float("inf")).tolist()
        limit = TOLERANCE * whole.std(unbiased=False).item()
        wrong += [(number, len(prompt) + at, by, limit) for at, by in enumerate(apart) if not by <= limit]
    if wrong:
        number, position, by, limit = wrong[0]
        print("expected: the logits of one forward of the same tokens")
        print(f"seen:     {len(wrong)} differ; the first is token {position} of answer {number}, by {by:.3g}")
        print(f"          (largest {max(w[2] for w in wrong):.3g}; rounding stays below {limit:.2g})")
    return bool(wrong)
'''

MAIN = """\
DECLINES = {declines!r}


def main():
    print(f"torch {{torch.__version__}}, transformers {{transformers.__version__}}, cpu, {{ATTENTION}}")
    print(TITLE)
    try:
        wrong = against_the_single_pass({driver}(model, PROMPTS))
    except Exception as error:
        said = " ".join(str(error).split())
        if any(words in said for words in DECLINES):
            print("OK: it is refused:", said)
            return 0
        print("expected: no exception")
        print(f"seen:     {{type(error).__name__}}: {{said}}")
        wrong = True
    print("FAULT" if wrong else "OK: the fault is not there")
    return 1 if wrong else 0


try:
    model = build()
except Exception as error:
    print(f"could not run: {{error}}")
    sys.exit(2)

if __name__ == "__main__":
    sys.exit(main())
"""


class Driven(msgspec.Struct, frozen=True, kw_only=True):
    """All that such a script is made of."""

    instance: Any
    scenario: str
    prompts: list[list[int]]
    cause: str = ""
    where: str = ""
    seed: int = 0
    tolerance: float = 1e-3


def compose(driven: Driven) -> str:
    """The text of the script."""
    return joined(_parts(driven))


def _parts(driven: Driven) -> Iterator[str]:
    from mlxdiag.audit.libraries import torch_drivers

    name = driven.scenario.replace("-", "_")
    made = Model(driven.instance)
    title = f"{driven.instance.module.__name__} ({driven.instance.name}): {driven.scenario}"
    lines = [title, ""]
    lines += [driven.cause, ""] if driven.cause else []
    lines += [f"Where: {driven.where}", ""] if driven.where else []
    lines += [
        "Looked at: no exception; what it says of its tokens against one forward of the same tokens.",
        "Needs torch and transformers and nothing else: no checkpoint, no network, tiny random weights.",
        "Exit code: 0 right, 1 the fault is there, 2 it could not run.",
    ]
    yield "#!/usr/bin/env python3\n" + quoted(lines)
    imports = [
        "from transformers import GenerationConfig",
        "from transformers.generation.configuration_utils import ContinuousBatchingConfig",
        *made.imports,
    ]
    yield parts.OPENING.format(imports="\n    ".join(imports), caches="DynamicCache")
    settings = [
        f"TITLE = {title!r}",
        *weights(driven.instance, driven.seed),
        tolerance(driven.tolerance),
        f"NEW = {torch_drivers.NEW}",
        f"PROMPTS = {pformat(driven.prompts, width=WIDTH - 10, compact=True)}",
        *made.lines(),
    ]
    yield "\n".join(settings)
    yield parts.BUILD.format(config=made.expression)
    for function in ("config", *CALLED[name], name):
        yield inspect.getsource(getattr(torch_drivers, function)) + "\n"
    yield LOOK
    declines = ("not supported", "does not support", "Invalid layer type", "is only supported")
    yield MAIN.format(declines=declines, driver=name)
