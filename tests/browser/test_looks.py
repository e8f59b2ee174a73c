import pytest

from tests.browser import pages
from tests.browser.conftest import SCHEMES, WIDTHS, kept

SHOWN = dict.fromkeys(pages.FAULTY, pages.shipped)


def overflow(page):
    """Pixels by which the page is wider than the screen."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def overlapping(page):
    """Pairs of tick labels of one axis that lie on each other."""
    return page.evaluate(
        """() => {
          const found = [];
          for (const axis of document.querySelectorAll(".xs, .ys")) {
            const boxes = [...axis.children].map((one) => [one.textContent, one.getBoundingClientRect()])
              .filter(([, box]) => box.width);
            boxes.forEach(([a, one], i) => boxes.slice(i + 1).forEach(([b, two]) => {
              const across = one.left < two.right && two.left < one.right;
              if (across && one.top + 3 < two.bottom && two.top + 3 < one.bottom) found.push(`${a} ${b}`);
            }));
          }
          return found;
        }"""
    )


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", pages.FAULTY)
def test_a_shipped_trace_fits_the_screen(name, width, opened):
    page = opened(pages.shipped(name), width)
    assert overflow(page) == 0
    assert overlapping(page) == []
    assert len(kept(page, f"{name}-{width}")) > 10_000


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["audit", "observed"])
def test_other_pages_fit_the_screen(name, width, scheme, opened):
    page = opened(getattr(pages, name)(), width, scheme)
    assert overflow(page) == 0
    assert overlapping(page) == []
    kept(page, f"{name}-{width}-{scheme}")


def test_light_and_dark_are_two_pages(opened):
    light, dark = (opened(pages.observed(), scheme=scheme) for scheme in SCHEMES)
    shades = [page.evaluate("getComputedStyle(document.body).backgroundColor") for page in (light, dark)]
    assert shades == ["rgb(251, 250, 247)", "rgb(23, 23, 21)"]


def test_the_classes_of_a_mask_differ_without_colour(opened):
    """In grey the fill patterns alone tell due, missing and too old apart."""
    page = opened(pages.observed())
    patterns = page.evaluate(
        """() => ["right", "missing", "old", "future", "due", "partly"].map((kind) => {
          const one = document.createElement("i");
          one.className = kind;
          document.querySelector(".map").append(one);
          const style = getComputedStyle(one);
          return style.backgroundImage.replace(/rgba?\\([^)]*\\)/g, "") + style.backgroundSize;
        })"""
    )
    assert len(set(patterns)) == len(patterns)


def test_print_shows_the_drawings_and_no_controls(opened, chromium):
    page = opened(pages.shipped("gemma4-chunked-prefill"))
    page.emulate_media(media="print")
    assert not page.locator(".tools").is_visible()
    assert (
        page.locator(".call .map").first.evaluate("one => getComputedStyle(one).printColorAdjust") == "exact"
    )
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") <= 8


def test_the_matrix_fits_a_printed_page(opened):
    """Its pages lie across: an A4 sheet is 297 mm wide, less two margins of 10 mm, at 96 dots an inch."""
    page = opened(pages.wide_audit(), width=round((297 - 20) / 25.4 * 96))
    page.emulate_media(media="print")
    assert overflow(page) == 0
