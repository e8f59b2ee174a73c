"""A whole audit over stand-ins: what every way to end becomes, in what order, and what is not done twice."""

import errno
import time
from pathlib import Path

import msgspec
import pytest

from mlxdiag.audit.engine.death import UNFINISHED
from mlxdiag.audit.engine.journal import Journal, Terms
from mlxdiag.audit.engine.run import choose, look, run
from mlxdiag.audit.engine.tasks import source
from mlxdiag.audit.faults.causes import Causes
from mlxdiag.errors import UnjudgedError, UnreadableError, UsageError
from tests.audit.standin import PARTS, QUICK, SCENARIOS, SITE, wanted


def audited(*families, causes=None, **changes):
    return run(wanted(*families, **changes), causes=causes or Causes(), parts=PARTS)


def results(audit, family):
    return [cell.result for cell in audit.cells if cell.family == family]


def untimed(audit):
    cells = [msgspec.structs.replace(cell, seconds=0.0) for cell in audit.cells]
    return msgspec.structs.replace(audit, cells=cells, seconds=0.0)


def test_a_crash_is_a_cell_with_its_signal_and_the_rest_goes_on():
    audit = audited("aborting", "segfaulting")
    for family, signal in (("aborting", "SIGABRT"), ("segfaulting", "SIGSEGV")):
        assert results(audit, family) == ["pass", "crash", "pass", "pass"]
        (cell,) = (c for c in audit.cells if c.family == family and c.result == "crash")
        assert cell.scenario == "two"
        assert cell.evidence["signal"] == signal
        assert cell.codes == ["MD902"]
        assert f"died of {signal}" in cell.reason
    assert "libc++abi: terminating due to uncaught exception" in audit.cells[1].reason
    assert len(audit.faults) == 2


def test_a_crashed_cell_is_not_tried_again_and_nothing_is_shared_with_the_next_worker(tmp_path, monkeypatch):
    log = tmp_path / "workers"
    monkeypatch.setenv("STANDIN_LOG", str(log))
    audited("aborting", "good")
    workers = [line.split() for line in log.read_text().splitlines()]
    assert sorted(family for family, _ in workers) == ["aborting", "aborting", "good"]
    assert len({pid for _, pid in workers}) == 3


def test_a_hang_is_a_crash_that_names_the_limit():
    audit = audited("hanging", limit=2.0)
    assert results(audit, "hanging") == ["pass", "crash", "pass", "pass"]
    assert audit.cells[1].reason == "no answer within 2 s, so the process was killed"
    assert audit.cells[1].evidence == {}


def test_a_family_whose_workers_all_die_is_given_up_with_a_reason():
    audit = audited("dying", scenarios=(*SCENARIOS, "five"))
    assert results(audit, "dying") == ["crash", "crash", "crash", "skipped", "skipped"]
    assert audit.cells[-1].reason == "not tried: 3 workers of this family in a row died without a verdict"


def test_a_verdict_between_two_deaths_keeps_a_family_from_being_given_up():
    audit = audited("fragile", scenarios=(*SCENARIOS, "five", "six", "seven"))
    assert results(audit, "fragile") == ["pass", "crash", "pass", "crash", "pass", "crash", "pass"]


def test_the_limit_is_that_of_one_cell_and_not_of_a_family():
    assert results(audited("slow", limit=2.5), "slow") == ["pass"] * 4


def test_a_hang_that_ignores_the_first_signal_is_killed_by_the_second():
    audit = audited("deaf", limit=1.0)
    assert results(audit, "deaf") == ["pass", "crash", "pass", "pass"]
    assert audit.cells[1].reason == "no answer within 1 s, so the process was killed"


@pytest.mark.parametrize(
    ("family", "lost", "says"),
    [
        ("raising", "two", "RuntimeError: our own fault"),
        ("silent", "four", "no cell came for it"),
    ],
)
def test_our_own_failure_is_no_statement_about_the_library(family, lost, says):
    audit = audited(family)
    (cell,) = (cell for cell in audit.cells if cell.result == "skipped")
    assert cell.scenario == lost
    assert cell.reason == f"{UNFINISHED}: {says}"
    assert not audit.faults


def test_a_process_that_ends_itself_in_a_call_is_a_crash():
    audit = audited("leaving")
    assert results(audit, "leaving") == ["pass", "crash", "pass", "pass"]
    assert audit.cells[1].reason == "the process ended with exit code 0"
    assert audit.cells[1].codes == ["MD902"]


@pytest.mark.parametrize(("family", "second"), [("forking", "pass"), ("stubborn", "crash")])
def test_what_a_worker_forked_is_killed_with_it_and_holds_nothing_up(tmp_path, monkeypatch, family, second):
    log = tmp_path / "workers"
    monkeypatch.setenv("STANDIN_LOG", str(log))
    start = time.monotonic()
    audit = audited(family, limit=2.0)
    assert results(audit, family) == ["pass", second, "pass", "pass"]
    assert time.monotonic() - start < 60
    (child,) = (int(line.split()[1]) for line in log.read_text().splitlines() if "child-of" in line)
    assert not runs(child)


def test_a_forked_child_that_comes_back_gives_no_second_verdict():
    assert results(audited("returning"), "returning") == ["pass"] * 4


def test_of_a_flood_of_text_the_end_is_kept():
    cell = audited("chatty").cells[1]
    assert cell.result == "crash"
    assert cell.reason == "the process died of SIGABRT: the last word"


def runs(pid):
    """Whether a process does anything: one that nobody has waited for yet does not."""
    for _ in range(40):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
        except (FileNotFoundError, ProcessLookupError):
            state = "Z"
        if state == "Z":
            return False
        time.sleep(0.05)
    return True


def test_cells_and_faults_do_not_depend_on_the_number_of_jobs():
    one, three = (audited(*QUICK, jobs=jobs) for jobs in (1, 3))
    assert untimed(one) == untimed(three)
    assert [cell.family for cell in one.cells] == sorted(cell.family for cell in one.cells)
    assert [cell.scenario for cell in one.cells[:4]] == list(SCENARIOS)


def test_the_noise_of_each_family_is_told_once():
    audit = audited("good", "faulty")
    assert audit.noise == {"faulty": 6e-6, "good": 4e-6}
    assert {cell.noise for cell in audit.cells} == {0.0}


def test_another_seed_reaches_the_cells():
    reasons = {audited("faulty", seed=seed).cells[1].reason for seed in (3, 4)}
    assert reasons == {"seed 3", "seed 4"}


def test_progress_counts_every_cell_once():
    seen = []
    run(wanted("aborting", "good"), causes=Causes(), parts=PARTS, watch=seen.append)
    assert [progress.done for progress in seen] == list(range(1, 9))
    assert {progress.total for progress in seen} == {8}


def test_shards_share_the_families_out_evenly_and_wholly():
    known = [f"f{number:03}" for number in range(126)]
    parts = [choose(known, (), (index, 4)) for index in (1, 2, 3, 4)]
    assert sorted(name for part in parts for name in part) == known
    assert {len(part) for part in parts} == {31, 32}
    assert parts[1][:2] == ("f001", "f005"), "neighbours are often alike, and lie apart"
    assert parts == [choose(reversed(known), (), (index, 4)) for index in (1, 2, 3, 4)]


def test_more_shards_than_families_are_refused():
    with pytest.raises(UsageError, match="only 2 to share out"):
        choose(["a", "b"], (), (1, 3))


def test_an_unknown_family_says_what_was_perhaps_meant():
    with pytest.raises(UsageError, match=r"no family 'god' \(did you mean good\?\)"):
        audited("god")


def test_a_library_that_cannot_be_imported_is_unjudged():
    parts = msgspec.structs.replace(PARTS, preload="tests.audit.standin:preload_fails")
    with pytest.raises(UnjudgedError, match="the library is not there"):
        run(wanted("good"), causes=Causes(), parts=parts)


def test_a_look_runs_no_cell(tmp_path, monkeypatch):
    log = tmp_path / "workers"
    monkeypatch.setenv("STANDIN_LOG", str(log))
    assert "good" in look(wanted(site=SITE), PARTS).families
    assert not log.exists()


def test_finished_cells_are_not_run_again(tmp_path, monkeypatch):
    log, kept = tmp_path / "workers", tmp_path / "cells"
    monkeypatch.setenv("STANDIN_LOG", str(log))
    first = audited("aborting", "good", resume=kept)
    again = audited("aborting", "good", "faulty", resume=kept)
    ran = [line.split()[0] for line in log.read_text().splitlines()]
    assert sorted(ran[:3]) == ["aborting", "aborting", "good"]
    assert ran[3:] == ["faulty"]
    assert untimed(again).cells[:4] == untimed(first).cells[:4]
    assert len(again.cells) == 12


def test_a_full_disk_ends_what_is_kept_and_not_the_audit(tmp_path, monkeypatch):
    kept, write = tmp_path / "cells", Journal._write

    def full(journal, value):
        if journal.path.stat().st_size > 600:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(journal, value)

    monkeypatch.setattr(Journal, "_write", full)
    audit = audited("good", "faulty", resume=kept)
    assert len(audit.cells) == 8
    assert audit.notes[-1] == f"--resume: {kept} lacks finished cells: No space left on device"
    monkeypatch.undo()
    assert untimed(audited("good", "faulty", resume=kept)).cells == untimed(audit).cells


def test_a_device_is_no_file_to_keep_cells_in():
    with pytest.raises(UnreadableError, match="/dev/null: is a device or a pipe"):
        audited("good", resume=Path("/dev/null"))


def test_what_an_interrupt_leaves_is_gone_on_from(tmp_path, monkeypatch):
    log, kept = tmp_path / "workers", tmp_path / "cells"

    def stop(progress):
        if progress.done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(wanted("faulty", "good", resume=kept, jobs=1), causes=Causes(), parts=PARTS, watch=stop)
    held = kept.read_bytes()
    assert held.count(b"\n") == 1 + 5  # its first line, and the cells before the interrupt
    kept.write_bytes(held + b'{"library":"ml')
    monkeypatch.setenv("STANDIN_LOG", str(log))
    whole = audited("faulty", "good", resume=kept)
    assert untimed(whole) == untimed(audited("faulty", "good"))
    assert log.read_text().split()[0] == "good"
    assert untimed(audited("faulty", "good", resume=kept)) == untimed(whole)  # the torn line is gone


@pytest.mark.parametrize(
    ("changes", "version", "says"),
    [
        ({"seed": 1}, "1.0", r"another seed \(0, now 1\);"),
        ({"scenarios": ("one",)}, "1.0", r"other scenarios \(4, now 1; only there: two, three, four\);"),
        ({"scenarios": ("one", "five")}, "1.0", r"other scenarios \(4, now 2; .*; only now: five\);"),
        ({"device": "cuda"}, "1.0", r"another device \(cpu, now cuda\);"),
        ({}, "1.1", "other libraries"),
    ],
)
def test_a_stale_file_is_refused(tmp_path, monkeypatch, changes, version, says):
    kept = tmp_path / "cells"
    audited("good", resume=kept)
    held = kept.read_bytes()
    monkeypatch.setenv("STANDIN_VERSION", version)
    with pytest.raises(UnreadableError, match=f"is stale: it was written with {says}"):
        audited("good", resume=kept, **changes)
    assert kept.read_bytes() == held


def test_cells_of_a_library_whose_files_were_changed_are_stale_under_the_same_version(tmp_path, monkeypatch):
    kept = tmp_path / "cells"
    assert audited("good", resume=kept).sources == {"mlx-lm": "0a"}
    monkeypatch.setenv("STANDIN_SOURCE", "0b")
    with pytest.raises(UnreadableError, match=r"with other sources \(mlx-lm 0a, now mlx-lm 0b\)"):
        audited("good", resume=kept)


def test_a_source_hash_changes_with_any_file_of_the_package_and_with_nothing_else(tmp_path):
    (tmp_path / "models").mkdir()
    init, model = tmp_path / "__init__.py", tmp_path / "models" / "a.py"
    init.write_text("")
    model.write_text("x = 1")
    before = source(str(init))
    (tmp_path / "models" / "a.pyc").write_bytes(b"1")
    assert source(str(init)) == before
    model.write_text("x = 2")
    assert source(str(init)) != before
    model.rename(tmp_path / "models" / "b.py")
    (tmp_path / "models" / "b.py").write_text("x = 1")
    assert source(str(init)) != before


def test_of_many_scenarios_that_differ_a_few_are_named_and_the_rest_counted(tmp_path):
    def log(*names):
        return Journal(kept, Terms(libraries={}, device="cpu", seed=0, scenarios=list(names)))

    kept = tmp_path / "cells"
    with log("a", "b", "c", "d", "e", "f", "g"):
        pass
    with pytest.raises(UnreadableError, match=r"\(7, now 1; only there: b, c, d, e and 2 more\);"), log("a"):
        pass


@pytest.mark.parametrize("text", ["a letter to my aunt", "a letter\n", '{"schema": 1}\n', "\xff\xfe\n"])
def test_a_file_of_something_else_is_refused_and_kept(tmp_path, text):
    kept = tmp_path / "cells"
    kept.write_bytes(text.encode("latin-1"))
    with pytest.raises(UnreadableError, match="cells"):
        audited("good", resume=kept)
    assert kept.read_bytes() == text.encode("latin-1")


SPLIT = ("one", "tensor-parallel", "pipeline")


def test_models_split_over_processes_run_once_after_the_others_and_keep_their_columns(tmp_path, monkeypatch):
    log = tmp_path / "workers"
    monkeypatch.setenv("STANDIN_LOG", str(log))
    audit = audited("faulty", "good", scenarios=SPLIT)
    assert [(cell.family, cell.scenario) for cell in audit.cells] == [
        (family, scenario) for family in ("faulty", "good") for scenario in SPLIT
    ]
    assert {cell.result for cell in audit.cells} == {"pass"}
    assert [line.split()[0] for line in log.read_text().splitlines()][2:] == ["apart"]


def test_of_split_models_what_is_finished_is_not_told_again(tmp_path):
    def stop(progress):
        if progress.done == 4:
            raise KeyboardInterrupt

    kept, seen = tmp_path / "cells", []
    asked = wanted("faulty", "good", scenarios=SPLIT, resume=kept)
    with pytest.raises(KeyboardInterrupt):
        run(asked, causes=Causes(), parts=PARTS, watch=stop)
    assert "pipeline" in kept.read_text().splitlines()[-1]
    run(asked, causes=Causes(), parts=PARTS, watch=lambda progress: seen.append(progress.done))
    assert seen == [1, 2, 3, 4, 5, 6]
    assert kept.read_text().count("\n") == 1 + 6


def test_cells_that_never_came_from_split_models_are_told(tmp_path):
    kept = tmp_path / "cells"
    audit = audited("aborting", "good", scenarios=SPLIT, resume=kept)
    assert results(audit, "good") == ["pass", "skipped", "pass"]
    assert results(audit, "aborting") == ["pass", "skipped", "skipped"]
    assert audit.cells[1].reason.startswith(UNFINISHED)
    assert untimed(audited("aborting", "good", scenarios=SPLIT, resume=kept)) == untimed(audit)


def test_excused_cells_pass_and_known_causes_are_named(tmp_path):
    cause = {
        "name": "the-known-one",
        "match": [{"families": ["faulty"], "scenarios": ["two"], "codes": ["MD302"]}],
        "text": "It is known.",
        "where": {"file": "standin.py", "snippet": "def preload_fails"},
        "code": "MD302",
    }
    excuse = {**cause, "name": "harmless", "text": "It is right.", "code": None}
    excuse["match"] = [{**cause["match"][0], "scenarios": ["four"]}]
    del excuse["code"]
    audit = audited("faulty", causes=msgspec.convert({"causes": [cause], "excuses": [excuse]}, Causes))
    assert results(audit, "faulty") == ["pass", "fail", "pass", "pass"]
    assert audit.cells[3].excuse == "harmless"
    (fault,) = audit.faults
    assert (fault.id, fault.known, fault.cells) == ("the-known-one", True, [("faulty", "two")])
    assert fault.where.startswith("standin.py:")
