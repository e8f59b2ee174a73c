"""The request that this thread serves, where a server says so."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Thread(threading.local):
    request: str | None = None


_THREAD = _Thread()


def current() -> str | None:
    """Its id."""
    return _THREAD.request


@contextmanager
def serving(request: str | None) -> Iterator[None]:
    """What this thread generates meanwhile is the answer to this request."""
    before, _THREAD.request = _THREAD.request, request
    try:
        yield
    finally:
        _THREAD.request = before
