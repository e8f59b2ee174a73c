"""What each sequence's cache should hold, token by token, while a plan is laid or run.

A token is a *code*: its true position, plus a generation in the high bits. The generation rises with every
tail trim, so that a rejected token and the one fed in its place are told apart though they share a position.
"""

from __future__ import annotations

from mlxdiag.errors import UnreadableError

PAD = -1
BITS = 24
"""Positions fit below 2**24; codes stay within 31 bits."""
LONGEST = 1 << 20
"""Tokens that a sequence, or a mask's axis, may hold in a replay: tapes keep every one of them in hand."""
FOREIGN = 127
"""Generation of tokens that came with an adopted prefix and are not the sequence's own."""


def code(position: int, generation: int) -> int:
    return position + (generation << BITS)


def position(code: int) -> int:
    return code if code < 0 else code & ((1 << BITS) - 1)


def generation(code: int) -> int:
    return 0 if code < 0 else code >> BITS


class Tape:
    """The tokens of one sequence in cache order."""

    def __init__(self, seq: str) -> None:
        self.seq = seq
        self.held: list[int] = []
        self.longest = 0
        self.generation = 0

    @property
    def offset(self) -> int:
        """Cache offset: padding that was never trimmed counts."""
        return len(self.held)

    @property
    def real(self) -> int:
        """True position of the next real token."""
        return next((position(c) + 1 for c in reversed(self.held) if c != PAD), 0)

    @property
    def own(self) -> list[int]:
        """Codes of the sequence's own real tokens, in order."""
        return [c for c in self.held if c != PAD and generation(c) != FOREIGN]

    def begin_again(self) -> None:
        """Nothing is held any more: the sequence is fed from its first token on."""
        self.held = []

    def feed(self, codes: list[int]) -> None:
        self.held += codes
        self.longest = max(self.longest, self.real)

    def adopt(self, restored: int, matched: int) -> None:
        """Start with a stored prefix, of which the first `matched` tokens are the sequence's own."""
        own = min(restored, matched)
        self.feed(list(range(own)) + [code(p, FOREIGN) for p in range(own, restored)])

    def cut(self, tokens: int, where: str, kept: int = 0) -> None:
        """Take `tokens` off the end, of which `kept` stay in the caches and belong to nothing any more.

        Raises:
            UnreadableError: more than the sequence holds.
        """
        if tokens > len(self.held):
            raise UnreadableError(
                f"{where}: {tokens} tokens trimmed of {self.seq}, which holds {len(self.held)}"
            )
        if tokens:
            if any(c != PAD for c in self.held[-tokens:]):
                self.generation += 1
            del self.held[-tokens:]
            self.held += [PAD] * kept

    def finalize(self) -> None:
        """Padding on the right is rolled to the front of the row and leaves its positions."""
        self.held = [c for c in self.held if c != PAD]

    def missing_before(self, offset: int, where: str) -> int:
        """Tokens the trace does not show before a call at `offset`.

        A scheduler may count with the cache (padding included) or with its prompt cursor (real tokens only).

        Raises:
            UnreadableError: the offset goes back without a trim or rollback in between.
        """
        if (offset <= 0 and not self.held) or offset in (self.offset, self.real):
            return 0
        if offset > self.offset:
            return offset - self.offset
        raise UnreadableError(
            f"{where}: {self.seq} goes back to {offset} while it holds {self.offset} tokens "
            f"({self.real} real); a trim or rollback entry must come first"
        )
