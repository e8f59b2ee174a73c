"""mlxcel's tracing log: spans, chunk lines, discarded masks, prompt-cache and speculation events.

Line grammar: `TIME LEVEL span{f=v}:span{f=v}: module::path: message f=v f=v`, every part of which may be
missing in a paste. Fields are therefore read wherever they stand.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import structs

from mlxdiag.traces.importers import shapes
from mlxdiag.traces.importers.draft import Draft, Step, filled, number
from mlxdiag.traces.importers.importer import KNOWN, TAKEN, UNKNOWN, Importer
from mlxdiag.traces.importers.mlxcel_discard import PROMPT, Discard
from mlxdiag.traces.importers.mlxcel_masks import DiscardedMasks
from mlxdiag.traces.importers.records import Record
from mlxdiag.traces.types import Row

_OWN = re.compile(
    r"mlxcel::|\bmlxcel(?:-server)?\b|\b(?:chunked_prefill_(?:start|continue)|speculative_slice_round)\{|"
    r"trim_mask_to_keys|\bmask_len=\d+\W+key_len=\d|Chunked prefill: seq|\bprefill\{seq_id=|"
    r"decode_step\{batch|prompt-cache(?:: request| snapshot| hit| adopt| store| reject)|batched prefill: |"
    r"(?:gemma4|ragged) batched MTP|MLX threw at the |lookahead teardown: |"
    r"loop detection: ending generation|Preempting sequence |speculative B=1 burst"
)
_FIELD = re.compile(
    r"\b([A-Za-z_]\w*)=(\"[^\"]{0,200}\"|\[[^\]]{0,200}\]|Some\(\[?[^\])]{0,200}\]?\)|[^\s,{}()\"'`]{1,200})"
)
_SPAN = re.compile(
    r"\b(chunked_prefill_start|chunked_prefill_continue|prefill|decode_step|speculative_slice_round)\{"
)
_MODULE = re.compile(r"\bmlxcel::models::([a-z0-9_]+)")
_VERSION = re.compile(r"\bmlxcel(?:-server)?[ /]v?(\d{1,4}\.\d{1,4}\.\d{1,4})\b")
_CHUNK = re.compile(r"\b(?:chunk|pieces?) (\d{1,12})\.\.(\d{1,12})(?:/(\d{1,12}))?")
_SEQ = re.compile(r"\bseq-\d{1,12}\b")
_ADOPTED = re.compile(r"(?:adopted|restored) (\d{1,12})/(\d{1,12}) tokens")
_BATCHED = re.compile(r"batched prefill: (\d{1,4}) requests, padded to (\d{1,12})")
_RING = re.compile(r"ring idx (\d{1,12}) exceeds max_size (\d{1,12})")
_NUMBERS = re.compile(r"-?\d{1,12}")

ARCHITECTURES = {
    "gemma4": "gemma4_text",
    "gemma4_unified": "gemma4_text",
    "gemma4_vlm": "gemma4_text",
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma2": "gemma2",
    "gpt_oss": "gpt_oss",
    "mellum": "mellum",
    "exaone4": "exaone4",
    "exaone_moe": "exaone_moe",
    "ministral3": "ministral3",
    "step3p5": "step3p5",
    "cohere2": "cohere2",
    "olmo3": "olmo3",
    "llama": "llama",
    "qwen3": "qwen3",
}
"""Modules of mlxcel and the `model_type` of the configs that they load."""

MOST_ROWS = 512


class Mlxcel(Importer):
    """State: the chunk size, and per sequence what was adopted and how often it began again."""

    name = "mlxcel"
    program = "mlxcel"

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self.masks = DiscardedMasks(draft)
        self.adopted: dict[str, int] = {}
        self.lives: dict[str, int] = {}

    def take(self, record: Record) -> int:
        text = record.text
        if record.value is not None or not _OWN.search(text):
            return UNKNOWN
        self._identity(text)
        fields = dict(reversed(_FIELD.findall(text)))
        if "chunk_size" in fields and (size := number(fields["chunk_size"])):
            self.draft.scheduler["chunk"] = size
        for marker, read in self._readers():
            if marker in text:
                return TAKEN if read(text, fields) else KNOWN
        if _CHUNK.search(text) and self._chunk(text, fields):
            return TAKEN
        return KNOWN

    def close(self) -> None:
        self.masks.settle()

    def _readers(self) -> tuple[tuple[str, Callable[[str, dict[str, str]], bool]], ...]:
        return (
            ("mask_len=", self._discard),
            ("MLX threw at the", self._threw),
            ("gemma4 batched MTP divergent", self._divergent),
            ("ragged batched MTP window declined", self._declined),
            ("snapshot restore failed", self._refused),
            ("prompt-cache hit covered", self._whole_hit),
            ("prompt-cache hit", self._adopt),
            ("prompt-cache snapshot hit", self._adopt),
            ("dense trim removed fewer", self._short_trim),
            ("batched prefill:", self._batched),
            ("loop detection: ending", self._loop),
            ("Preempting sequence", self._preempted),
        )

    def _identity(self, text: str) -> None:
        version, module = _VERSION.search(text), _MODULE.search(text)
        if version:
            self.draft.version = version[1]
        name = ARCHITECTURES.get(module[1]) if module else None
        why = "the module that printed the line"
        if name is None and "trim_mask_to_keys" in text:
            name, why = "gemma4_text", "only mlxcel's gemma4 has this function"
        if name is not None and self.draft.architecture is None:
            self.draft.architecture = name
            self.draft.model_inferred["model.architecture"] = why

    def _seq(self, text: str, fields: dict[str, str]) -> str | None:
        name = fields.get("seq_id", "").strip('"')
        if not name:
            match = _SEQ.search(text)
            name = match[0] if match else ""
        return self.draft.seq(name or None, "s")

    def _key(self, seq: str | None, offset: int) -> tuple[object, ...]:
        return ("mlxcel", seq, self.lives.get(seq or "", 0), offset)

    def _piece(self, seq: str | None, offset: int) -> Step:
        return self.draft.step("chunk" if offset else "prefill", self._key(seq, offset))

    def _chunk(self, text: str, fields: dict[str, str]) -> bool:
        match = _CHUNK.search(text)
        if match is None:
            return False
        start, end, total = (number(part) for part in match.groups())
        seq = self._seq(text, fields)
        total = total if total is not None else number(fields.get("total") or fields.get("prompt_len"))
        if start is None or end is None or end <= start:
            return False
        held = self.adopted.get(seq or "", 0)
        moved = start == 0 < held < end
        step = self._piece(seq, held if moved else start)
        if moved:
            step.infer("rows.offset", f"the first line counts from 0, {held} tokens were adopted")
            start = held
        row = step.rows[0] if step.rows else Row(seq=seq, offset=start)
        step.rows = [structs.replace(filled(row, total=total), tokens=end - start)]
        return True

    def _discard(self, text: str, fields: dict[str, str]) -> bool:
        m, k = number(fields.get("mask_len")), number(fields.get("key_len"))
        if m is None or k is None or m >= k:
            return False
        spans = _SPAN.findall(text)
        offset, total = number(fields.get("offset")), number(fields.get("total"))
        kind = spans[-1] if spans else "chunked_prefill_continue" if total is not None else None
        if kind in ("prefill", "chunked_prefill_start"):
            offset, total = number(fields.get("cached")) or 0, number(fields.get("prompt_len"))
        seq = self._seq(text, fields)
        found = Discard(
            kind=kind, seq=seq, m=m, k=k, q=number(fields.get("query_len")), offset=offset, total=total,
            slice=number(fields.get("slice")), text=text, chunk=self.draft.scheduler.get("chunk"),
        )  # fmt: skip
        step = self._piece(seq, offset) if kind in PROMPT and offset is not None else None
        self.masks.add(found, step)
        return True

    def _threw(self, text: str, fields: dict[str, str]) -> bool:
        told = shapes.read(text)
        if told is None:
            return False
        offset = number(fields.get("offset"))
        seq = self._seq(text, fields)
        step = self.draft.step("note") if offset is None else self._piece(seq, offset)
        step.error = told.fault("eval")
        call = shapes.attention_of(told, "")
        row = step.rows[0] if step.rows else Row(seq=seq, offset=offset, total=number(fields.get("total")))
        if call is not None and offset is not None:
            left = call.q if row.total is None or call.q is None else min(call.q, max(row.total - offset, 0))
            row = filled(row, tokens=left, padded=call.q)
            step.calls = [*step.calls, call]
            step.infer("rows.padded", "the queries of the scores")
        if offset is not None:
            step.rows = [row]
        return True

    def _divergent(self, text: str, fields: dict[str, str]) -> bool:
        length = number(fields.get("l"))
        ends = _integers(fields.get("ve"))
        padding = _integers(fields.get("left_padding"))
        if not length or not ends or len(ends) > MOST_ROWS:
            return False
        step = self.draft.step("verify")
        left = padding if len(padding) == len(ends) else [None] * len(ends)
        step.rows = [
            Row(offset=end, tokens=length, left_padding=pad) for end, pad in zip(ends, left, strict=True)
        ]
        step.infer("rows.offset", "each row's valid end")
        return True

    def _declined(self, text: str, fields: dict[str, str]) -> bool:
        window = number(fields.get("sliding_window"))
        if not window or window < 1:
            return False
        self.draft.windows[window] = self.draft.windows.get(window, 0) + 1
        step = self.draft.step("note")
        step.refused = "ragged batched speculation: the longest prompt exceeds the sliding window"
        return True

    def _adopt(self, text: str, fields: dict[str, str]) -> bool:
        match = _ADOPTED.search(text)
        matched = number(match[1]) if match else number(fields.get("matched"))
        total = number(match[2]) if match else number(fields.get("total"))
        if matched is None or matched < 1:
            return False
        seq = self._seq(text, fields)
        step = self.draft.step("adopt", ("mlxcel", "adopt", seq))
        step.rows = [Row(seq=seq, matched=matched, restored=matched, total=total)]
        if seq is not None:
            self.adopted[seq] = matched
        return True

    def _whole_hit(self, text: str, fields: dict[str, str]) -> bool:
        seq = self._seq(text, fields)
        step = self.draft.recent(("mlxcel", "adopt", seq))
        if step is None or not step.rows or not step.rows[0].matched:
            return False
        row = step.rows[0]
        step.rows = [structs.replace(row, restored=(row.matched or 1) - 1)]
        step.infer("rows.restored", "the last token is run again")
        if seq is not None:
            self.adopted[seq] = (row.matched or 1) - 1
        return True

    def _refused(self, text: str, fields: dict[str, str]) -> bool:
        ring = _RING.search(text)
        step = self.draft.step("adopt")
        step.rows = [Row(seq=self._seq(text, fields))]
        why = f": ring idx {ring[1]} exceeds max_size {ring[2]}" if ring else ""
        step.refused = f"snapshot restore failed{why}; prefilled from the start"
        return True

    def _short_trim(self, text: str, fields: dict[str, str]) -> bool:
        asked, done = number(fields.get("requested")), number(fields.get("trimmed"))
        if asked is None or done is None:
            return False
        step = self.draft.step("trim")
        step.rows = [Row(seq=self._seq(text, fields), asked=asked, done=done)]
        return True

    def _batched(self, text: str, fields: dict[str, str]) -> bool:
        match = _BATCHED.search(text)
        if match is None or not 1 <= int(match[1]) <= MOST_ROWS:
            return False
        step = self.draft.step("prefill")
        step.rows = [Row(offset=0, padded=int(match[2]))] * int(match[1])
        step.infer("rows.offset", "only rows without a prefix are batched")
        return True

    def _loop(self, text: str, fields: dict[str, str]) -> bool:
        step = self.draft.step("decode")
        step.rows = [Row(seq=self._seq(text, fields), finish="repetition")]
        return True

    def _preempted(self, text: str, fields: dict[str, str]) -> bool:
        seq = self._seq(text, fields)
        if seq is None:
            return False
        self.lives[seq] = self.lives.get(seq, 0) + 1
        self.adopted.pop(seq, None)
        return True


def _integers(text: str | None) -> list[int]:
    return [int(part) for part in _NUMBERS.findall(text or "")]
