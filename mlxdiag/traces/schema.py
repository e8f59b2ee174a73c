"""The JSON Schema of a trace file, generated from the types: what this version writes, and editors complete.

A reader is more lenient than the schema: it ignores unknown fields with a warning.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mlxdiag.traces.types import SCHEMA, Entry, Header

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Of the whole document; `trace.schema.json` beside this file is its committed copy."""
    _, components = msgspec.json.schema_components([Header, Entry], ref_template="#/$defs/{name}")
    header = components.pop(Header.__name__)
    properties: dict[str, Any] = {
        **header["properties"],
        "schema": {"type": "string", "pattern": rf"^{SCHEMA}(\.\d+)?$".replace(".t", r"\.t")},
        "steps": {"type": ["array", "null"], "items": {"$ref": f"#/$defs/{Entry.__name__}"}},
    }
    return {
        "$schema": DIALECT,
        "title": SCHEMA,
        "description": "A trace: what a scheduler and its attention layers did. Absent means not observed.",
        "type": "object",
        "properties": properties,
        "required": ["schema", "steps"],
        "additionalProperties": False,
        "$defs": components,
    }
