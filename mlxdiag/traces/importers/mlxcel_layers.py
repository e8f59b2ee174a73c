"""What mlxcel prints on standard error about single layers: attention calls and profiles.

`[mlxcel][na-attention] dispatch=N phase=... route=... q=[1, H, L, D] k=[1, Hk, K, D] ... window_size=W` is
the one place where it tells the key count of a call.
"""

from __future__ import annotations

import re

from msgspec import UNSET

from mlxdiag.traces.importers.draft import Draft, Step, number
from mlxdiag.traces.importers.importer import KNOWN, TAKEN, UNKNOWN, Importer
from mlxdiag.traces.importers.records import Record
from mlxdiag.traces.types import Attention, Row

_OWN = "[mlxcel][na-attention]"
_PHASE = re.compile(r"\bphase=(\w{1,20})\b")
_ROUTE = re.compile(r"\broute=(\w{1,40})\b")
_SHAPES = re.compile(r"\bq=\[([\d, ]{1,80})\] k=\[([\d, ]{1,80})\]")
_WINDOW = re.compile(r"\bwindow_size=(-?\d{1,12})")
_OTHER = re.compile(r"^\s*\[(?:LAYER \d+|LAYER_BUILD \d+|SUBOP|LOGITS)\]")
_MASKS = {"native_causal": "causal", "unmasked": None}
"""Routes that say which mask was used; of the others only that there was an array."""
_MOST_CALLS = 256


class MlxcelLayers(Importer):
    """State: the forward that calls are being added to.

    The window is printed by calls with an array mask of models that pass it on, and as 0 by all others:
    only a native causal call, or an array mask of a model that does pass windows on, is known to be of a
    full layer by its 0.
    """

    name = "mlxcel-layers"
    program = "mlxcel"

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self.step: Step | None = None
        self.phase = ""
        self.keys: dict[tuple[str | None, int], set[int]] = {}
        """Key counts of the present forward, by kind of layer and window."""
        self.windowed = False

    def take(self, record: Record) -> int:
        if record.value is not None:
            return UNKNOWN
        text = record.text
        if _OWN not in text:
            return KNOWN if _OTHER.match(text) else UNKNOWN
        phase, route, shapes = _PHASE.search(text), _ROUTE.search(text), _SHAPES.search(text)
        if phase is None or route is None or shapes is None:
            return KNOWN
        q, k = _axes(shapes[1]), _axes(shapes[2])
        if len(q) != 4 or len(k) != 4:
            return KNOWN
        window = _WINDOW.search(text)
        width = max(number(window[1]) or 0, 0) if window else 0
        self._call(phase[1], route[1], q[2], k[2], width)
        return TAKEN

    def _call(self, phase: str, route: str, q: int, k: int, window: int) -> None:
        step, kind = self.step, self._kind(route, q, k, window)
        if step is None or self._begins(step, phase, q, k, (kind, window)):
            step = self.step = self.draft.step("decode" if q == 1 else "prefill" if q == k else "chunk")
            step.rows = [Row(tokens=q)]
            step.infer("rows.tokens", "the queries; padding is not told apart")
            self.keys, self.phase = {}, phase
        self.keys.setdefault((kind, window), set()).add(k)
        if kind == "full" and step.rows[0].offset is None and k >= q:
            step.phase = "decode" if q == 1 else "chunk" if k > q else "prefill"
            step.rows = [Row(tokens=q, offset=k - q)]
            step.infer("rows.offset", "keys less queries of a layer without a window")
        family = None if kind is None else self.draft.family(kind)
        call = Attention(family=family, window=window or None, q=q, k=k, mask=_MASKS.get(route, UNSET))
        if call not in step.calls and len(step.calls) < _MOST_CALLS:
            step.calls = [*step.calls, call]

    def _begins(self, step: Step, phase: str, q: int, k: int, layer: tuple[str | None, int]) -> bool:
        """Whether a call is of the next forward: another phase or length, or other keys of such layers.

        Layers of an unknown kind may return several; there it is keys grown by what was just fed, or a fresh
        prompt where keys were held, and the other way round.
        """
        if step.rows[0].tokens != q or phase != self.phase:
            return True
        known = self.keys.get(layer, set())
        if not known or k in known:
            return False
        if layer[0] is not None:
            return True
        return k - q in known or (q > 1 and (known == {q}) != (k == q))

    def _kind(self, route: str, q: int, k: int, window: int) -> str | None:
        if window:
            self.windowed = True
            self.draft.windows.setdefault(window, 1)
            return "sliding"
        bound = self.draft.window()
        beyond = q == 1 and bound is not None and k > bound
        if route == "native_causal" or beyond or (self.windowed and route in ("array_mask", "mask")):
            return "full"
        return None


def _axes(text: str) -> list[int]:
    return [int(part) for part in text.replace(",", " ").split() if len(part) < 13]
