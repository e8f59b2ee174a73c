from __future__ import annotations

from mlxdiag.bundle.redact import special
from mlxdiag.bundle.redact.ledger import Ledger
from mlxdiag.traces.types import Tokens


def test_padding_ends_and_ranges_stay():
    kept = Tokens(pad=0, eos=[1, 106], reserved=[(6, 98), (200, 300)])
    ledger = Ledger()
    assert special.clean(kept, ledger) == kept
    assert ledger.count("token-ids") == 0


def test_of_stop_ids_only_padding_and_ends_stay():
    ledger = Ledger()
    told = special.clean(Tokens(pad=0, eos=[1, 106], stop=[106, 9906, 0, 15339]), ledger)
    assert told.stop == [106, 0]
    assert ledger.count("token-ids") == 2


def test_an_empty_stop_list_is_not_an_absent_one():
    assert special.clean(Tokens(eos=[1], stop=[9906]), Ledger()).stop == []
    assert special.clean(Tokens(eos=[1]), Ledger()).stop is None


def test_control_ids_stay_only_where_a_tokenizer_vouches_for_them():
    tokens = Tokens(eos=[1], control=[9906, 15339])
    assert special.clean(tokens, Ledger()).control is None
    assert special.clean(tokens, Ledger(), own=True).control == [9906, 15339]


def test_short_ranges_ranges_out_of_order_and_too_many_ends_go():
    ledger = Ledger()
    tokens = Tokens(eos=[1, 2, 3, 4, 5], reserved=[(9906, 9906), (50, 60), (10, 20), (55, 70)])
    assert special.clean(tokens, ledger) == Tokens(reserved=[(50, 60)])
    assert ledger.count("token-ids") == 8
    assert special.clean(Tokens(control=[1]), Ledger()) is None
