"""`mlxdiag import`: a foreign log, a traceback or a token stream becomes a trace."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from mlxdiag.cli import options
from mlxdiag.cli.deliver import write_file, write_result
from mlxdiag.cli.inspect import refuse_overwriting_a_source
from mlxdiag.cli.settings import refuse_overwriting
from mlxdiag.cli.streams import complain
from mlxdiag.errors import CLEAN, UnreadableError

if TYPE_CHECKING:
    from mlxdiag.models.adapter import Geometry
    from mlxdiag.traces.importers.registry import Imported
    from mlxdiag.traces.types import Entry


def main(
    logs: Annotated[
        list[str],
        typer.Argument(metavar="LOG...", help="Logs, tracebacks or token streams; '-' is standard input."),
    ],
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="The model's config.json: family, windows and special ids."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the trace here, not to standard output."),
    ] = None,
    force: options.Force = False,
) -> int:
    """Turn foreign logs into one trace: detected by content, texts and token ids left out."""
    from mlxdiag.traces.encode import entry_line, header_text
    from mlxdiag.traces.importers import registry

    target = None if output == Path("-") else output
    refuse_overwriting(target, force)
    refuse_overwriting_a_source([*logs, *([str(config)] if config else [])], target)
    model = None if config is None else model_of(config)
    try:
        imported = registry.read(_opened(logs), model)
    except OSError as error:
        raise UnreadableError(f"{', '.join(logs)}: cannot be read: {error.strerror}") from None
    _summarise(imported)
    trace = imported.trace
    if target is not None and target.suffix == ".zst":
        from mlxdiag.traces.writer import dump

        dump(trace, target, force=force)
        return CLEAN
    text = header_text(trace.header) + b"".join(entry_line(entry) for entry in trace.entries)
    if target is not None:
        write_file(target, text.decode())
    else:
        write_result(text.decode(), None)
    return CLEAN


def model_of(path: Path) -> Entry:
    """The model entry of a config.json, or of the one in a checkpoint's folder.

    Raises:
        UnreadableError: no such file, no JSON object, or a config that contradicts itself.
    """
    from msgspec import structs

    from mlxdiag.models.configs import geometry

    path = path / "config.json" if path.is_dir() else path
    known = geometry.from_config(_json(path))
    entry = known.model_entry(known.architecture)
    return structs.replace(entry, config={**(entry.config or {}), **_silent(known)})


def _silent(known: Geometry) -> dict[str, Any]:
    """What the config leaves to its family's habit, spelled out: a replay would else take it from another
    size of the family."""
    from mlxdiag.models import catalogue

    if known.architecture not in catalogue.CATALOGUE:
        return {}
    sample = catalogue.config(known.architecture)
    sample = sample.get("text_config", sample)
    kinds = [_LAYER_TYPES.get(layer.attention) for layer in known.layers]
    said: dict[str, Any] = {"num_hidden_layers": known.depth}
    if "layer_types" in sample and None not in kinds and len(kinds) == known.depth:
        said["layer_types"] = kinds
    if "num_kv_shared_layers" in sample:
        said["num_kv_shared_layers"] = sum(layer.shares is not None for layer in known.layers)
    return said


_LAYER_TYPES = {"full": "full_attention", "sliding": "sliding_attention", "chunked": "chunked_attention"}


def _json(path: Path) -> dict[str, Any]:
    import msgspec

    try:
        value: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UnreadableError(f"{path}: not a config.json: {error}") from None
    return value


def _opened(logs: list[str]) -> Iterator[tuple[str, BinaryIO]]:
    """Each log, open while it is read. Raises UnreadableError, with its name, where it cannot be."""
    for name in logs:
        try:
            if name == "-":
                yield "<stdin>", sys.stdin.buffer
            else:
                with open(name, "rb") as file:
                    yield name, file
        except (OSError, ValueError) as error:
            raise UnreadableError(f"{name}: {getattr(error, 'strerror', None) or error}") from None


def _summarise(imported: Imported) -> None:
    """What went in, what stayed out, and what a replay will miss."""
    taken = ", ".join(f"{name} {count}" for name, count in imported.taken.items())
    complain(f"imported {_count(sum(imported.taken.values()), 'record')} of the log ({taken})")
    if imported.passed:
        passed = ", ".join(f"{name} {count}" for name, count in imported.passed.items())
        complain(f"left out: {_count(sum(imported.passed.values()), 'record')} without numbers ({passed})")
    if imported.unknown:
        complain(f"left out: {_count(imported.unknown, 'line')} of no known format")
    if imported.impossible:
        complain(f"left out: {_count(imported.impossible, 'step')} whose numbers cannot be")
    trace = imported.trace
    inferred = (trace.header.source or {}).get("inferred")
    if inferred:
        complain(f"inferred, not read: {', '.join(inferred)}; each entry's note says why")
    if not any(entry.architecture for entry in trace.entries):
        complain("the log names no model: to replay the trace, import again with --config config.json")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
