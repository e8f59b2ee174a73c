"""Texts over several lines: what one line opens, no later line is outside of until it is closed.

A prompt in quotes, a printed JSON value or a repr may hold lines that look like a log's own. While one is
open nothing is let through; what is never closed, `following` ends where the next record begins.
"""

from __future__ import annotations

import re

RULER = "=========="
"""Between two of these mlx_lm.generate prints the answer."""

_CLOSERS = {")": "([", "]": "([", "}": "{"}
_TELLING = re.compile(r"[\\\"'`()\[\]{}]")
_IN_QUOTES = re.compile(r"[\\\"'`]")
_PREFIX = re.compile(r"(?<![A-Za-z0-9])[bBrRuUfF]{1,2}\Z")
_SMILEY = re.compile(r"[:;]-?\Z")
_MARKUP = re.compile(r"\s*(?:```|~~~)\w*\s*\Z")


_TURN = re.compile(
    r"<start_of_turn>|<\|(?:im_start|start_header_id|start|user|assistant|system|turn)\|?>|\[INST\]"
    r"|^\s*(?:### )?(?:Instruction|Response|Human|Assistant|User|Prompt|Question)\s*:\s*(?![\s\d])?\D*$",
    re.IGNORECASE,
)
_TURN_ENDS = re.compile(r"<end_of_turn>|<\|(?:im_end|eot_id|end|eom_id)\|>|\[/INST\]")


def begins_turn(line: str) -> bool:
    """Whether a turn of a conversation begins in the line and goes on in the next."""
    turn = _TURN.search(line)
    return turn is not None and _TURN_ENDS.search(line, turn.end()) is None


class Opened:
    """Stateful, one a log: brackets and quotes that are open at the end of the line."""

    def __init__(self) -> None:
        self._brackets: list[str] = []
        self._quote = ""
        self._depth = 0
        """Quotes inside of the quote, as they stand in a text that nobody escaped."""
        self._ruled = False

    @property
    def open(self) -> bool:
        """Whether something is."""
        return bool(self._brackets or self._quote or self._ruled)

    def feed(self, line: str) -> None:
        """Read a line, from its beginning to its end."""
        if line.rstrip() == RULER and not self._quote and not self._brackets:
            self._ruled = not self._ruled
            return
        if self._ruled or _MARKUP.match(line):
            return
        at = 0
        while found := (_IN_QUOTES if self._quote else _TELLING).search(line, at):
            at = self._inside(line, found.start()) if self._quote else self._outside(line, found.start())

    def _inside(self, line: str, at: int) -> int:
        quote = self._quote
        if line[at] == "\\":
            return at + 2
        if not line.startswith(quote, at):
            return at + 1
        end = at + len(quote)
        before, after = line[at - 1 : at], line[end : end + 1]
        if len(quote) > 1 or quote == "`":
            self._quote = ""
        elif quote == "'" and before.isalnum() and after.isalnum():
            pass  # an apostrophe
        elif at > 0 and after.isalnum() and (not before.strip() or before in "([{"):
            self._depth += 1
        elif self._depth:
            self._depth -= 1
        else:
            self._quote = ""
        return end

    def _outside(self, line: str, at: int) -> int:
        character = line[at]
        if character == "\\":
            return at + 2
        for quote in ('"""', "'''"):
            if line.startswith(quote, at):
                self._quote, self._depth = quote, 0
                return at + len(quote)
        inch = character == '"' and line[at - 1 : at].isdigit() and not line[at + 1 : at + 2].isalnum()
        if character == "`" or (character == '"' and not inch) or (character == "'" and _begins(line, at)):
            self._quote, self._depth = character, 0
        elif character in "([{":
            if not (character == "(" and _SMILEY.search(line[:at])):
                self._brackets.append(character)
        elif character in _CLOSERS and self._brackets and self._brackets[-1] in _CLOSERS[character]:
            self._brackets.pop()
        return at + 1


def _begins(line: str, at: int) -> bool:
    """Whether a single quote opens something, and is no apostrophe and no prime."""
    before = line[:at]
    if line[at + 1 : at + 2] in ("", " ") and line.find("'", at + 1) < 0:
        return line[at + 1 :] == "" and before[-1:] in ("=", "(", "[", "{", ",", ":", " ")
    return not before[-1:].isalnum() or _PREFIX.search(before) is not None
