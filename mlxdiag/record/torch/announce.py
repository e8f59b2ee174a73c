"""The model entry of a transformers model: written when it runs for the first time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mlxdiag.errors import MlxdiagError
from mlxdiag.models import special_ids
from mlxdiag.models.adapter import Geometry
from mlxdiag.models.torch.geometry import looking_ahead, of_config
from mlxdiag.traces.types import Entry, Tokens


def announce(model: Any, name: str) -> tuple[Entry, Geometry | None]:
    """What is known of a model that the events call `name`, from its config. Of where it was loaded from,
    only the last part of the name is told.
    """
    config = model.config
    source = Path(str(getattr(config, "_name_or_path", "") or ""))
    title = source.name or str(config.model_type)
    try:
        geometry = of_config(config)
    except (MlxdiagError, AttributeError, TypeError) as error:
        note = f"the layer kinds are not observed: {error}"
        return Entry(phase="model", model=name, name=title, architecture=config.model_type, note=note), None
    tokens = special_ids.fitting(geometry.tokens, geometry.vocab)
    tokens = _generated(tokens, getattr(model, "generation_config", None))
    if source.is_dir():
        tokens = special_ids.of_directory(source, tokens)
    shown = {**geometry.config, **_kinds(config), **looking_ahead(config)}
    geometry = msgspec.structs.replace(geometry, tokens=tokens, config=shown)
    return msgspec.structs.replace(geometry.model_entry(title), model=name), geometry


def has_encoder(model: Any) -> bool:
    """Whether a model also attends to another sequence: no rule knows that, and it is not recorded."""
    return bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))


def setting(model: Any) -> dict[str, str]:
    """The kind of its first device (cpu, cuda, mps), and its attention implementation: `sdpa`, `eager`,
    `flash_attention_2`, `paged|eager`.
    """
    device = next((parameter.device.type for parameter in model.parameters()), None)
    text = model.config.get_text_config(decoder=True)
    told = {"device": device, "attention": getattr(text, "_attn_implementation", None)}
    return {name: value for name, value in told.items() if isinstance(value, str)}


def _kinds(config: Any) -> dict[str, Any]:
    """The kind of each layer, where the config lists them: no pattern can be made out without."""
    listed = getattr(config.get_text_config(decoder=True), "layer_types", None)
    return {"layer_types": list(listed)} if listed else {}


def _generated(tokens: Tokens | None, generation: Any) -> Tokens | None:
    """Generation may end at other ids than the config says, and pad with another."""
    eos, pad = getattr(generation, "eos_token_id", None), getattr(generation, "pad_token_id", None)
    if eos is not None:
        tokens = msgspec.structs.replace(tokens or Tokens(), eos=ids_of(eos))
    if pad is not None:
        tokens = msgspec.structs.replace(tokens or Tokens(), pad=int(pad))
    return tokens


def ids_of(value: Any) -> list[int]:
    """The ids that a generation config names: one, several or none. Of a tensor on another device none."""
    if value is None or (hasattr(value, "device") and value.device.type != "cpu"):
        return []
    if hasattr(value, "tolist"):
        value = value.tolist()
    return [int(one) for one in value] if isinstance(value, list | tuple) else [int(value)]
