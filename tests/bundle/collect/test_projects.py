from __future__ import annotations

from mlxdiag.bundle.collect.projects import PROJECTS


def test_every_project_that_was_promised_is_there_under_its_own_name():
    assert set(PROJECTS) == {"mlx-lm", "mlx", "mlxcel", "mlx-vlm", "vllm", "transformers", "llama.cpp"}
    assert all(name == project.name for name, project in PROJECTS.items())


def test_each_asks_for_what_only_a_person_knows():
    assert all(project.required for project in PROJECTS.values())
    assert any("first bad commit" in what for what in PROJECTS["llama.cpp"].required)
    headings = [heading for heading, _ in PROJECTS["transformers"].sections]
    # The fields of its bug-report form, in the form's order.
    assert headings[:6] == [
        "System Info",
        "Who can help?",
        "Information",
        "Tasks",
        "Reproduction",
        "Expected behavior",
    ]
    assert any("collect_env" in what for what in PROJECTS["vllm"].required)
