"""`mlxdiag schema`: the JSON Schema of the trace file, made from the types that read it."""

from __future__ import annotations

from mlxdiag.cli import options
from mlxdiag.cli.deliver import write_result
from mlxdiag.cli.settings import refuse_overwriting
from mlxdiag.errors import CLEAN
from mlxdiag.reports import json
from mlxdiag.traces.schema import json_schema


def main(output: options.Output = None, force: options.Force = False) -> int:
    """The JSON Schema of the trace file."""
    refuse_overwriting(output, force)
    write_result(json.pretty(json_schema()), output)
    return CLEAN
