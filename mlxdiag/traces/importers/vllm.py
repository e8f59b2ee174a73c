"""vLLM: the scheduler step that it dumps when its engine fails, and printed `RequestOutput`s.

`LEVEL MM-DD HH:MM:SS [file.py:line] msg`, often behind `(EngineCore_0 pid=N)`. A dump is the repr of Python
objects; only the fields named here are looked for in it, so that prompts and sampling settings stay out.
"""

from __future__ import annotations

import re

from msgspec import structs

from mlxdiag.traces.importers import packed
from mlxdiag.traces.importers.draft import Draft, Step, number
from mlxdiag.traces.importers.importer import KNOWN, TAKEN, UNKNOWN, Importer
from mlxdiag.traces.importers.records import Record
from mlxdiag.traces.importers.tokens import Answers, Token, finish_of
from mlxdiag.traces.types import Row

_HEAD = re.compile(
    r"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? \[[\w./-]{1,80}:\d{1,6}\]"
)
_SCHEDULED = re.compile(r"num_scheduled_tokens=\{([^{}]{0,200000})\}")
_COUNT = re.compile(r"'?([^\s,:'\"{}]{1,120})'?: (\d{1,12})(?=[,}\s]|$)")
_NEW = re.compile(r"NewRequestData\(")
_NEW_ID = re.compile(r"req_id='?([^\s,'()]{1,200})'?")
_COMPUTED = re.compile(r"num_computed_tokens=(\d{1,12})")
_PROMPT = re.compile(r"prompt_token_ids_len=(\d{1,12})")
_CACHED_IDS = re.compile(r"\breq_ids=\[([^\]]{0,200000})\]")
_CACHED_COMPUTED = re.compile(r"\bnum_computed_tokens=\[([\d, ]{0,200000})\]")
_NAME = re.compile(r"'([^']{1,200})'")
_DRAFTS = re.compile(r"scheduled_spec_decode_tokens=\{([^{}]{0,200000})\}")
_DRAFT = re.compile(r"'?([^\s,:'\"{}\[\]]{1,120})'?: \[([-\d, ]{0,10000})\]")
_OUTPUT = re.compile(r"CompletionOutput\(index=(\d{1,6}),")
_IDS = re.compile(r"\btoken_ids=[\[(]([-\d, ]{0,2000000})[\])]")
_LOGPROB = re.compile(r"cumulative_logprob=(nan|-?inf|None|-?\d{1,12}(?:\.\d{1,20})?(?:e-?\d{1,3})?)")
_FINISH = re.compile(r"finish_reason='?(\w{1,30})'?")
_REQUEST = re.compile(r"RequestOutput\(request_id='?([^\s,'()]{1,200})'?")


class Vllm(Importer):
    """Lengths of prompts are remembered for the steps after a request's first."""

    name = "vllm"
    program = "vllm"

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self.prompts: dict[str, int] = {}

    def take(self, record: Record) -> int:
        text = record.text
        if record.value is not None:
            return UNKNOWN
        if "SchedulerOutput(" in text and self._dump(text):
            return TAKEN
        if "CompletionOutput(" in text:
            return TAKEN if self._outputs(text) else KNOWN
        return KNOWN if _HEAD.search(text) else UNKNOWN

    def _dump(self, text: str) -> bool:
        scheduled = _SCHEDULED.search(text)
        if scheduled is None:
            return False
        counts = {name: int(count) for name, count in _COUNT.findall(scheduled[1])[: packed.MOST_ROWS]}
        offsets = self._offsets(text)
        names = [*counts, *(name for name in offsets if name not in counts)][: packed.MOST_ROWS]
        drafts = _DRAFTS.search(text)
        drafted = {name: len(ids.split(",")) for name, ids in _DRAFT.findall(drafts[1])} if drafts else {}
        rows = [self._row(name, counts.get(name, 0), offsets.get(name), drafted.get(name)) for name in names]
        return packed.write(self.draft, rows)

    def _row(self, name: str, tokens: int, offset: int | None, drafted: int | None) -> Row:
        total = self.prompts.get(name)
        phase = "verify" if drafted else packed.phase_of(tokens, offset, total)
        return Row(
            seq=self.draft.seq(name),
            phase=phase,
            offset=offset,
            tokens=tokens,
            scheduled=tokens,
            total=total,
            drafted=drafted,
        )

    def _offsets(self, text: str) -> dict[str, int]:
        """Computed tokens of each request, new and cached."""
        found: dict[str, int] = {}
        pieces = _NEW.split(text)
        for piece in pieces[1:]:
            piece = piece.partition("CachedRequestData(")[0]
            name, computed = _NEW_ID.search(piece), _COMPUTED.search(piece)
            if name and computed:
                found[name[1]] = int(computed[1])
                length = _PROMPT.search(piece)
                if length:
                    self.prompts[name[1]] = int(length[1])
        names, computed_all = _CACHED_IDS.search(text), _CACHED_COMPUTED.search(text)
        if names and computed_all:
            counts = [number(part) or 0 for part in computed_all[1].replace(",", " ").split()]
            found |= dict(zip(_NAME.findall(names[1]), counts, strict=False))
        for piece in text.split("CachedRequestData(req_id=")[1:]:
            name, computed = _NEW_ID.match("req_id=" + piece), _COMPUTED.search(piece)
            if name and computed:
                found[name[1]] = int(computed[1])
        return found

    def _outputs(self, text: str) -> bool:
        request = _REQUEST.search(text)
        parts = _OUTPUT.split(text)
        taken = False
        for index, part in zip(parts[1::2], parts[2::2], strict=True):
            ids = _IDS.search(part)
            if ids is None:
                continue
            tokens = [Token(ident=int(one)) for one in ids[1].split(",") if one.strip()]
            told, finish = _LOGPROB.search(part), _FINISH.search(part)
            answer = Answers(self.draft).of(("vllm", request[1] if request else None, index))
            step = answer.emit(tokens, finish=finish_of(finish[1]) if finish else None)
            if told and step is not None and told[1] == "nan":
                _mark_nan(step)
            taken = True
        return taken


def _mark_nan(step: Step) -> None:
    step.rows = [structs.replace(step.rows[0], logprob="nan")]
    step.infer("rows.logprob", "the answer's sum is NaN, so at least one of its tokens is")
