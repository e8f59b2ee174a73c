"""Short functions of a script around the library's own methods: text, never run here."""

from __future__ import annotations

from mlxdiag.audit.repro.drafts import BEGIN, SPECULATE

HELPERS = {
    "speculate": SPECULATE,
    "begin": BEGIN,
    "trim": '''\
def trim(cache, tokens):
    """As a server does it: it asks first, and prefills again where the answer is no."""
    if not caches.can_trim_prompt_cache(cache):
        raise Refused("can_trim_prompt_cache says no")
    trim_prompt_cache(cache, tokens)
''',
    "merge": '''\
def merge(*rows):
    """One batch cache per layer."""
    return [type(layer[0]).merge(list(layer)) for layer in zip(*rows)]
''',
    "extract": '''\
def extract(batch, row):
    """The caches of one row, as a single sequence."""
    return [cache.extract(row) for cache in batch]
''',
    "keep_rows": '''\
def keep_rows(batch, rows):
    """Go on with these rows only."""
    for cache in batch:
        cache.filter(rows)
''',
    "extend": '''\
def extend(batch, other):
    """Append the rows of another batch."""
    for cache, more in zip(batch, other):
        cache.extend(more)
''',
    "pad_left": '''\
def pad_left(batch, padding):
    """Announce padding in front of the rows of an empty batch."""
    for cache in [c for held in batch for c in getattr(held, "caches", (held,))]:
        if hasattr(cache, "update_and_fetch"):
            cache.prepare(left_padding=padding)
        else:
            cache.left_padding = mx.array(padding)
''',
    "announce": '''\
def announce(batch, lengths, right_padding):
    """What the next forwards feed: real tokens and then padding, row by row."""
    for cache in batch:
        cache.prepare(lengths=lengths, right_padding=right_padding)
''',
    "finalize": '''\
def finalize(batch):
    """Roll the right padding to the front of the rows."""
    for cache in batch:
        if hasattr(cache, "finalize"):
            cache.finalize()
''',
    "through_a_file": '''\
def through_a_file(cache):
    """Save and load, as mlx_lm.cache_prompt and mlx_lm.generate do."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        caches.save_prompt_cache(f"{folder}/prompt.safetensors", cache)
        loaded = caches.load_prompt_cache(f"{folder}/prompt.safetensors")
        mx.eval([c.state for c in loaded])
        return loaded
''',
    "quantize": '''\
def quantize(cache, bits):
    """As maybe_quantize_kv_cache does."""
    for i, c in enumerate(cache):
        if hasattr(c, "to_quantized"):
            cache[i] = c.to_quantized(group_size=32, bits=bits)
''',
    "trim_some": '''\
def trim_some(cache, tokens):
    """Not every layer gives tokens back, as recorded: `tokens` by place in the list of caches."""
    for c, n in zip(cache, tokens):
        if n and c.is_trimmable():
            c.trim(n)
''',
    "evict": '''\
def evict(cache, cap, sinks):
    """Drop the oldest keys of the dense layers down to `cap`, as the recorded server did."""
    for c in cache:
        if hasattr(c, "trim_front_keep_sink") and c.live > cap:
            c.trim_front_keep_sink(c.live - cap, min(sinks, cap - 1))
''',
}
"""Short functions around the library's methods, by name; a script holds those that it calls."""
