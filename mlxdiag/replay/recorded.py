"""The config of a trace's model: what the trace tells, over the config of its best-known checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mlxdiag.errors import MlxdiagError, UnjudgedError
from mlxdiag.models import catalogue
from mlxdiag.models.configs.sizes import DEPTHS
from mlxdiag.traces.types import Family, Model

WORDS = {
    "full": "full_attention",
    "sliding": "sliding_attention",
    "chunked": "chunked_attention",
    "recurrent": "linear_attention",
}
"""Attention kinds of a trace, as `layer_types` spells them."""
BARE = "mlp"
"""A layer that mixes no tokens."""

Kinds = dict[int, str]
"""The attention kind of each layer."""


def whole_config(model: Model) -> dict[str, Any]:
    """A whole config.json of the trace's model.

    A trace holds a few fields of the config, and the kind of every layer. A small model has other layers than
    the best-known checkpoint, so where the two together are not read as the trace says, that checkpoint's
    spelling of kinds is left out, and if need be the kinds are listed.

    Raises:
        UnjudgedError: the family's config is not known, and the trace's is no whole one.
    """
    known, own = _known(model), dict(model.config or {})
    meant = recorded_kinds(model.layers or {})
    forms = list(_forms(known, own, meant)) if meant is not None else [_merged(known, own)]
    return next((form for form in forms if _kinds(form) == meant), forms[0])


def recorded_kinds(families: Mapping[str, Family]) -> Kinds | None:
    """The kind of each layer; None where the families do not say which layers are theirs."""
    if not families or any(one.layers is None or one.attention is None for one in families.values()):
        return None
    return {index: str(one.attention) for one in families.values() for index in one.layers or []}


def _known(model: Model) -> dict[str, Any]:
    name = model.architecture or ""
    if name in catalogue.CATALOGUE:
        return catalogue.config(name)
    # A config with its own model type is a whole one, wrappers included.
    if "model_type" in (model.config or {}) or any(
        key in (model.config or {}) for key in (*DEPTHS, "layer_types")
    ):
        return {"model_type": name}
    raise UnjudgedError(
        f"the geometry of {name!r} is not known here and the trace's model.config does not hold it; "
        "give a checkpoint with --model DIR"
    )


def _forms(known: Mapping[str, Any], own: Mapping[str, Any], meant: Kinds) -> Iterator[dict[str, Any]]:
    """Configs that may mean these kinds, those first that depart least from the known one."""
    from mlxdiag.models.configs.pattern import SPELT

    yield _merged(known, own)
    text = known.get("text_config", known)
    rest = {name: value for name, value in text.items() if name not in SPELT}
    bare = {**known, "text_config": rest} if "text_config" in known else rest
    yield _merged(bare, own)
    depth = next((own[name] for name in DEPTHS if isinstance(own.get(name), int)), len(meant))
    listed = [WORDS[meant[index]] if index in meant else BARE for index in range(depth)]
    yield _merged(bare, {**own, "layer_types": listed})


def _merged(known: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    if "text_config" in known and "text_config" not in own:
        return {**known, "text_config": {**known["text_config"], **own}}
    return {**known, **own}


def _kinds(config: Mapping[str, Any]) -> Kinds | None:
    from mlxdiag.models.configs.geometry import from_config

    try:
        return {layer.index: layer.attention for layer in from_config(config).layers}
    except MlxdiagError:  # its lists are those of another depth
        return None
