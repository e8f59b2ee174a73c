"""ollama's answers: one JSON object a line, until `done`."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from mlxdiag.traces.importers.draft import Draft, number
from mlxdiag.traces.importers.importer import KNOWN, TAKEN, UNKNOWN, Importer
from mlxdiag.traces.importers.records import Record
from mlxdiag.traces.importers.tokens import Answer, Answers, Token, finish_of, logprob_of, pieces

_CHUNK = "a line of the stream is taken for one token where it has no logprobs"
_WORD = "words are taken for tokens: the answer came whole"


class OllamaStream(Importer):
    """Lines name no request: an answer lasts until the line that says `done`."""

    name = "ollama-stream"
    program = "ollama"

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self.answers = Answers(draft)
        self.count = 0
        self.open: Answer | None = None

    def take(self, record: Record) -> int:
        value = record.value
        if not isinstance(value, dict) or not isinstance(value.get("done"), bool):
            return UNKNOWN
        message, response = value.get("message"), value.get("response")
        if isinstance(message, dict):
            parts = (message.get("thinking"), message.get("content"))
            text = "".join(part for part in parts if isinstance(part, str))
        elif isinstance(response, str):
            text = response
        else:
            return KNOWN
        alone = self.open is None
        if self.open is None:
            self.count += 1
            self.open = self.answers.of(("ollama", self.count))
        answer = self.open
        done = value["done"]
        if done:
            self.open = None
        finish = finish_of(value.get("done_reason")) if done else None
        tokens = list(_listed(value))
        if tokens:
            return TAKEN if answer.emit(tokens, finish) else KNOWN
        whole = done and alone and " " in text
        prompt = number(value.get("prompt_eval_count"))
        if whole and prompt:
            answer.prompt(prompt)
        made = answer.emit(list(pieces(text, words=whole)), finish, _WORD if whole else _CHUNK)
        return TAKEN if made is not None else KNOWN


def _listed(value: dict[str, Any]) -> list[Token]:
    told = value.get("logprobs")
    found = []
    for one in told if isinstance(told, list) else ():
        if isinstance(one, dict) and isinstance(one.get("token"), str):
            chosen = logprob_of(one["logprob"]) if "logprob" in one else UNSET
            found.append(Token(text=one["token"], logprob=chosen))
    return found
