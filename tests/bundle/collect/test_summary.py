from __future__ import annotations

import msgspec
import pytest

from mlxdiag.bundle.collect import summary
from mlxdiag.bundle.collect.projects import GENERIC, PROJECTS, REQUIRED
from mlxdiag.bundle.pack.parts import Part
from mlxdiag.bundle.reproduce.controls import EDGE, FAILS, PASSES, Control
from tests.bundle.orders import SAMPLE, made
from tests.samples.expected import FOLDER


@pytest.fixture(scope="module")
def account() -> summary.Account:
    return made().account


@pytest.mark.parametrize("name", PROJECTS)
def test_every_project_gets_its_own_headings_and_its_gaps(name, account):
    project = PROJECTS[name]
    text = summary.render(account, project, "1.0")
    headings = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert headings == [*(heading for heading, _ in project.sections), "To be filled in", "In this bundle"]
    for what in project.required:
        assert f"- {REQUIRED}: {what}" in text
    assert project.page in text


def test_every_part_that_a_project_names_exists():
    for project in (GENERIC, *PROJECTS.values()):
        assert {part for _, part in project.sections} <= set(summary.PARTS)
        assert {"happened", "finding", "reproduce", "tried", "environment", "model"} <= {
            p for _, p in project.sections
        }


def test_where_machine_written_issues_are_refused_that_comes_first(account):
    text = summary.render(account, PROJECTS["mlx"], "1.0")
    assert "strictly prohibited" in text.splitlines()[2]
    assert "not to be pasted" in text
    assert "prohibited" not in summary.render(account, PROJECTS["mlxcel"], "1.0")


def test_the_maintainer_sees_fault_cause_and_numbers(account):
    text = summary.render(account, GENERIC, "1.0")
    assert text.startswith("# gemma-4-e4b-it-qat-4bit: ")
    assert "because: MD206 pads-left-in-cache: the first decode is at 2208 after 2201 real tokens" in text
    assert "| sliding | rotating | 512 | 2048 | 160 | 671 | 671 |" in text
    assert "mlxdiag replay bundle.zip" in text


def test_commands_and_errors_come_from_the_logs(tmp_path):
    log = tmp_path / "a.log"
    log.write_text(
        "$ mlx_lm.server --model mlx-community/gemma-3-12b-it-4bit --api-key sk-abcdef123456789\n"
        "ValueError: [broadcast_shapes] Shapes (1,2) and (3,4) cannot be broadcast.\n"
    )
    text = made(SAMPLE, logs=(log,)).members["summary.md"].decode()
    assert "$ mlx_lm.server --model mlx-community/gemma-3-12b-it-4bit --api-key [key]" in text
    assert "In the log: `ValueError: [broadcast_shapes] Shapes (1,2) and (3,4) cannot be broadcast.`" in text
    assert "None was found in the logs" not in text


def test_controls_of_one_outcome_stand_in_one_row(account):
    row = {"what": "chunks of {}", "result": PASSES, "reason": "agrees"}
    controls = (
        Control(name="a", value="1", **row),
        Control(name="b", value="2", **row),
        Control(name="c", value="4", **{**row, "result": FAILS}),
    )
    text = summary.render(msgspec.structs.replace(account, controls=controls), GENERIC, "1.0")
    assert "| chunks of 1, 2 | **passes** | agrees |\n| chunks of 4 | **fails** | agrees |" in text


def test_controls_that_differ_in_numbers_alone_stand_in_one_row_and_the_edge_has_no_result(account):
    row = {"what": "chunks of {}", "result": FAILS}
    controls = (
        Control(name="chunk-2", value="2", **row, reason="crash: Shapes (2,8); off by 1.5e-05"),
        Control(name="chunk-4", value="4", **row, reason="crash: Shapes (4,16); off by 2.5"),
        Control(name=EDGE, what="the edge", result=FAILS, reason="chunks of 1: passes; of 2: fails"),
    )
    text = summary.render(msgspec.structs.replace(account, controls=controls), GENERIC, "1.0")
    assert (
        "| chunks of 2, 4 | **fails** | crash: Shapes (4,16); off by 2.5 (of 4; the others alike) |\n"
        "| the edge | - | chunks of 1: passes; of 2: fails |"
    ) in text


def test_how_to_run_the_scripts_stands_where_there_are_any(account):
    assert "python repro/" not in summary.render(account, GENERIC, "1.0")
    there = (Part(name="repro/repro.py", there=True), Part(name="repro/control.py", there=False))
    text = summary.render(msgspec.structs.replace(account, parts=there), GENERIC, "1.0")
    assert "unzip bundle.zip -d bundle && cd bundle\npython repro/repro.py\n```" in text
    assert "\n\n\n" not in text


def test_a_trace_with_notes_alone_is_not_given_out_for_a_fault():
    text = made(FOLDER / "gemma4-speculative-verify.yaml").members["summary.md"].decode()
    title = "# gemma-4-e4b-it-qat-4bit: no fault found; noted: mask shorter than keys (MD101), step 2"
    assert text.startswith(title)
    assert "Seen instead" not in text
