"""A real Chromium, once for the folder; without one every test here is skipped, with the reason."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDTHS = (360, 768, 1280)
SCHEMES = ("light", "dark")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def chromium():
    """The browser. `SCREENSHOTS=folder` keeps what the tests see."""
    driver = pytest.importorskip(
        "playwright.sync_api", reason="no playwright: pip install 'mlxdiag[browser]'"
    )
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("no Chromium: apt-get install chromium")
    with driver.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium, tmp_path):
    """Opens a page of HTML; it fails the test that it throws, complains, or asks the network for anything."""
    contexts, complaints = [], []

    def go(text, width=1280, scheme="light", height=900, **more):
        path = tmp_path / f"page-{len(contexts)}.html"
        path.write_text(text, encoding="utf-8")
        context = chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, **more
        )
        context.set_default_timeout(10_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: complaints.append(said.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda shown: (complaints.append(f"dialog {shown.message}"), shown.dismiss()))
        page.on("request", lambda asked: complaints.append(asked.url) if asked.url != path.as_uri() else None)
        page.goto(path.as_uri())
        return page

    go.complaints = complaints
    yield go
    for context in contexts:
        context.close()
    assert [said for said in complaints if not said.startswith("data:,")] == []


def settle(page) -> None:
    """Until what was asked for is drawn."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def kept(page, name: str) -> bytes:
    """A screenshot of the whole page, written where `SCREENSHOTS` says."""
    folder = os.environ.get("SCREENSHOTS")
    path = Path(folder) / f"{name}.png" if folder else None
    return page.screenshot(full_page=True, path=path)
