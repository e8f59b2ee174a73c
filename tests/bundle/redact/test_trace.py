from __future__ import annotations

import pytest

from mlxdiag.bundle.redact.trace import Redactor, text
from mlxdiag.inspect.findings import codes
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces import types
from mlxdiag.traces.reader import parse, read
from tests.bundle.cleaning import messages
from tests.samples.expected import FOLDER, SAMPLES

PLANTED = """
source: {program: zorblax-server, version: "0.4.1", command: "serve --api-key sk-live-abcdef123456"}
environment: {os: macOS 26, host: kestrel.lan, libraries: {mlx: "0.32.1", zorblax: "1.0"}}
scheduler: {chunk: 512, misfit: zorblax}
ids: raw
level: zorblax
note: made for Annabel
planted: by zorblax
model: {name: annabel/zorblax-7b, architecture: gemma4_text, config: {sliding_window: 512, _name_or_path: /Users/annabel/m, prompt: kiwi}}
steps:
- {"step": 1, "time": 1790000000.5, "rows": [{"seq": "chatcmpl-zorblax1", "tokens": 5, "emitted": 2, "classes": "tt", "ids": [31337, 4711]}], "mask": {"source": "zorblax", "builder": "kiwi", "family": "annabel"}, "attention": [{"family": "annabel", "q": 5, "k": 5, "vectors": {"zorblax": 2, "offset": 1}, "totals": {"kiwi": 1}}], "output": [{"argmax": 31337, "logprob": "zorblax", "parity": {"reference": "zorblax"}}]}
- {"step": 2, "time": 1790000001.5, "rows": [{"seq": "other-kestrel", "tokens": 1, "emitted": 1, "classes": "t", "ids": [4711]}], "refused": "for Annabel in /Users/annabel", "error": {"text": "[reshape] Cannot infer the shape of an empty array, said zorblax", "where": "/Users/annabel/x/mlx_lm/models/cache.py:12"}}
- {"phase": "end", "exit": 0}
"""  # noqa: E501
TELLS = (
    "zorblax",
    "annabel",
    "Annabel",
    "kestrel",
    "kiwi",
    "31337",
    "4711",
    "sk-live",
    "1790000",
    "/Users",
    "chatcmpl",
)


def redact(trace, cleaner, **settings):
    return Redactor(cleaner, **settings).trace(trace)


def bundled(source: str = PLANTED, **settings):
    return redact(parse(source), messages(), **settings)


def test_nothing_planted_in_any_field_is_left():
    shown = text(bundled()).decode()
    assert [tell for tell in TELLS if tell in shown] == []
    assert all(tell in PLANTED for tell in TELLS)


def test_numbers_stay_and_names_become_labels():
    trace = bundled()
    first, second, _ = trace.entries
    assert [row.seq for entry in (first, second) for row in entry.rows] == ["seq-1", "seq-2"]
    assert first.rows[0].ids == [1, 2]
    assert second.rows[0].ids == [2]
    assert trace.header.ids is None
    assert first.attention[0].family == first.mask.family == "family-1"
    assert (first.time, second.time) == (0.0, 1.0)
    assert trace.header.model.config == {"sliding_window": 512}
    assert second.error.text.startswith("[reshape] Cannot infer the shape of an empty array")
    assert second.error.where == "[path]/mlx_lm/models/cache.py:12"


def test_real_ids_stay_where_they_were_asked_for():
    trace = bundled(with_tokens=True)
    assert trace.entries[0].rows[0].ids == [31337, 4711]
    assert trace.entries[0].output[0].argmax == 31337
    assert trace.header.ids == "raw"


def test_a_value_of_another_form_than_its_field_is_left_out():
    row = types.Row(tokens=1, classes="tz", logprob="kiwi")
    assert Redactor(messages()).record(row) == types.Row(tokens=1)
    call = types.Attention(q=1, mask="kiwi", k=2)
    assert Redactor(messages()).record(call) == types.Attention(q=1, k=2)
    kept = types.Attention(q=1, mask="causal"), types.Row(classes="tp", logprob="-inf")
    assert tuple(Redactor(messages()).record(one) for one in kept) == kept


def test_a_sequence_that_already_has_a_label_keeps_it():
    steps = 'steps:\n- {"rows": [{"seq": "jane", "tokens": 1}, {"seq": "seq-1", "tokens": 1}]}\n'
    assert [row.seq for row in bundled(steps).entries[0].rows] == ["seq-1", "seq-2"]
    kept = 'steps:\n- {"rows": [{"seq": "seq-6", "tokens": 1}]}\n'
    assert bundled(kept).entries[0].rows[0].seq == "seq-6"


@pytest.mark.parametrize("name", SAMPLES)
def test_the_same_faults_are_found_in_what_is_left(name):
    whole = read(FOLDER / f"{name}.yaml")
    left = parse(text(redact(whole, messages())).decode())
    assert codes(inspect_trace(left).findings) == codes(inspect_trace(whole).findings) != set()
    assert [entry.attention for entry in left.entries] == [entry.attention for entry in whole.entries]


def test_notes_of_the_importers_stay_and_those_of_people_go():
    own = "inferred: rows.tokens (total - offset = 226), attention.family (511 of 1024 keys: a full ring)"
    kept = parse(f'steps:\n- {{"rows": [{{"tokens": 1}}], "note": "{own}"}}\n')
    assert redact(kept, messages()).entries[0].note == own
    said = parse('note: made by hand for the Hendricks merger\nsteps:\n- {"rows": [{"tokens": 1}]}\n')
    cleaner = messages()
    assert redact(said, cleaner).header.note is None
    assert cleaner.ledger.count("note") == 1


def test_what_an_importer_inferred_is_told():
    steps = 'steps:\n- {"rows": [{"tokens": 1}]}\n'
    trace = redact(
        parse("source: {importer: mlxcel, inferred: [rows.tokens, mask.offset]}\n" + steps), messages()
    )
    assert trace.header.source["inferred"] == ["rows.tokens", "mask.offset"]


def test_of_the_trace_that_was_replayed_the_name_stays_and_the_folder_goes():
    told = 'source: {"program": "mlxdiag replay", "of": "/home/zorblax/secret/gpt-oss-one-pass.yaml"}\n'
    left = Redactor(messages()).header(parse(told + "steps: []\n").header)
    assert left.source == {"program": "mlxdiag replay", "of": "gpt-oss-one-pass.yaml"}
