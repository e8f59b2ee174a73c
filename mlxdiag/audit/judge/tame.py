"""What a library raises that is no Exception or has no readable text, as an exception like any other."""

from __future__ import annotations

from mlxdiag.models.mlx.library import interruptible


class WildError(Exception):
    """Stands for what was raised, with its traceback. Its text is that of the original."""

    def __init__(self, kind: str, said: str) -> None:
        super().__init__(said)
        self.kind = kind


def tamed(error: BaseException) -> Exception:
    """The exception itself, or a WildError for `sys.exit`, a KeyboardInterrupt of the model, and the like.

    Raises the error again where it may be the user's own interrupt.
    """
    if isinstance(error, KeyboardInterrupt) and interruptible():
        raise error
    try:
        said = str(error)
    except Exception as fault:  # noqa: BLE001  the method is the library's, and may do anything
        said = f"its text cannot be read ({type(fault).__name__})"
    else:
        if isinstance(error, Exception):
            return error
    return WildError(type(error).__name__, said).with_traceback(error.__traceback__)


def kind(error: Exception) -> str:
    """The name of the class that was raised."""
    return error.kind if isinstance(error, WildError) else type(error).__name__
