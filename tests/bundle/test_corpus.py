# ruff: noqa: E501  a line of data is as long as it is
"""Secrets planted wherever public reports have shown them: none is left, and nothing clean is lost."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxdiag.bundle.detect import detector
from mlxdiag.bundle.detect.facts import Facts
from mlxdiag.bundle.redact.ledger import Ledger
from mlxdiag.bundle.redact.lines import Lines, people
from tests.bundle.cleaning import cleaned, messages
from tests.bundle.corpus import whole
from tests.bundle.corpus.attacks import ATTACKS
from tests.bundle.corpus.clean import FRAMES, LINES
from tests.bundle.corpus.places import PLACES, planted
from tests.bundle.corpus.secrets import SECRETS, Secret
from tests.bundle.orders import made

MACHINE_READABLE = {secret.kind for secret in SECRETS} - {
    "prompt", "completion", "user-name", "host-name", "private-model", "password", "token-id",
}  # fmt: skip
"""Kinds that have a form of their own. A word that is only a word is left to the vocabulary and to the facts."""
WORDS_SEEN = 0.88
"""Of the planted texts of the other kinds, the share that the detector must see by itself."""


def left(secret: Secret, text: str) -> list[str]:
    """Pieces of the secret that stand in the text as they are."""
    return [tell for tell in secret.tells if re.search(rf"(?<!\w){re.escape(tell)}(?!\w)", text)]


def unnumbered(shown: str) -> str:
    """A cleaned log without the numbers of its lines."""
    return re.sub(r"^ *\d+\| ", "", shown, flags=re.MULTILINE)


def standing(tells: tuple[str, ...], shown: str) -> list[str]:
    """What tells and stands in a cleaned log, whose line numbers are nobody's."""
    text = unnumbered(shown)
    return [
        tell for tell in tells if re.search(rf"{_edge(tell)}{re.escape(tell)}{_edge(tell, after=True)}", text)
    ]


def _edge(tell: str, *, after: bool = False) -> str:
    """A number may stand inside of a word and tell as much."""
    inside = r"\d" if tell.isdigit() else r"\w"
    return f"(?!{inside})" if after else f"(?<!{inside})"


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_nothing_that_tells_is_left_of(attack):
    assert standing(attack.tells, attack.text) == list(attack.tells)
    assert standing(attack.tells, cleaned(attack.text)) == []


@pytest.mark.parametrize("attack", [one for one in ATTACKS if one.formed], ids=lambda attack: attack.name)
def test_the_detector_sees_what_has_a_form_without_the_cleaning(attack):
    assert detector.scan({"logs/1.log": attack.text.encode()}, Facts())


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_the_detector_lets_pass_what_was_cleaned(attack):
    assert detector.scan({"logs/1.log": cleaned(attack.text).encode()}, Facts()) == []


def test_the_corpus_is_as_large_as_promised():
    assert len(LINES) >= 150
    assert len(SECRETS) >= 200
    assert len({secret.kind for secret in SECRETS}) >= 25
    assert len({secret.text for secret in SECRETS}) == len(SECRETS)
    assert {secret.kind for secret in SECRETS} == {kind for kinds, _ in PLACES.values() for kind in kinds}


@pytest.mark.parametrize("place", PLACES)
def test_no_secret_is_left_in(place):
    found = [(s.text, left(s, cleaned(text))) for where, s, text in planted() if where == place]
    assert found
    assert [one for one in found if one[1]] == []


@pytest.mark.parametrize("place", PLACES)
def test_every_plain_text_holds_its_secret_so_that_a_miss_would_show(place):
    for where, secret, text in planted():
        if where == place and "\\" not in secret.text and not {'"', "'"} & set(secret.text):
            assert left(secret, text) == list(secret.tells)


def test_the_detector_sees_every_secret_that_has_a_form_without_the_cleaning():
    missed = [
        (place, secret.text)
        for place, secret, text in planted()
        if secret.kind in MACHINE_READABLE and not detector.scan({"logs/1.log": text.encode()}, Facts())
    ]
    assert missed == []


@pytest.mark.parametrize("place", PLACES)
def test_what_was_cleaned_is_refused_nowhere(place):
    for where, secret, text in planted():
        if where == place:
            ledger = Ledger()
            cleaner = messages(people([text]), ledger=ledger)
            shown = "\n".join(Lines(cleaner).clean(text.split("\n")))
            member = {"logs/1.log": shown.encode()}
            assert detector.scan(member, Facts(), removed=ledger.originals) == [], secret.text


HARMLESS = """\
INFO: token: everything was collected, recorded and finished
INFO: everything was collected, recorded and finished
INFO: key: reproduction of the trace
INFO: project: facts, user: nothing, dir: bundle
Traceback (most recent call last):
INFO: {"zorblax": "reproduction", "offset": 12}
2026-08-30 11:02:17,553 - DEBUG - Outgoing Response: {
  "reproduction": "facts",
  "offset": 12
}
curl http://localhost:8080/v1/completions \\
  -d '{
    "prompt": "everything"
  }'
INFO: offset 12
"""


def test_harmless_words_and_printed_json_refuse_no_bundle(tmp_path):
    log = tmp_path / "a.log"
    log.write_text(HARMLESS)
    bundle = made(logs=(log,))
    assert bundle.hits == ()
    assert "INFO: offset 12" in bundle.members["logs/1.log"].decode()


def test_the_detector_sees_nearly_every_text_and_name():
    texts = [text for _, secret, text in planted() if secret.kind not in MACHINE_READABLE]
    seen = sum(bool(detector.scan({"logs/1.log": text.encode()}, Facts())) for text in texts)
    assert seen >= WORDS_SEEN * len(texts)


@pytest.mark.parametrize("line", LINES)
def test_what_is_clean_survives_word_for_word(line):
    assert cleaned(line) == f"     1| {line}"


@pytest.mark.parametrize(("line", "shown"), FRAMES)
def test_paths_keep_what_is_the_librarys_own(line, shown):
    assert unnumbered(cleaned(line)) == shown


@pytest.mark.parametrize("name", whole.KEPT)
def test_a_whole_log_can_still_be_read(name):
    shown = cleaned((whole.FOLDER / f"{name}.log").read_text("utf-8"))
    assert [text for text in whole.KEPT[name] if text not in shown] == []
    assert [text for text in whole.GONE if text in shown] == []
    assert "is not closed" not in shown
    assert detector.scan({"logs/1.log": shown.encode()}, Facts()) == []


@pytest.mark.parametrize("line", [*LINES, *(shown for _, shown in FRAMES)])
def test_the_detector_has_nothing_against_what_is_clean(line):
    assert detector.scan({"logs/1.log": line.encode()}, Facts()) == []


ANY = {
    "ipv4": st.tuples(*[st.integers(1, 254)] * 4).map(lambda parts: ".".join(map(str, parts))),
    "e-mail": st.from_regex(r"[a-z]{2,9}[._]?[a-z0-9]{2,9}@[a-z]{3,9}\.(com|org|io|co\.uk)", fullmatch=True),
    "openai-key": st.from_regex(r"sk-(proj-)?[A-Za-z0-9]{20,48}", fullmatch=True),
    "prompt-hash": st.from_regex(r"[0-9a-f]{16}|[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}", fullmatch=True),
    "home-path": st.from_regex(
        r"/(Users|home)/[a-z]{4,9}/[A-Za-z]{4,9}/[a-z]{4,9}\.(py|txt|gguf)", fullmatch=True
    ),
    "bearer": st.from_regex(r"Bearer [A-Za-z0-9_-]{16,40}", fullmatch=True),
    "token-ids": st.lists(st.integers(0, 262143), min_size=9, max_size=40).map(str),
}
"""Secrets that nobody has written down."""


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_no_secret_of_these_forms_is_left_whatever_it_is(data):
    kind = data.draw(st.sampled_from(sorted(ANY)))
    text = data.draw(ANY[kind])
    template = data.draw(st.sampled_from([template for kinds, template in PLACES.values() if kind in kinds]))
    line = template.format(s=text, q=text)
    tell = text.removeprefix("Bearer ")
    assert tell not in cleaned(line)
    assert detector.scan({"logs/1.log": line.encode()}, Facts())


@given(st.text(max_size=200))
@settings(max_examples=150, deadline=None)
def test_any_line_can_be_cleaned(line):
    assert "\n" not in cleaned(line.replace("\n", " "))
