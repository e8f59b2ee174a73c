"""Calls for workers that end as real ones do: a verdict, an abort, a bad access, a hang, an exception.

They stand where the library would be, so that what is tested is the handling of processes.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

import tests
from mlxdiag import errors
from mlxdiag.audit.cell import Cell
from mlxdiag.audit.engine.pool import Site
from mlxdiag.audit.engine.run import Parts, Wanted
from mlxdiag.audit.engine.tasks import Described
from mlxdiag.audit.faults.script import Script

SITE = Site(first=(str(Path(tests.__file__).parents[1]),))
PARTS = Parts(
    preload="tests.audit.standin:preload",
    describe="tests.audit.standin:describe",
    audit="tests.audit.standin:audit",
    apart="tests.audit.standin:apart",
    smallest="tests.audit.standin:smallest",
    script="tests.audit.standin:script",
)
SCHEDULE = """schema: mlxdiag.trace/1
model: {"layers": {"s": {"attention": "sliding", "window": 8}}}
steps:
- {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 9}]}
"""
SCENARIOS = ("one", "two", "three", "four")
FAMILIES = (
    *("aborting", "chatty", "deaf", "dying", "faulty", "forking", "fragile", "good", "hanging", "leaving"),
    *("raising", "returning", "segfaulting", "silent", "slow", "stubborn"),
)
QUICK = ("aborting", "faulty", "good", "raising", "segfaulting")
"""Those that need no time limit to end."""


def preload() -> None:
    pass


def preload_prints() -> None:
    print("a library says hello on standard output")


def preload_fails() -> None:
    raise SystemExit("the library\nis not there")


def preload_dies(deadly=None):
    """One part of the library ends the process that imports it."""
    for name in ("fine", "bad", "last"):
        if name not in (deadly or {}):
            yield name
            if name == "bad":
                os.abort()
    yield ""


def preload_dies_each_time(deadly=None):
    yield f"part {len(deadly or {})}"
    os._exit(3)


def describe(device):
    yield Described(
        families=FAMILIES,
        libraries={"mlx-lm": os.environ.get("STANDIN_VERSION", "1.0")},
        sources={"mlx-lm": os.environ.get("STANDIN_SOURCE", "0a")},
        device=device or "cpu",
        root=str(Path(__file__).parent),
    )


def wanted(*families: str, **changes) -> Wanted:
    """All scenarios of these stand-ins."""
    settings = {"families": families, "scenarios": SCENARIOS, "site": SITE, "limit": 20.0, "jobs": 2}
    return Wanted(**{**settings, **changes})


def audit(family, scenarios, seed, device):
    note(family)
    if family == "dying":
        os.abort()
    for scenario in scenarios:
        if family == "slow":
            time.sleep(0.8)
        if scenario == "two":
            end(family)
        if family == "fragile" and scenario in ("two", "four", "six"):
            os.abort()
        if family == "silent" and scenario == "four":
            return
        result = "fail" if family == "faulty" and scenario in ("two", "four") else "pass"
        codes = ["MD302"] if result == "fail" else []
        yield Cell(
            library="mlx-lm",
            family=family,
            scenario=scenario,
            result=result,
            codes=codes,
            oracles=["visibility"] if codes else [],
            judged={"visibility": 1},
            reason=f"seed {seed}" if codes else "",
            trace="x" * len(scenario) if codes else "",
            seconds=time.perf_counter() % 1,
            noise=len(family) / 1e6,
        )


def apart(families, scenarios, seed):
    """In an order of its own; of the aborting family no cell comes."""
    note("apart")
    for scenario in reversed(scenarios):
        for family in reversed(families):
            if family == "aborting":
                os.abort()
            yield Cell(
                library="mlx-lm", family=family, scenario=scenario, result="pass", judged={"parity": seed + 1}
            )


def smallest(cell, seed):
    """Half of the schedule that failed; of a crash nothing is found."""
    if cell["result"] == "crash":
        os.abort()
    evidence = {"first": 8, "positions": [8, 9], "max_abs": 0.5, "tolerance": 0.1}
    yield {**cell, "trace": SCHEDULE, "evidence": evidence, "reason": f"smaller, seed {seed}"}


def script(fault, directory, seed):
    path = Path(directory) / f"{fault['id']}.py"
    if fault["code"] == "MD902":
        raise RuntimeError("no script of a dead worker")
    path.write_text(fault["smallest"])
    yield Script(name=path.name, code=1 if seed == 0 else 0, said=f"seed {seed}")


def end(family: str) -> None:
    """What becomes of a worker of this family at its second scenario."""
    if family == "aborting":
        print("libc++abi: terminating due to uncaught exception", file=sys.stderr, flush=True)
        os.abort()
    if family == "segfaulting":
        ctypes.string_at(0)
    if family == "hanging":
        time.sleep(600)
    if family == "deaf":
        signal.signal(signal.SIGABRT, signal.SIG_IGN)
        time.sleep(20)
    if family in ("forking", "stubborn", "returning"):
        child = os.fork()
        if child == 0 and family != "returning":
            time.sleep(600)
            os._exit(0)
        note(f"child-of-{family}", child)
        if family == "stubborn":
            time.sleep(600)
    if family == "chatty":
        for _ in range(2000):
            os.write(2, b"x" * 9999 + b"\n")
        os.write(2, b"the last word\n")
        os.abort()
    if family == "leaving":
        os._exit(0)
    if family == "raising":
        raise RuntimeError("our own fault")


def note(family: str, pid: int = 0) -> None:
    """Leave a line for each worker that began, where a test wants to know."""
    if path := os.environ.get("STANDIN_LOG"):
        with open(path, "a") as file:
            file.write(f"{family} {pid or os.getpid()}\n")


def echo(value):
    yield value


def refuse(kind, text):
    """A worker that ends in an error of mlxdiag's own."""
    yield None
    raise getattr(errors, kind)(text)


def children():
    """A worker that says who it is and waits to be killed."""
    yield os.getpid()
    time.sleep(600)


def big():
    for _ in range(40):
        yield "x" * 50_000


def threads():
    yield len(os.listdir("/proc/self/task"))
