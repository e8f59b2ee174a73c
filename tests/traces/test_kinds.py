"""The phase of an entry that does not say it."""

from __future__ import annotations

import pytest

from mlxdiag.traces.reader import parse

KINDS = {
    "{phase: verify, rows: [{tokens: 1}]}": "verify",
    "{rows: [{tokens: 8}]}": "prefill",
    "{rows: [{tokens: 8, offset: 0}]}": "prefill",
    "{rows: [{tokens: 8, offset: -3}]}": "prefill",
    "{rows: [{tokens: 8, offset: 512}]}": "chunk",
    "{rows: [{tokens: 8}], attention: [{offset: 512, q: 8}]}": "chunk",
    "{rows: [{tokens: 1, padded: 32, offset: 512}]}": "chunk",
    "{rows: [{tokens: 1, offset: 512}]}": "decode",
    "{rows: [{tokens: 1}, {tokens: 0}]}": "decode",
    "{rows: [{tokens: 1, emitted: 1}, {tokens: 7, offset: 9}]}": "chunk",
    "{rows: [{phase: prefill, tokens: 5, offset: 9}]}": "prefill",
    "{rows: [{phase: prefill, tokens: 5}, {phase: decode, tokens: 1, offset: 4}]}": "chunk",
    "{rows: [{tokens: 3, offset: 8, drafted: 2, accepted: 1}]}": "verify",
    "{rows: [{tokens: 1, offset: 8, drafted: 0}]}": "decode",
    "{rows: [{offset: 8}], attention: [{q: 160}]}": "chunk",
    "{rows: [{offset: 8}], attention: [{q: 1}]}": "decode",
    "{rows: [{offset: 8, emitted: 1}]}": "decode",
    "{attention: [{q: 1, offset: 30}]}": "decode",
    "{attention: [{q: 16, offset: [0, 30]}]}": "chunk",
    "{attention: [{q: 16}]}": "prefill",
    "{attention: [{k: 16}]}": "prefill",
    "{mask: {shape: [8, 8]}}": "prefill",
    "{error: {text: broadcast}, attention: [{q: 160, offset: 9}]}": "chunk",
    "{error: {text: broadcast}, rows: [{tokens: 1}]}": "decode",
    "{error: {text: broadcast}}": "end",
    "{step: 3, error: {text: broadcast}, dropped: 2}": "end",
    "{exit: 0}": "end",
    "{rows: [{seq: a, asked: 8, done: 0}]}": "trim",
    "{rows: [{seq: a}], attention: [{family: full, asked: 8}]}": "trim",
    "{rows: [{seq: a, matched: 60, entry: 100, trimmed: 40}]}": "adopt",
    "{rows: [{seq: a, restored: 60}]}": "adopt",
    "{rows: [{declared: 7, size: 256}]}": "merge",
    "{name: gemma, architecture: gemma3_text}": "model",
    "{layers: {full: {attention: full}}}": "model",
    "{tokens: {pad: 0}}": "model",
    "{dropped: 12}": "note",
    "{note: restarted}": "note",
    "{refused: too long}": "note",
    "{}": "note",
}


@pytest.mark.parametrize("entry", KINDS)
def test_kind_follows_from_what_the_entry_holds(entry: str) -> None:
    assert parse(f"steps:\n- {entry}\n").entries[0].kind == KINDS[entry]
