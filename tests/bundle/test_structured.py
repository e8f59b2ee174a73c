"""No token id, host or path that stands in a structured field of a trace or a config gets into a bundle."""

from __future__ import annotations

import json
import re

import pytest

from mlxdiag.bundle.collect import modelcard
from mlxdiag.bundle.detect import detector
from mlxdiag.bundle.detect.facts import Facts
from mlxdiag.bundle.redact.trace import Redactor
from tests.bundle.cleaning import messages
from tests.bundle.corpus import structured
from tests.bundle.corpus.structured import HEADER, IDS, MODEL, PATH, ROW, STEP, WORDS
from tests.bundle.orders import made

LISTS = list(structured.lists())
SINGLES = list(structured.singles())
SYSTEMS = list(structured.systems())
_TOLD = re.compile(rf"(?<![\d.])(?:{'|'.join(map(str, IDS))})(?![\d.])|{'|'.join(WORDS)}")
OWN = ("MANIFEST", "environment.json", "bundle.json", "redaction.json")
"""Parts with hashes, and with sizes of this machine."""


def told(members: dict[str, bytes]) -> dict[str, list[str]]:
    found = {name: _TOLD.findall(data.decode()) for name, data in members.items() if name not in OWN}
    found["recorded"] = _TOLD.findall(json.dumps(json.loads(members["environment.json"])["recorded"]))
    return {name: hits for name, hits in found.items() if hits}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("structured") / "t.yaml"


def test_there_are_enough_of_them():
    assert len(LISTS) + len(SINGLES) >= 250


@pytest.mark.parametrize(("name", "plants"), [("lists", LISTS), ("singles", SINGLES), ("systems", SYSTEMS)])
def test_nothing_planted_in_a_structured_field_is_in_any_part(file, name, plants):
    left = {}
    for plant, *records in plants:
        file.write_text(structured.trace(*records))
        bundle = made(file)
        if found := told(bundle.members):
            left[plant] = found
        if bundle.hits:
            left[f"{plant} (refused)"] = list(map(str, bundle.hits))
    assert left == {}, name


def test_the_healthy_trace_keeps_what_a_report_needs(file):
    file.write_text(structured.trace(HEADER, MODEL, STEP))
    members = made(file).members
    card = json.loads(members["model.json"])
    assert {name: card[name] for name in ("name", "architecture", "config", "layers", "tokens")} == {
        name: MODEL[name] for name in ("name", "architecture", "config", "layers", "tokens")
    }
    recorded = json.loads(members["environment.json"])["recorded"]
    assert recorded == {"environment": HEADER["environment"], "source": HEADER["source"]}


@pytest.mark.parametrize("plants", [LISTS, SINGLES])
def test_the_detector_refuses_them_itself(plants):
    """Left as if nothing had been cleaned. What stands in a schema's own name it cannot know."""
    by_name = ("seq", "family", "reference", "name", "architecture", "model", "level", "mask", "scheduler",
               "vectors", "note", "planted", "step", "source", "refused")  # fmt: skip
    missed = []
    for plant, *records in plants:
        member = structured.trace(*records).encode()
        lone = plant.split()[0].split(".")[0] in by_name or plant.startswith("error")
        if not detector.scan({"trace.yaml": member}, Facts()) and not lone:
            missed.append(plant)
    assert missed == []


def test_a_checkpoints_config_is_held_to_the_same(tmp_path):
    config = {"model_type": "gemma3_text", "num_hidden_layers": 6, "sliding_window": 512}
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    for name in structured.LISTS:
        for value in (ROW, [ROW], {"mask": ROW}, list(map(str, ROW)), IDS[1] if name == "mask" else ROW):
            (tmp_path / "config.json").write_text(
                json.dumps({**config, f"known_{name}": value, "shape": value})
            )
            card = modelcard.of_directory(tmp_path, Redactor(messages()))
            assert not _TOLD.search(json.dumps(card["config"])), (name, value)
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "zorblax", "dtype": PATH}))
    assert not _TOLD.search(json.dumps(modelcard.of_directory(tmp_path, Redactor(messages()))))


def test_a_name_that_stands_twice_hides_nothing():
    hidden = '- {"phase": "model", "config": {"shape": [791, 4062, 14198]}, "config": {}}\n'
    hits = detector.scan({"trace.yaml": f"schema: mlxdiag.trace/1\nsteps:\n{hidden}".encode()}, Facts())
    assert [hit.kind for hit in hits] == ["a name that stands twice in one object"]


def test_a_trace_in_blocks_is_not_taken_for_searched():
    text = "schema: mlxdiag.trace/1\nmodel:\n  config:\n    shape: [791, 4062]\nsteps:\n"
    assert detector.scan({"trace.yaml": text.encode()}, Facts())
