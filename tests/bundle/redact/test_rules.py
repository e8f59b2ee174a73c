from __future__ import annotations

import re

import pytest

from mlxdiag.bundle.redact.ledger import Ledger
from mlxdiag.bundle.redact.rules import RULES, WHAT
from tests.bundle.cleaning import messages
from tests.bundle.corpus.places import planted

EXAMPLES = {
    "private-key": "-----BEGIN RSA PRIVATE KEY-----",
    "media": "data:image/png;base64,iVBO",
    "ssh-key": "ssh-rsa AAAAB3Nz x@y",
    "authorization": "Bearer abcdef123",
    "known-key": "hf_QwErTyUiOpAs",
    "git-remote": "git@github.com:x/y.git",
    "url": "https://x.y/z",
    "e-mail": "a.b@example.com",
    "user-at-host": "jane@kestrel",
    "query": "/v1/models?api=1",
    "path": "C:\\x\\y",
    "mac-address": "3c:22:fb:91:0e:7d",
    "ipv4": "10.3.7.21",
    "ipv6": "fe80::1c2b:3dff:fe4a:5b6c",
    "host": "kestrel.lan",
    "id": "chatcmpl-9f3a77",
    "phone": "+49 170 5550 1234",
    "token-id": "sampled token 48451",
    "long-number": "4111 1111 1111 1111",
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_rule_takes_its_own_example(rule):
    ledger = Ledger()
    assert EXAMPLES[rule.name] not in messages(ledger=ledger).clean(f"mask {EXAMPLES[rule.name]}")
    assert ledger.count(rule.name) == 1


def test_every_rule_that_the_corpus_calls_on_is_explained():
    ledger = Ledger()
    cleaner = messages(ledger=ledger)
    for _, _, text in planted():
        cleaner.clean(text)
    assert {line.rule for line in ledger.report(str)} <= set(WHAT)


def test_no_pattern_takes_exponential_time():
    for rule in RULES:
        rule.pattern.sub("", "a-" * 4000 + "@" + "1:" * 4000 + "/" * 4000)
    assert all(isinstance(rule.pattern, re.Pattern) for rule in RULES)
