"""The probe: sees what every attention layer of a running mlx-lm model is given, without touching the
library.

It replaces a few methods and functions while it is installed and puts the original objects back afterwards.
At the shapes level nothing is evaluated and no array is read. `create_attention_mask` and the library's own
`scaled_dot_product_attention` are left alone: families import them by value.
"""

from __future__ import annotations

import inspect as python_inspect
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import mlx.core as mx
import mlx_lm.models.base as library_base
import mlx_lm.models.cache as library_caches

from mlxdiag.models.adapter import Geometry
from mlxdiag.models.attention_entries import to_attention
from mlxdiag.models.events import AttentionEvent, CacheEvent, Event, Feeding, Seen, StepEvent
from mlxdiag.models.installed import Installed
from mlxdiag.models.mlx import caches as own_caches
from mlxdiag.models.mlx import probe_calls, probe_shapes
from mlxdiag.models.mlx.attend import Attend
from mlxdiag.models.mlx.identity import Identity
from mlxdiag.models.mlx.probe_digest import DigestWatcher, evaluated_with
from mlxdiag.models.mlx.probe_frame import Frame, Local
from mlxdiag.models.mlx.probe_operations import Operations, event_of
from mlxdiag.models.mlx.probe_tags import Tag, kind_of, uids_of
from mlxdiag.models.mlx.probe_watcher import AttendWatcher
from mlxdiag.models.shield import shielded

__all__ = ["AttentionEvent", "CacheEvent", "Event", "Feeding", "Probe", "Seen", "StepEvent", "to_attention"]

LEVELS = ("shapes", "digest", "visibility")


class Probe(Installed):
    """Delivers a `StepEvent` for each forward of a watched model and a `CacheEvent` for each cache
    operation.

    `sink` is called in the thread of the forward, when its graph is built and before it is evaluated.
    `attend` may replace keys, values and mask of any attention call.
    """

    def __init__(
        self,
        sink: Callable[[Event], Any],
        level: str = "shapes",
        attend: Attend | None = None,
        fault: Callable[[Exception], None] | None = None,
        identity: Identity | None = None,
        numbers: Iterator[int] | None = None,
    ) -> None:
        """`identity`: reads keys at the visibility level, in place of one that reads each key at once.
        `fault` takes a fault of the probe itself, which the program then does not feel; without it, such a
        fault is raised. `numbers` is what models are named after, where another probe names some, too.
        """
        if level not in LEVELS:
            raise ValueError(f"level {level!r} is none of {', '.join(LEVELS)}")
        super().__init__()
        self.sink = sink
        self.level = level
        self.feeding: Feeding | None = None
        """What the next forward feeds; read at the visibility level only, and dropped after one forward."""
        self.before: Callable[[StepEvent, Any], Feeding | None] | None = None
        """Asked for `feeding` when a forward begins, with the caches that it was given."""
        self.identity = (identity or Identity()) if level == "visibility" else None
        self._watcher: probe_calls.Watcher | None = None
        if attend or self.identity:
            self._watcher = AttendWatcher(self.identity, attend, lambda: self.feeding)
        elif level == "digest":
            self._watcher = DigestWatcher()
        self._local = Local(fault)
        self._names: dict[int, str] = {}
        self._layers: dict[int, int] = {}
        self._manual: set[int] = set()
        """Ids of the layers that compute their softmax by hand."""
        self._watched: dict[str, Any] = {}
        self._numbers = numbers or itertools.count(1)

    def watch(self, model: Any, geometry: Geometry | None = None) -> str:
        """Follow the forwards of a loaded model; returns its name in the events (m1, m2, ...).

        `geometry` tells which layers compute their softmax by hand, so that `attend` can reach those too.
        """
        name = self._names.get(id(model))
        if name is not None:
            return name
        name = self._names[id(model)] = f"m{next(self._numbers)}"
        self._watched[name] = model
        for index, layer in enumerate(getattr(model, "layers", ())):
            if layer is not None:
                self._layers[id(layer)] = index
                spec = geometry.layer(index) if geometry else None
                if spec is not None and spec.softmax == "manual":
                    self._manual.add(id(layer))
        if self._installed:
            self._patch_model(model)
        return name

    def watch_class(self, model_class: type) -> None:
        """Follow every instance of a model class, each from its first forward on."""
        self._patches.add(model_class, "__call__", self._model_wrapper)

    @property
    def layer(self) -> int | None:
        """The layer that runs in this thread, if any."""
        frame = self._local.frame
        return frame.layer if frame is not None else None

    def model(self, name: str) -> Any:
        """The watched model that events call `name`, if any."""
        return self._watched.get(name)

    def _patch(self) -> None:
        for cls in _cache_classes():
            self._patch_cache(cls)
        add, local = self._patches.add, self._local
        attention = partial(probe_shapes.attention_wrapper, local=local)
        if self._watcher is not None:
            attention = partial(probe_calls.attention_wrapper, local=local, watcher=self._watcher)
        add(mx.fast, "scaled_dot_product_attention", attention)
        add(library_base, "quantized_scaled_dot_product_attention", attention)
        add(mx.fast, "rope", partial(probe_shapes.rope_wrapper, local=local))
        for model in self._watched.values():
            self._patch_model(model)

    def _patch_model(self, model: Any) -> None:
        self.watch_class(type(model))
        make = partial(probe_shapes.layer_wrapper, local=self._local, layers=self._layers)
        if self._watcher is not None:
            make = partial(
                probe_calls.layer_wrapper,
                local=self._local,
                layers=self._layers,
                watcher=self._watcher,
                manual=self._manual,
            )
        for layer in getattr(model, "layers", ()):
            if layer is not None:
                self._patches.add(type(layer), "__call__", make)

    def _patch_cache(self, cls: type) -> None:
        own, add = vars(cls), self._patches.add
        batched = kind_of(cls) in ("batch", "batch_rotating")
        operations = Operations(self.sink, self.copied, self.identity.quantized if self.identity else None)
        if "update_and_fetch" in own:
            make: Callable[..., Any] = (
                probe_shapes.batch_update_wrapper if batched else probe_shapes.update_wrapper
            )
            if self._watcher is not None:
                make = partial(probe_calls.update_wrapper, watcher=self._watcher)
            add(cls, "update_and_fetch", partial(make, local=self._local, on_copy=self.copied))
        for name, maker in operations.makers.items():
            if name in own:
                add(cls, name, shielded(maker, self._local.fault))
        if batched:
            add(cls, "__init__", shielded(operations.created, self._local.fault))
        if "merge" in own and kind_of(cls) in ("batch", "batch_rotating", "recurrent"):
            add(cls, "merge", shielded(operations.merge, self._local.fault))

    def copied(self, cache: Any, tag: Tag, parent: int) -> None:
        """Tell the sink of a copied cache: its tag, and the uid of the original."""
        event = event_of("copy", tag, cache)
        event.after, event.parents = event.before, [parent]
        self.sink(event)

    def _model_wrapper(self, original: Callable[..., Any]) -> Callable[..., Any]:
        local = self._local

        def __call__(model: Any, *args: Any, **kwargs: Any) -> Any:
            if local.frame is not None or not self._installed:
                return original(model, *args, **kwargs)
            try:
                batch, q = _shape_of_input(args, kwargs)
                step = StepEvent(self.watch(model), batch, q, [])
                caches = _caches_in(args, kwargs)
                if self.before is not None:
                    self.feeding = self.before(step, caches)
                frame = local.frame = Frame(step, caches)
            except Exception as error:  # noqa: BLE001
                local.failed(error)
                return original(model, *args, **kwargs)
            try:
                return evaluated_with(original(model, *args, **kwargs), step.digests)
            except BaseException as error:
                step.error, step.error_type = str(error), type(error).__name__
                step.error_layer = frame.failed
                raise
            finally:
                local.frame = None
                self.feeding = None
                try:
                    step.uids = uids_of(frame.caches, self.copied)
                except Exception as error:  # noqa: BLE001
                    local.failed(error)
                self.sink(step)

        return __call__


def _cache_classes() -> list[type]:
    found = [*vars(library_caches).values(), *vars(own_caches).values()]
    base = library_caches._BaseCache
    classes = [c for c in found if python_inspect.isclass(c) and issubclass(c, base)]
    return [c for c in dict.fromkeys(classes) if c not in (base, library_caches.CacheList)]


def _shape_of_input(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, int]:
    for value in (*args, *kwargs.values()):
        shape = getattr(value, "shape", None)
        if shape is not None and len(shape) >= 2:
            return int(shape[0]), int(shape[1])
    return 0, 0


def _caches_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if "cache" in kwargs:
        return kwargs["cache"]
    return next((a for a in args if isinstance(a, list | tuple)), None)
