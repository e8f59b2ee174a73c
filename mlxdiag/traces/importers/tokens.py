"""Generated tokens as classes and labels: what was said stays out; what repeats or is reserved is seen."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterator, Sequence

import msgspec
from msgspec import UNSET, UnsetType

from mlxdiag.traces.importers.draft import Draft, Step
from mlxdiag.traces.types import Row, Tokens

Logprob = float | str | UnsetType | None

SPECIAL = re.compile(
    r"<\|?[A-Za-z][\w-]{0,40}\|?>|<\|[A-Za-z][\w-]{0,40}\|?>|</s>|\[(?:PAD|MASK|CLS|SEP|UNK|EOS|unused_?\d{1,5})\]"
)
"""What a tokenizer writes for one token of its own."""
_RESERVED = re.compile(
    r"[<\[]\|?(?:unused|reserved_special_token|reserved|extra_id|dummy|placeholder)_?-?\d{1,6}\|?[>\]]"
)
_PADS = frozenset({"<pad>", "[PAD]", "<|pad|>", "<|padding|>", "<|finetune_right_pad_id|>", "<|endofpad|>"})
_ENDS = frozenset(
    {
        "<eos>", "</s>", "<|im_end|>", "<end_of_turn>", "<turn|>", "<|eot_id|>", "<|endoftext|>", "<|end|>",
        "<|return|>", "<|end_of_text|>", "<|eom_id|>", "[EOS]", "<|END_OF_TURN_TOKEN|>",
    }
)  # fmt: skip
_CONTROLS = re.compile(
    r"<\|[\w-]{1,40}\|?>|<(?:bos|s|unk|mask|start_of_turn|turn|fim_\w{1,20}|think|tool_call|channel|"
    r"start_of_image|end_of_image|image_soft_token)\|?>|\[(?:MASK|CLS|SEP|UNK)\]"
)
_FINISHES = {
    "stop": "eos",
    "eos": "eos",
    "eos_token": "eos",
    "stop_sequence": "eos",
    "end_turn": "eos",
    "tool_calls": "eos",
    "length": "length",
    "max_tokens": "length",
    "abort": "abort",
    "cancelled": "abort",
    "repetition": "repetition",
    "repetition_detected": "repetition",
}


class Token(msgspec.Struct, frozen=True):
    """One generated token as a stream shows it: its text, its id, or both."""

    text: str | None = None
    ident: int | None = None
    special: bool = False
    logprob: Logprob = UNSET

    @property
    def identity(self) -> str | int | None:
        """What makes two tokens equal: their id, else their text."""
        return self.text if self.ident is None else self.ident


def finish_of(reason: object) -> str | None:
    return _FINISHES.get(reason) if isinstance(reason, str) else None


def logprob_of(value: object) -> Logprob:
    """Null, NaN and a number, told apart; anything else is not observed."""
    if value is None:
        return None
    if isinstance(value, str):
        return "nan" if value.strip().lower() == "nan" else UNSET
    if isinstance(value, bool) or not isinstance(value, int | float):
        return UNSET
    return "nan" if math.isnan(value) else float(value)


def class_of(token: Token, known: Tokens | None) -> str:
    """One letter of TOKEN_CLASSES. A text says more than an id, for a config may know few ids."""
    text = (token.text or "").strip()
    if text:
        if _RESERVED.fullmatch(text):
            return "c" if known is not None and token.ident in (known.control or ()) else "r"
        if text in _PADS:
            return "p"
        if text in _ENDS:
            return "e"
        if _CONTROLS.fullmatch(text):
            return "c"
    if token.ident is not None and known is not None:
        if token.ident in (known.eos or ()):
            return "e"
        if token.ident == known.pad:
            return "p"
        if any(low <= token.ident <= high for low, high in known.reserved or ()):
            return "r"
    if token.special:
        return "c"
    return "0" if token.ident == 0 else "t"


def pieces(text: str, words: bool = False) -> Iterator[Token]:
    """A text as tokens, nearly: each special one is its own, the text between is one piece, or one a word."""
    at = 0
    for match in SPECIAL.finditer(text):
        yield from _plain(text[at : match.start()], words)
        yield Token(text=match.group())
        at = match.end()
    yield from _plain(text[at:], words)


def _plain(text: str, words: bool) -> Iterator[Token]:
    if words:
        yield from (Token(text=word) for word in text.split())
    elif text:
        yield Token(text=text)


class Answers:
    """The answers of a draft, by whatever tells them apart in their format."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft

    def of(self, key: Hashable) -> Answer:
        return Answer(self.draft, self.draft.seq(("answer", key), "answer"))


class Answer:
    """One answer, to which tokens are added as they come."""

    def __init__(self, draft: Draft, seq: str | None) -> None:
        self.draft = draft
        self.seq = seq

    def emit(
        self, tokens: Sequence[Token], finish: str | None = None, approximate: str | None = None
    ) -> Step | None:
        """Write tokens down: one step for all of them, or one each where they have log-probabilities.

        `approximate`: why the split into tokens is not the model's own.
        """
        groups = [[token] for token in tokens] if any(_told(token) for token in tokens) else [list(tokens)]
        groups = [group for group in groups if group]
        if not groups and finish is None:
            return None
        step = None
        for index, group in enumerate(groups or [[]]):
            step = self.draft.step("decode")
            last = index == max(len(groups) - 1, 0)
            step.rows = [self._row(group, finish if last else None)]
            if approximate and group and self.draft.first(("approximate", self.seq, approximate)):
                step.infer("rows.emitted", approximate)
        return step

    def prompt(self, tokens: int | None, logprob: Logprob = UNSET) -> None:
        """The prompt of the answer, as far as the stream tells; a null on its first token is legal."""
        step = self.draft.step("prefill")
        step.rows = [Row(seq=self.seq, tokens=tokens, total=tokens, logprob=logprob)]

    def _row(self, group: list[Token], finish: str | None) -> Row:
        known = self.draft.model.tokens if self.draft.model is not None else None
        return Row(
            seq=self.seq,
            emitted=len(group),
            classes="".join(class_of(token, known) for token in group) or None,
            ids=[self.draft.label(token.identity) for token in group] or None,
            finish=finish,
            logprob=group[0].logprob if len(group) == 1 else UNSET,
        )


def _told(token: Token) -> bool:
    return token.logprob is not UNSET
