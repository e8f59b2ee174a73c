"""The pool as an audit uses it: all tasks get done, and nothing is left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mlxdiag.audit.engine.messages import Ended, Item
from mlxdiag.audit.engine.pool import Pool, Site, last_line
from mlxdiag.errors import UnjudgedError, UnreadableError, UsageError
from tests.audit.engine.test_worker import gone
from tests.audit.standin import SITE

PRELOAD = "tests.audit.standin:preload"
CALL = "tests.audit.standin:"


def test_every_task_is_done_and_named_by_its_id():
    with Pool(PRELOAD, jobs=2, site=SITE) as pool:
        ids = [pool.submit(CALL + "echo", number) for number in range(7)]
        events = list(pool.events())
    assert {event.id: event.value for event in events if isinstance(event, Item)} == dict(
        zip(ids, range(7), strict=True)
    )
    assert sorted(event.id for event in events if isinstance(event, Ended)) == ids


def test_no_more_workers_than_jobs_are_at_work():
    with Pool(PRELOAD, jobs=2, site=SITE) as pool:
        for _ in range(3):
            pool.submit(CALL + "children", limit=30)
        events = pool.events()
        first = {next(events).value, next(events).value}
        assert len(first) == 2
        assert len(pool.waiting) == 1


def test_tasks_may_be_added_while_others_run():
    seen = []
    with Pool(PRELOAD, jobs=1, site=SITE) as pool:
        pool.submit(CALL + "echo", 0)
        for event in pool.events():
            if isinstance(event, Item):
                seen.append(event.value)
                if event.value < 3:
                    pool.submit(CALL + "echo", event.value + 1)
    assert seen == [0, 1, 2, 3]


def test_many_large_answers_do_not_lock_the_pipes():
    with Pool(PRELOAD, jobs=3, site=SITE) as pool:
        for _ in range(6):
            pool.submit(CALL + "big")
        assert sum(isinstance(event, Item) for event in pool.events()) == 240


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_leaving_early_leaves_no_process(error):
    def leave():
        with Pool(PRELOAD, jobs=2, site=SITE) as pool:
            pids.append(pool.process.pid)
            for _ in range(2):
                pool.submit(CALL + "children")
            events = pool.events()
            pids.extend([next(events).value, next(events).value])
            raise error

    pids: list[int] = []
    with pytest.raises(error):
        leave()
    assert len(pids) == 3
    assert all(gone(pid) for pid in pids)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads the state of a process in /proc")
def test_a_stopped_server_is_killed_with_its_workers(monkeypatch):
    monkeypatch.setattr("mlxdiag.audit.engine.pool.PATIENCE", 0.2)
    with Pool(PRELOAD, jobs=1, site=SITE) as pool:
        pool.submit(CALL + "children")
        worker = next(pool.events()).value
        os.kill(pool.process.pid, signal.SIGSTOP)
    assert gone(pool.process.pid)
    assert dead(worker)


def dead(pid):
    """True once a process does no more; one whose parent died first may wait for init to take it away."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_a_dead_server_is_said_and_not_waited_for():
    with Pool(PRELOAD, jobs=1, site=SITE) as pool:
        pool.submit(CALL + "children")
        events = pool.events()
        next(events)
        os.kill(pool.process.pid, signal.SIGKILL)
        with pytest.raises(UnjudgedError, match="installed ended"):
            next(events)


def test_a_library_that_cannot_be_imported_is_unjudged():
    with (
        pytest.raises(UnjudgedError, match="the library is not there"),
        Pool("tests.audit.standin:preload_fails", jobs=1, site=SITE),
    ):
        pass


def test_a_part_whose_import_ends_the_server_is_left_out_and_the_rest_is_served():
    with Pool("tests.audit.standin:preload_dies", jobs=1, site=SITE) as pool:
        assert pool.deadly == {"bad": "died of SIGABRT"}
        assert pool.call(CALL + "echo", "x") == ["x"]


def test_a_library_of_which_every_part_ends_the_server_is_unjudged(monkeypatch):
    monkeypatch.setattr("mlxdiag.audit.engine.pool.MOST_DEADLY", 2)
    with (
        pytest.raises(UnjudgedError, match="installed ended while it imported part 2"),
        Pool("tests.audit.standin:preload_dies_each_time", jobs=1, site=SITE),
    ):
        pass


def test_a_python_that_does_not_exist_is_unjudged(tmp_path):
    with (
        pytest.raises(UnjudgedError, match="No such file"),
        Pool(PRELOAD, jobs=1, site=Site(python=str(tmp_path / "python"))),
    ):
        pass


def test_a_call_returns_all_values_and_raises_what_ended_it():
    with Pool(PRELOAD, jobs=1, site=SITE) as pool:
        assert pool.call(CALL + "echo", "x") == ["x"]
        with pytest.raises(UnjudgedError, match="RuntimeError: our own fault"):
            pool.call(CALL + "audit", "raising", ["two"], 0, None)


@pytest.mark.parametrize("kind", [UsageError, UnreadableError, UnjudgedError])
def test_an_error_of_our_own_comes_back_as_it_was_raised(kind):
    with Pool(PRELOAD, jobs=1, site=SITE) as pool, pytest.raises(kind, match=r"^there is: no such thing$"):
        pool.call(CALL + "refuse", kind.__name__, "there is: no such thing")


def test_an_interrupt_of_the_whole_terminal_reaches_the_parent_alone(tmp_path):
    """As Ctrl-C does: to every process of the foreground group. The server is in a group of its own."""
    path = [*SITE.first]
    code = (
        f"import sys; sys.path[:0] = {path!r}\n"
        "from mlxdiag.audit.engine.pool import Pool, Site\n"
        f"with Pool({PRELOAD!r}, jobs=1, site=Site(first=tuple({path!r}))) as pool:\n"
        f"    pool.submit({CALL + 'children'!r})\n"
        "    for event in pool.events():\n"
        "        print(pool.process.pid, event.value, flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    pids = [int(word) for word in process.stdout.readline().split()]
    began = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert time.monotonic() - began < 3
    assert b"KeyboardInterrupt" in said
    assert len(pids) == 2
    assert all(gone(pid) for pid in pids)


def test_the_last_line_is_the_last_that_says_something():
    assert last_line("a\nb \n\n") == "b"
    assert last_line("\n") == ""
