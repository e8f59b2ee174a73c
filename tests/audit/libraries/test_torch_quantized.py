"""The reference of a quantised cache: the library's own rounding, held as floats."""

import torch
from transformers.cache_utils import DynamicCache, Fp8QuantizedLayer

from mlxdiag.audit.libraries.torch_quantized import rounded
from mlxdiag.models.torch.held import Held
from tests.audit.libraries.torch_cells import family


def test_what_is_held_and_what_comes_are_rounded_with_the_scale_of_the_first_update():
    config = family("llama")[0].model.config
    cache = DynamicCache(config=config)
    first, later = torch.randn(2, 1, 2, 5, 32, generator=torch.Generator().manual_seed(0))
    theirs = Fp8QuantizedLayer()
    theirs.update(first, 2 * first)
    for layer in cache.layers:
        layer.update(first, 2 * first)
    (held,) = rounded([Held(cache)])
    due = theirs.update(later, 3 * later)
    for layer in held.cache.layers:
        seen = layer.update(later, 3 * later)
        assert all(torch.equal(a, b) for a, b in zip(seen, due, strict=True))
    assert not torch.equal(due[0][..., :5, :], first)


def test_a_cache_with_a_window_is_rounded_by_nobody():
    (held,) = family("gemma3_text")[0].new_cache()
    assert rounded([held]) is None
