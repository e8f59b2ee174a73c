"""`environment.json`: the machine that recorded, as the trace tells it, and this one, where the bundle is
made."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from mlxdiag.bundle.collect import torchbuild
from mlxdiag.bundle.redact.rules import ENVIRONMENT

SCHEMA = "mlxdiag.environment/1"
DISTRIBUTIONS = (
    "mlxdiag", "mlx", "mlx-metal", "mlx-cpu", "mlx-cuda-12", "mlx-cuda-13", "mlx-lm", "mlx-vlm", "mlxcel",
    "torch",
    "transformers", "accelerate", "kernels", "flash-attn", "triton", "bitsandbytes",
    "vllm", "sglang", "llama-cpp-python", "ollama", "numpy", "safetensors", "tokenizers",
    "huggingface-hub",
)  # fmt: skip
SLOWEST = 1.0
"""Seconds that a program of the system may take to answer."""
HERE = (
    "This machine, on which the bundle was made. It may be another one than the one that failed: what the "
    "trace itself recorded is under `recorded`."
)

_HARDWARE = re.compile(r"[A-Za-z0-9 ()@.,+_/-]{1,90}\Z")
_COMMIT = re.compile(r"[0-9a-f]{7,40}\Z")
_SWITCH = re.compile(r"[\w.,:=-]{1,24}\Z")


def document(recorded: Mapping[str, Any], source: Mapping[str, Any]) -> dict[str, Any]:
    """The member's content. `recorded`, `source`: of the cleaned trace's header."""
    return {
        "schema": SCHEMA,
        "recorded": {"environment": dict(recorded), "source": dict(source)},
        "here": {"note": HERE, **here()},
    }


def here(environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """System, chip, memory, GPUs, Python, installed libraries, and the variables on the list."""
    environ = os.environ if environ is None else environ
    found = {
        "os": f"{platform.system()} {_system_version()}".strip(),
        "machine": platform.machine(),
        "chip": _hardware(_chip()),
        "memory_gib": _memory(),
        "gpus": _gpus(),
        "python": platform.python_version(),
        "libraries": {name: library for name in DISTRIBUTIONS if (library := _library(name))},
        "torch": torchbuild.facts(),
        "variables": {
            name: environ[name] for name in ENVIRONMENT if name in environ and _SWITCH.match(environ[name])
        },
    }
    return {name: value for name, value in found.items() if value not in (None, [], {})}


def with_devices(here: Mapping[str, Any]) -> dict[str, Any]:
    """The same, once torch may be loaded and can say what it finds."""
    return {**here, "torch": torchbuild.facts()} if "torch" in here else dict(here)


def _system_version() -> str:
    if sys.platform == "darwin":
        build = _ask("sysctl", "-n", "kern.osversion")
        return f"{platform.mac_ver()[0]}" + (f" ({build})" if build else "")
    # A kernel may be named for its builder: the numbers are enough.
    match = re.match(r"[\d.]+", platform.release())
    return match.group() if match else ""


def _chip() -> str | None:
    if sys.platform == "darwin":
        return _ask("sysctl", "-n", "machdep.cpu.brand_string")
    return _line_of("/proc/cpuinfo", "model name") or platform.processor() or None


def _memory() -> int | None:
    """Whole GiB."""
    if sys.platform == "darwin":
        text = _ask("sysctl", "-n", "hw.memsize")
        return round(int(text) / (1 << 30)) if text and text.isdigit() else None
    text = _line_of("/proc/meminfo", "MemTotal")
    match = re.match(r"(\d+) kB", text or "")
    return round(int(match.group(1)) / (1 << 20)) if match else None


def _gpus() -> list[dict[str, str]]:
    text = _ask("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
    cells = [[cell.strip() for cell in line.split(",")] for line in (text or "").splitlines()]
    return [
        {"name": name, "driver": driver, "memory": memory}
        for name, driver, memory in (row for row in cells if len(row) == 3)
        if all(_hardware(cell) for cell in (name, driver, memory))
    ]


def _library(name: str) -> dict[str, str] | None:
    """Version, commit where it was installed from a repository, and how; the folder is not told."""
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
    told = {"version": found.version}
    try:
        origin = json.loads(found.read_text("direct_url.json") or "{}")
    except ValueError:
        return told
    commit = str((origin.get("vcs_info") or {}).get("commit_id") or "")
    if _COMMIT.match(commit):
        told["commit"] = commit
    if (origin.get("dir_info") or {}).get("editable"):
        told["installed"] = "editable, from a folder"
    return told


def _hardware(text: str | None) -> str | None:
    return text if text and _HARDWARE.match(text) else None


def _line_of(path: str, name: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                key, colon, value = line.partition(":")
                if colon and key.strip() == name:
                    return value.strip()
    except OSError:
        return None
    return None


def _ask(*command: str) -> str | None:
    """The answer of a program of the system; None where it is missing, fails or takes too long."""
    program = shutil.which(command[0])
    if program is None:
        return None
    try:
        ran = subprocess.run(
            [program, *command[1:]], capture_output=True, text=True, timeout=SLOWEST, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeError):
        return None
    return ran.stdout.strip() or None
