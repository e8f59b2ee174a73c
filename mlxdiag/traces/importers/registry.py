"""Every importer, and the one loop that hands them the records of a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import msgspec

from mlxdiag.errors import UnreadableError
from mlxdiag.traces.importers.draft import Draft
from mlxdiag.traces.importers.importer import KNOWN, TAKEN, Importer
from mlxdiag.traces.importers.json_steps import JsonSteps
from mlxdiag.traces.importers.llama_cpp import LlamaCpp
from mlxdiag.traces.importers.lm_studio import LmStudio
from mlxdiag.traces.importers.mlx_abort import MlxAbort
from mlxdiag.traces.importers.mlx_lm_server import MlxLmServer
from mlxdiag.traces.importers.mlx_swift import MlxSwift
from mlxdiag.traces.importers.mlxcel import Mlxcel
from mlxdiag.traces.importers.mlxcel_layers import MlxcelLayers
from mlxdiag.traces.importers.ollama import Ollama
from mlxdiag.traces.importers.ollama_stream import OllamaStream
from mlxdiag.traces.importers.omlx import Omlx
from mlxdiag.traces.importers.openai_stream import OpenAiStream
from mlxdiag.traces.importers.plain_text import PlainText
from mlxdiag.traces.importers.rapid_mlx import RapidMlx
from mlxdiag.traces.importers.records import Record, records
from mlxdiag.traces.importers.sglang import Sglang
from mlxdiag.traces.importers.text import Packed, lines_of
from mlxdiag.traces.importers.tgi import Tgi
from mlxdiag.traces.importers.traceback import Traceback
from mlxdiag.traces.importers.vllm import Vllm
from mlxdiag.traces.types import Entry, Trace

IMPORTERS: tuple[type[Importer], ...] = (
    Mlxcel,
    MlxcelLayers,
    Vllm,
    Sglang,
    LlamaCpp,
    Ollama,
    Omlx,
    RapidMlx,
    MlxLmServer,
    LmStudio,
    MlxSwift,
    Traceback,
    MlxAbort,
    OpenAiStream,
    OllamaStream,
    Tgi,
    JsonSteps,
    PlainText,
)
"""A record belongs to the first that takes something from it, else to the first that knows it. The bare error
message and the bare text come after the formats that say more about them."""


class Imported(msgspec.Struct, frozen=True):
    """A trace, and how much of the log went into it."""

    trace: Trace
    taken: dict[str, int]
    """Records that something was taken from, by format."""
    passed: dict[str, int]
    """Records of a known format without anything for a trace."""
    unknown: int
    """Records of no known format."""
    impossible: int = 0
    """Steps whose numbers contradict each other, and which are left out."""


def read(logs: Iterable[tuple[str, BinaryIO]], model: Entry | None = None) -> Imported:
    """The trace of these logs, read in the order given.

    Args:
        logs: name and open file of each, read once, front to back.
        model: the model entry of a config.json; without it the trace names what the log itself shows.

    Raises:
        UnreadableError: nothing in them is of a known format, or nothing of it goes into a trace.
        OSError: a file cannot be read.
    """
    draft = Draft(model)
    importers = [kind(draft) for kind in IMPORTERS]
    taken: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    unknown = 0
    names = []
    for name, file in logs:
        names.append(name)
        for record in _records(name, file):
            owner, verdict = _offer(record, importers)
            if owner is None:
                unknown += 1
            elif verdict == KNOWN:
                passed[owner.name] += 1
            else:
                taken[owner.name] += 1
                draft.sources.setdefault(owner.name)
                draft.program = draft.program or owner.program
    for importer in importers:
        importer.close()
    if not draft.steps:
        raise UnreadableError(_nothing(names, passed, unknown))
    trace = draft.trace()
    return Imported(trace, dict(taken), dict(passed), unknown, draft.impossible)


def _records(name: str, file: BinaryIO) -> Iterator[Record]:
    try:
        yield from records(lines_of(file))
    except Packed as error:
        raise UnreadableError(f"{name}: compressed ({error}); unpack it first") from None


def _offer(record: Record, importers: list[Importer]) -> tuple[Importer | None, int]:
    """Who took the record, else who knew it, with the verdict."""
    knower = None
    for importer in importers:
        verdict = importer.take(record)
        if verdict == TAKEN:
            return importer, TAKEN
        if verdict == KNOWN and knower is None:
            knower = importer
    return knower, KNOWN


def _nothing(names: list[str], passed: Counter[str], unknown: int) -> str:
    where = ", ".join(names) or "no log"
    if passed:
        known = ", ".join(f"{count} of {name}" for name, count in passed.items())
        return f"{where}: of a known format ({known}), but no line tells an offset, length, shape or token"
    formats = ", ".join(dict.fromkeys(kind.name for kind in IMPORTERS))
    return f"{where}: none of {unknown} lines is of a known format ({formats})"
