"""Faults of a probe's own code, which do not reach the program."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

Make = Callable[[Callable[..., Any]], Callable[..., Any]]
Fault = Callable[[Exception], None]


def shielded(make: Make, fault: Fault | None) -> Make:
    """`make`, so that the original is called once and its result or its exception is what comes out.

    Anything else that the wrapper raises goes to `fault`. Without one, `make` itself.
    """
    if fault is None:
        return make

    def made(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            outcome = Outcome(original)
            try:
                return make(outcome)(*args, **kwargs)
            except Exception as error:
                if error is outcome.raised:
                    raise
                if outcome.raised is not None:
                    raise outcome.raised from None
                fault(error)
                return outcome.result if outcome.called else original(*args, **kwargs)

        return wrapper

    return made


class Outcome:
    """Calls the original and remembers what came of it."""

    __slots__ = ("_original", "called", "raised", "result")

    def __init__(self, original: Callable[..., Any]) -> None:
        self._original = original
        self.called = False
        self.result: Any = None
        self.raised: Exception | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.called = True
        try:
            self.result = self._original(*args, **kwargs)
        except Exception as error:
            self.raised = error
            raise
        return self.result


class Faults(threading.local):
    """What a wrapper on a hot path does with a fault of its own, which it catches itself."""

    def __init__(self, fault: Fault | None = None) -> None:
        self.fault = fault
        """Takes the fault, so that the program goes on; None: it is raised."""

    def failed(self, error: Exception) -> None:
        """Called in an `except` of the probe's own code."""
        if self.fault is None:
            raise error
        self.fault(error)
