"""A tiny random instance of a family: the library's own code with a real window and layer pattern."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlxdiag.errors import MlxdiagError
from mlxdiag.models.adapter import Skipped
from mlxdiag.models.configs.draws import DRAWS, Draw
from mlxdiag.models.torch import devices, library
from mlxdiag.models.torch.families import EXPERTS
from mlxdiag.models.torch.geometry import of_config
from mlxdiag.models.torch.instance import TorchInstance, of_model
from mlxdiag.models.torch.weights import randomise


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
        head = None if classes.has_head else _head(model, seed)
    except MlxdiagError:
        raise
    except Exception as error:  # noqa: BLE001  a family may refuse the cut sizes in any way
        return Skipped(f"a tiny {name} cannot be built: {type(error).__name__}: {_one_line(error)}")
    finally:
        torch.random.set_rng_state(onward)
    model.eval().to(chosen)
    return of_model(
        model,
        name=name,
        geometry=geometry,
        device=chosen,
        head=None if head is None else head.to(chosen),
        source_layers=kept,
    )


def configure(classes: library.Classes, text: Mapping[str, Any]) -> Any:
    """The config object for a text config, in the wrapper that the model takes."""
    inner = {key: value for key, value in text.items() if key != "model_type"}
    if classes.wrapper is None:
        return classes.config(**inner)
    return classes.wrapper(text_config=inner, **classes.outer)


def _head(model: Any, seed: int) -> Any:
    """[V, D]: directions in which hidden states are looked at, for a model that makes no logits."""
    import torch

    rows, width = model.get_input_embeddings().weight.shape
    generator = torch.Generator().manual_seed(seed + 1)
    return torch.randn((rows, width), generator=generator) * width**-0.5


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
