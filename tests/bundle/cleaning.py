"""A cleaner with an empty ledger, as the tests of the parts need it."""

from __future__ import annotations

from pathlib import Path

from mlxdiag.bundle.redact.ledger import Ledger
from mlxdiag.bundle.redact.lines import Lines, people
from mlxdiag.bundle.redact.message import Messages
from mlxdiag.bundle.redact.pseudonym import KEY_BYTES, Pseudonyms
from mlxdiag.bundle.redact.vocabulary import Vocabulary


def pseudonyms(folder: Path, salt: bytes = b"salt") -> Pseudonyms:
    """With a key that is always the same."""
    key = folder / "bundle.key"
    key.write_bytes(b"k" * KEY_BYTES)
    return Pseudonyms(salt, key)


def messages(facts=(), kept=(), ledger: Ledger | None = None) -> Messages:
    """Without a key file: a hash that is met draws a key of its own."""
    return Messages(ledger or Ledger(), Vocabulary(kept), Pseudonyms(b"salt", Path("/dev/null/none")), facts)


def cleaned(text: str, facts=(), kept=()) -> str:
    """A log, as it would stand in a bundle; names that its paths show are learnt first, as a bundle does."""
    return "\n".join(Lines(messages([*facts, *people([text])], kept)).clean(text.split("\n")))
