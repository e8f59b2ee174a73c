"""What the README says is printed is what is printed, and the table of samples is what both commands find."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.reader import parse, read
from tests.cli.program import call
from tests.samples.expected import SAMPLES
from tests.samples.test_samples import ran

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
CONSOLE = re.compile(r"(<!-- part of the output -->\n)?```console\n\$ mlxdiag (.*)\n((?:.*\n)*?)```")
ROW = re.compile(r"^\| `([\w-]+)` \| .* \| (.*) \| (.*) \|$", re.MULTILINE)


@pytest.mark.parametrize(
    ("part", "command", "printed"),
    [pytest.param(*found.groups(), id=found[2]) for found in CONSOLE.finditer(README)],
)
def test_a_command_prints_what_the_readme_shows(part, command, printed, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    out = call(capsys, *shlex.split(command)).out.strip()
    assert _rounded(printed.strip()) in _rounded(out) if part else _rounded(out) == _rounded(printed.strip())


def test_the_table_has_every_sample():
    assert [name for name, _, _ in ROW.findall(README)] == list(SAMPLES)


@pytest.mark.parametrize(("name", "inspected", "replayed"), ROW.findall(README))
def test_the_table_says_what_both_commands_find(name, inspected, replayed):
    assert _headlines(inspect_trace(read(ROOT / "traces" / f"{name}.yaml")).findings) == inspected
    assert _headlines(ran(name).report.findings) == replayed


def test_the_ten_lines_are_judged():
    (block,) = re.findall(r"```yaml\n((?:.*\n)*?)```", README)
    assert [finding.code for finding in inspect_trace(parse(block)).findings] == ["MD101"]
    assert len(block.strip().split("\n")) <= 10


def test_every_file_and_folder_that_is_named_is_there():
    for name in re.findall(r"\]\(([\w./-]+)\)", README):
        assert (ROOT / name).exists(), name
    for name in re.findall(r"^    ([\w/]+/) ", README, re.MULTILINE):
        assert (ROOT / name).is_dir(), name


def test_the_make_targets_that_are_named_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"(?:^|`)make ([\w-]+)", README, re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    assert shutil.which("make")


def _headlines(findings):
    """`MD203 ← MD206`, one a line; the note about the length limit is left out."""
    return "<br>".join(_chain(finding) for finding in findings if finding.code != "MD609")


def _chain(finding):
    causes = dict.fromkeys(c.split(" ")[0] for c in finding.cause if re.match(r"MD\d{3}\b", c))
    severity = "" if finding.severity == "error" else f" ({finding.severity})"
    return f"{finding.code}{severity}" + (f" ← {', '.join(causes)}" if causes else "")


def _rounded(text):
    """Differences in logits depend on the processor in their digits; their presence does not."""
    text = re.sub(r"\b\d+\.\d+(e-\d+)?\b|\b\de-\d+\b", "#", text)
    text = re.sub(r"(largest difference|by up to|parity +) *[\d#]+", r"\1 #", text)
    return re.sub(r" +", " ", re.sub(r"\b(0|#) over (\d+) positions", r"# over \2 positions", text))
