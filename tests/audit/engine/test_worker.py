"""The fork server as its parent sees it: lines in, lines out."""

import os
import signal
import subprocess
import sys
import time

import msgspec
import pytest

from mlxdiag.audit.engine.messages import Ended, Event, Importing, Item, Ready, Started, Task
from mlxdiag.audit.engine.worker import resolve
from tests.audit.standin import SITE

BOOT = "import sys; sys.path[:0] = {path!r}; from mlxdiag.audit.engine.worker import main; main({preload!r})"


@pytest.fixture
def server():
    started = []

    def start(preload="tests.audit.standin:preload"):
        code = BOOT.format(path=list(SITE.first), preload=preload)
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()


def send(process, number, call, *arguments, limit=20.0):
    task = Task(id=number, call=f"tests.audit.standin:{call}", arguments=list(arguments), limit=limit)
    process.stdin.write(msgspec.json.encode(task) + b"\n")
    process.stdin.flush()


def hear(process):
    """The next event, but for the news of what is being imported or has started."""
    while isinstance(
        event := msgspec.json.decode(process.stdout.readline(), type=Event), Importing | Started
    ):
        pass
    return event


def gone(pid):
    """True once no process has this id, not even a dead one that nobody has waited for."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_a_task_yields_its_items_and_then_its_end(server):
    process = server()
    assert hear(process) == Ready()
    send(process, 7, "echo", {"a": [1, None]})
    assert hear(process) == Item(id=7, value={"a": [1, None]})
    assert hear(process) == Ended(id=7)


def test_what_a_library_prints_while_it_is_imported_is_no_message(server):
    process = server("tests.audit.standin:preload_prints")
    assert hear(process) == Ready()


def test_an_import_that_ends_the_program_is_told_in_one_line(server):
    process = server("tests.audit.standin:preload_fails")
    assert hear(process) == Ready(error="the library is not there")
    assert process.wait(10) == 0


def test_items_larger_than_a_pipe_arrive_whole(server):
    process = server()
    hear(process)
    send(process, 1, "big")
    assert [len(hear(process).value) for _ in range(40)] == [50_000] * 40
    assert hear(process) == Ended(id=1)


def test_a_worker_that_aborts_is_told_by_its_signal_with_what_it_said(server):
    process = server()
    hear(process)
    send(process, 1, "audit", "aborting", ["one", "two"], 0, None)
    assert hear(process).value["scenario"] == "one"
    ended = hear(process)
    assert ended.signal == signal.SIGABRT
    assert not ended.late
    assert "uncaught exception" in ended.stderr
    assert 'standin.py"' in ended.stderr


def test_a_task_past_its_limit_is_killed_and_says_where_it_was(server):
    process = server()
    hear(process)
    send(process, 1, "audit", "hanging", ["one", "two"], 0, None, limit=0.5)
    assert hear(process).value["scenario"] == "one"
    ended = hear(process)
    assert ended.late
    assert ended.signal == signal.SIGABRT
    assert "in end" in ended.stderr


def test_an_exception_is_no_signal_and_its_text_is_kept(server):
    process = server()
    hear(process)
    send(process, 1, "audit", "raising", ["two"], 0, None)
    ended = hear(process)
    assert (ended.signal, ended.code) == (0, 1)
    assert ended.stderr.strip().endswith("RuntimeError: our own fault")


@pytest.mark.parametrize("how", ["its input ends", "nobody reads its output"])
def test_when_the_parent_goes_no_worker_is_left(server, how):
    process = server()
    hear(process)
    for number in (1, 2):
        send(process, number, "children")
    workers = [hear(process).value, hear(process).value]
    assert len(set(workers)) == 2
    if how == "its input ends":
        process.stdin.close()
    else:
        process.stdout.close()
        send(process, 3, "echo", 1)
    assert process.wait(10) == 0
    assert all(gone(worker) for worker in workers)


def test_an_unknown_function_ends_its_worker_alone(server):
    process = server()
    hear(process)
    send(process, 1, "nowhere")
    assert hear(process).code == 1
    send(process, 2, "echo", "still here")
    assert hear(process).value == "still here"


def test_calls_are_named_by_module_and_function():
    assert resolve("os.path:join") is os.path.join


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="only Linux counts threads in /proc")
def test_importing_the_library_starts_no_thread_that_a_fork_would_lose(server):
    process = server("mlxdiag.audit.engine.tasks:preload")
    assert hear(process) == Ready()
    count = "import numpy, os; print(len(os.listdir('/proc/self/task')))"  # numpy brings its own, fork-proof
    plain = subprocess.run([sys.executable, "-c", count], capture_output=True, check=True)
    assert len(os.listdir(f"/proc/{process.pid}/task")) == int(plain.stdout)
