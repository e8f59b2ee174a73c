"""Rapid-MLX and vllm-mlx: `LEVEL:logger:[tag] key=value ...`."""

from __future__ import annotations

import re

from mlxdiag.traces.importers.draft import number
from mlxdiag.traces.importers.importer import KNOWN, TAKEN, UNKNOWN, Importer
from mlxdiag.traces.importers.records import Record
from mlxdiag.traces.types import Row

_HEAD = re.compile(r"\b(?:DEBUG|INFO|WARNING|ERROR):(rapid_mlx|vllm_mlx)[\w.]{0,80}:")
_TAG = re.compile(r"\[(\w{1,30})\] ")
_FIELD = re.compile(r"\b([a-z_]{1,40})=([\w.-]{1,80})")
_SKIPPED = re.compile(r"supersequence match skipped: (?:non-trimmable|cache could not rewind)")
_DECLINED = re.compile(r"\bunavailable|\bdeclin|\bskip|\bmiss\b|\brefus|non_trimmable=True", re.IGNORECASE)


class RapidMlx(Importer):
    """Every line stands for itself; a request is known by the name in its own lines."""

    name = "rapid-mlx"

    def take(self, record: Record) -> int:
        text = record.text
        head = _HEAD.search(text) if record.value is None else None
        if head is None:
            return UNKNOWN
        self.draft.program = self.draft.program or head[1].replace("_", "-")
        tag = _TAG.search(text)
        fields = dict(_FIELD.findall(text))
        if tag and tag[1] == "cache_fetch":
            return self._fetch(text, fields)
        if tag and tag[1] == "schedule":
            return self._schedule(fields)
        return KNOWN

    def _fetch(self, text: str, fields: dict[str, str]) -> int:
        shared, entry = number(fields.get("shared")), number(fields.get("entry_len"))
        cached, remaining = number(fields.get("cached")), number(fields.get("remaining"))
        seq = self.draft.seq(fields.get("request"))
        if cached is not None and cached > 0 and " HIT " in text:
            step = self.draft.step("adopt")
            total = cached + remaining if remaining is not None and remaining >= 0 else None
            step.rows = [Row(seq=seq, matched=cached, restored=cached, total=total)]
            return TAKEN
        if _SKIPPED.search(text):
            self.draft.step("adopt").refused = "the stored prefix cannot be trimmed"
            return TAKEN
        if shared is None:
            return KNOWN
        step = self.draft.step("adopt")
        step.rows = [
            Row(
                seq=seq,
                matched=max(shared, 0),
                entry=entry,
                total=number(fields.get("requested_len")),
            )
        ]
        if _DECLINED.search(text):
            fixed = fields.get("non_trimmable") == "True"
            step.refused = (
                "the stored prefix cannot be trimmed" if fixed else "the stored prefix was not used"
            )
        return TAKEN

    def _schedule(self, fields: dict[str, str]) -> int:
        prompt, fed = number(fields.get("prompt_tokens")), number(fields.get("tokens_to_prefill"))
        if prompt is None or fed is None or not 0 < fed <= prompt:
            return KNOWN
        step = self.draft.step("chunk" if fed < prompt else "prefill")
        step.rows = [
            Row(seq=self.draft.seq(fields.get("request")), offset=prompt - fed, tokens=fed, total=prompt)
        ]
        step.infer("rows.offset", "prompt_tokens - tokens_to_prefill")
        step.infer("rows.tokens", "as if fed in one piece; the log does not tell the pieces")
        return TAKEN
