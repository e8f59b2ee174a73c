"""What a bundle holds beside its trace: what was tried around the fault, and the programs that show it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mlxdiag.errors import UnreadableError
from mlxdiag.reports.html.markup import Html, join, tag
from mlxdiag.reports.html.page import section, table

CONTROLS = "controls.json"
PROGRAMS = (
    ("repro/repro.py", "fails while the fault is there"),
    ("repro/control.py", "the nearest schedule that passes"),
)
SIGNS = {"fails": "✕", "passes": "✓"}


class Control(msgspec.Struct, frozen=True):
    """One attempt. Other fields of a newer mlxdiag are left out."""

    what: str = ""
    result: str = ""
    reason: str = ""


class Controls(msgspec.Struct, frozen=True):
    controls: list[Control] = []


def part(members: Mapping[str, bytes], source: str) -> Html:
    """A section; empty where the bundle has neither.

    Raises:
        UnreadableError: the list of what was tried is not one.
    """
    parts = [*_programs(members), *_controls(members, source)]
    return section("tried", "What was tried", *parts) if parts else Html("")


def _programs(members: Mapping[str, bytes]) -> list[Html]:
    held = [(name, what) for name, what in PROGRAMS if name in members]
    if not held:
        return []
    lines = join(tag("div", tag("dt", what), tag("dd", tag("code", f"python {name}"))) for name, what in held)
    return [tag("dl", lines, class_="told wide-terms")]


def _controls(members: Mapping[str, bytes], source: str) -> list[Html]:
    if CONTROLS not in members:
        return []
    try:
        found = msgspec.json.decode(members[CONTROLS], type=Controls).controls
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableError(f"{source}: {CONTROLS}: {error}") from None
    rows: list[tuple[Html | str, ...]] = [
        (f"{SIGNS.get(one.result, '–')} {one.result}", one.what, one.reason) for one in found
    ]
    return [table(("result", "what", "why"), rows, "Around the fault", class_="prose")] if rows else []
