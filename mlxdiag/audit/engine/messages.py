"""What the pool and its server say to each other, as JSON lines: tasks one way, events the other."""

from __future__ import annotations

from typing import Any

import msgspec


class Task(msgspec.Struct, kw_only=True):
    """A call that a worker makes; each item that the call yields is sent on as it comes."""

    id: int
    call: str
    """`module:function`, which returns an iterable of what JSON holds."""
    arguments: list[Any]
    limit: float
    """Seconds that may pass between two items."""


class Item(msgspec.Struct, kw_only=True, tag="item"):
    id: int
    value: Any


class Ended(msgspec.Struct, kw_only=True, tag="ended"):
    """A worker is gone, its task done or not."""

    id: int
    signal: int = 0
    """What killed it; 0 where nothing did."""
    code: int = 0
    late: bool = False
    """It was killed for being past its time limit."""
    abrupt: bool = False
    """It ended with `code` in the midst of a call: neither an exception that came up to us nor a signal."""
    stderr: str = ""


class Ready(msgspec.Struct, kw_only=True, tag="ready"):
    """The server has imported what it should. `error` where it could not."""

    error: str = ""


class Started(msgspec.Struct, kw_only=True, tag="started"):
    """A worker is at its task. `pid`: its process and its group."""

    id: int
    pid: int


class Importing(msgspec.Struct, kw_only=True, tag="importing"):
    """The server is about to import this part of the library; empty: the parts are done."""

    name: str


Event = Item | Ended | Ready | Started | Importing


def encode(message: Task | Event) -> bytes:
    """Its line."""
    return msgspec.json.encode(message) + b"\n"
