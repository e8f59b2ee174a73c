"""`python -m bench`: print the table of measured ratios beside the goals."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable

from bench import auditing, inspecting, planting, recording, recording_torch, replaying, startup
from bench.clock import Result


def main() -> None:
    options = _options()
    parts: dict[str, Callable[[], Iterable[Result]]] = {
        "memory": lambda: inspecting.memory(options.megabytes << 20),
        "startup": lambda: startup.measure(options.rounds),
        "inspect": lambda: inspecting.rate(options.rounds),
        "replay": lambda: replaying.measure(options.rounds),
        "record": lambda: recording.measure(options.rounds),
        "record-torch": lambda: recording_torch.measure(options.rounds),
        "plants": planting.measure,
        "plants-torch": planting.measure_torch,
        "audit": lambda: auditing.measure(options.audit_families),
    }
    for name, part in parts.items():
        if options.only and name not in options.only:
            continue
        for result in part():
            show(result)


def show(result: Result) -> None:
    ratio = "" if result.ratio is None else f"{result.ratio:.2f}"
    verdict = {True: "", False: "  MISSED", None: ""}[result.good]
    print(f"{result.what:46}  {ratio:>5}  {result.goal:7}  {result.measured}{verdict}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="turns that each subject gets (default 7)")
    parser.add_argument(
        "--megabytes", type=int, default=200, help="size of the big trace file (default 200; try 1000)"
    )
    parser.add_argument(
        "--only",
        nargs="*",
        choices=(
            "memory",
            "startup",
            "inspect",
            "replay",
            "record",
            "record-torch",
            "plants",
            "plants-torch",
            "audit",
        ),
    )
    parser.add_argument("--audit-families", nargs="*", default=(), help="default: all, which takes minutes")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
