from __future__ import annotations

import msgspec

from mlxdiag.bundle.redact.fields import FIELDS
from mlxdiag.bundle.redact.message import Messages
from mlxdiag.bundle.redact.trace import Redactor
from mlxdiag.traces import types
from tests.bundle.cleaning import messages


def records() -> list[type]:
    return [
        one
        for one in vars(types).values()
        if isinstance(one, type) and issubclass(one, types.Record) and one is not types.Record
    ]


def test_every_field_of_the_schema_has_been_decided_on():
    assert {kind: set(table) for kind, table in FIELDS.items()} == {
        kind: set(kind.__struct_fields__) for kind in records()
    }


def test_every_decision_is_one_that_the_redactor_knows():
    redactor = Redactor(messages())
    assert {policy for table in FIELDS.values() for policy in table.values()} <= set(redactor._policies)


def test_a_field_that_nobody_has_decided_on_is_left_out_and_counted(monkeypatch):
    table = dict(FIELDS[types.Row])
    del table["total"]
    monkeypatch.setitem(FIELDS, types.Row, table)
    cleaner: Messages = messages()
    assert Redactor(cleaner).record(types.Row(tokens=3, total=5)) == types.Row(tokens=3)
    assert cleaner.ledger.count("field") == 1


def test_a_record_of_an_unknown_kind_is_emptied():
    class Note(msgspec.Struct):
        text: str = ""

    assert Redactor(messages()).record(Note("kiwi")) == Note()
