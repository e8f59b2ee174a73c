"""The one place that imports torch and transformers for the adapter, and the classes of a family.

Nothing is ever fetched: the hub's offline switch is set before the first import. A value that the user has
set is respected.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import re
import warnings
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import msgspec

from mlxdiag.models.adapter import Skipped
from mlxdiag.models.torch.families import ALIAS, CLASSES, Special

SWITCHES = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
"""Read by the library when it is first imported. It would warn of every kernel package that is missing."""
NEEDED = {"torch": (2, 6), "transformers": (5, 24)}
"""Oldest usable versions; a higher major one is another library. In transformers 5.24 caches are passed as
`cache=`, and one class makes them from a config."""
INSTALL = 'pip install "mlxdiag[torch]"'


class Classes(msgspec.Struct, frozen=True, kw_only=True):
    """What the library has for a `model_type`."""

    model_type: str
    config: Any
    """The configuration class."""
    model: Any
    """The class with a language-model head, or the bare model where there is none."""
    wrapper: Any = None
    """The configuration class that `model` takes, where it wraps the text config."""
    outer: dict[str, Any] = {}
    """Fields of the wrapper that make the parts around the text model tiny."""

    @property
    def has_head(self) -> bool:
        """Whether the model returns logits, rather than hidden states."""
        return hasattr(self.model, "generate")


def load() -> ModuleType | Skipped:
    """The `transformers` package, imported once; why not, where it or torch cannot be used."""
    for name, value in SWITCHES.items():
        os.environ.setdefault(name, value)
    for name, oldest in NEEDED.items():
        try:
            package = importlib.import_module(name)
        except (Exception, SystemExit) as error:  # noqa: BLE001  a broken native library may raise anything
            text = " ".join(str(error).split())[:200] or type(error).__name__
            return Skipped(f"{name} cannot be imported: {text}", INSTALL)
        version = str(getattr(package, "__version__", ""))
        found = _numbers(version)
        if found[:2] < oldest or found[0] > oldest[0]:
            known = ".".join(map(str, oldest))
            return Skipped(
                f"{name} {version or 'without a version'} is not supported",
                f"pip install '{name}>={known},<{oldest[0] + 1}'",
            )
    return importlib.import_module("transformers")


def family(model_type: str) -> Classes | Skipped:
    """The classes of transformers for a `model_type`. Code from the hub is never run."""
    library = load()
    if isinstance(library, Skipped):
        return library
    model_type = ALIAS.get(model_type, model_type)
    mapped = model_type in CLASSES or model_type in causal_types()
    configs = importlib.import_module("transformers.models.auto.configuration_auto").CONFIG_MAPPING
    if not mapped:
        known = "has it, but not as a language model" if model_type in configs else "has no such model"
        return Skipped(f"transformers {library.__version__} {known}: {model_type}")
    try:
        if (special := CLASSES.get(model_type)) is not None:
            return _special(model_type, special)
        models = importlib.import_module("transformers.models.auto.modeling_auto")
        config = configs[model_type]
        return Classes(model_type=model_type, config=config, model=models.MODEL_FOR_CAUSAL_LM_MAPPING[config])
    except Exception as error:  # noqa: BLE001  a module may fail to import in any way
        text = " ".join(str(error).split())[:200]
        return Skipped(f"family {model_type} cannot be imported: {type(error).__name__}: {text}")


def _special(model_type: str, special: Special) -> Classes:
    module = importlib.import_module(f"transformers.models.{special.module}")
    return Classes(
        model_type=model_type,
        config=getattr(module, special.config),
        model=getattr(module, special.model),
        wrapper=getattr(module, special.wrapper) if special.wrapper else None,
        outer=special.outer,
    )


def family_of(config: Mapping[str, Any]) -> Classes | Skipped:
    """As `family`, for a whole config.json: a type that the library does not map to a language model is
    sought by the class that the config names."""
    model_type = str(config.get("model_type"))
    found = family(model_type)
    if not isinstance(found, Skipped) or isinstance(library := load(), Skipped):
        return found
    for name in config.get("architectures") or ():
        model = getattr(library, str(name), None)
        if (
            model is not None
            and getattr(model, "config_class", None) is not None
            and hasattr(model, "generate")
        ):
            return Classes(model_type=model_type, config=model.config_class, model=model)
    return found


def defaults(classes: Classes) -> dict[str, Any]:
    """Fields that a family's config class declares with their defaults, `...` where one has none."""
    if not dataclasses.is_dataclass(classes.config):
        return {}
    return {
        field.name: ... if field.default is dataclasses.MISSING else field.default
        for field in dataclasses.fields(classes.config)
    }


def causal_types() -> tuple[str, ...]:
    """Every model type that the library maps to a causal language model, sorted. It must be loaded."""
    auto = importlib.import_module("transformers.models.auto.modeling_auto")
    return tuple(sorted(auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))


class quiet:
    """The library's warnings about tiny configs, and its progress bars, kept from the user's terminal."""

    def __enter__(self) -> None:
        logging = importlib.import_module("transformers.utils.logging")
        self._before, self._bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        self._caught = warnings.catch_warnings()
        self._caught.__enter__()
        warnings.simplefilter("ignore")

    def __exit__(self, *told: object) -> None:
        self._caught.__exit__(None, None, None)
        logging = importlib.import_module("transformers.utils.logging")
        logging.set_verbosity(self._before)
        if self._bars:
            logging.enable_progress_bar()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3]) or (0,)
