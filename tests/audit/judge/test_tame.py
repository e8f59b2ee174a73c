"""What a model raises that is no Exception, or has no text, is a crash of the library all the same."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from mlx_lm.models import qwen3

from mlxdiag.audit.judge.judge import audit_family
from mlxdiag.audit.judge.tame import WildError, kind, tamed
from mlxdiag.audit.schedules.scenarios import named

RAISES = """
import sys
class Evil(Exception):
    def __str__(self):
        raise OSError("no text")
class Odd(BaseException):
    pass
def broken(self, inputs, cache=None, input_embeddings=None):
    if inputs.shape[1] == 1:
        {statement}
    return original(self, inputs, cache, input_embeddings)
"""


@pytest.fixture
def worker() -> Iterator[None]:
    """Interrupts are ignored, as in a worker."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("sys.exit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt:"),
        ("raise Odd('odd')", "Odd: odd"),
        ("raise Evil", "OSError: no text"),
    ],
)
@pytest.mark.usefixtures("worker")
def test_whatever_a_model_raises_in_a_decode_is_its_crash(
    monkeypatch: pytest.MonkeyPatch, statement: str, said: str
) -> None:
    names = {"original": qwen3.Qwen3Model.__call__, "__name__": qwen3.__name__}
    exec(compile(RAISES.format(statement=statement), "/a/mlx_lm/models/qwen3.py", "exec"), names)
    monkeypatch.setattr(qwen3.Qwen3Model, "__call__", names["broken"])
    (cell,) = audit_family("qwen3", [named("decode-across-window")])
    line = 5 if said.startswith("OSError") else 10
    assert (cell.result, cell.codes, cell.where) == ("crash", ["MD906"], f"mlx_lm/models/qwen3.py:{line}")
    assert cell.reason.rstrip() == f"step 2: {said}"


def test_an_interrupt_of_the_user_goes_on() -> None:
    with pytest.raises(KeyboardInterrupt):
        tamed(KeyboardInterrupt())


def test_what_is_an_exception_with_a_text_stays_what_it_is() -> None:
    error = ValueError("x")
    assert tamed(error) is error
    assert (kind(error), kind(tamed(SystemExit(3)))) == ("ValueError", "SystemExit")
    assert isinstance(tamed(SystemExit(3)), WildError)
