"""SIGUSR1 freezes a copy of the ring, in a process that records itself.

A program's own handler is left alone, whether it comes before or after; where there is none, the signal would
have ended the program, and freezes instead. Python allows handlers in the main thread only: a recording that
begins in another one has none.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType


class Freezing:
    """Takes the signal until `stop`, if nobody has it."""

    def __init__(self, freeze: Callable[[str], object]) -> None:
        """`freeze` is called with a mark for each copy: frozen-1, frozen-2, ..."""
        self._freeze = freeze
        self._taken = 0
        self._number: int | None = getattr(signal, "SIGUSR1", None)
        if threading.current_thread() is not threading.main_thread():
            self._number = None
        if self._number is not None and signal.getsignal(self._number) == signal.SIG_DFL:
            signal.signal(self._number, self._take)

    def stop(self) -> None:
        """The signal does again what it did, unless the program has taken it since."""
        if self._number is None or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(self._number) == self._take:
            signal.signal(self._number, signal.SIG_DFL)

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        self._taken += 1
        self._freeze(f"frozen-{self._taken}")
