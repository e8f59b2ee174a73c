"""A tiny random instance of a family: the library's own code with a real window and layer pattern."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlxdiag.errors import MlxdiagError
from mlxdiag.models.adapter import Skipped
from mlxdiag.models.configs.cut import cut, kept_layers
from mlxdiag.models.configs.draws import DRAWS, Draw
from mlxdiag.models.configs.geometry import from_config, text_of
from mlxdiag.models.configs.sizes import MIN_VOCAB
from mlxdiag.models.mlx import library
from mlxdiag.models.mlx.families import EMPTIED
from mlxdiag.models.mlx.instance import MlxInstance, cache_count, device_name, text_module
from mlxdiag.models.mlx.weights import randomise


def build(
    config: Mapping[str, Any],
    *,
    seed: int = 0,
    dtype: str = "float32",
    window: int | None = None,
    positions: int = 0,
    name: str | None = None,
) -> MlxInstance | Skipped:
    """Build the family that a (real) config names, cut in widths, depth and vocabulary only.

    `window` replaces every window of the config, `positions` is how many distinct prompt tokens will be
    fed. Equal arguments give equal weights. Returns Skipped for a family that the library lacks or cannot
    build here; raises UnreadableError for a config that contradicts itself.
    """
    outer = library.wrapped(config)
    whole = from_config(outer)
    small, kept = tiny_config(outer, window=window, vocab=max(MIN_VOCAB, positions + 256))
    if isinstance(small, Skipped):
        return small
    return instance(small, kept, seed=seed, dtype=dtype, name=name or f"tiny-{whole.architecture}")


def tiny_config(
    config: Mapping[str, Any], *, window: int | None, vocab: int
) -> tuple[dict[str, Any] | Skipped, tuple[int, ...]]:
    """The cut config and the layers that it keeps."""
    outer = library.wrapped(config)
    whole = from_config(outer)
    kept = kept_layers(whole)
    nested = "text_config" in outer
    text = text_of(outer)
    module = _text_family(outer, text)
    if isinstance(module, Skipped):
        return module, kept
    small = cut(text, whole, kept, vocab, window, library.defaults(module, nested))
    if not nested:
        return small, kept
    top = {key: value for key, value in outer.items() if key != "text_config"}
    return {**top, "vocab_size": vocab, "text_config": small}, kept


def _text_family(outer: Mapping[str, Any], text: Mapping[str, Any]) -> Any:
    """The module whose arguments the text config becomes: its own, or else the wrapper's."""
    wrapper = library.family_of(outer)
    if isinstance(wrapper, Skipped) or "text_config" not in outer:
        return wrapper
    inner = library.family_of(text)
    return wrapper if isinstance(inner, Skipped) else inner


def instance(
    small: dict[str, Any],
    kept: tuple[int, ...] = (),
    *,
    seed: int = 0,
    dtype: str = "float32",
    name: str,
) -> MlxInstance | Skipped:
    """An instance of exactly this config, with random weights. `kept`: the layers of the full model kept."""
    module = library.family_of(small)
    if isinstance(module, Skipped):
        return module
    geometry = from_config(small)
    import mlx.core as mx
    import numpy as np

    # MLX's random state can be set and not restored; drawing the next seed from it keeps a caller's stream
    # random.
    onward = int(np.array(mx.random.randint(0, 2**31 - 1)))
    try:
        mx.random.seed(seed)
        model = module.Model(module.ModelArgs.from_dict(_private(small)))
        randomise(model, DRAWS.get(geometry.architecture, Draw()), seed, getattr(mx, dtype))
        if (emptied := EMPTIED.get(geometry.architecture)) is not None:
            setattr(model, emptied, mx.array([], dtype=mx.int32))
        mx.eval(model.parameters())
    except MlxdiagError:
        raise
    except Exception as error:  # noqa: BLE001  a family may refuse the cut sizes in any way
        return Skipped(f"a tiny {name.removeprefix('tiny-')} cannot be built: {_said(error)}")
    finally:
        mx.random.seed(onward)
    model.eval()
    return MlxInstance(
        name=name,
        geometry=geometry,
        device=device_name(),
        vocab=geometry.vocab or MIN_VOCAB,
        config=small,
        model=model,
        module=text_module(model),
        cache_count=cache_count(model),
        source_layers=kept,
    )


def _said(error: BaseException) -> str:
    """Its text is a key alone, where a table lacks one."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _private(config: dict[str, Any]) -> dict[str, Any]:
    """Argument classes write into the text config that they are given."""
    nested = config.get("text_config")
    return {**config, "text_config": dict(nested)} if isinstance(nested, dict) else dict(config)
