"""The real server under the recorder, as a user starts it, and real clients."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from openai import OpenAI

from tests.record.words import text

START, STOP = 90.0, 30.0
"""Seconds."""


class Request(NamedTuple):
    """`words` of the shared text and then `own` words, answered with at most `answer` tokens."""

    shared: int
    own: int
    answer: int
    leave_after: int | None = None
    """Chunks after which the client hangs up."""
    kind: str = "chat"


class Answer(NamedTuple):
    """What the client was told."""

    request: Request
    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    finish: str | None = None
    chunks: int = 0


def environment() -> dict[str, str]:
    return {**os.environ, "MLX_DISABLE_COMPILE": "1", "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}


def recorded(trace: Path, *program: str, options: tuple[str, ...] = ()) -> list[str]:
    """The command that records a Python program."""
    return [
        sys.executable,
        "-m",
        "mlxdiag",
        "record",
        "-o",
        str(trace),
        *options,
        "--",
        sys.executable,
        *program,
    ]


@contextmanager
def server(model: Path, trace: Path, *arguments: str) -> Iterator[OpenAI]:
    """`mlx_lm server` under `mlxdiag record` on a free port, ended as Ctrl-C ends it."""
    port = free_port()
    command = recorded(
        trace, "-m", "mlx_lm", "server", "--model", str(model), "--port", str(port), *arguments
    )
    log = (trace.parent / "server.log").open("w")
    process = subprocess.Popen(
        command, env=environment(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        wait_until_up(port, process)
        yield OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0, timeout=START)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(STOP)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            log.close()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def wait_until_up(port: int, process: subprocess.Popen[bytes], seconds: float = START) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            raise AssertionError(f"the server ended with {process.returncode}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the server did not come up")


def send_all(client: OpenAI, requests: list[Request]) -> list[Answer]:
    """All at once."""
    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(lambda numbered: send(client, numbered[1], numbered[0]), enumerate(requests)))


def send(client: OpenAI, request: Request, number: int) -> Answer:
    """One streaming request; hangs up early where the request says so."""
    words = f"{text(request.shared)} {text(request.own, start=50 + 7 * number)}".strip()
    common: dict[str, Any] = {
        "model": "default_model",
        "max_tokens": request.answer,
        "temperature": 1.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.kind == "chat":
        stream = client.chat.completions.create(messages=[{"role": "user", "content": words}], **common)
    else:
        stream = client.completions.create(prompt=words, **common)
    answer = Answer(request)
    for chunk in stream:
        answer = _told(answer, chunk)
        if request.leave_after is not None and answer.chunks >= request.leave_after:
            stream.close()
            break
    return answer


def _told(answer: Answer, chunk: Any) -> Answer:
    if chunk.usage is not None:
        cached = chunk.usage.prompt_tokens_details
        return answer._replace(
            prompt=chunk.usage.prompt_tokens,
            completion=chunk.usage.completion_tokens,
            cached=cached.cached_tokens if cached is not None else 0,
        )
    finish = chunk.choices[0].finish_reason if chunk.choices else None
    return answer._replace(chunks=answer.chunks + 1, finish=finish or answer.finish)
