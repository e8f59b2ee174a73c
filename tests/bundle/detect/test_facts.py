from __future__ import annotations

import base64

from mlxdiag.bundle.detect.facts import Facts, of_this_machine

ENVIRON = {
    "USER": "zorblax",
    "HOME": "/Users/zorblax",
    "HF_TOKEN": "letmein-4711",
    "LANG": "C",
    "EMPTY_KEY": "x",
}


def test_user_home_and_secret_values_are_found_in_any_case_and_encoded():
    facts = of_this_machine(ENVIRON)
    assert facts.found_in("by Zorblax on") == "user name"
    assert facts.found_in("open /users/ZORBLAX/x") in ("home folder", "user name")
    assert facts.found_in("key letmein-4711.") == "value of HF_TOKEN"
    assert facts.found_in(base64.b64encode(b"letmein-4711").decode()) == "value of HF_TOKEN"


def test_only_whole_words_count():
    assert Facts((("user name", "max"),)).found_in("max_tokens, maximum") == "user name"
    assert Facts((("user name", "max"),)).found_in("maximum climax") is None


def test_names_that_name_nobody_are_no_facts():
    facts = of_this_machine({"USER": "root", "HOME": "/root"})
    assert facts.found_in("root of the model") is None
