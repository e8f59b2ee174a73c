from __future__ import annotations

import json

import pytest

from mlxdiag.bundle import assemble
from mlxdiag.bundle.collect import inputs, torchbuild
from mlxdiag.bundle.detect.facts import Facts
from mlxdiag.bundle.pack.check import problems
from mlxdiag.errors import UnreadableError, UsageError
from mlxdiag.inspect.findings import codes
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.reader import parse, read
from tests.bundle.corpus.places import planted
from tests.bundle.orders import SAMPLE, key_folder, made
from tests.bundle.test_corpus import left
from tests.bundle.zips import written
from tests.samples.expected import FOLDER, SAMPLES

__all__ = ["key_folder"]


def test_the_same_input_gives_the_same_bytes(tmp_path, key_folder):
    log = tmp_path / "a.log"
    log.write_text("INFO: block_hash=9f86d081884c7d659a2feaa0c55ad015\n")
    assert made(logs=(log,)).data == made(logs=(log,)).data
    assert made(logs=(log,)).data != made().data
    assert (key_folder / "mlxdiag" / "bundle.key").exists()


def test_no_input_is_changed(tmp_path):
    trace, log, model = tmp_path / "t.yaml", tmp_path / "a.log", tmp_path / "model"
    trace.write_bytes(SAMPLE.read_bytes())
    log.write_text("INFO: offset 1\n")
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "llama", "num_hidden_layers": 2}')
    (model / "model.safetensors").write_bytes(b"weights")

    def state():
        files = sorted(path for path in tmp_path.rglob("*") if path.is_file())
        return [(path, path.stat().st_mtime_ns, path.read_bytes()) for path in files]

    before = state()
    made(trace, logs=(log,), model=model)
    assert state() == before


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_makes_a_whole_bundle_with_the_same_faults(name):
    bundle = made(FOLDER / f"{name}.yaml")
    assert bundle.hits == ()
    assert problems(_with_manifest(bundle), Facts()) == []
    inside = inspect_trace(parse(bundle.members["trace.yaml"].decode()))
    assert codes(inside.findings) == codes(inspect_trace(read(FOLDER / f"{name}.yaml")).findings)


def _with_manifest(bundle):
    from mlxdiag.bundle.pack.archive import MANIFEST, manifest

    return {**bundle.members, MANIFEST: manifest(bundle.members)}


def test_a_whole_log_of_secrets_leaves_none_in_any_member(tmp_path, key_folder):
    texts = list(planted())
    logs = {place: tmp_path / f"{place}.log" for place, _, _ in texts}
    for place, log in logs.items():
        log.write_text("\n".join(text for where, _, text in texts if where == place), encoding="utf-8")
    bundle = made(logs=tuple(logs.values()), drop=True)
    for name, data in bundle.members.items():
        shown = data.decode()
        found = {secret.text for _, secret, _ in texts if secret.text != "Hi" and left(secret, shown)}
        assert not found, name
    assert bundle.hits == ()
    removed = json.loads(bundle.members["redaction.json"])["removed"]
    assert len(removed) >= 20


def test_what_the_cleaning_lets_slip_stops_the_bundle(tmp_path, monkeypatch):
    log = tmp_path / "a.log"
    log.write_text("INFO: peer 10.3.7.21\nINFO: offset 1\n")
    monkeypatch.setattr(
        assemble, "_log", lambda name, lines, cleaner: [f"{i:6}| {t}" for i, t in enumerate(lines, 1)]
    )
    bundle = made(logs=(log,))
    assert [(hit.member, hit.line) for hit in bundle.hits] == [("logs/1.log", 1)]
    dropped = made(logs=(log,), drop=True)
    assert dropped.hits == ()
    assert dropped.members["logs/1.log"] == b"     2| INFO: offset 1\n"
    assert "refused-line" in dropped.members["redaction.json"].decode()


def test_what_was_taken_out_in_one_part_stops_the_bundle_in_another(tmp_path, monkeypatch):
    log = tmp_path / "a.log"
    log.write_text("INFO: password=swordfish offset 1\n")
    assert made(logs=(log,)).hits == ()
    monkeypatch.setattr(assemble, "_same_faults", lambda *_: ["see swordfish"])
    assert [(hit.member, hit.kind) for hit in made(logs=(log,)).hits] == [
        ("summary.md", "a text that had been taken out elsewhere")
    ]


def test_half_a_trace_makes_a_bundle_that_says_so(tmp_path):
    trace = tmp_path / "t.yaml"
    whole = SAMPLE.read_bytes()
    trace.write_bytes(whole[: whole.rindex(b'\n- {"step": 13') + 40])
    bundle = made(trace)
    assert "cut off in the middle" in bundle.members["summary.md"].decode()
    assert "MD404" in bundle.members["findings.json"].decode()


def test_a_trace_that_is_broken_in_the_middle_gives_what_comes_before(tmp_path):
    lines = SAMPLE.read_text().splitlines(keepends=True)
    broken = lines.index(next(line for line in lines if '"step": 8' in line))
    lines[broken] = '- {"step": "eight"}\n'
    (tmp_path / "t.yaml").write_text("".join(lines))
    bundle = made(tmp_path / "t.yaml")
    assert "what comes after is broken" in bundle.members["summary.md"].decode()


def test_an_excerpt_lies_around_the_first_error_and_names_what_it_has_cost(monkeypatch):
    monkeypatch.setattr(inputs, "MOST_ENTRIES", 4)
    monkeypatch.setattr(inputs, "EXCERPT", 4)
    bundle = made()  # the first error is at step 5, MD609 at the last one
    assert [entry.step for entry in parse(bundle.members["trace.yaml"].decode()).entries] == [
        None,
        3,
        4,
        5,
        6,
    ]
    assert "findings that rest on what was left out: MD609" in bundle.account.notes


def test_a_name_that_only_the_traces_own_texts_show_goes_from_a_log(tmp_path):
    trace, log = tmp_path / "t.yaml", tmp_path / "a.log"
    error = '- {"step": 14, "error": {"text": "failed in /Users/lazarus/x"}}\n- {"phase": "end"'
    trace.write_text(SAMPLE.read_text().replace('- {"phase": "end"', error))
    log.write_text("INFO: offset for lazarus 1\n")
    assert made(trace, logs=(log,)).members["logs/1.log"] == b"     1| INFO: offset for [name] 1\n"


def test_nothing_readable_is_an_error(tmp_path):
    (tmp_path / "t.yaml").write_text("hello\n")
    with pytest.raises(UnreadableError):
        made(tmp_path / "t.yaml")


def test_a_bundle_is_not_bundled_again(tmp_path):
    with pytest.raises(UsageError, match="is a bundle already"):
        made(written(tmp_path / "b.zip", [("trace.yaml", b"")]))


def test_words_asked_for_stay_and_are_declared(tmp_path):
    trace = tmp_path / "t.yaml"
    trace.write_text(SAMPLE.read_text().replace("gemma-4-e4b-it-qat-4bit", "zorblax-7b"))
    assert "zorblax" not in made(trace).members["model.json"].decode()
    kept = made(trace, keep=("zorblax-7b",))
    assert json.loads(kept.members["model.json"])["name"] == "zorblax-7b"
    assert json.loads(kept.members["bundle.json"])["asked_for"]["words"] == ["zorblax-7b"]
    assert kept.hits == ()


def test_real_ids_enter_only_where_they_are_asked_for(tmp_path):
    trace = tmp_path / "t.yaml"
    text = (
        SAMPLE.read_text().replace("steps:", "ids: raw\nsteps:", 1).replace('"ids": [3]', '"ids": [258027]')
    )
    trace.write_text(text)
    assert "258027" not in made(trace).members["tokens.jsonl"].decode()
    assert "258027" in made(trace, with_tokens=True).members["tokens.jsonl"].decode()


def test_the_name_of_this_user_goes_wherever_it_stands(tmp_path, monkeypatch):
    monkeypatch.setenv("USER", "zorblaxia")
    log = tmp_path / "a.log"
    log.write_text("INFO: offset for Zorblaxia 1\nError: zorblaxia: mask\n")
    bundle = made(logs=(log,))
    assert all(b"orblaxia" not in data for data in bundle.members.values())
    assert bundle.hits == ()


def test_the_devices_are_those_that_torch_tells_once_the_runs_have_loaded_it(monkeypatch):
    told = iter(({"devices": torchbuild.NOT_ASKED}, {"devices": ["CPU"]}))
    monkeypatch.setattr(torchbuild, "facts", lambda: next(told))
    here = json.loads(made().members["environment.json"])["here"]
    assert here["torch"] == {"devices": ["CPU"]}
