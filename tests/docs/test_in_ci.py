"""The examples of the CI page are valid: commands, options, families and scenarios in them exist."""

import re
import shlex
from pathlib import Path

import pytest
import typer
import yaml

from mlxdiag.audit.engine.names import pick
from mlxdiag.audit.engine.table import NAMES
from mlxdiag.cli.main import VERBS, app

PAGE = (Path(__file__).parents[2] / "docs" / "in-ci.md").read_text(encoding="utf-8")


def block(name):
    """The YAML that stands after a mark."""
    (text,) = re.findall(rf"<!-- {name} -->\n```yaml\n(.*?)```", PAGE, re.DOTALL)
    return yaml.safe_load(text)


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def commands():
    """Every command line of mlxdiag on the page."""
    shell = [line for part in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in part.splitlines()]
    runs = [step["run"] for step in steps(block("workflow")) if "run" in step]
    entries = [hook["entry"] for repo in block("pre-commit")["repos"] for hook in repo["hooks"]]
    found = (re.split(r"\s(?:#|\||\|\|)\s", line)[0] for line in (*shell, *runs, *entries))
    return sorted({line.strip() for line in found if line.strip().startswith("mlxdiag")})


def test_there_are_commands():
    assert len(commands()) >= 8


@pytest.mark.parametrize("line", commands())
def test_every_command_and_its_options_exist(line):
    verb, *words = shlex.split(line.replace("${{ matrix.shard }}", "1"))[1:]
    assert verb in VERBS
    command = typer.main.get_command(app).get_command(None, verb)
    known = {option for parameter in command.params for option in parameter.opts}
    for word in words:
        if word.startswith("-"):
            assert word in known, word


def test_the_workflow_runs_every_shard_and_merges_what_they_wrote():
    workflow = block("workflow")
    shard, audit = (workflow["jobs"][name] for name in ("shard", "audit"))
    numbers = shard["strategy"]["matrix"]["shard"]
    (run,) = (step["run"] for step in shard["steps"] if "audit-models" in step.get("run", ""))
    assert numbers == list(range(1, len(numbers) + 1))
    assert f"/{len(numbers)} " in run
    assert "--format json" in run
    assert audit["needs"] == "shard"
    assert all("uses" in step or "run" in step for step in steps(workflow))
    assert True in workflow or "on" in workflow  # YAML 1.1 reads the key `on` as true


def test_nothing_is_installed_by_the_name_that_the_index_does_not_know():
    workflow = block("workflow")
    assert "MLXDIAG" in workflow["env"]
    installs = [step["run"] for step in steps(workflow) if "pip install" in step.get("run", "")]
    assert len(installs) == len(workflow["jobs"])
    assert all('"$MLXDIAG"' in shlex.split(run, posix=False) for run in installs)
    shell = "".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL))
    targets = [shlex.split(line, comments=True)[2] for line in shell.splitlines() if "pip install" in line]
    assert targets == ["path/to/mlxdiag", "mlxdiag @ git+$REPOSITORY"]


def test_the_hook_names_families_and_scenarios_that_exist():
    from mlxdiag.models.mlx import zoo

    (hook,) = block("pre-commit")["repos"][0]["hooks"]
    assert {"id", "name", "language", "entry"} <= hook.keys()
    words = shlex.split(hook["entry"])
    place = words.index("--scenario")
    assert pick("family", zoo.families(), words[2:place])
    assert pick("scenario", NAMES, [words[place + 1]])
    assert re.match(hook["files"], "mlx_lm/models/gemma2.py")
