"""The same weights in two libraries: built once in transformers, written, and read by mlx-lm's own loader."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Literal

import msgspec

from mlxdiag.errors import MlxdiagError
from mlxdiag.models.adapter import Instance, Skipped
from mlxdiag.models.convert.rows import Row, row
from mlxdiag.models.convert.write import republished, saved

WIDTH = 256
"""Hidden size of a tiny model whose embeddings are scaled: a power of four."""
DROPPED = ("model_type", "architectures", "transformers_version", "dtype")
"""What a config says of itself besides its fields."""
TORCH, MLX = "transformers", "mlx-lm"
"""The two libraries, the one whose config says what is meant first."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """One model twice."""

    family: str
    torch: Instance
    mlx: Instance

    @property
    def sides(self) -> tuple[tuple[str, Instance], tuple[str, Instance]]:
        """Library and instance, transformers first."""
        return (TORCH, self.torch), (MLX, self.mlx)


class Apart(Skipped, frozen=True, kw_only=True):
    """Why there is no pair."""

    kind: Literal["lacks", "refuses", "apart", "broken"]
    """lacks: a library has no such family. refuses: it does not take the checkpoint. apart: the two models of
    this name cannot hold the same weights. broken: its code failed."""
    library: str = ""
    """The library that lacks or refuses it."""


def tiny(family: str, seed: int = 0, device: str | None = None, *, form: str = "published") -> Pair | Apart:
    """A family's tiny model in both libraries. Equal seeds give equal weights.

    `form`: "published", or "saved" for the very folder that transformers 5 writes.
    """
    entry = row(family)
    missing = _lacking(family, entry)
    if missing is not None:
        return missing
    torch = _built(family, entry, seed, device)
    if isinstance(torch, Skipped):
        return Apart(torch.reason, torch.hint, kind="refuses", library=TORCH)
    return of_instance(torch, family, form=form)


def of_instance(torch: Any, family: str, *, form: str = "published") -> Pair | Apart:
    """The pair of an instance of transformers, written to a folder that is gone afterwards."""
    from mlxdiag.models.mlx import checkpoint

    entry = row(family)
    if entry.apart:
        return Apart(entry.apart, kind="apart")
    with tempfile.TemporaryDirectory(prefix="mlxdiag-") as folder:
        name = family.replace("/", "_")
        try:
            source = saved(torch.model, Path(folder) / "saved" / name)
        except Exception as error:  # noqa: BLE001  the library's own writer may fail in any way
            return Apart(f"it cannot be saved: {_told(error)}", kind="broken", library=TORCH)
        if form == "published":
            source = republished(source, Path(folder) / "published" / name, entry)
        try:
            mlx = checkpoint.load(source)
        except MlxdiagError as error:
            said = str(error).replace(f"{source}: ", "").replace(str(source), "the checkpoint")
            return Apart(said, kind="refuses", library=MLX)
        except Exception as error:  # noqa: BLE001  a family may fail in any way when it is built
            return Apart(_told(error), kind="broken", library=MLX)
        force(mlx)
    return Pair(family=family, torch=torch, mlx=msgspec.structs.replace(mlx, name=torch.name))


def exact(torch: Any, seed: int = 0) -> Any:
    """The same tiny model with a width whose square root is a whole number, where its family scales
    embeddings by that root: mlx-lm rounds it to bfloat16 whatever the weights are, and each logit would
    differ a little.
    """
    from mlxdiag.models.torch import library
    from mlxdiag.models.torch import tiny as tiny_models

    kind = torch.geometry.architecture
    classes = library.family(kind)
    if "gemma" not in kind or isinstance(classes, Skipped) or classes.wrapper is not None:
        return torch
    config = {name: value for name, value in torch.config.items() if name not in DROPPED}
    made = tiny_models.instance(
        classes,
        {**config, "hidden_size": WIDTH},
        kept=torch.source_layers,
        seed=seed,
        device=torch.device,
        name=torch.name,
    )
    return torch if isinstance(made, Skipped) else made


def force(mlx: Any) -> None:
    """Read all weights now: MLX reads a file when its arrays are first used, and the folder will be gone."""
    import mlx.core as mx

    mx.eval(mlx.model.parameters())


def _lacking(family: str, entry: Row) -> Apart | None:
    from mlxdiag.models.mlx import library as mlx_library
    from mlxdiag.models.torch import library as torch_library
    from mlxdiag.models.torch.zoo.rows import row as zoo_row

    model_type = zoo_row(entry.of or family).model_type
    found = torch_library.family(model_type)
    if isinstance(found, Skipped):
        return Apart(found.reason, found.hint, kind="lacks", library=TORCH)
    module = mlx_library.family(entry.model_type or model_type, entry.architectures)
    if isinstance(module, Skipped):
        return Apart(module.reason, module.hint, kind="lacks", library=MLX)
    return None


def _built(family: str, entry: Row, seed: int, device: str | None) -> Any:
    """The family as the zoo builds it, with what the row changes."""
    from mlxdiag.models.torch import library
    from mlxdiag.models.torch import tiny as tiny_models
    from mlxdiag.models.torch.zoo.build import tiny_config
    from mlxdiag.models.torch.zoo.rows import row as zoo_row

    name = entry.of or family
    known = zoo_row(name)
    classes = library.family(known.model_type)
    assert not isinstance(classes, Skipped)
    config = {**tiny_config(name, classes), **entry.build}
    return tiny_models.instance(
        classes, config, seed=seed, attention=known.attention, device=device, name=family
    )


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
