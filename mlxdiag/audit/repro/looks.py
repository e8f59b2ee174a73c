"""What a repro script looks at, a function for each way: text that is put together, never run here."""

from __future__ import annotations

SINGLE_PASS = '''\
def against_the_single_pass(run):
    """Every token's logits against one forward of the same tokens with fresh caches."""
    wrong = []
    for seq, held, logits in run.fed:
        tokens = mx.array([[token for token, _ in held]])
        whole = model(tokens, cache=make_prompt_cache(model))[0].astype(mx.float32)
        apart = mx.abs(logits - whole[-logits.shape[0] :]).max(axis=-1)
        apart = mx.where(mx.isnan(apart), mx.inf, apart)
        limit = TOLERANCE * mx.sqrt(mx.var(whole)).item()
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

GENERATE = '''\
class Guess(nn.Module):
    """A draft model that guesses blindly, so that its drafts are rejected."""

    layers = ()

    def __init__(self, vocab):
        super().__init__()
        self.vocab = vocab

    def __call__(self, tokens, cache=None):
        return mx.random.normal((*tokens.shape, self.vocab), key=mx.random.key(SEED))


def by_generating():
    """The library's own speculative decoding against its plain decoding of the same prompt, both greedy."""
    from mlx_lm.generate import generate_step, speculative_generate_step

    prompt = mx.array(PROMPT)
    plain = [(int(token), scores) for token, scores in generate_step(prompt, model, max_tokens=TOKENS)]
    draft = Guess(plain[0][1].shape[-1])
    drafting = speculative_generate_step(prompt, model, draft, num_draft_tokens=DRAFTS, max_tokens=TOKENS)
    try:
        fast = [(int(token), scores) for token, scores, _ in drafting]
    except ValueError as refusal:
        raise Refused(refusal)
    for number, ((due, before), (given, after)) in enumerate(zip(plain, fast)):
        apart = mx.abs(before - after).max().item()
        if due != given or not apart <= TOLERANCE * mx.sqrt(mx.var(before)).item():
            print("expected: speculative_generate_step gives what generate_step gives")
            print(f"seen:     token {number}: {given}, due {due}; log-probabilities are {apart:.3g} off")
            return True
    return False
'''

SAMPLED = '''\
def the_sampled_row(run):
    """The row that the recorded server sampled from, against the row of the last real token."""
    wrong = False
    for seq, held, logits, column in run.sampled:
        whole = model(mx.array([[token for token, _ in held]]), cache=make_prompt_cache(model))[0]
        whole = whole.astype(mx.float32)
        apart = mx.abs(logits - whole[-1]).max().item()
        if not apart <= TOLERANCE * mx.sqrt(mx.var(whole)).item():
            wrong = True
            print(f"expected: the next token of {seq} from the logits of its last token, {len(held) - 1}")
            print(f"seen:     it is taken from column {column}, padding, whose logits are {apart:.3g} off")
    return wrong
'''

TRIMMING = '''\
def by_trimming(run):
    """Whether each trim takes back as many tokens as it is asked to: callers go by its answer."""
    global trim_prompt_cache
    own, answers = trim_prompt_cache, []

    def noted(cache, tokens):
        answers.append((tokens, own(cache, tokens)))
        return answers[-1][1]

    trim_prompt_cache = noted
    try:
        schedule(Run())
    finally:
        trim_prompt_cache = own
    for asked, done in answers:
        if asked != done:
            print(f"expected: trim_prompt_cache takes {asked} tokens back, and says so")
            print(f"seen:     it says {done}")
    return any(asked != done for asked, done in answers)
'''

STORING = '''\
def by_storing(run):
    """Whether each token's own key and value are among those that a cache gives back to attention. Exact:
    they are looked for bit for bit."""
    calls, kept = [], {}
    kinds = [kind for kind in vars(caches).values() if "update_and_fetch" in getattr(kind, "__dict__", ())]
    for kind in kinds:
        kept[kind] = kind.update_and_fetch
        kind.update_and_fetch = watching(kept[kind], calls)
    again = Run()
    try:
        schedule(again)
    finally:
        for kind, method in kept.items():
            kind.update_and_fetch = method
    wrong = []
    for seq, held, logits in again.fed:
        for position in range(len(held) - logits.shape[0], len(held)):
            forward, row, column = held[position][1]
            stored = [there[row][column] for at, there in calls if at == forward]
            if not stored:
                raise LookupError(f"no cache was given position {position}")
            if not all(stored):
                wrong.append((seq, position, stored.count(False), len(stored)))
    for seq, position, missing, count in wrong[:4]:
        print(f"expected: each layer's cache gives back the key and value of position {position} of {seq}")
        print(f"seen:     {missing} of {count} caches do not: the token does not see itself")
    return bool(wrong)


def watching(method, calls):
    def update_and_fetch(cache, keys, values):
        own = mx.concatenate([keys, values], axis=-1)
        given = method(cache, keys, values)
        held = mx.concatenate(given, axis=-1)
        same = mx.all(own[:, :, :, None] == held[:, :, None], axis=-1)  # row, head, new token, held
        calls.append((Spy.forward, mx.any(mx.all(same, axis=1), axis=-1).tolist()))
        return given

    return update_and_fetch
'''

SPY = '''\
class Spy:
    """Stands in for the attention of one layer; can change its input at one place, and keeps its outputs."""

    forward = 0

    def __init__(self, attention):
        self.attention, self.place, self.outputs = attention, None, {}

    def __call__(self, *args, **kwargs):
        if self.place is not None and self.place[0] == Spy.forward:
            args, kwargs = self.changed(list(args), kwargs)
        out = self.attention(*args, **kwargs)
        self.outputs[Spy.forward] = out[0] if isinstance(out, tuple) else out
        return out

    def changed(self, args, kwargs):
        """The input is the first array of rows, columns and features, whatever the family calls it."""
        for given, names in ((args, range(len(args))), (kwargs, list(kwargs))):
            for name in names:
                if isinstance(given[name], mx.array) and given[name].ndim == 3:
                    given[name] = given[name].at[self.place[1], self.place[2]].multiply(-2.0)
                    return args, kwargs
        raise TypeError("the attention is given no array of rows, columns and features")

    def __getattr__(self, name):
        return getattr(self.attention, name)
'''

ATTENTION_OF = '''\
def attention_of(layer):
    """The part of a layer that is given the cache."""
    for name, part in [*vars(layer).items(), *layer.children().items()]:
        stands_in = not isinstance(part, nn.Module) and hasattr(part, "attention")
        if stands_in or (
            isinstance(part, nn.Module) and "cache" in inspect.signature(type(part).__call__).parameters
        ):
            return name
    print("could not run: no part of the layer takes a cache")
    sys.exit(2)
'''

SIGHT = '''\
def by_sight(run):
    """Which positions each query of a layer really sees. Exact: a place of the attention's input is changed,
    and every output that is not bit for bit the same has seen it."""
    wrong = []
    for index, kind, window, sinks in LAYERS:
        layer = model.layers[index]
        name = attention_of(layer)
        spy = Spy(getattr(layer, name))
        setattr(layer, name, spy)
        before = observe(spy, None)[1]
        seen = {place: set() for place in run.columns}
        for place in run.columns:
            changed, after = observe(spy, place)
            for forward in range(place[0], changed.forwards):
                differs = mx.any(before[forward] != after[forward], axis=-1).tolist()
                for r, row in enumerate(differs):
                    for c in (c for c, differ in enumerate(row) if differ):
                        seen[forward, r, c].add(place)
        setattr(layer, name, spy.attention)
        wrong += judge(run, index, kind, window, sinks, seen)
    for index, kind, seq, position, must, sees in wrong[:4]:
        print(f"expected: layer {index} ({kind}): position {position} of sequence {seq} sees {must}")
        print(f"seen:     layer {index} ({kind}): position {position} of sequence {seq} sees {sees}")
    if len(wrong) > 4:
        print(f"          and {len(wrong) - 4} more")
    return bool(wrong)


def observe(spy, place):
    spy.place, spy.outputs = place, {}
    run = Run()
    schedule(run)
    mx.eval(list(spy.outputs.values()))
    return run, spy.outputs
'''

JUDGE = '''\
def judge(run, index, kind, window, sinks, seen):
    wrong = []
    for seq, held, logits in run.fed:
        for position in range(len(held) - logits.shape[0], len(held)):
            first = 0
            if kind.startswith("sliding") or kind.startswith("capped"):
                first = max(position - window + 1, 0)
            elif kind.startswith("chunked"):
                first = position // window * window
            must = {place for _, place in held[first : position + 1]}
            free = set()
            if kind.startswith("capped"):
                # Pinned keys are documented; masks for several tokens hide them. Older ones may be held.
                pinned = {place for _, place in held[: min(sinks, position)]}
                free = {place for _, place in held[max(first - sinks, 0) : first]} - pinned
                if logits.shape[0] == 1:
                    must |= pinned
                else:
                    free |= pinned
            sees = seen[held[position][1]]
            if sees - free != must - free:
                said = [told(run, seq, held, places) for places in (must, sees)]
                wrong.append((index, kind, seq, position, *said))
    return wrong


def told(run, seq, held, places):
    """Positions as ranges; what the sequence does not hold by what it is."""
    own = {place: at for at, (_, place) in enumerate(held)}
    others = {place: name for name, theirs in run.held.items() if name != seq for _, place in theirs}
    numbers = sorted(own[place] for place in places if place in own)
    parts = []
    for n in numbers:
        if parts and parts[-1][1] == n - 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    said = [str(a) if a == b else f"{a}..{b}" for a, b in parts]
    said += [f"a token of sequence {others[p]}" for p in places if p not in own and p in others]
    rest = sum(p not in own and p not in others for p in places)
    return ", ".join(said + ([f"{rest} that are padding or were taken back"] if rest else [])) or "nothing"
'''
