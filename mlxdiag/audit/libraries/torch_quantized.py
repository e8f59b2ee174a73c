"""The quantised cache of transformers, and what it must give: the same rounded numbers, attended as floats.

The library rounds to 8-bit floats with one scale a layer, which the first update fixes; that update still
returns what it was given. The reference does the same in a dense layer, with the library's own rounding.
"""

from __future__ import annotations

from typing import Any

from mlxdiag.audit.judge.trial import Trial


class QuantizedTrial(Trial):
    """Keys that come back rounded are no longer those that went in, so that only shapes and logits speak."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.level = "shapes"
        self.probe = self.library.probe(self.events.append, self.level, self.consumer.attend)


def rounded(caches: list[Any]) -> list[Any] | None:
    """The caches after their first forward, as floats that were rounded, and rounding what comes."""
    from transformers.cache_utils import DynamicLayer

    (held,) = caches
    if any(type(layer) is not DynamicLayer for layer in held.cache.layers):
        return None
    held.cache.layers = [_rounded(layer) for layer in held.cache.layers]
    return caches


def _rounded(layer: Any) -> Any:
    from transformers.cache_utils import DynamicLayer, Fp8QuantizedLayer

    rounding = Fp8QuantizedLayer()
    rounding.lazy_initialization(layer.keys, layer.values)
    scales = rounding._quantized_keys[1], rounding._quantized_values[1]

    class Rounded(DynamicLayer):  # type: ignore[misc]
        """A dense layer whose keys and values were quantised and are not any more."""

        def update(self, keys: Any, values: Any, *args: Any, **kwargs: Any) -> Any:
            given = (
                rounding._dequantize(rounding._quantize(part, scale=scale))
                for part, scale in zip((keys, values), scales, strict=True)
            )
            return super().update(*given, *args, **kwargs)

    made = Rounded()
    made.update(layer.keys, layer.values)
    return made
