"""The probe: sees what every attention layer of a running transformers model is given, without touching the
library.

It replaces a few methods while it is installed and puts the original objects back afterwards. No attention
function is registered under a new name: without a mask function of that name, masks would silently be left
out. At the shapes level no tensor is read. Under `torch.compile` nothing is seen, and nothing is in the way.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch._dynamo.eval_frame import OptimizedModule
from transformers import cache_utils, masking_utils, modeling_utils
from transformers.generation.continuous_batching.cache import PagedAttentionCache
from transformers.generation.continuous_batching.input_outputs import ContinuousBatchingIOs

from mlxdiag.errors import UsageError
from mlxdiag.models.adapter import Geometry
from mlxdiag.models.events import CacheEvent, Event, Feeding, StepEvent
from mlxdiag.models.installed import Installed
from mlxdiag.models.shield import shielded
from mlxdiag.models.torch import probe_calls, probe_compiled, probe_masks, probe_paged
from mlxdiag.models.torch.attend import Attend
from mlxdiag.models.torch.identity import Identity
from mlxdiag.models.torch.packing import Packing
from mlxdiag.models.torch.probe_frame import Frame, Local
from mlxdiag.models.torch.probe_operations import Operations
from mlxdiag.models.torch.probe_tags import Tag, uids_of
from mlxdiag.models.torch.probe_watcher import Watcher

LEVELS = ("shapes", "visibility")


class Probe(Installed):
    """Delivers a `StepEvent` for each forward of a watched model and a `CacheEvent` for each cache
    operation.

    `sink` is called in the thread of the forward, when it is over. `attend` may replace keys, values and mask
    of any attention call.
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
        """`identity`: reads keys at the visibility level. `fault` takes a fault of the probe itself, which
        the program then does not feel; without it, such a fault is raised. `numbers` is what models are named
        after, where another probe names some, too.

        Raises UsageError for a level that there is not, digest among them: masks are read at once here.
        """
        if level not in LEVELS:
            raise UsageError(f"level {level!r} of a torch program is none of {', '.join(LEVELS)}")
        super().__init__()
        self.sink = sink
        self.level = level
        self.feeding: Feeding | None = None
        """What the next forward feeds; read at the visibility level only, and dropped after one forward."""
        self.before: Callable[[StepEvent, Any], Feeding | None] | None = None
        """Asked for `feeding` when a forward begins, with the cache that it was given."""
        self.identity = (identity or Identity()) if level == "visibility" else None
        self._watcher: Watcher | None = None
        if attend or self.identity:
            self._watcher = Watcher(self.identity, attend, lambda: self.feeding)
        self._local = Local(fault)
        # Weakly: a server that unloads a model means it.
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._watched: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        self._classes: set[type] = set()
        self._numbers = numbers or itertools.count(1)
        self._told = 0
        """Forwards that were told of."""
        self.requests: dict[str, int] = {}
        """Sequence number of each request of a continuous batch, in the order in which they were seen."""

    def watch(self, model: Any, geometry: Geometry | None = None) -> str:
        """Follow the forwards of a loaded model; returns its name in the events (m1, m2, ...)."""
        name = self._names.get(model)
        if name is not None:
            return name
        name = self._names[model] = f"m{next(self._numbers)}"
        self._watched[name] = model
        if self._installed:
            self._patch_model(model)
        return name

    def watch_class(self, model_class: type) -> None:
        """Follow every instance of a model class, each from its first forward on."""
        self._classes.add(model_class)
        self._patches.add(model_class, "forward", self._model_wrapper)

    @property
    def packs(self) -> bool:
        """Whether the next forward of this thread holds several requests in one row."""
        return self._local.packed is not None

    @property
    def layer(self) -> int | None:
        """The layer that runs in this thread, if any."""
        frame = self._local.frame
        return frame.layer if frame is not None else None

    def model(self, name: str) -> Any:
        """The watched model that events call `name`, if any."""
        return self._watched.get(name)

    def copied(self, layer: Any, tag: Tag, parent: int) -> None:
        """Tell the sink of a copied cache layer: its tag, and the uid of the original."""
        offset = tag.offset_of(layer)
        event = CacheEvent("copy", tag.uid, tag.name, tag.kind, tag.index, tag.layer, offset, offset)
        event.parents, event.model = [parent], tag.model
        self.sink(event)

    def _patch(self) -> None:
        add, local, watcher = self._patches.add, self._local, self._watcher
        add(
            modeling_utils.AttentionInterface,
            "get_interface",
            partial(probe_calls.interface_wrapper, local=local, watcher=watcher),
        )
        add(
            masking_utils.AttentionMaskInterface,
            "__getitem__",
            partial(probe_masks.getitem_wrapper, local=local),
        )
        update = partial(probe_calls.update_wrapper, local=local, on_copy=self.copied, watcher=watcher)
        for cls in _classes(cache_utils.Cache):
            if "update" in vars(cls):
                add(cls, "update", update)
        add(
            PagedAttentionCache,
            "update",
            partial(probe_paged.update_wrapper, local=local, watcher=watcher),
        )
        add(
            ContinuousBatchingIOs,
            "prepare_batch_tensors",
            partial(probe_paged.prepare_wrapper, local=local),
        )
        add(OptimizedModule, "__call__", partial(probe_compiled.module_wrapper, around=self.blind))
        add(
            modeling_utils.PreTrainedModel,
            "get_compiled_call",
            partial(probe_compiled.call_wrapper, around=self.blind),
        )
        self._patch_operations()
        for model in list(self._watched.values()):
            self._patch_model(model)

    def _patch_model(self, model: Any) -> None:
        self.watch_class(type(model))
        if "forward" in vars(model):
            # Put there by whoever spread the model over devices: the class's own is no longer called.
            self._patches.add(model, "forward", partial(self._bound_wrapper, model=model))

    def _patch_operations(self) -> None:
        operations = Operations(self.sink, self.copied, self._local)
        for cls in _classes(cache_utils.Cache):
            for name, maker in operations.of_cache.items():
                if name in vars(cls):
                    self._patches.add(cls, name, shielded(maker, self._local.fault))
        layers: tuple[Any, ...] = cache_utils.CacheLayerMixin, cache_utils.LinearAttentionCacheLayerMixin
        for cls in dict.fromkeys(c for base in layers for c in _classes(base)):
            for name, maker in operations.makers.items():
                if name in vars(cls):
                    self._patches.add(cls, name, shielded(maker, self._local.fault))

    def _model_wrapper(self, original: Callable[..., Any]) -> Callable[..., Any]:
        local = self._local

        def forward(model: Any, *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return original(model, *args, **kwargs)
            if local.frame is not None or not self._installed:
                return original(model, *args, **kwargs)
            try:
                batch, q = _shape_of_input(args, kwargs)
                step = StepEvent(self.watch(model), batch, q, [])
                cache = _cache_in(args, kwargs)
                if self.before is not None:
                    self.feeding = self.before(step, cache)
                frame = Frame(step, cache, kwargs.get("attention_mask"))
                if isinstance(kwargs.get("cache"), PagedAttentionCache) and local.packed is not None:
                    frame.packing = self._packing(step)
                local.frame = frame
            except Exception as error:  # noqa: BLE001
                local.failed(error)
                return original(model, *args, **kwargs)
            try:
                return original(model, *args, **kwargs)
            except BaseException as error:
                step.error, step.error_type = str(error), type(error).__name__
                step.error_layer = frame.layer
                raise
            finally:
                local.frame = None
                self._over(frame)

        return forward

    def _bound_wrapper(self, original: Callable[..., Any], model: Any) -> Callable[..., Any]:
        return partial(self._model_wrapper(lambda _, *args, **kwargs: original(*args, **kwargs)), model)

    def blind(
        self, model: Any, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Make `call`, a compiled forward of a model that is watched, as itself or for its class. It is told
        of unless it turns out to run in Python after all.
        """
        told, local = self._told, self._local
        watched = model in self._names or type(model) in self._classes
        if not watched or not self._installed:
            return call(*args, **kwargs)
        if local.frame is not None:
            return _within(local.frame.step, self.watch(model), call, args, kwargs)
        step = StepEvent(self.watch(model), *_shape_of_input(args, kwargs), [])
        step.unseen = probe_compiled.COMPILED
        try:
            return call(*args, **kwargs)
        except BaseException as error:
            step.error, step.error_type = str(error), type(error).__name__
            raise
        finally:
            if self._told == told:
                self._told += 1
                self.feeding = None
                self.sink(step)

    def _packing(self, step: StepEvent) -> Packing:
        """The requests that this thread has just prepared."""
        members, self._local.packed = self._local.packed, None
        step.packed = [(member.request, member.offset, member.tokens) for member in members]
        step.batch, step.q = len(members), max((member.tokens for member in members), default=0)
        return Packing(members, self.requests, self.feeding)

    def _over(self, frame: Frame) -> None:
        """A forward has ended, well or not."""
        self.feeding = None
        try:
            frame.leave()
            frame.step.uids = [uid for cache in frame.caches for uid in uids_of(cache, self.copied)]
        except Exception as error:  # noqa: BLE001
            self._local.failed(error)
        self._told += 1
        self.sink(frame.step)


def _within(
    step: StepEvent, name: str, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Make a compiled call inside a forward, of which nothing is then seen where the call is all of it."""
    result = call(*args, **kwargs)
    if step.model == name and not step.calls:
        step.unseen = probe_compiled.COMPILED
    return result


def _classes(base: type) -> list[type]:
    """A class and everything that is derived from it so far."""
    found = [base]
    derived: list[type] = type.__subclasses__(base)
    for cls in derived:
        found += _classes(cls)
    return list(dict.fromkeys(found))


def _shape_of_input(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, int]:
    named = (kwargs.get("input_ids"), kwargs.get("inputs_embeds"))
    for value in (*named, *args):
        shape = getattr(value, "shape", None)
        if shape is not None and len(shape) >= 2:
            return int(shape[0]), int(shape[1])
    return 0, 0


def _cache_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    for value in (kwargs.get("cache"), kwargs.get("past_key_values"), *args):
        if isinstance(value, cache_utils.Cache):
            return value
    return None
