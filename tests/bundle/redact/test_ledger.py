from __future__ import annotations

from mlxdiag.bundle.redact.ledger import SCHEMA, Ledger, document
from mlxdiag.bundle.redact.rules import WHAT, what


def test_the_report_counts_by_rule_and_member_and_holds_no_text():
    ledger = Ledger()
    for member, text in (("trace.yaml", "zorblax"), ("logs/1.log", "10.3.7.21"), ("logs/1.log", "10.3.7.22")):
        ledger.member = member
        ledger.take("ipv4" if text[0] == "1" else "name", text)
    told = document(ledger, what)
    assert told["schema"] == SCHEMA
    assert told["removed"] == [
        {"rule": "ipv4", "what": WHAT["ipv4"], "count": 2, "members": {"logs/1.log": 2}},
        {"rule": "name", "what": WHAT["name"], "count": 1, "members": {"trace.yaml": 1}},
    ]


def test_single_words_are_not_looked_for_again():
    ledger = Ledger()
    ledger.take("word", "nothing")
    ledger.take("word", "zorblax-77")
    ledger.take("known-key", "letters")
    assert ledger.originals == {"zorblax-77", "letters"}
