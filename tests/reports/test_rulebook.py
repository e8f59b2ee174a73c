import pytest

from mlxdiag.inspect.rules import RULES
from mlxdiag.reports import rulebook


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_page_holds_the_help_text_and_every_example(rule):
    page = rulebook.page(rule)
    assert page.startswith(f"{rule.code} {rule.name}\n{rule.severity}, ")
    assert rulebook.explanation(rule) in page
    assert page.count("Fires on:") == len(rule.fires)
    assert page.count("Does not fire on:") == len(rule.quiet)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_the_first_sentence_fits_a_listing(rule):
    assert 10 < len(rulebook.first_sentence(rule)) < 200


def test_the_book_has_every_rule_once():
    book = rulebook.book(RULES)
    for rule in RULES:
        assert book.count(f"\n### {rule.code} ") == 1


def test_an_example_loses_the_indentation_of_the_code():
    assert rulebook.source("\n        steps:\n        - {step: 1}\n        ") == "steps:\n- {step: 1}"
