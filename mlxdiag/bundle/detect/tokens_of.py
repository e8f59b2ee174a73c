"""A line's tokens, each tried as an address of any kind, a path, a key, a number, or noise."""

from __future__ import annotations

import ipaddress
import string
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files
from urllib.parse import unquote, urlsplit

from mlxdiag.bundle.detect import noise, numbers_in, spelt

PUBLIC_HOSTS = frozenset({"github.com", "huggingface.co", "docs.python.org", "ml-explore.github.io"})
PUBLIC_OWNERS = frozenset(
    {
        "ml-explore",
        "lablup",
        "blaizzy",
        "vllm-project",
        "huggingface",
        "ggml-org",
        "ollama",
        "mlx-community",
        "google",
    }
)
"""Whose pages a bundle may point at."""
LOOPBACK = frozenset({"localhost", "127.0.0.1", "0.0.0.0", "[::1]", "[::]"})
ROOTS = (
    "users", "home", "volumes", "mnt", "media", "root", "private", "var", "tmp", "opt", "data", "srv", "etc",
    "usr",
    "workspace", "applications", "library", "nfs", "export", "scratch", "content", "kaggle",
)  # fmt: skip
ROUTES = (
    "/v1", "/v2", "/api", "/health", "/metrics", "/completion", "/chat", "/generate", "/embeddings",
    "/models", "/props", "/slots", "/tokenize", "/detokenize", "/infill",
)  # fmt: skip
ISSUERS = (
    "sk-", "sk_", "pk-", "pk_", "rk_", "hf_", "api_org_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_",
    "github_pat_", "glpat-", "xoxb-",
    "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe-", "xoxo-", "xapp-", "akia", "asia", "aroa", "agpa", "aida",
    "aiza", "ya29.", "eyj",
    "gsk_", "r8_", "npm_", "pypi-", "sg.", "nvapi-", "shpat_", "dop_v1_", "dckr_pat_", "lm-", "tvly-",
    "pplx-",
)  # fmt: skip
SHEBANG = "#!/usr/bin/env python3"
SHORTEST_TOKEN = 3
SHORTEST_KEY = 12
SURE_KEY = 24
"""Characters from which it need not hold a digit."""
IDS = ("chatcmpl-", "cmpl-", "req_", "req-", "call_", "msg_", "run-", "resp_")
SUFFIXES = (".local", ".lan", ".internal", ".corp", ".home", ".intranet", ".localdomain", ".box", ".ts.net")
DOMAINS = (
    ".com",
    ".net",
    ".org",
    ".io",
    ".dev",
    ".cloud",
    ".de",
    ".fr",
    ".co.uk",
    ".no",
    ".pl",
    ".edu",
    ".ai",
)

_SEPARATORS = str.maketrans(dict.fromkeys("\"'`<>(){}|,;\t", " "))
_EDGES = ".:,!?*#"


def private(line: str, *, code: bool = False, log: bool = False) -> Iterator[str]:
    """The kinds of private things in a line. In program text only what cannot be program text.

    `log`: the line is one of a log, where nothing is this program's own.
    """
    if code and line == SHEBANG:
        return
    if "-----begin" in line.casefold() or "ssh-rsa " in line or "ssh-ed25519 " in line or "ssh-dss " in line:
        yield "a key block"
    if "ecdsa-sha2-" in line:
        yield "a key block"
    if "base64," in line:
        yield "an attachment"
    low = line.casefold()
    for scheme in ("bearer ", "basic ", "digest "):
        at = low.find(scheme)
        if at >= 0 and not code and _looks_given(low[at + len(scheme) :]):
            yield "an authorization"
    yield from numbers_in.private(line, code=code, log=log)
    if log:
        yield from spelt.private(line)
    if not code:
        if _windows(line):
            yield "a path"
        if "pid=" in low and low.split("pid=", 1)[1][:1].isdigit():
            yield "a process id"
    commit = "commit" in line
    for token in line.translate(_SEPARATORS).split():
        if len(token) >= SHORTEST_TOKEN and not token.isdigit():
            yield from _token(token, commit, code)


@lru_cache(maxsize=1 << 16)
def _token(token: str, commit: bool, code: bool) -> tuple[str, ...]:
    """Of one token, once: a trace says the same words in every line."""
    return tuple(_kinds(token, commit, code))


def _kinds(token: str, commit: bool, code: bool) -> Iterator[str]:
    for piece in _pieces(token):
        plain = unquote(piece) if "%" in piece else piece
        if _is_address(plain):
            yield "an address"
        if not code and _is_repository(plain):
            yield "the name of a model that is not known to be public"
        if [len(part) for part in plain.split("-")] == [8, 4, 4, 4, 12]:
            yield "the id of a request"
        if _is_hardware(plain):
            yield "a hardware address"
        if "://" in plain and not _is_public(plain):
            yield "a web address"
        at = plain.find("@")
        if 0 < at < len(plain) - 1 and plain[at - 1].isalnum() and plain[at + 1].isalnum():
            yield "a mail address or a user at a host"
        if _is_path(plain, code):
            yield "a path"
        if _is_host(plain):
            yield "a host name"
        if _is_key(plain):
            yield "a key"
        if plain.startswith(IDS) and any(c.isdigit() for c in plain[4:]) and len(plain) > 10:
            yield "the id of a request"
        if not code and noise.is_noise(plain, commit):
            yield "an encoded or random text"


def _pieces(token: str) -> list[str]:
    """The token, and what stands behind its equals sign."""
    pieces = [token] if "::" in token else []
    token = token.strip(_EDGES)
    pieces += [token, token.strip("[]")]
    if "=" in token.rstrip("="):
        pieces += token.strip("[]").split("=")
    return list(dict.fromkeys(piece for piece in pieces if piece))


def _is_address(text: str) -> bool:
    text = text.split("/", 1)[0].split("%", 1)[0]
    if text.startswith("[") and "]" in text:
        text = text[1 : text.index("]")]
    if text.count(":") == 1:
        text = text.split(":", 1)[0]
    if text.count(".") != 3 and text.count(":") < 2:
        return False
    if text.replace(".", "").isdigit():
        text = ".".join(part.lstrip("0") or "0" for part in text.split("."))
    try:
        address = ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return False
    if str(address) in ("127.0.0.1", "0.0.0.0", "::1", "::"):
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return True
    groups = [group for group in text.split(":") if group]
    return address.version == 4 or len(groups) >= 4 or any(len(group) >= 3 for group in groups)


def _is_hardware(text: str) -> bool:
    for separator in ":-":
        parts = text.split(separator)
        if len(parts) == 6 and all(len(part) == 2 and set(part) <= set(string.hexdigits) for part in parts):
            return True
    return False


def _is_public(text: str) -> bool:
    try:
        parts = urlsplit(text[text.rfind(" ") + 1 :])
        host = (parts.hostname or "").casefold()
    except ValueError:
        return False
    if parts.username or parts.password or parts.query:
        return False
    if host in LOOPBACK:
        return True
    owner = parts.path.strip("/").split("/", 1)[0].casefold()
    return (
        parts.scheme == "https"
        and host in PUBLIC_HOSTS
        and (owner in PUBLIC_OWNERS or host.startswith("docs."))
    )


def _is_path(text: str, code: bool) -> bool:
    if text.startswith(("~/", "~\\", "file:/")) or text == "~":
        return True
    for start in (text.find("/"), text.find("\\")):
        if start < 0 or "[path]" in text[:start]:
            continue
        rest = text[start:].replace("\\", "/")
        parts = [part for part in rest.split("/") if part]
        if not parts or (start > 0 and (text[start - 1].isalnum() or text[start - 1] in ".]-_")):
            continue
        if parts[0].casefold() in ROOTS:
            return True
        if not code and len(parts) >= 2 and not rest.startswith(ROUTES) and "://" not in text:
            return True
    return False


def _windows(line: str) -> bool:
    """A drive or a share: `C:\\x`, `C:/x`, `\\\\host\\x`."""
    for at, character in enumerate(line):
        drive = character == ":" and line[at - 1 : at].isalpha() and line[at + 1 : at + 2] in ("\\", "/")
        if drive and line[at + 1 : at + 3] != "//" and (at < 2 or not line[at - 2].isalnum()):
            return True
        if character == "\\" and line[at + 1 : at + 2] == "\\" and line[at + 2 : at + 3].isalnum():
            return True
    return False


def _is_repository(text: str) -> bool:
    """`owner/name`, where the name is one of a model and the owner nobody who publishes."""
    owner, slash, name = text.split(":", 1)[0].partition("/")
    if (
        not slash
        or "/" in name
        or not owner[:1].isalpha()
        or not name[:1].isalpha()
        or owner.endswith("]")
        or owner.casefold() in _publishers()
    ):
        return False
    stem, _, suffix = name.rpartition(".")
    named = "-" in name or "_" in name or any(c.isdigit() for c in name)
    return named and not (stem and suffix in ("py", "rs", "cpp", "swift", "go", "md", "json", "log"))


def is_published(name: str) -> bool:
    """Whether a name is `owner/name` with an owner who publishes models."""
    owner, slash, rest = name.partition("/")
    return bool(slash and rest) and "/" not in rest and owner.casefold() in _publishers()


@cache
def _publishers() -> frozenset[str]:
    text = files("mlxdiag.bundle.redact").joinpath("publishers.txt").read_text("utf-8")
    return frozenset(word for line in text.splitlines() if not line.startswith("#") for word in line.split())


def _is_host(text: str) -> bool:
    host = text.casefold().split("/", 1)[0].split(":", 1)[0]
    name, dot, _ = host.rpartition(".")
    if not dot or not name or not name[0].isalnum():
        return False
    return host.endswith(SUFFIXES) or (
        host.endswith(DOMAINS) and host not in PUBLIC_HOSTS and "(" not in host
    )


def _looks_given(rest: str) -> bool:
    first = rest.strip("\"' ").split(" ", 1)[0].strip("\"',")
    return (
        len(first) >= 6
        and not first.startswith("[")
        and (any(c.isdigit() for c in first) or len(first) >= 16)
    )


def _is_key(text: str) -> bool:
    issued = text.casefold().startswith(ISSUERS) and len(text) >= SHORTEST_KEY
    if text.partition("=")[0] == "HF_HUB_OFFLINE":
        return False  # a variable of the hub's; what stands behind the sign is looked at by itself
    return issued and (any(c.isdigit() for c in text) or (len(text) >= SURE_KEY and text.isascii()))
