from xml.etree import ElementTree

import msgspec

from mlxdiag.reports.audit import junit
from tests.reports.audit.examples import ABORT, DIFFERENCE, blind, clean, faulty, hostile, shown


def parse(*arguments, **more):
    return ElementTree.fromstring(junit.render(shown(*arguments, **more)).encode())


def kinds(root):
    """What stands in each case, by family and scenario."""
    return {
        (case.get("classname"), case.get("name")): [child.tag for child in case]
        for case in root.iter("testcase")
    }


def test_a_suite_per_family_and_a_case_per_scenario():
    root = parse()
    assert [suite.get("name") for suite in root] == ["gemma2", "llama", "metal", "old"]
    assert all(len(suite.findall("testcase")) == 4 == int(suite.get("tests")) for suite in root)
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("16", "2", "1")


def test_results_are_failures_errors_skips_and_passes():
    found = kinds(parse())
    assert found["gemma2", "chunks-below-window"] == ["failure"]
    assert found["old", "no-cache"] == ["error"]
    assert found["gemma2", "no-cache"] == ["skipped"]
    assert found["llama", "fresh-within-window"] == []
    assert found["llama", "key-cap"] == ["system-out"]


def test_the_counts_of_a_suite_are_those_of_its_cases():
    for suite in parse():
        for tag, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert int(suite.get(name)) == len(suite.findall(f"testcase/{tag}"))


def test_a_failure_holds_the_schedule():
    failure = parse().find(".//failure")
    assert failure.get("type") == "gemma2-window"
    assert "steps: []" in failure.text


def test_what_a_baseline_accepts_is_skipped_with_that_reason_and_new_cells_fail():
    root = parse(difference=DIFFERENCE)
    found = kinds(root)
    assert found["gemma2", "chunks-below-window"] == ["skipped"]
    assert found["gemma2", "key-cap"] == ["failure"]
    assert "accepted by the baseline: gemma2-window" in root.find(".//skipped").get("message")


def test_what_is_hidden_is_skipped_with_that_reason():
    root = parse(msgspec.structs.replace(faulty(), faults=[ABORT]), hidden=1)
    found = kinds(root)
    assert found["gemma2", "key-cap"] == ["skipped"]
    assert found["old", "no-cache"] == ["error"]
    said = root.find(".//skipped").get("message")
    assert said == "hidden by --select or --ignore: gemma2-window: r1"


def test_nothing_judged_is_skipped_and_not_passed():
    assert set(map(tuple, kinds(parse(blind())).values())) == {("skipped",)}
    assert parse(clean()).find(".//skipped") is None


def test_hostile_text_leaves_the_document_well_formed():
    assert "\\x1b[31m" in parse(hostile()).find(".//error").get("message")
    assert len(faulty().cells) == 16
