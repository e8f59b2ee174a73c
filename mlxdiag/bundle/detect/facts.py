"""What names this machine and whoever uses it: looked up at the time, never written anywhere."""

from __future__ import annotations

import base64
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

SHORTEST = 3
COMMON = frozenset(
    {
        "root", "user", "users", "admin", "administrator", "ubuntu", "debian", "ec2-user", "runner",
        "vscode", "docker", "home",
        "test", "build", "model", "models", "server", "localhost", "local", "host", "vm", "mac", "linux",
        "macos", "python",
        "mlx", "main", "work", "tmp", "default", "service", "system", "data", "shared", "app", "dev", "ci",
        "nobody",
    }
)  # fmt: skip
"""Names of users and machines that name nobody, and that stand in ordinary text."""
SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "COOKIE", "AUTH", "PRIVATE")
SHORTEST_SECRET = 8


class Facts(msgspec.Struct, frozen=True):
    """Kind and text of each fact; texts in lower case."""

    known: tuple[tuple[str, str], ...] = ()

    def found_in(self, line: str) -> str | None:
        """The kind of the first fact that the line holds, as a word of its own or encoded."""
        low = line.casefold()
        for kind, text in self.known:
            at = low.find(text)
            while at >= 0:
                before, after = low[at - 1 : at], low[at + len(text) : at + len(text) + 1]
                if not before.isalnum() and not after.isalnum():
                    return kind
                at = low.find(text, at + 1)
        return None

    def names(self) -> list[str]:
        """User and host names and the home folder's own, for whoever cleans text."""
        return [text for kind, text in self.known if kind in ("user name", "host name", "home folder")]


def of_this_machine(environ: Mapping[str, str] | None = None) -> Facts:
    """User, host, home, working folder, and the values of environment variables that look like secrets."""
    environ = os.environ if environ is None else environ
    found: list[tuple[str, str]] = []
    names = [environ.get(name, "") for name in ("USER", "LOGNAME", "USERNAME")]
    found += [("user name", name) for name in (*names, *_account())]
    host = socket.gethostname()
    found += [("host name", host), ("host name", host.split(".", 1)[0])]
    home = environ.get("HOME") or environ.get("USERPROFILE") or ""
    found += [("home folder", home), ("user name", Path(home).name if home else "")]
    for name, value in environ.items():
        if len(value) >= SHORTEST_SECRET and any(part in name.upper() for part in SECRET_NAMES):
            found.append((f"value of {name}", value))
            found.append((f"value of {name}", base64.b64encode(value.encode()).decode().rstrip("=")))
    return Facts(tuple(dict.fromkeys(_telling(found))))


def _telling(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    texts = ((kind, text.strip().casefold()) for kind, text in found)
    return sorted(
        (kind, text)
        for kind, text in texts
        if len(text) >= SHORTEST and text.strip("/") not in COMMON and not text.isdigit()
    )


def _account() -> list[str]:
    """Login and full name of the account that runs this."""
    if sys.platform == "win32":
        return []
    import pwd

    try:
        entry = pwd.getpwuid(os.getuid())
    except KeyError:
        return []
    return [entry.pw_name, entry.pw_gecos.split(",", 1)[0]]
