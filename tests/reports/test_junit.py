from xml.etree import ElementTree

import pytest

from mlxdiag.reports import junit
from mlxdiag.reports.view import View
from tests.reports.examples import blind, clean, faulty, hostile


def parse(*reports, **settings):
    return ElementTree.fromstring(junit.render(reports, View(**settings)).encode())


def test_a_suite_per_trace_and_a_case_per_finding():
    root = parse(faulty(), clean())
    suites = root.findall("testsuite")
    assert [suite.get("name") for suite in suites] == ["runs/a.yaml", "b.yaml"]
    assert [len(suite.findall("testcase")) for suite in suites] == [3, 1]
    assert root.get("tests") == "4"


@pytest.mark.parametrize(("fail_on", "failures"), [("error", 1), ("warning", 2)])
def test_failures_are_what_fails_the_run(fail_on, failures):
    root = parse(faulty(), fail_on=fail_on)
    assert len(root.findall(".//failure")) == failures
    assert root.get("failures") == str(failures)
    assert root.find("testsuite").get("failures") == str(failures)


def test_nothing_judged_is_skipped_and_not_passed():
    assert parse(blind()).find(".//skipped") is not None
    assert parse(blind()).find("testsuite").get("skipped") == "1"
    assert parse(clean()).find(".//skipped") is None


def test_the_counts_are_properties():
    counts = {p.get("name"): p.get("value") for p in parse(faulty()).findall(".//property")}
    assert counts["judged"] == "22"
    assert counts["not_observed"] == "2"


def test_hostile_text_leaves_the_document_well_formed():
    failure = parse(hostile()).find(".//failure")
    assert "\\x1b[31m" in failure.get("message")
    assert '<b>&"\\x00' in failure.get("message")
