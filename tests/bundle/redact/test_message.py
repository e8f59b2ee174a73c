from __future__ import annotations

from mlxdiag.bundle.redact.ledger import Ledger
from tests.bundle.cleaning import messages, pseudonyms


def test_a_message_of_mostly_unknown_words_becomes_its_length():
    assert messages().clean("zorblax mask kestrel cache lisbon") == "[message left out: 5 words]"


def test_single_unknown_words_are_replaced_one_by_one():
    assert messages().clean("mask mask_len=160 zorblax key_len=671 offset=2048") == (
        "mask mask_len=160 [word] key_len=671 offset=2048"
    )


def test_a_fact_goes_even_where_it_is_a_known_word():
    assert messages(facts=["window"]).clean("cache window of 8") == "cache [name] of 8"


def test_a_word_asked_for_stays():
    assert messages(kept=["zorblax-7b"]).clean("loaded zorblax-7b") == "loaded zorblax-7b"
    assert messages().clean("loaded zorblax-7b") == "loaded [word]"


def test_equal_hashes_have_equal_labels_and_other_bundles_other_ones(tmp_path):
    digest, other = "9f86d081884c7d659a2feaa0c55ad015", "5d41402abc4b2a76b9719d911017c592"

    def shown(salt: bytes, text: str) -> str:
        cleaner = messages()
        cleaner.pseudonyms = pseudonyms(tmp_path, salt)
        return cleaner.clean(f"prefix {text}")

    assert shown(b"a", digest) == shown(b"a", digest) != shown(b"a", other)
    assert shown(b"a", digest) != shown(b"b", digest)
    assert digest not in shown(b"a", digest)


def test_what_was_removed_is_counted_by_rule_and_remembered():
    ledger = Ledger()
    ledger.member = "logs/1.log"
    messages(ledger=ledger).clean("peer 10.3.7.21 and 10.3.7.22, key sk-proj-Q1w2E3r4T5y6")
    counts = {line.rule: line.count for line in ledger.report(str)}
    assert counts["ipv4"] == 2
    assert counts["known-key"] == 1
    assert {"10.3.7.21", "10.3.7.22", "sk-proj-Q1w2E3r4T5y6"} <= ledger.originals


def test_marks_of_this_program_in_the_input_hide_nothing():
    assert "zorblax" not in messages().clean("mask \ue0000\ue001 zorblax")


def test_long_lists_of_integers_go_and_shapes_stay():
    assert messages().clean("keys (1, 8, 671, 256)") == "keys (1, 8, 671, 256)"
    assert messages().clean("offset [1, 2, 3, 4, 5, 6, 7, 8, 9]") == "offset [9 integers]"
