"""The fixed frame of a script for transformers: text that is put together, never run here.

Written for whoever opens the script and knows the library: what happens is plain to read, and nothing in it
comes from anywhere but torch and transformers.
"""

from __future__ import annotations

OPENING = """\
import copy
import hashlib
import inspect
import os
import sys
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.simplefilter("ignore")
try:
    import torch
    import transformers
    {imports}
    from transformers.cache_utils import {caches}
except ImportError as error:
    print(f"could not run: {{error}}")
    sys.exit(2)
torch.set_num_threads(1)
transformers.utils.logging.set_verbosity_error()
"""

BUILD = '''\
def build():
    """The family's own code at a tiny size. Random weights, the same on every machine: queries sharp enough
    for one key more or less to show, and no parameter left at a constant."""
    torch.manual_seed(SEED)
    model = Model._from_config({config}, dtype=torch.float32, attn_implementation=ATTENTION)
    if model._can_set_experts_implementation():
        model.set_experts_implementation("eager")
    embeddings = {{id(m.weight) for m in model.modules() if isinstance(m, torch.nn.Embedding)}}
    turned = {{
        id(p)
        for m in model.modules()
        if getattr(m, "is_transposed", False)
        for p in m.parameters(recurse=False)
    }}
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.copy_(draw(name, value, id(value) in embeddings, id(value) in turned))
    return model.eval()


def draw(name, start, embedding, turned):
    digest = hashlib.sha256(f"{{SEED}}:{{name}}".encode()).digest()
    number = int.from_bytes(digest[:8], "little") >> 1
    noise = torch.randn(start.shape, generator=torch.Generator().manual_seed(number))
    owner, leaf = ([""] + name.split("."))[-2:]
    first, whole = start.reshape(-1)[0], bool(torch.isfinite(start).all())
    constant = bool((start == first).all()) if whole else start.ndim == 1
    first = first if whole else torch.zeros(())
    if embedding:
        value = noise * (start.shape[-1] ** -0.5 if SCALED_EMBEDDING else 1)
    elif leaf in MEANS:
        value = MEANS[leaf] + 0.3 * noise
    elif constant and (start.ndim == 1 or first != 0):  # norms, biases, sinks: around where they start
        mean = 1 if ONE_MORE and first == 0 and leaf == "weight" else first
        value = 0.3 * noise if mean == 0 else mean * (1 + 0.1 * noise)
    elif start.ndim <= 1:
        value = start
    else:
        short = start.ndim > 2 and start.shape[-1] <= 8  # a convolution
        width = start.shape[-1] * start.shape[-2] if short else start.shape[-2 if turned else -1]
        value = noise * max(width, 1) ** -0.5
    return value * (SHARPER.get(owner, 1) if leaf == "weight" else 1)
'''

RUN = '''\
PAD = None


class Refused(Exception):
    """The library says that it cannot do this: a program then takes another way, and nothing goes wrong."""


class Held:
    """What a program keeps of one sequence or batch: the library's cache, and the 2-D mask beside it."""

    def __init__(self):
        self.cache, self.mask = {fresh}, None


def forward(ids, held=None):
    """Logits, and the mask and positions given as `generate` gives them."""
    cache = None if held is None else held.cache
    told = {{"use_cache": False}} if cache is None else {{"use_cache": True, "cache": cache}}
    if held is not None:
        if not held.mask.all():
            told["attention_mask"] = held.mask.long()
        if "position_ids" in inspect.signature(model.forward).parameters:
            positions = (held.mask.long().cumsum(1) - 1).masked_fill(~held.mask, 0)
            told["position_ids"] = positions[:, -ids.shape[1] :]
    with torch.no_grad():
        out = model(input_ids=ids, **told)
    return {logits}


class Run:
    """One run of the schedule: the tokens that each sequence holds, and the logits of all that were fed."""

    def __init__(self):
        self.held = {{}}  # sequence -> [(token, (forward, row, column)), ...]
        self.fed = []  # (sequence, what it held then, logits of its new tokens)
        self.columns = []
        self.forwards = 0

    def feed(self, held, rows):
        """One forward; a row of tokens for each sequence, padding where the scheduler padded."""
        Spy.forward = self.forwards
        ids = torch.tensor([[0 if token is PAD else token for token in row] for row in rows.values()])
        real = torch.tensor([[token is not PAD for token in row] for row in rows.values()])
        if held is not None:
            held.mask = real if held.mask is None else torch.cat([held.mask, real], dim=1)
        logits = forward(ids, held).float()
        for r, (seq, row) in enumerate(rows.items()):
            own = [c for c, token in enumerate(row) if token is not PAD]
            self.columns += [(self.forwards, r, c) for c in range(len(row))]
            self.held.setdefault(seq, []).extend((row[c], (self.forwards, r, c)) for c in own)
            if own:
                self.fed.append((seq, list(self.held[seq]), logits[r, own[0] : own[-1] + 1]))
        self.forwards += 1

    def take_back(self, seq, tokens):
        """The newest tokens are not part of the sequence any more."""
        del self.held[seq][-tokens:]
'''

NO_SPY = """\
class Spy:
    forward = 0
"""

MAIN = '''\
DECLINES = ("does not track past states", "can only be cropped", "is only supported")


def broken(error, when, watched=False):
    """An exception of the library's is the fault; one that this script makes itself says nothing of it."""
    said = " ".join(str(error).split())
    if any(words in said for words in DECLINES):
        print("OK: it is refused:", said)
        return 0
    place = error.__traceback__
    while place.tb_next is not None:
        place = place.tb_next
    if watched or place.tb_frame.f_globals is globals():
        print(f"could not run: line {place.tb_lineno} of this script: {type(error).__name__}: {said}")
        return 2
    print("expected: no exception")
    print(f"seen:     {when}: {type(error).__name__}: {said}")
    print("FAULT")
    return 1


def main():
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, cpu, {ATTENTION}")
    print(TITLE)
    run = Run()
    try:
        schedule(run)
    except Refused as refusal:
        print("OK: it is refused:", refusal)
        return 0
    except Exception as error:
        return broken(error, f"forward {run.forwards + 1}")
'''

CALLS = {
    "without_cache": '''\
def without_cache():
    """The mask that says what is padding, and no cache beside it."""
    held = Held()
    held.cache = None
    return held
''',
    "trim": '''\
def trim(held, tokens):
    """As a program does it: it asks first, and feeds the prompt again where the answer is no."""
    if not held.cache.is_croppable:
        raise Refused("is_croppable is false")
    take(held, tokens)
''',
    "take": '''\
def take(held, tokens):
    """Take tokens off the end, of the cache and of the mask."""
    held.cache.crop(-tokens)
    held.mask = held.mask[:, :-tokens]
''',
    "trim_some": '''\
def trim_some(held, tokens):
    """Not every layer gives tokens back, as recorded: `tokens` by layer."""
    for layer, count in zip(held.cache.layers, tokens):
        if count:
            layer.crop(-count)
    held.mask = held.mask[:, : held.mask.shape[1] - min(filter(None, tokens), default=0)]
''',
    "evict": '''\
def evict(held, cap, sinks):
    """Drop the oldest keys of the layers that can, down to `cap`, as the recorded program did."""
    for layer in held.cache.layers:
        if hasattr(layer, "drop_front") and layer.live > cap:
            layer.drop_front(layer.live - cap, min(sinks, cap - 1))
''',
    "merge": '''\
def merge(*rows):
    """Rows that hold nothing yet begin as one cache, as in generate."""
    return rows[0]
''',
    "keep_rows": '''\
def keep_rows(held, rows):
    """Go on with these rows only."""
    held.cache.batch_select_indices(torch.tensor(rows))
    held.mask = held.mask[rows]
''',
    "extract": '''\
def extract(held, row):
    """A copy of one row, its padding included."""
    copied = copy.deepcopy(held)
    keep_rows(copied, [row])
    return copied
''',
    "through_a_file": '''\
def through_a_file(held):
    """Save and load."""
    import io

    file = io.BytesIO()
    torch.save(held.cache, file)
    file.seek(0)
    held.cache = torch.load(file, weights_only=False)
    return held
''',
}
"""Short functions around the library's methods, by name; a script holds those that it calls."""
NEEDS = {"trim": ("take",), "extract": ("keep_rows",)}
