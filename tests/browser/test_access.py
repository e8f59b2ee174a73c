import pytest

from tests.browser import pages
from tests.browser.conftest import SCHEMES, settle

REACHED = """() => [...document.querySelectorAll("a[href], button, select, input, summary, [tabindex='0']")]
  .filter((one) => one.tabIndex >= 0 && one.checkVisibility() && !one.closest("dialog:not([open])")).length"""


def violations(page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe-playwright-python")
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {node['target']} {node['failureSummary']}" for one in found for node in one["nodes"]
    ]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", [*pages.FAULTY, "audit", "observed"])
def test_axe_finds_nothing(name, scheme, opened):
    text = pages.shipped(name) if name in pages.FAULTY else getattr(pages, name)()
    assert violations(opened(text, scheme=scheme)) == []


def test_axe_finds_nothing_in_the_open_evidence(opened):
    page = opened(pages.audit())
    page.click("[aria-label^='gemma2, chunks-below']")
    assert violations(page) == []


@pytest.mark.parametrize("name", ["observed", "audit"])
def test_tab_reaches_everything(name, opened):
    page = opened(getattr(pages, name)())
    wanted = page.evaluate(REACHED)
    seen = set()
    for _ in range(wanted + 3):
        page.keyboard.press("Tab")
        page.evaluate("document.activeElement.dataset.seen = '1'")
        seen.add(page.evaluate("document.querySelectorAll('[data-seen]').length"))
    assert max(seen) >= wanted


def test_arrows_walk_the_timeline(opened):
    page = opened(pages.shipped("gemma4-chunked-prefill"))
    page.focus("#timeline")
    for key, said in (
        ("", "step 5:"),
        ("ArrowRight", "step 6:"),
        ("Home", "step 1: prefill seq-6"),
        ("n", "step 5:"),
    ):
        if key:
            page.keyboard.press(key)
        settle(page)
        assert page.locator("#tl-readout").inner_text().startswith(said)


def test_enter_shows_the_mask_of_the_step(opened):
    page = opened(pages.shipped("gemma4-chunked-prefill"))
    page.focus("#timeline")
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    assert page.locator(".call:visible h3").inner_text() == "step 1 · prefill · sliding"
    assert page.evaluate("document.activeElement.id") == "call"


def test_the_picture_of_another_call_is_one_choice_away(opened):
    page = opened(pages.shipped("gemma4-chunked-prefill"))
    assert page.locator(".call:visible").count() == 1
    page.select_option("#call", label="step 5 · chunk · full · seq-6")
    assert page.locator(".call:visible h3").inner_text() == "step 5 · chunk · full"


def test_without_script_every_call_is_there(opened):
    page = opened(pages.shipped("gemma4-band-missing"), java_script_enabled=False)
    assert page.locator(".call:visible").count() == page.locator("#call option").count()
