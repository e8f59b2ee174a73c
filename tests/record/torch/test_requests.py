"""The request that a thread serves is known while it is served, and in that thread alone."""

from __future__ import annotations

from threading import Thread

from mlxdiag.record.torch.requests import current, serving


def test_it_is_known_while_it_is_served() -> None:
    assert current() is None
    with serving("outer"):
        with serving("inner"):
            assert current() == "inner"
        assert current() == "outer"
    assert current() is None


def test_another_thread_serves_another_request() -> None:
    seen: list[str | None] = []
    with serving("mine"):
        thread = Thread(target=lambda: seen.append(current()))
        thread.start()
        thread.join()
    assert seen == [None]
