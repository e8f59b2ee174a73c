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
