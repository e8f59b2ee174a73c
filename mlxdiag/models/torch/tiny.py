"""A tiny random instance of a family: the library's own code with a real window and layer pattern."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mlxdiag.errors import MlxdiagError, UnreadableError
from mlxdiag.models.adapter import Skipped
from mlxdiag.models.configs.cut import cut, kept_layers
from mlxdiag.models.configs.draws import DRAWS, Draw
from mlxdiag.models.configs.geometry import text_of
from mlxdiag.models.configs.sizes import MIN_VOCAB
from mlxdiag.models.torch import devices, library
from mlxdiag.models.torch.families import EXPERTS
from mlxdiag.models.torch.geometry import both_ways, layer_words, of_config
from mlxdiag.models.torch.instance import TorchInstance, of_model
from mlxdiag.models.torch.weights import randomise


def build(
    config: Mapping[str, Any],
    *,
    seed: int = 0,
    window: int | None = None,
    positions: int = 0,
    name: str | None = None,
    attention: str | None = None,
    device: str | None = None,
) -> TorchInstance | Skipped:
    """Build the family that a (real) config names, cut in widths, depth and vocabulary only; of a wrapper,
    the text model.

    `window` replaces every window of the config, `positions` is how many distinct prompt tokens will be
    fed. Equal arguments give equal weights. Returns Skipped for a family that the library lacks or cannot
    build here; raises UnreadableError for a config that contradicts itself.
    """
    text = text_of(config)
    classes = library.family(str(text["model_type"]))
    if isinstance(classes, Skipped):
        return classes
    text, notes = _understood(text, classes)
    vocab = max(MIN_VOCAB, positions + 256)
    try:
        with library.quiet():
            whole = classes.config(**_bare(text))
        if (why := both_ways(whole)) is not None:
            return Skipped(why)
        geometry = of_config(whole)
        kept = kept_layers(geometry)
        small = cut(text, geometry, kept, vocab, window, library.defaults(classes))
    except MlxdiagError:
        raise
    except Exception as error:  # noqa: BLE001  a config class may refuse a config in any way
        raise UnreadableError(f"config of {text['model_type']}: {_one_line(error)}") from None
    if "layer_types" in library.defaults(classes):
        words = layer_words(whole)
        small["layer_types"] = [words[index] for index in kept]
    made = instance(
        classes,
        _inside(small, vocab),
        kept=kept,
        seed=seed,
        attention=attention,
        device=device,
        name=name or f"tiny-{geometry.architecture}",
    )
    if isinstance(made, Skipped):
        return made
    tokens = geometry.tokens
    told = msgspec.structs.replace(made.geometry, tokens=tokens, notes=made.geometry.notes + notes)
    return msgspec.structs.replace(made, geometry=told)


def instance(
    classes: library.Classes,
    text: Mapping[str, Any],
    *,
    kept: tuple[int, ...] = (),
    seed: int = 0,
    attention: str | None = None,
    device: str | None = None,
    name: str,
) -> TorchInstance | Skipped:
    """An instance of exactly this text config, with random float32 weights.

    `attention` names an implementation; None takes the family's own default. Returns Skipped for what the
    library refuses; raises UnjudgedError where `device` does not compute.
    """
    import torch

    chosen = devices.choose(device)
    onward = torch.random.get_rng_state()
    torch.manual_seed(seed)
    try:
        with library.quiet():
            config = configure(classes, text)
            given = {} if attention is None else {"attn_implementation": attention}
            model = classes.model._from_config(config, dtype=torch.float32, **given)
            if model._can_set_experts_implementation():
                model.set_experts_implementation(EXPERTS)
        geometry = of_config(config)
        randomise(model, DRAWS.get(geometry.architecture, Draw()), seed)
        projection = None if classes.has_head else head(model, seed)
    except MlxdiagError:
        raise
    except Exception as error:  # noqa: BLE001  a family may refuse the cut sizes in any way
        return Skipped(
            f"a tiny {name.removeprefix('tiny-')} cannot be built: {type(error).__name__}: {_one_line(error)}"
        )
    finally:
        torch.random.set_rng_state(onward)
    model.eval().to(chosen)
    return of_model(
        model,
        name=name,
        geometry=geometry,
        device=chosen,
        head=None if projection is None else projection.to(chosen),
        tiny=True,
        source_layers=kept,
    )


def configure(classes: library.Classes, text: Mapping[str, Any]) -> Any:
    """The config object for a text config, in the wrapper that the model takes."""
    inner = _bare(text)
    if classes.wrapper is None:
        return classes.config(**inner)
    return classes.wrapper(text_config=inner, **classes.outer)


def _understood(text: dict[str, Any], classes: library.Classes) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The text config without the entries of draft layers, and without a list of kinds that the family's
    class does not declare: the model would not read it, and the library's caches would.
    """
    depth, listed = text.get("num_hidden_layers"), text.get("layer_types")
    if isinstance(depth, int) and isinstance(listed, list) and len(listed) > depth:
        longer = {key: value for key, value in text.items() if isinstance(value, list)}
        same = {key: value[:depth] for key, value in longer.items() if len(value) == len(listed)}
        text = {**text, **same, "num_nextn_predict_layers": 0}
    declared = {*library.defaults(classes), *getattr(classes.config, "attribute_map", {})}
    if "layer_types" not in text or "layer_types" in declared:
        return text, ()
    note = f"transformers reads no layer_types of {classes.model_type}: a window holds for every layer"
    return {key: value for key, value in text.items() if key != "layer_types"}, (note,)


def _bare(text: Mapping[str, Any]) -> dict[str, Any]:
    """Config classes know their own type, and describe no class to build."""
    return {key: value for key, value in text.items() if key not in ("model_type", "architectures")}


def _inside(text: dict[str, Any], vocab: int) -> dict[str, Any]:
    """Special ids beyond a tiny vocabulary would be rows that an embedding lacks."""
    kept = dict(text)
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        ids = kept.get(name)
        listed = ids if isinstance(ids, list) else [ids]
        if any(isinstance(one, int) and one >= vocab for one in listed):
            inside = [one for one in listed if isinstance(one, int) and one < vocab]
            kept[name] = inside if isinstance(ids, list) and inside else None
    return kept


def head(model: Any, seed: int) -> Any:
    """[V, D]: directions in which hidden states are looked at, for a model that makes no logits."""
    import torch

    rows, width = model.get_input_embeddings().weight.shape
    generator = torch.Generator().manual_seed(seed + 1)
    return torch.randn((rows, width), generator=generator) * width**-0.5


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
