"""`mlxdiag audit-models` and `mlxdiag merge` as a user meets them, mostly over stand-ins for the library."""

import json
import os
import signal
import subprocess
import time

import msgspec
import pytest
import yaml

from mlxdiag.audit.cell import Scenario
from mlxdiag.audit.engine import run as engine
from mlxdiag.audit.engine import table
from mlxdiag.audit.engine.tasks import Described
from mlxdiag.audit.faults import against
from mlxdiag.audit.faults.causes import Causes
from mlxdiag.cli import audit_models
from mlxdiag.reports.audit import grid, listing
from tests.audit import standin
from tests.audit.engine.test_worker import gone
from tests.cli.program import SCRIPT, call, start

QUICK = standin.QUICK


@pytest.fixture
def library(monkeypatch, tmp_path):
    """Stand-ins in place of mlx-lm: their families, their scenarios, their workers."""
    held = tuple(Scenario(name=name, title=f"the {name}", group="prefill") for name in standin.SCENARIOS)
    real = engine.run

    def run(wanted, **settings):
        site = wanted.site if wanted.site.label != "installed" else standin.SITE
        return real(engine.msgspec.structs.replace(wanted, site=site), **settings, parts=standin.PARTS)

    for module in (table, grid, listing):
        monkeypatch.setattr(module, "COLUMNS", held)
    monkeypatch.setattr(table, "NAMES", standin.SCENARIOS)
    monkeypatch.setattr(table, "USUAL", standin.SCENARIOS)
    monkeypatch.setattr(engine, "run", run)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def audit(capsys, *args):
    return call(capsys, "audit-models", *args)


def test_faults_are_findings_and_the_sums_add_up(library, capsys):
    ran = audit(capsys, *QUICK)
    assert ran.code == 1
    assert "fault md302-faulty-" in ran.out
    known = len(standin.FAMILIES)
    assert f"{known} families known: 5 reached, 0 skipped, {known - 5} not asked for." in ran.out
    assert "20 of 20 cells" in ran.err
    assert ran.err.splitlines()[-2].endswith(" s")


def test_a_clean_audit_is_zero_and_nothing_but_the_result_is_on_stdout(library, capsys):
    ran = audit(capsys, "good", "--format", "json")
    assert ran.code == 0
    assert json.loads(ran.out)["schema"] == "mlxdiag.audit/1"
    assert "no fault found" in ran.err


def test_the_same_audit_is_the_same_text(library, capsys):
    args = (*QUICK, "--format", "json")
    assert audit(capsys, *args, "--jobs", "1").out == audit(capsys, *args, "--jobs", "3").out


def test_our_own_failure_is_never_clean(library, capsys):
    ran = audit(capsys, "raising", "-o", "x.json", "--format", "json")
    assert ran.code == 4
    assert "1 cell without a verdict, by a fault of mlxdiag" in ran.err
    assert not (library / "x.json").exists()


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("god",), 2, "no family 'god' (did you mean good?)"),
        (("good", "--scenario", "on"), 2, "no scenario 'on' (did you mean one?)"),
        (("good", "--scenario", "x*"), 2, "no scenario fits 'x*'"),
        (("good", "--shard", "3/2"), 2, "--shard: '3/2' is not I/N"),
        (("good", "--shard", "0/2"), 2, "--shard"),
        (("good", "--shard", "a"), 2, "--shard"),
        (("good", "--shard", "1/2"), 2, "only 1 to share out"),
        (("good", "--jobs", "0"), 2, "--jobs"),
        (("good", "--seed", "-1"), 2, "--seed"),
        (("good", "--time-limit", "0"), 2, "--time-limit"),
        (("good", "--library", "jax"), 2, "'jax' is unknown; known: mlx-lm, transformers"),
        (("good", "--library", ","), 2, "',' is unknown"),
        (("good", "--library", "mlx-lm,transformers", "--shard", "1/2"), 2, "--shard: is for one library"),
        (("good", "--library", "mlx-lm,transformers", "--format", "sarif"), 2, "give one library at a time"),
        (("good", "--format", "xml"), 2, "'xml'"),
        (("good", "--baseline", "none.yaml"), 3, "none.yaml: No such file"),
        (("good", "--against", "nowhere"), 2, "neither a version nor a folder"),
        (("good", "-o", "no/x.json"), 2, "no/x.json"),
        (("good", "--write-baseline", "no/b.yaml"), 2, "no/b.yaml"),
        (("good", "--repros", "file/x"), 2, "cannot make file/x"),
        (("good", "--resume", "no/cells"), 2, "no/cells"),
        (("good", "--select", "XX"), 2, "XX"),
    ],
)
def test_what_cannot_be_run_ends_in_one_line_with_its_own_code(library, capsys, args, code, says):
    (library / "file").write_text("")
    ran = audit(capsys, *args)
    assert ran.code == code
    assert says in ran.err
    assert ran.out == ""
    assert "Traceback" not in ran.err


def test_scenarios_may_be_patterns_and_lists(library, capsys):
    ran = audit(capsys, "good", "--scenario", "t*", "--scenario", "four,one", "--format", "json")
    assert [cell["scenario"] for cell in json.loads(ran.out)["cells"]] == ["one", "two", "three", "four"]
    ran = audit(capsys, "g*", "--scenario", "two", "--format", "json")
    assert [(c["family"], c["scenario"]) for c in json.loads(ran.out)["cells"]] == [("good", "two")]


def test_expected_faults_make_a_run_succeed(library, capsys):
    assert audit(capsys, "faulty", "--expect", "MD302").code == 0
    assert audit(capsys, "faulty", "aborting", "--expect", "MD302").code == 1
    assert audit(capsys, "good", "--expect", "none").code == 0


def test_selected_faults_alone_count_and_hidden_ones_are_counted(library, capsys):
    ran = audit(capsys, "faulty", "aborting", "--select", "MD9")
    assert ran.code == 1
    assert "1 fault (1 hidden)" in ran.out
    ran = audit(capsys, "faulty", "--ignore", "MD3")
    assert ran.code == 0
    assert "nothing to show: 1 fault hidden" in ran.out


def test_entries_of_the_causes_whose_line_is_gone_are_warnings(library, capsys):
    ran = audit(capsys, "good")
    assert ran.code == 0
    assert "note: stale cause" in ran.out
    assert audit(capsys, "good", "--fail-on", "warning").code == 1


def test_a_shard_without_a_verdict_is_written_all_the_same(library, capsys):
    ran = audit(capsys, "raising", "--shard", "1/1", "--format", "json", "-o", "s1.json")
    assert ran.code == 4
    assert json.loads((library / "s1.json").read_text())["shard"] == [1, 1]


def test_beside_a_baseline_only_what_it_does_not_accept_is_expected(library, capsys):
    audit(capsys, "faulty", "--write-baseline", "b.yaml")
    beside = ("faulty", "aborting", "--baseline", "b.yaml", "--expect")
    assert audit(capsys, *beside, "MD902").code == 0
    assert audit(capsys, *beside, "MD302,MD902").code == 1


def test_a_baseline_accepts_what_it_lists_and_nothing_else(library, capsys):
    assert audit(capsys, "faulty", "--write-baseline", "b.yaml").code == 1
    assert "accepts 1 fault" in audit(capsys, "faulty", "--write-baseline", "b.yaml", "--force").err
    assert audit(capsys, "faulty", "--baseline", "b.yaml").code == 0
    assert audit(capsys, "faulty", "aborting", "--baseline", "b.yaml").code == 1
    held = yaml.safe_load((library / "b.yaml").read_text())
    (name,) = held["faults"]
    held["faults"][name].append("good/one")
    (library / "b.yaml").write_text(yaml.safe_dump(held))
    ran = audit(capsys, "faulty", "good", "--baseline", "b.yaml")
    assert ran.code == 1
    assert f"fixed: {name} no longer breaks good/one" in ran.out


def test_a_file_that_is_there_is_not_overwritten(library, capsys):
    (library / "b.yaml").write_text("mine")
    for option in ("--write-baseline", "-o"):
        ran = audit(capsys, "good", option, "b.yaml")
        assert ran.code == 2
        assert "--force" in ran.err
    assert (library / "b.yaml").read_text() == "mine"


def test_a_rerun_skips_finished_cells_and_a_stale_file_is_unreadable(library, capsys, monkeypatch):
    monkeypatch.setenv("STANDIN_LOG", str(library / "log"))
    first = audit(capsys, "good", "faulty", "--resume", "cells", "--format", "json")
    (library / "log").unlink()
    again = audit(capsys, "good", "faulty", "--resume", "cells", "--format", "json")
    assert again.out == first.out
    assert not (library / "log").exists()
    ran = audit(capsys, "good", "--resume", "cells", "--seed", "1")
    assert ran.code == 3
    assert "is stale: it was written with another seed (0, now 1)" in ran.err


@pytest.mark.parametrize(
    ("there", "same", "missing"),
    [(("good",), 4, "faulty/one"), (("faulty", "aborting"), 4, "good/one"), ((), 0, "good/one")],
)
def test_a_family_that_another_copy_lacks_is_not_there_and_loses_nothing(
    library, capsys, monkeypatch, there, same, missing
):
    monkeypatch.setattr(
        against, "site", lambda name, *_: msgspec.structs.replace(standin.SITE, label="other")
    )
    held = Described(families=there, libraries={"mlx-lm": "0.9"}, device="cpu", root="")
    monkeypatch.setattr(engine, "look", lambda wanted: held)
    ran = audit(capsys, "good", "faulty", "--against", "0.9")
    assert ran.code == 1
    assert (
        f"0 broke, 0 mended, 0 skipped on one side, {8 - same} otherwise different, {same} the same"
        in ran.out
    )
    assert f"differs  {missing}  not there -> pass" in ran.out


def test_another_copy_runs_the_families_of_the_shard_and_keeps_its_cells_apart(library, capsys, monkeypatch):
    monkeypatch.setattr(
        against, "site", lambda name, *_: msgspec.structs.replace(standin.SITE, label="other")
    )
    held = Described(families=("faulty", "good"), libraries={"mlx-lm": "0.9"}, device="cpu", root="")
    monkeypatch.setattr(engine, "look", lambda wanted: held)
    ran = audit(capsys, "good", "faulty", "--shard", "2/2", "--resume", "cells", "--against", "0.9")
    assert "0 skipped on one side, 0 otherwise different, 4 the same" in ran.out
    assert (library / "cells").read_text()
    assert (library / "cells.against").read_text()


def test_shards_merge_into_the_whole(library, capsys):
    for index in (1, 2):
        args = (*QUICK, "--shard", f"{index}/2", "--format", "json", "-o", f"s{index}.json")
        assert audit(capsys, *args).code in (0, 1, 4)
    ran = call(capsys, "merge", "s2.json", "s1.json", "-o", "audit.json")
    whole = audit(capsys, *QUICK, "--format", "json")
    assert ran.code == whole.code == 1
    assert (library / "audit.json").read_text() == whole.out
    assert "fault md302-faulty" in call(capsys, "merge", "s1.json", "s2.json").out


@pytest.mark.parametrize(
    ("files", "code", "says"),
    [
        (("s1.json",), 3, "missing: shard 2/2"),
        (("s1.json", "s1.json"), 2, "s1.json: is shard 1/2"),
        (("s1.json", "none.json"), 3, "none.json"),
        (("s1.json", "text"), 3, "text: is no audit"),
    ],
)
def test_shards_that_are_amiss_are_errors(library, capsys, files, code, says):
    audit(capsys, "good", "faulty", "--shard", "1/2", "--format", "json", "-o", "s1.json")
    (library / "text").write_text("hello")
    ran = call(capsys, "merge", *files)
    assert ran.code == code
    assert says in ran.err
    assert ran.out == ""


def test_a_merge_does_not_overwrite_a_shard(library, capsys):
    audit(capsys, "good", "faulty", "--shard", "1/2", "--format", "json", "-o", "s1.json")
    held = (library / "s1.json").read_text()
    assert call(capsys, "merge", "s1.json", "-o", "s1.json", "--force").code == 2
    assert (library / "s1.json").read_text() == held


def test_both_verbs_show_their_help(capsys):
    for verb, option in (("audit-models", "--shard"), ("merge", "--baseline")):
        ran = call(capsys, verb, "--help")
        assert ran.code == 0
        assert option in ran.out


def test_the_real_library_is_listed(capsys):
    ran = call(capsys, "audit-models", "--list", "--format", "json")
    found = json.loads(ran.out)
    assert ran.code == 0
    assert {"gemma2", "gpt_oss", "gemma3n", "llama4"} <= set(found["families"])
    assert "fresh-over-window" in [scenario["name"] for scenario in found["scenarios"]]
    assert len(found["families"]) > 100


def test_the_real_library_is_audited_and_its_known_fault_found(capsys):
    args = ("gemma2", "gemma3_text", "--scenario", "fresh-over-window", "--format", "json")
    ran = call(capsys, "audit-models", *args)
    results = {cell["family"]: cell["result"] for cell in json.loads(ran.out)["cells"]}
    assert results == {"gemma2": "fail", "gemma3_text": "pass"}
    assert ran.code == 1


def test_an_interrupt_before_the_first_cell_names_no_file_that_is_not_there(tmp_path, monkeypatch, capsys):
    def stop(*args, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("mlxdiag.audit.engine.run.run", stop)
    with pytest.raises(KeyboardInterrupt):
        audit_models.watched(standin.wanted("good", resume=tmp_path / "cells"), Causes())
    assert "cells" not in capsys.readouterr().err


def test_an_interrupt_ends_at_once_leaves_no_process_and_can_be_gone_on_from(tmp_path):
    process = subprocess.Popen(
        [SCRIPT, "audit-models", "--scenario", "chunks-*", "--resume", tmp_path / "cells", "--jobs", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    kept = tmp_path / "cells"
    for _ in range(600):
        workers = below(process.pid)  # between two families there is none for a moment
        if kept.exists() and kept.read_bytes().count(b"\n") > 3 and len(workers) >= 2:
            break
        time.sleep(0.1)
    began = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert time.monotonic() - began < 10
    assert process.returncode == 130
    assert "finished cells are in" in said
    assert "Traceback" not in said
    assert len(workers) >= 2
    assert all(gone(pid) for pid in workers)
    done = [json.loads(line)["family"] for line in kept.read_text().splitlines()[1:]]
    again = start("audit-models", done[0], "--scenario", "chunks-*", "--resume", kept)
    assert again.returncode in (0, 1), again.stderr


def below(pid):
    """The server that a process started, and the server's workers."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True)
    pairs = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    servers = [child for child, parent in pairs if parent == pid]
    return servers + [child for child, parent in pairs if parent in servers]
