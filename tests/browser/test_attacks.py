"""What a stranger wrote into a trace or an audit, in a real browser: nothing of it runs."""

from mlxdiag.audit.cell import Audit, Cell, Fault
from mlxdiag.reports.html import audit_page
from tests.browser import pages
from tests.reports.html.pages import ATTACK, BLIND, DECODE


def test_a_hostile_trace_runs_nothing(opened):
    quoted = ATTACK.replace('"', '\\"')
    text = (
        f'note: "{quoted}"\nmodel: {{name: "{quoted}", '
        f'layers: {{"{quoted}": {{attention: sliding, window: 4}}}}}}\n'
        "steps:\n"
        + BLIND.replace("family: sliding", f'family: "{quoted}"').replace("seq: a", f'seq: "{quoted}"')
    )
    page = opened(pages.of_text(text + DECODE))
    page.focus("#timeline")
    page.keyboard.press("Enter")
    page.hover("#timeline")
    assert page.locator("img").count() == 0
    assert "alert(1)" in page.locator("#tl-readout").inner_text()


def test_a_hostile_audit_runs_nothing(opened):
    cell = Cell(
        library="x", family=ATTACK, scenario=ATTACK, result="fail", reason=ATTACK, trace=ATTACK, where=ATTACK
    )
    fault = Fault(
        id=ATTACK, code="MD101", library="x", families=[ATTACK], cells=[(ATTACK, ATTACK)], cause=ATTACK
    )
    audit = Audit(libraries={ATTACK: ATTACK}, device=ATTACK, families=1, cells=[cell], faults=[fault])
    page = opened(audit_page.render(audit, ATTACK))
    page.click("#m-table button")
    assert "alert(1)" in page.locator("#evidence").inner_text()
    assert page.locator("img").count() == 0


def test_the_policy_stops_a_script_that_got_in(opened):
    """Were a string ever left unescaped, it still would not run."""
    text = pages.observed().replace("</main>", "<script>window.hacked = 1</script></main>", 1)
    assert "window.hacked" in text
    page = opened(text)
    assert page.evaluate("window.hacked") is None
    (said,) = opened.complaints
    assert "Content Security Policy" in said
    opened.complaints.clear()
