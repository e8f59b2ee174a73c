"""Text Generation Inference: `details.tokens[{id, text, logprob, special}]`, whole or one event a token."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import UNSET

from mlxdiag.traces.importers.draft import Draft, number
from mlxdiag.traces.importers.importer import KNOWN, TAKEN, UNKNOWN, Importer
from mlxdiag.traces.importers.records import Record
from mlxdiag.traces.importers.tokens import Answer, Answers, Token, finish_of, logprob_of


class Tgi(Importer):
    """Events name no request: an answer lasts until the event that holds the whole text."""

    name = "tgi"
    program = "text-generation-inference"

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self.answers = Answers(draft)
        self.count = 0
        self.open: Answer | None = None

    def take(self, record: Record) -> int:
        values = record.value if isinstance(record.value, list) else [record.value]
        return max((self._one(value) for value in values if isinstance(value, dict)), default=UNKNOWN)

    def _one(self, value: dict[str, Any]) -> int:
        token, details = value.get("token"), value.get("details")
        if isinstance(token, dict) and "generated_text" in value:
            answer = self.open or self._begin()
            ended = value["generated_text"] is not None
            self.open = None if ended else answer
            finish = finish_of(details.get("finish_reason")) if isinstance(details, dict) else None
            return TAKEN if answer.emit(list(_tokens([token])), finish) else KNOWN
        if isinstance(details, dict) and isinstance(details.get("tokens"), list):
            return self._whole(details)
        return KNOWN if set(value) == {"generated_text"} else UNKNOWN

    def _whole(self, details: dict[str, Any]) -> int:
        answer = self._begin()
        prefill = details.get("prefill")
        if isinstance(prefill, list) and prefill:
            first = prefill[0]
            told = isinstance(first, dict) and "logprob" in first
            answer.prompt(len(prefill), logprob_of(first["logprob"]) if told else UNSET)
        finish = finish_of(details.get("finish_reason"))
        return TAKEN if answer.emit(list(_tokens(details["tokens"])), finish) else KNOWN

    def _begin(self) -> Answer:
        self.count += 1
        return self.answers.of(("tgi", self.count))


def _tokens(listed: Iterable[object]) -> Iterator[Token]:
    for one in listed:
        if isinstance(one, dict):
            text = one.get("text")
            yield Token(
                text=text if isinstance(text, str) else None,
                ident=number(one.get("id")),
                special=one.get("special") is True,
                logprob=logprob_of(one["logprob"]) if "logprob" in one else UNSET,
            )
