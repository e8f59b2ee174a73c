import json

import pytest

from mlxdiag.errors import UnreadableError
from mlxdiag.reports.html import tried
from tests.reports.html.pages import ATTACK, Page


def members(*controls, **files):
    held = {name.replace("__", "/") + ".py": b"" for name in files}
    return {**held, "controls.json": json.dumps({"controls": controls}).encode()}


def test_what_was_tried_is_a_table_with_its_results():
    read = Page(tried.part(members({"what": "chunks of 8", "result": "passes", "reason": "agrees"}), "b.zip"))
    assert [word in read.text for word in ("✓ passes", "chunks of 8", "agrees")] == [True] * 3


def test_the_programs_that_are_there_are_named():
    text = Page(tried.part(members(repro__repro=1), "b.zip")).text
    assert "python repro/repro.py" in text
    assert "control.py" not in text


def test_a_bundle_without_either_has_no_section():
    assert tried.part({"trace.yaml": b""}, "b.zip") == ""


def test_nothing_in_it_becomes_markup():
    read = Page(tried.part(members({"what": ATTACK, "result": ATTACK, "reason": ATTACK, "new": 1}), "b.zip"))
    assert read.faults == []
    assert not read.all("img") + read.all("script")


@pytest.mark.parametrize("data", [b"{", b'{"controls": 3}', b"\xff"])
def test_a_damaged_list_is_named(data):
    with pytest.raises(UnreadableError, match=r"b\.zip: controls\.json"):
        tried.part({"controls.json": data}, "b.zip")
