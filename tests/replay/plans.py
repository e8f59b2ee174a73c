"""A plan, laid from the lines of a schedule."""

from mlxdiag.replay import plan
from mlxdiag.traces.types import Family
from tests.replay.traces import trace

FAMILIES = {
    "sliding": Family(attention="sliding", cache="rotating", window=8, count=5),
    "full": Family(attention="full", cache="dense", count=1),
}


def lay(steps: str, header: str = "", architecture: str = "gemma3_text"):
    return plan.lay(trace(steps, architecture, header), FAMILIES, source="t.yaml")
