"""What a script for transformers looks at, a function for each way: text to be put together, never run here.

The judgement of what is seen is the other library's, word for word: see `repro.looks`.
"""

from __future__ import annotations

SINGLE_PASS = '''\
def against_the_single_pass(run):
    """Every token's logits against one forward of the same tokens with a fresh dynamic cache."""
    wrong = []
    for seq, held, logits in run.fed:
        once = Held()
        once.cache = DynamicCache(config=model.config)
        once.mask = torch.ones((1, len(held)), dtype=torch.bool)
        whole = forward(torch.tensor([[token for token, _ in held]]), once)[0].float()
        apart = (logits - whole[-logits.shape[0] :]).abs().amax(dim=-1).nan_to_num(float("inf"))
        limit = TOLERANCE * whole.std(unbiased=False).item()
        for position, by in enumerate(apart.tolist(), len(held) - logits.shape[0]):
            if not by <= limit:
                wrong.append((seq, position, by, limit))
    if wrong:
        seq, position, by, limit = wrong[0]
        print("expected: the logits of one forward of the same tokens")
        print(f"seen:     {len(wrong)} differ; the first is {position} of {seq}, by {by:.3g}")
        print(f"          (largest {max(w[2] for w in wrong):.3g}; rounding stays below {limit:.2g})")
    return bool(wrong)
'''

SAMPLED = '''\
def the_sampled_row(run):
    """The row that the recorded program sampled from, against the row of the last real token."""
    wrong = False
    for seq, held, logits, column in run.sampled:
        once = Held()
        once.cache = DynamicCache(config=model.config)
        once.mask = torch.ones((1, len(held)), dtype=torch.bool)
        whole = forward(torch.tensor([[token for token, _ in held]]), once)[0].float()
        apart = (logits - whole[-1]).abs().max().item()
        if not apart <= TOLERANCE * whole.std(unbiased=False).item():
            wrong = True
            print(f"expected: the next token of {seq} from the logits of its last token, {len(held) - 1}")
            print(f"seen:     it is taken from column {column}, padding, whose logits are {apart:.3g} off")
    return wrong
'''

SPY = '''\
class Spy:
    """Watches the attention of one layer; can change its input at one place, and keeps its outputs."""

    forward = 0

    def __init__(self, attention):
        self.place, self.outputs = None, {}
        self.hooks = [
            attention.register_forward_pre_hook(self.before, with_kwargs=True),
            attention.register_forward_hook(self.after),
        ]

    def before(self, module, args, kwargs):
        """The input is the first tensor of rows, columns and features, whatever the family calls it."""
        if self.place is None or self.place[0] != Spy.forward:
            return None
        args, kwargs = list(args), dict(kwargs)
        for given, names in ((args, range(len(args))), (kwargs, list(kwargs))):
            for name in names:
                if isinstance(given[name], torch.Tensor) and given[name].ndim == 3:
                    given[name] = given[name].clone()
                    given[name][self.place[1], self.place[2]] *= -2.0
                    return tuple(args), kwargs
        raise TypeError("the attention is given no tensor of rows, columns and features")

    def after(self, module, args, out):
        self.outputs[Spy.forward] = out[0] if isinstance(out, tuple) else out

    def remove(self):
        for hook in self.hooks:
            hook.remove()
'''

SIGHT = '''\
def by_sight(run):
    """Which positions each query of a layer really sees. Exact: a place of the attention's input is changed,
    and every output that is not bit for bit the same has seen it."""
    wrong = []
    for index, kind, window, sinks in LAYERS:
        spy = Spy(attention_of(index))
        before = observe(spy, None)[1]
        seen = {place: set() for place in run.columns}
        for place in run.columns:
            changed, after = observe(spy, place)
            for forward in range(place[0], changed.forwards):
                differs = (before[forward] != after[forward]).any(dim=-1).tolist()
                for r, row in enumerate(differs):
                    for c in (c for c, differ in enumerate(row) if differ):
                        seen[forward, r, c].add(place)
        spy.remove()
        wrong += judge(run, index, kind, window, sinks, seen)
    for index, kind, seq, position, must, sees in wrong[:4]:
        print(f"expected: layer {index} ({kind}): position {position} of sequence {seq} sees {must}")
        print(f"seen:     layer {index} ({kind}): position {position} of sequence {seq} sees {sees}")
    if len(wrong) > 4:
        print(f"          and {len(wrong) - 4} more")
    return bool(wrong)


def attention_of(index):
    """The module of this layer that keeps its keys in the cache."""
    for module in model.modules():
        if getattr(module, "layer_idx", None) == index and not any(
            hasattr(child, "layer_idx") for child in module.children()
        ):
            return module
    print("could not run: no module says that it is the attention of the layer")
    sys.exit(2)


def observe(spy, place):
    spy.place, spy.outputs = place, {}
    run = Run()
    schedule(run)
    return run, spy.outputs
'''
