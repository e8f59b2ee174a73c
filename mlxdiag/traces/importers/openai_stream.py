"""OpenAI-style answers: chunks of a stream (server-sent events or a line each), whole answers, logprobs.

Bodies of requests (`messages`, `prompt`) are of this format too, and hold nothing for a trace.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from mlxdiag.traces.importers.draft import Draft, number
from mlxdiag.traces.importers.importer import KNOWN, TAKEN, UNKNOWN, Importer
from mlxdiag.traces.importers.records import Record
from mlxdiag.traces.importers.tokens import Answer, Answers, Token, finish_of, logprob_of, pieces

_CHUNK = "a chunk of the stream is taken for one token where it has no logprobs"
_WORD = "words are taken for tokens: the answer has no logprobs"
_MOST_CHOICES = 256


class OpenAiStream(Importer):
    """Answers are told apart by their id and the index of the choice."""

    name = "openai"

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self.answers = Answers(draft)

    def take(self, record: Record) -> int:
        value = record.value
        if value is None:
            return KNOWN if record.text.strip() in ("data: [DONE]", "data:[DONE]") else UNKNOWN
        if isinstance(value, list):
            verdicts = [self.take(Record("", one)) for one in value if isinstance(one, dict)]
            return max(verdicts, default=UNKNOWN)
        choices = value.get("choices")
        if not isinstance(choices, list):
            return KNOWN if "messages" in value and "model" in value else UNKNOWN
        verdict = KNOWN
        for choice in choices[:_MOST_CHOICES]:
            if isinstance(choice, dict) and self._choice(value, choice):
                verdict = TAKEN
        return verdict

    def _choice(self, value: dict[str, Any], choice: dict[str, Any]) -> bool:
        answer = self.answers.of(("openai", _plain(value.get("id")), _plain(choice.get("index"))))
        finish = finish_of(choice.get("finish_reason"))
        told = choice.get("logprobs")
        tokens = _listed(told) if isinstance(told, dict) else []
        if not tokens and isinstance(told, dict) and isinstance(told.get("token_logprobs"), list):
            tokens = self._legacy(answer, value, told)
        if tokens:
            return answer.emit(tokens, finish) is not None
        delta = choice.get("delta")
        if isinstance(delta, dict):
            return answer.emit(list(pieces(_said(delta))), finish, _CHUNK) is not None
        message = choice.get("message")
        if isinstance(message, dict):
            return answer.emit(list(pieces(_said(message), words=True)), finish, _WORD) is not None
        text = choice.get("text")
        if not isinstance(text, str):
            return answer.emit([], finish) is not None
        whole = choice.get("finish_reason") is not None and text.count(" ") > 8
        return answer.emit(list(pieces(text, words=whole)), finish, _WORD if whole else _CHUNK) is not None

    def _legacy(self, answer: Answer, value: dict[str, Any], told: dict[str, Any]) -> list[Token]:
        """Parallel lists; with `echo` the prompt's tokens come first, and the very first has no logprob."""
        logprobs, texts = told["token_logprobs"], told.get("tokens")
        texts = texts if isinstance(texts, list) else []
        usage = value.get("usage")
        generated = number(usage.get("completion_tokens")) if isinstance(usage, dict) else None
        echoed = max(len(logprobs) - generated, 0) if generated is not None else 0
        if echoed:
            answer.prompt(echoed, logprob_of(logprobs[0]))
        elif generated is None and len(logprobs) > 1 and logprobs[0] is None and logprobs[1] is not None:
            # Echoed or not: the answer does not say, so this one null is not held against it.
            logprobs = [UNSET, *logprobs[1:]]
        found = []
        for index, one in enumerate(logprobs[echoed:], echoed):
            text = texts[index] if index < len(texts) else None
            probability = UNSET if one is UNSET else logprob_of(one)
            found.append(Token(text=text if isinstance(text, str) else None, logprob=probability))
        return found


def _listed(told: dict[str, Any]) -> list[Token]:
    """`logprobs.content`, of chat answers: one object a token."""
    content = told.get("content")
    found = []
    for one in content if isinstance(content, list) else ():
        if isinstance(one, dict):
            text = one.get("token")
            chosen = logprob_of(one["logprob"]) if "logprob" in one else UNSET
            found.append(Token(text=text if isinstance(text, str) else None, logprob=chosen))
    return found


def _said(message: dict[str, Any]) -> str:
    parts = (message.get(name) for name in ("reasoning_content", "reasoning", "content"))
    return "".join(part for part in parts if isinstance(part, str))


def _plain(value: object) -> str | int | None:
    return value if isinstance(value, str | int) else None
