"""How torch was built, and what it computes on here."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

NOT_ASKED = "not asked: torch was not loaded"
MOST_DEVICES = 8

_FIELD = re.compile(r"^(cuda|hip|xpu|git_version)\b[^=\n]*= *'([\w.+-]{1,60})'", re.MULTILINE)


def facts() -> dict[str, Any] | None:
    """None where torch is not installed. Its build is read from its own files, for importing it takes
    seconds; the devices are told where it is loaded already.
    """
    try:
        spec = find_spec("torch")
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not places:
        return None
    try:
        text = (Path(places[0]) / "version.py").read_text("utf-8", errors="replace")
    except OSError:
        text = ""
    built: dict[str, str] = dict(_FIELD.findall(text))
    kinds = [f"{name.upper()} {built[name]}" for name in ("cuda", "hip", "xpu") if name in built]
    told: dict[str, Any] = {"built for": ", ".join(kinds) or ("CPU" if text else "not known")}
    if "git_version" in built:
        told["commit"] = built["git_version"][:12]
    return {**told, **_found(sys.modules.get("torch"))}


def _found(torch: Any) -> dict[str, Any]:
    if torch is None:
        return {"devices": NOT_ASKED}
    devices: list[str] = []
    told: dict[str, Any] = {"devices": devices}
    if torch.cuda.is_available():
        for number in range(min(torch.cuda.device_count(), MOST_DEVICES)):
            major, minor = torch.cuda.get_device_capability(number)
            devices.append(f"{torch.cuda.get_device_name(number)} (compute capability {major}.{minor})")
        version = torch.backends.cudnn.version()
        if version is not None:
            told["cudnn"] = str(version)
    if torch.backends.mps.is_available():
        devices.append("MPS")
    devices.append("CPU")
    return told
