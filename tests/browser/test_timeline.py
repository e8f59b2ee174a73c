import pytest

from tests.browser import pages
from tests.browser.conftest import settle


def viewbox(page):
    low, _, size, _ = map(float, page.get_attribute(".seriesplot svg", "viewBox").split())
    return low, low + size


def test_a_hundred_thousand_steps_are_a_small_page(opened):
    text = pages.long()
    assert len(text) < 400_000
    page = opened(text)
    assert page.locator("#timeline svg *").count() < 5000
    assert "step 73211" in page.locator("#tl-readout").inner_text()


def test_zoom_goes_in_around_the_cursor_and_back(opened):
    page = opened(pages.long())
    for _ in range(10):
        page.click("#tl-zoom-in")
    settle(page)
    low, high = viewbox(page)
    assert low < 73_210 < high
    assert high - low < 200
    page.click("#tl-zoom-all")
    settle(page)
    assert viewbox(page) != (low, high)
    assert page.locator("#timeline .mark").count() == 1


def test_a_mark_stands_over_its_step(opened):
    page = opened(pages.shipped("gemma4-chunked-prefill"))
    settle(page)
    mark, cursor = (
        page.locator("#timeline .mark").first.bounding_box(),
        page.locator("#timeline .cursor").bounding_box(),
    )
    assert abs(mark["x"] + mark["width"] / 2 - cursor["x"]) < 2


def test_dragging_moves_the_view(opened):
    page = opened(pages.long())
    for _ in range(6):
        page.click("#tl-zoom-in")
    settle(page)
    before = viewbox(page)
    page.locator("#timeline").scroll_into_view_if_needed()
    box = page.locator("#timeline svg").bounding_box()
    page.mouse.move(box["x"] + 600, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + 30, steps=4)
    page.mouse.up()
    settle(page)
    assert viewbox(page)[0] > before[0]


@pytest.mark.parametrize("width", [360, 1280])
def test_a_click_puts_the_cursor_on_the_step(width, opened):
    page = opened(pages.shipped("gemma4-chunked-prefill"), width)
    page.locator("#timeline").scroll_into_view_if_needed()
    box = page.locator("#timeline svg").bounding_box()
    page.mouse.click(box["x"] + box["width"] - 14, box["y"] + 32)
    settle(page)
    assert page.locator("#tl-readout").inner_text().startswith("step 13: decode")
