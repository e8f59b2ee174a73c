"""Whether a process still runs."""

from __future__ import annotations

from pathlib import Path


def runs(pid: int) -> bool:
    """False for one that is gone, and for one that only waits to be asked how it ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
