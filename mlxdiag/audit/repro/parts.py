"""The fixed frame of a repro script: text that is put together, never run here.

Written for whoever opens the script and knows the library: what happens is plain to read, and nothing in it
comes from anywhere but mlx and mlx-lm.
"""

from __future__ import annotations

OPENING = """\
import copy
import hashlib
import inspect
import os
import sys

os.environ.setdefault("MLX_DISABLE_COMPILE", "1")  # tiny graphs take longer to compile than to run on a CPU
try:
    import mlx.core as mx
    import mlx.nn as nn
    import mlx_lm
    from mlx.utils import tree_flatten, tree_unflatten
    {family}
    from mlx_lm.models import cache as caches
    from mlx_lm.models.cache import make_prompt_cache, trim_prompt_cache
except ImportError as error:
    print(f"could not run: {{error}}")
    sys.exit(2)
"""

BUILD = '''\
def build():
    """The family's own code at a tiny size. Random weights, the same on every machine: queries sharp enough
    for one key more or less to show, and no parameter left at a constant."""
    mx.random.seed(SEED)
    model = family.Model(family.ModelArgs.from_dict(copy.deepcopy(CONFIG)))
    embeddings = {f"{path}.weight" for path, m in model.named_modules() if isinstance(m, nn.Embedding)}
    weights = []
    for name, start in tree_flatten(model.parameters()):
        weights.append((name, draw(name, start, name in embeddings)))
    model.update(tree_unflatten(weights))
    if EMPTIED:
        setattr(model, EMPTIED, mx.array([], dtype=mx.int32))
    mx.eval(model.parameters())
    model.eval()
    return model


def draw(name, start, embedding):
    number = int.from_bytes(hashlib.sha256(f"{SEED}:{name}".encode()).digest()[:8], "little")
    key = mx.random.key(number)
    if start.dtype in (mx.uint8, mx.uint32):  # quantised: random bits
        high, low = mx.random.randint(0, 1 << 16, (2, *start.shape), dtype=mx.uint32, key=key)
        return (high * (1 << 16) + low).astype(start.dtype)
    if not mx.issubdtype(start.dtype, mx.floating):
        return start
    noise = mx.random.normal(start.shape, key=key)
    owner, leaf = ([""] + name.split("."))[-2:]
    first = start.reshape(-1)[0].item()
    constant = mx.all(start == first).item()
    if embedding:
        value = noise * (start.shape[-1] ** -0.5 if SCALED_EMBEDDING else 1)
    elif leaf in MEANS:
        value = MEANS[leaf] + 0.3 * noise
    elif constant and (start.ndim == 1 or first != 0):  # norms, biases, sinks: around where they start
        value = 0.3 * noise if first == 0 else first * (1 + 0.1 * noise)
    elif start.ndim == 1:
        value = start
    else:
        short = start.ndim > 2 and start.shape[-1] <= 8  # a depthwise kernel
        value = noise * (start.shape[-1] * (start.shape[-2] if short else 1)) ** -0.5
    return (value * (SHARPER.get(owner, 1) if leaf == "weight" else 1)).astype(mx.float32)
'''

RUN = '''\
PAD = None


class Refused(Exception):
    """The library says that it cannot do this: a server then takes another way, and nothing goes wrong."""


class Run:
    """One run of the schedule: the tokens that each sequence holds, and the logits of all that were fed."""

    def __init__(self):
        self.held = {}  # sequence -> [(token, (forward, row, column)), ...]
        self.fed = []  # (sequence, what it held then, logits of its new tokens)
        self.columns = []
        self.forwards = 0

    def feed(self, cache, rows):
        """One forward; a row of tokens for each sequence, padding where the scheduler padded."""
        Spy.forward = self.forwards
        ids = mx.array([[0 if token is PAD else token for token in row] for row in rows.values()])
        logits = model(ids, cache=cache).astype(mx.float32)
        mx.eval(logits, [c.state for c in cache or []])
        for r, (seq, row) in enumerate(rows.items()):
            real = [c for c, token in enumerate(row) if token is not PAD]
            self.columns += [(self.forwards, r, c) for c in range(len(row))]
            self.held.setdefault(seq, []).extend((row[c], (self.forwards, r, c)) for c in real)
            if real:
                self.fed.append((seq, list(self.held[seq]), logits[r, real[0] : real[-1] + 1]))
        self.forwards += 1

    def take_back(self, seq, tokens):
        """The newest tokens are not part of the sequence any more."""
        del self.held[seq][-tokens:]
'''


def sampling(run: str) -> str:
    """The source of a `Run` of either library, whose `feed` also keeps the rows that were `sampled`."""
    return run.replace(
        "        self.columns = []\n", "        self.columns, self.sampled = [], []\n"
    ).replace(
        "        self.forwards += 1\n",
        "            if seq in sampled:\n"
        "                taken = logits[r, sampled[seq]]\n"
        "                self.sampled.append((seq, list(self.held[seq]), taken, sampled[seq]))\n"
        "        self.forwards += 1\n",
    )


NO_SPY = """\
class Spy:
    forward = 0
"""

MAIN_OPENING = '''\
def refused(refusal):
    print("OK: it is refused:", " ".join(str(refusal).split()))
    return 0


def broken(error, when, watched=False):
    """An exception of the library's is the fault; one that this script makes itself says nothing of it.
    `watched`: parts of this script stand in the library's way, and without them the schedule ran."""
    place = error.__traceback__
    while place.tb_next is not None:
        place = place.tb_next
    own = place.tb_frame.f_globals is globals()
    said = f"{when}: {type(error).__name__}: {error}"
    if watched or (own and type(error).__name__ != RAISES):
        print(f"could not run: line {place.tb_lineno} of this script: {said}")
        return 2
    print("expected: no exception")
    print(f"seen:     {said}")
    print("FAULT")
    return 1


def main():
    print(f"mlx {mx.__version__}, mlx-lm {mlx_lm.__version__}, {mx.default_device()}")
    print(TITLE)
    run = Run()
    try:
        schedule(run)
    except (Refused, NotImplementedError) as refusal:
        return refused(refusal)
    except Exception as error:
        return broken(error, f"forward {run.forwards + 1}")
'''
