from msgspec import structs

from mlxdiag.reports.html import findings
from tests.reports.examples import blind, clean, faulty
from tests.reports.html.pages import Page


def test_a_finding_is_told_in_full():
    text = Page("".join(findings.listing(faulty()))).text
    for part in ("MD101", "step 5, seq-6, sliding (35 times)", "The mask covers 160 keys", "MD105", "q160"):
        assert part in text
    assert "mlxdiag replay trace.yaml" in text


def test_the_gravest_comes_first():
    report = faulty()
    report.findings.reverse()
    first, others = findings.listing(report)
    assert "MD101" in first
    assert others.index("MD504") < others.index("MD905")


def test_severity_does_not_rest_on_colour():
    first, _ = findings.listing(faulty())
    assert "✕" in first
    assert "error" in Page(first).text


def test_the_verdict_is_the_words_of_the_other_formats():
    assert "1 error, 1 warning, 1 info" in Page(findings.verdict(faulty())).text
    assert "clean: no rule fired" in Page(findings.verdict(clean())).text
    assert "not the same as clean" in Page(findings.verdict(blind())).text
    assert 'class="top clean"' not in findings.verdict(blind())


def test_the_headline_leads_to_its_finding():
    assert 'href="#finding-1"' in findings.verdict(faulty())
    first, _ = findings.listing(faulty())
    assert Page(first).all("h3", id="finding-1")


def test_more_findings_than_are_shown_are_counted(monkeypatch):
    monkeypatch.setattr(findings, "MOST", 1)
    assert "2 further findings" in "".join(findings.listing(faulty()))


def test_numbers_of_several_layer_families_are_told_with_their_names():
    report = faulty()
    report.findings[0] = structs.replace(report.findings[0], evidence={"full": {"mask_axis": 8}})
    assert "<dt>full mask axis</dt><dd>8</dd>" in "".join(findings.listing(report))
