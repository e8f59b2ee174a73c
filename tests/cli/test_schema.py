import json

import jsonschema
import pytest

from tests.cli.program import HEALTHY, call


def test_the_printed_schema_accepts_a_trace_and_refuses_a_wrong_one(capsys):
    schema = json.loads(call(capsys, "schema").out)
    entry = json.loads(HEALTHY.removeprefix("- "))
    jsonschema.validate({"schema": "mlxdiag.trace/1", "steps": [entry]}, schema)
    entry["rows"][0]["offset"] = "seven"
    with pytest.raises(jsonschema.ValidationError, match="seven"):
        jsonschema.validate({"schema": "mlxdiag.trace/1", "steps": [entry]}, schema)
