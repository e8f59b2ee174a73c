"""Schedules for the tests of a run, and what came of running one on mlx-lm."""

from mlxdiag.inspect.findings import codes
from mlxdiag.replay import experiment
from tests.replay.traces import trace


def run(steps: str, architecture: str = "gemma3_text", header: str = "", policy: str | None = None):
    prepared = experiment.prepare(trace(steps, architecture, header), source="t.yaml")
    instance = experiment.instance_for(prepared)
    return experiment.run_policies(prepared, instance, (policy or prepared.plan.misfit,))[0]


def fired(ran):
    return codes(f for f in ran.report.findings if f.severity != "info")


HEALTHY = {
    "chunks below, at and above the window, then decode": """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 5}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 5, "tokens": 8}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 13, "tokens": 11}]}
        {"step": 4, "rows": [{"seq": "a", "offset": 24, "tokens": 1}]}
        {"step": 5, "rows": [{"seq": "a", "offset": 25, "tokens": 1}]}
        {"step": 6, "rows": [{"seq": "a", "offset": 26, "tokens": 3}]}""",
    "tail trim inside the window, then another ending": """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 6}]}
        {"step": 2, "phase": "trim", "rows": [{"seq": "a", "asked": 3, "done": 3}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 3, "tokens": 9}]}""",
    "a verify block with a rejected draft": """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 3}]}
        {"step": 2, "phase": "verify", "rows": [{"seq": "a", "offset": 3, "tokens": 3}]}
        {"step": 3, "phase": "rollback", "rows": [{"seq": "a", "asked": 2, "done": 2}]}
        {"step": 4, "phase": "verify", "rows": [{"seq": "a", "offset": 4, "tokens": 2}]}
        {"step": 5, "rows": [{"seq": "a", "offset": 6, "tokens": 1}]}""",
    "an adopted prefix, cut before the window is full": """
        {"step": 1, "phase": "adopt", "rows": [{"seq": "a", "matched": 4, "entry": 7, "trimmed": 3, "restored": 4}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 4, "tokens": 10}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 14, "tokens": 1}]}""",
    "left-padded rows, one leaves": """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 9}, {"seq": "b", "offset": 0, "tokens": 4, "left_padding": 5}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 9, "tokens": 1}, {"seq": "b", "offset": 4, "tokens": 1}]}
        {"step": 3, "phase": "filter", "rows": [{"seq": "b"}]}
        {"step": 4, "rows": [{"seq": "b", "offset": 5, "tokens": 1}]}""",
    "right-padded rows, finalized, a third joins": """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 9}, {"seq": "b", "offset": 0, "tokens": 4, "right_padding": 5}]}
        {"step": 2, "phase": "finalize", "rows": [{"seq": "a"}, {"seq": "b"}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 9, "tokens": 1}, {"seq": "b", "offset": 4, "tokens": 1}]}
        {"step": 4, "rows": [{"seq": "c", "offset": 0, "tokens": 6}]}
        {"step": 5, "rows": [{"seq": "a", "offset": 10, "tokens": 1}, {"seq": "b", "offset": 5, "tokens": 1}, {"seq": "c", "offset": 6, "tokens": 1}]}""",
    "a decode beside another's prompt, packed": """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 9}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 9, "tokens": 1, "phase": "decode"}, {"seq": "b", "offset": 0, "tokens": 6, "phase": "prefill"}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 10, "tokens": 1}, {"seq": "b", "offset": 6, "tokens": 1}]}""",
    "a row that is scheduled for nothing": """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 4}, {"seq": "b", "offset": 0, "tokens": 4}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 4, "tokens": 1}, {"seq": "b", "offset": 4, "tokens": 0}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 5, "tokens": 1}, {"seq": "b", "offset": 4, "tokens": 1}]}""",
    "saved to a file and loaded in the middle": """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}]}
        {"step": 2, "phase": "save", "rows": [{"seq": "a"}]}
        {"step": 3, "phase": "load", "rows": [{"seq": "a"}]}
        {"step": 4, "rows": [{"seq": "a", "offset": 12, "tokens": 4}]}
        {"step": 5, "rows": [{"seq": "a", "offset": 16, "tokens": 1}]}""",
    "a file loaded before anything was fed": """
        {"step": 0, "phase": "load", "rows": [{"seq": "a", "restored": 12}]}
        {"step": 0, "rows": [{"seq": "a", "offset": 12, "tokens": 4}]}
        {"step": 1, "rows": [{"seq": "a", "offset": 16, "tokens": 1}]}""",
    "one row of a batch goes ahead, the others are fed on, then it is joined again": """
        {"step": 0, "phase": "merge", "rows": [{"seq": "a"}, {"seq": "b"}, {"seq": "c"}]}
        {"step": 0, "rows": [{"seq": "a", "tokens": 9}, {"seq": "b", "tokens": 4, "right_padding": 5}, {"seq": "c", "tokens": 9}]}
        {"step": 0, "phase": "finalize", "rows": [{"seq": "a"}, {"seq": "b"}, {"seq": "c"}]}
        {"step": 0, "phase": "extract", "rows": [{"seq": "b"}]}
        {"step": 0, "phase": "save", "rows": [{"seq": "b"}]}
        {"step": 0, "phase": "filter", "rows": [{"seq": "a"}, {"seq": "c"}]}
        {"step": 1, "phase": "decode", "rows": [{"seq": "b", "offset": 4, "tokens": 1}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 9, "tokens": 3}, {"seq": "c", "offset": 9, "tokens": 3}]}
        {"step": 2, "phase": "extend", "rows": [{"seq": "b"}, {"seq": "a"}, {"seq": "c"}]}
        {"step": 3, "rows": [{"seq": "b", "offset": 5, "tokens": 1}, {"seq": "a", "offset": 12, "tokens": 1}, {"seq": "c", "offset": 12, "tokens": 1}]}""",
    "two sequences by turns on one model": """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 9}]}
        {"step": 2, "rows": [{"seq": "b", "offset": 0, "tokens": 5}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 9, "tokens": 4}]}
        {"step": 4, "rows": [{"seq": "b", "offset": 5, "tokens": 7}]}""",
}

OFFSET_ZERO = """
    {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}]}
    {"step": 2, "rows": [{"seq": "a", "offset": 12, "tokens": 5}], "mask": {"shape": [5, 5], "offset": 0}}"""
"""A continuation of five tokens whose mask was made as if nothing were held."""
