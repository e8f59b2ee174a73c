"""The same cells on another copy of the library: where it comes from, and what is different there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import msgspec

from mlxdiag.audit.cell import LIBRARY, Audit, Cell
from mlxdiag.audit.engine.pool import Site, last_line
from mlxdiag.errors import UnjudgedError, UsageError

VERSION = re.compile(r"^v?(\d+(\.\d+)+[a-z0-9.+-]*)$")
PACKAGES = {LIBRARY: "mlx_lm", "transformers": "transformers"}
"""By library: the folder that a copy of it holds."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One cell whose result differs."""

    family: str
    scenario: str
    before: str
    """Result in the other copy; empty where it has no such cell."""
    after: str
    reason: str = ""
    """What is said of it where it is wrong, else where it was judged."""
    skip: str = ""
    """Why it was skipped, where it was on one side."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The installed copy (after) against another one (before)."""

    other: dict[str, str]
    """Versions there."""
    broke: list[Change] = []
    """Right there, wrong here."""
    mended: list[Change] = []
    """Wrong there, right here."""
    skipped: list[Change] = []
    """Skipped on one side only: nothing is proved about it."""
    differs: list[Change] = []
    """Any other change: refused, crashed instead of failed, or not there at all."""
    same: int = 0
    new_faults: list[str] = []
    gone_faults: list[str] = []
    same_faults: list[str] = []


def compare(other: Audit, here: Audit) -> Comparison:
    """Cell by cell and fault by fault."""
    before = {(cell.family, cell.scenario): cell for cell in other.cells}
    after = {(cell.family, cell.scenario): cell for cell in here.cells}
    groups: dict[str, list[Change]] = {"broke": [], "mended": [], "skipped": [], "differs": []}
    same = 0
    for key in [*after, *(key for key in before if key not in after)]:
        kind = _kind(before.get(key), after.get(key))
        if kind is None:
            same += 1
        else:
            groups[kind].append(_change(key, before.get(key), after.get(key)))
    there, now = {fault.id for fault in other.faults}, {fault.id for fault in here.faults}
    return Comparison(
        other=other.libraries,
        same=same,
        new_faults=sorted(now - there),
        gone_faults=sorted(there - now),
        same_faults=sorted(now & there),
        **groups,
    )


def _kind(before: Cell | None, after: Cell | None) -> str | None:
    if before is None or after is None:
        return "differs"
    if before.result == after.result:
        return None
    if "skipped" in (before.result, after.result):
        return "skipped"
    if after.wrong and before.result == "pass":
        return "broke"
    if before.wrong and after.result == "pass":
        return "mended"
    return "differs"


def _change(key: tuple[str, str], before: Cell | None, after: Cell | None) -> Change:
    there = [cell for cell in (after, before) if cell is not None]
    skip = next((cell.reason for cell in there if cell.result == "skipped"), "")
    judged = [cell for cell in there if cell.result != "skipped"]
    told = next((cell for cell in judged if cell.wrong), judged[0] if judged else None)
    return Change(
        family=key[0],
        scenario=key[1],
        before=before.result if before else "",
        after=after.result if after else "",
        reason=told.reason if told else "",
        skip=skip,
    )


def site(name: str, library: str = LIBRARY) -> Site:
    """A version, which is installed into a folder of its own, a folder that holds the package, or a Python.

    Raises:
        UsageError: it is none of them.
        UnjudgedError: the version cannot be installed.
    """
    path = Path(name).expanduser()
    if path.exists():
        return _at(path, PACKAGES[library])
    if version := VERSION.match(name):
        return _installed(version[1], library)
    raise UsageError(f"--against: {name!r} is neither a version nor a folder or a Python that exists")


def _at(path: Path, package: str) -> Site:
    if path.is_file() and os.access(path, os.X_OK):
        return _python(path, package)
    for python in (path / "bin" / "python", path / "Scripts" / "python.exe"):
        if python.is_file():
            return _python(python, package)
    for folder in (path, path.parent):
        if (folder / package / "models").is_dir() and (folder == path or path.name == package):
            return Site(first=(str(folder.resolve()),), label=str(path))
    raise UsageError(f"--against: {path} holds no {package} and is no Python and no environment")


def _python(python: Path, package: str) -> Site:
    """Another interpreter with its own copy; what mlxdiag needs is lent to it, after its own packages.

    Raises:
        UnjudgedError: it has no copy of its own: the one lent to it would be compared with itself.
    """
    asked = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    try:
        answer = subprocess.run(
            [str(python.absolute()), "-I", "-c", asked], capture_output=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnjudgedError(f"--against: {python} cannot be run: {error}") from None
    if answer.returncode != 0:
        raise UnjudgedError(f"--against: {python} has no {package} of its own")
    lent = tuple(dict.fromkeys(sysconfig.get_paths()[kind] for kind in ("purelib", "platlib")))
    return Site(python=str(python.absolute()), last=lent, label=str(python))


def cache() -> Path:
    """Where installed versions are kept."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "mlxdiag" / "libraries"
    held = os.environ.get("XDG_CACHE_HOME")
    return (Path(held) if held else Path.home() / ".cache") / "mlxdiag" / "libraries"


def _installed(version: str, library: str) -> Site:
    """The library alone: the same framework computes, so that a difference is the library's."""
    target = cache() / f"{library}-{version}"
    if not (target / PACKAGES[library]).is_dir():
        _install(version, target, library)
    return Site(first=(str(target),), label=f"{library} {version}")


def _install(version: str, target: Path, library: str) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        room = tempfile.mkdtemp(dir=target.parent, prefix=".new-")
    except OSError as error:
        raise UnjudgedError(f"cannot write {target.parent}: {error.strerror}") from None
    try:
        done = subprocess.run(
            _pip("--target", room, f"{library}=={version}"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode or not (Path(room) / PACKAGES[library]).is_dir():
            said = last_line(done.stdout) or "pip failed"
            raise UnjudgedError(f"cannot install {library} {version}: {said}")
        if not target.exists():
            os.rename(room, target)
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _pip(*arguments: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        *arguments,
    ]
