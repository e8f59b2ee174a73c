"""Small traces for the replay tests, written as a reader of the README would write them."""

from mlxdiag.traces.reader import parse
from mlxdiag.traces.types import Trace

TINY = {
    "gemma3_text": "model: {architecture: gemma3_text, layers: {sliding: {attention: sliding, window: 8}}}\n",
    "gemma4_text": "model: {architecture: gemma4_text, layers: {sliding: {attention: sliding, window: 8}}}\n",
    "gpt_oss": "model: {architecture: gpt_oss, layers: {sliding: {attention: sliding, window: 8}}}\n",
    "llama": "model: {architecture: llama}\n",
    "gemma2": "model: {architecture: gemma2}\n",
    "gemma2_windowed": "model: {architecture: gemma2, layers: {sliding: {attention: sliding, window: 8}}}\n",
}


def trace(steps: str, architecture: str = "gemma3_text", header: str = "") -> Trace:
    """A trace of a tiny window-8 model; `steps` holds one entry a line, without the dash."""
    lines = "".join(f"- {line.strip()}\n" for line in steps.strip().splitlines())
    return parse(f"schema: mlxdiag.trace/1\n{header}{TINY[architecture]}steps:\n{lines}")
