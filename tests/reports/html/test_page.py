import base64
import hashlib
import re

from mlxdiag import __version__
from mlxdiag.reports.html.markup import tag
from mlxdiag.reports.html.page import page, section, table
from tests.reports.html.pages import Page

WHOLE = page("title <", tag("main", "body"), ("maps.js", "timeline.js"))


def test_the_shell_is_well_formed_and_named():
    read = Page(WHOLE)
    assert read.faults == []
    assert read.all("html", lang="en")
    assert "title <" in read.text
    assert __version__ in read.text


def test_only_the_scripts_of_the_page_may_run():
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', WHOLE)
    policy = policy.replace("&#x27;", "'")
    scripts = re.findall(r"<script>(.*?)</script>", WHOLE, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in scripts]
    assert len(scripts) == 2
    assert re.search(r"script-src ([^;]*)", policy)[1].split() == [f"'sha256-{one}'" for one in hashes]
    assert policy.startswith("default-src 'none'")


def test_without_scripts_none_may_run():
    assert "script-src &#x27;none&#x27;" in page("t", tag("main"), ())


def test_nothing_is_fetched():
    assert not re.findall(r'(?:src|href)="(?!#|data:)', WHOLE)
    assert not re.findall(r"@import|url\((?!#)|https?:(?!//www\.w3\.org/2000/svg)", WHOLE)


def test_a_section_is_named_by_its_heading():
    read = Page(section("steps", "Timeline", note="a note"))
    (attributes,) = read.all("section")
    assert read.all("h2", id=attributes["aria-labelledby"])


def test_a_table_has_header_cells_and_a_caption():
    read = Page(table(("a", "b"), [("1", "<")], "What"))
    assert len(read.all("th", scope="col")) == 2
    assert read.all("caption")
    assert read.all("div", tabindex="0", role="region")
    assert "<" in read.text
