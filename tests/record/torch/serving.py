"""`transformers serve` under the recorder, as a user starts it, and real clients."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from openai import OpenAI

from tests.record.serving import START, STOP, environment, free_port, recorded, wait_until_up
from tests.record.words import text

LOADED = 240.0
"""Seconds in which torch, transformers and the model are there, on a busy machine, too."""
PATIENCE = 5.0
"""Seconds until the second Ctrl-C."""


class Request(NamedTuple):
    """`words` of text, answered with at most `answer` tokens."""

    words: int
    answer: int
    leave_after: int | None = None
    """Chunks after which the client hangs up."""
    stream: bool = True


class Answer(NamedTuple):
    """What the client was told."""

    request: Request
    ident: str
    prompt: int | None = None
    completion: int | None = None
    finish: str | None = None
    chunks: int = 0


@contextmanager
def server(model: Path, trace: Path, *arguments: str) -> Iterator[OpenAI]:
    """`transformers serve` under `mlxdiag record` on a free port, ended as Ctrl-C ends it."""
    port = free_port()
    script = str(Path(sys.executable).with_name("transformers"))
    given = ("serve", str(model), "--port", str(port), "--host", "127.0.0.1", "--device", "cpu", *arguments)
    log = (trace.parent / "server.log").open("w")
    process = subprocess.Popen(
        recorded(trace, script, *given),
        env={**environment(), "OMP_NUM_THREADS": "1", "TRANSFORMERS_OFFLINE": "1"},
        stdout=log,
        stderr=log,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until_up(port, process, LOADED)
        yield OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0, timeout=START)
    finally:
        try:
            _interrupt(process)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            log.close()


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Ctrl-C, and again where that is not enough: transformers 5.24 leaves its batching thread running, and
    waits for it.
    """
    for patience in (PATIENCE, STOP):
        process.send_signal(signal.SIGINT)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
        return
    raise AssertionError("the server did not end")


def send_all(client: OpenAI, model: Path, requests: list[Request]) -> list[Answer]:
    """All at once; their ids are client-0, client-1, ..."""
    with ThreadPoolExecutor(len(requests)) as pool:
        jobs = [
            pool.submit(send, client, model, request, f"client-{number}")
            for number, request in enumerate(requests)
        ]
        return [job.result() for job in jobs]


def send(client: OpenAI, model: Path, request: Request, ident: str) -> Answer:
    """One request; hangs up early where it says so."""
    words = text(request.words, start=3 * request.words)
    common: dict[str, Any] = {
        "model": str(model),
        "messages": [{"role": "user", "content": words}],
        "max_tokens": request.answer,
        "temperature": 1.0,
        "extra_headers": {"X-Request-ID": ident},
    }
    answer = Answer(request, ident)
    if not request.stream:
        told = client.chat.completions.create(**common)
        assert told.usage is not None
        return answer._replace(
            prompt=told.usage.prompt_tokens,
            completion=told.usage.completion_tokens,
            finish=told.choices[0].finish_reason,
        )
    with client.chat.completions.create(stream=True, **common) as stream:
        for chunk in stream:
            answer = _told(answer, chunk)
            if request.leave_after is not None and answer.chunks >= request.leave_after:
                break
    return answer


def _told(answer: Answer, chunk: Any) -> Answer:
    if chunk.usage is not None:
        answer = answer._replace(prompt=chunk.usage.prompt_tokens, completion=chunk.usage.completion_tokens)
    finish = chunk.choices[0].finish_reason if chunk.choices else None
    return answer._replace(chunks=answer.chunks + 1, finish=finish or answer.finish)
