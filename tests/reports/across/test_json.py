import json

from mlxdiag.reports.across.json import render
from tests.reports.across.made import across


def test_the_document_holds_everything_but_times() -> None:
    found = json.loads(render(across()))
    assert found["schema"] == "mlxdiag.across/1"
    assert "seconds" not in render(across())
    assert [cell["result"] for cell in found["cells"]] == ["agree", "own", "differ", "refused"]
    assert found["differences"][0]["code"] == "MD403"
    assert found["summary"] == {
        "families": {"agree": 1, "differ": 1, "lacks": 1, "refused": 1},
        "cells": {"agree": 1, "own": 1, "differ": 1, "refused": 1},
        "compared": 38,
        "queries": 76,
    }
