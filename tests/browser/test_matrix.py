import pytest

from tests.browser import pages

FAIL = "[aria-label^='gemma2, chunks-below-window']"


def visible_rows(page):
    return [row.inner_text() for row in page.locator("#m-table tbody tr:visible th").all()]


def test_a_cell_opens_its_evidence_and_escape_closes_it(opened):
    page = opened(pages.audit())
    page.click(FAIL)
    dialog = page.locator("#evidence")
    assert dialog.is_visible()
    text = dialog.inner_text()
    assert "gemma2 · chunks-below-window" in text
    assert "geometry, visibility" in text
    assert "MD108" in text
    assert "steps: []" in text
    page.keyboard.press("Escape")
    assert not dialog.is_visible()


def test_filters_leave_what_was_asked_for(opened):
    page = opened(pages.audit())
    assert visible_rows(page) == ["gemma2", "llama", "metal", "old"]
    page.check("#m-wrong")
    assert visible_rows(page) == ["gemma2", "old"]
    page.fill("#m-family", "GEM")
    assert visible_rows(page) == ["gemma2"]
    assert page.locator("#m-count").inner_text() == "1 of 4 families"
    page.fill("#m-family", "")
    page.uncheck("#m-wrong")
    page.select_option("#m-result", "excused")
    assert visible_rows(page) == ["llama"]
    page.select_option("#m-result", "")
    page.fill("#m-scenario", "key-cap")
    assert page.locator("#m-table thead th:visible").count() == 2


def test_one_tab_stop_and_arrows_between_cells(opened):
    page = opened(pages.audit())
    assert page.locator("#m-table button[tabindex='0']").count() == 1
    page.locator("#m-table button[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith(
        "llama, chunks-below"
    )
    page.keyboard.press("Enter")
    assert page.locator("#evidence").is_visible()


@pytest.mark.parametrize("symbol", ["gv", "p", "u", "-", "e", "X", "."])
def test_a_result_is_a_letter_as_well_as_a_colour(symbol, opened):
    page = opened(pages.audit())
    assert symbol in [one.inner_text() for one in page.locator("#m-table button").all()]
