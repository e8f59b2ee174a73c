"""The JSON Schema agrees with the reader, and its committed copy with the types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml
from hypothesis import given, settings

import mlxdiag.traces
from mlxdiag.traces.encode import entry_line, header_text
from mlxdiag.traces.reader import parse
from mlxdiag.traces.schema import json_schema
from mlxdiag.traces.types import Trace
from tests.traces.example import LINES
from tests.traces.strategies import traces
from tests.traces.test_reader_errors import SLIPS

COPY = Path(mlxdiag.traces.__file__).with_name("trace.schema.json")
SAMPLES = sorted(Path(__file__).parents[2].joinpath("traces").glob("*.yaml"))
BETWEEN_FIELDS = "is less than the"
"""What relates two fields is beyond a schema."""


def validator() -> Any:
    return jsonschema.Draft202012Validator(json_schema())


def test_committed_copy_is_what_the_types_give() -> None:
    assert json.loads(COPY.read_text("utf-8")) == json_schema(), f"mlxdiag schema --force -o {COPY}"


def test_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


@settings(max_examples=60, deadline=None)
@given(traces)
def test_written_traces_are_valid(trace: Trace) -> None:
    text = header_text(trace.header) + b"".join(map(entry_line, trace.entries))
    validator().validate(yaml.safe_load(text))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_sample_traces_are_valid(path: Path) -> None:
    validator().validate(yaml.safe_load(path.read_bytes()))


@pytest.mark.parametrize("message", [message for message in SLIPS if BETWEEN_FIELDS not in message])
def test_what_the_reader_refuses_the_schema_refuses(message: str) -> None:
    document = yaml.safe_load(LINES)
    assert not list(validator().iter_errors(document))
    document["steps"].append(yaml.safe_load(SLIPS[message]))
    assert list(validator().iter_errors(document))


@pytest.mark.parametrize(
    ("schema", "valid"), [("mlxdiag.trace/1", True), ("mlxdiag.trace/1.2", True), ("mlxdiag.trace/2", False),
                          ("mlxdiagXtrace/1", False)]
)  # fmt: skip
def test_schema_line_is_held_to_the_major_version(schema: str, valid: bool) -> None:
    assert validator().is_valid({"schema": schema, "steps": []}) is valid


def test_document_without_steps_is_invalid() -> None:
    assert not validator().is_valid({"schema": "mlxdiag.trace/1"})
    assert validator().is_valid(yaml.safe_load("schema: mlxdiag.trace/1\nsteps:\n"))
    assert parse("steps:\n").entries == []


def test_every_field_of_the_types_is_in_the_schema() -> None:
    from mlxdiag.traces import types

    definitions = json_schema()["$defs"]
    for name, record in vars(types).items():
        if isinstance(record, type) and issubclass(record, types.Record) and record is not types.Record:
            if name == "Header":
                continue
            assert set(definitions[name]["properties"]) == {
                field.encode_name for field in msgspec.structs.fields(record)
            }
