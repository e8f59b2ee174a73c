"""Hashes of prompts, told apart without telling the prompt.

A plain hash of a short prompt can be guessed, so it is replaced by a keyed one. The key is drawn once for
each user of each machine, lies outside every bundle, and is mixed with the bundle's own input: equal hashes
have equal labels inside one bundle, and labels of two bundles cannot be compared.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path

LABEL = 8
"""Hexadecimal digits shown."""
KEY_BYTES = 32


class Pseudonyms:
    """Stateful: reads or draws the key when the first hash is met, and not before."""

    def __init__(self, salt: bytes, key_file: Path | None = None) -> None:
        self._salt = salt
        self._file = key_file or default_file()
        self._key: bytes | None = None
        self.lasting = False
        """The key lies in its file, so that the same input gives the same bundle again."""

    @property
    def used(self) -> bool:
        return self._key is not None

    def of(self, text: str) -> str:
        """The label of a hash."""
        if self._key is None:
            self._key = hmac.digest(self._machine_key(), self._salt, "sha256")
        return "hash:" + hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()[:LABEL]

    def _machine_key(self) -> bytes:
        with suppress(OSError):
            found = self._file.read_bytes()
            if len(found) == KEY_BYTES:
                self.lasting = True
                return found
        drawn = secrets.token_bytes(KEY_BYTES)
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(drawn)
            self.lasting = True
        return drawn


def default_file() -> Path:
    """In the user's configuration folder."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "mlxdiag" / "bundle.key"
