"""Another copy of the library: where it is found, and what is told of the differences."""

import sys
import venv
from pathlib import Path

import pytest

from mlxdiag.audit.cell import Audit, Cell, Fault
from mlxdiag.audit.engine.pool import Pool
from mlxdiag.audit.faults import against
from mlxdiag.audit.faults.against import compare, site
from mlxdiag.errors import UnjudgedError, UsageError


def audit(results, faults=(), version="1.0"):
    cells = [
        Cell(library="mlx-lm", family=family, scenario=scenario, result=result, reason=result)
        for (family, scenario), result in ((name.split("/"), result) for name, result in results.items())
    ]
    held = [Fault(id=name, code="MD302", library="mlx-lm", families=[], cause="c") for name in faults]
    return Audit(libraries={"mlx-lm": version}, device="cpu", cells=cells, faults=held)


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("pass", "pass", "same"),
        ("fail", "fail", "same"),
        ("pass", "fail", "broke"),
        ("pass", "crash", "broke"),
        ("fail", "pass", "mended"),
        ("crash", "pass", "mended"),
        ("crash", "fail", "differs"),
        ("pass", "unsupported", "differs"),
        ("skipped", "fail", "skipped"),
        ("pass", "skipped", "skipped"),
        ("skipped", "skipped", "same"),
        (None, "pass", "differs"),
        ("pass", None, "differs"),
    ],
)
def test_every_cell_is_told_once(before, after, kind):
    found = compare(
        audit({"a/one": before} if before else {}, version="0.9"), audit({"a/one": after} if after else {})
    )
    counts = {kind: len(getattr(found, kind)) for kind in ("broke", "mended", "skipped", "differs")}
    assert {**counts, "same": found.same} == {**dict.fromkeys((*counts, "same"), 0), kind: 1}
    assert found.other == {"mlx-lm": "0.9"}


def test_a_change_says_what_it_was_and_why():
    (change,) = compare(audit({"a/one": "pass"}), audit({"a/one": "fail"})).broke
    assert (change.family, change.scenario, change.before, change.after) == ("a", "one", "pass", "fail")
    assert change.reason == "fail"


@pytest.mark.parametrize(("before", "after"), [("skipped", "fail"), ("fail", "skipped"), ("skipped", "pass")])
def test_what_is_skipped_on_one_side_says_why_beside_what_the_other_side_says(before, after):
    (change,) = compare(audit({"a/one": before}), audit({"a/one": after})).skipped
    assert (change.before, change.after) == (before, after)
    assert change.skip == "skipped"
    assert change.reason == ({before, after} - {"skipped"}).pop()


def test_faults_are_compared_by_name():
    found = compare(audit({}, ["old", "both"]), audit({}, ["both", "new"]))
    assert (found.gone_faults, found.same_faults, found.new_faults) == (["old"], ["both"], ["new"])


@pytest.fixture
def copy(tmp_path):
    """A folder that holds a copy of the package, as far as it is looked at."""
    (tmp_path / "mlx_lm" / "models").mkdir(parents=True)
    return tmp_path


def test_a_folder_with_the_package_or_the_package_itself_comes_first_on_the_path(copy):
    assert site(str(copy)).first == (str(copy),)
    assert site(str(copy / "mlx_lm")).first == (str(copy),)


def test_an_environment_or_its_python_is_run_with_its_own_packages_first():
    environment = Path(sys.prefix)
    for name in (environment, environment / "bin" / "python"):
        found = site(str(name))
        assert found.python == str(environment / "bin" / "python")
        assert found.first == ()
        assert found.last


@pytest.mark.parametrize("name", ["nowhere", "./nowhere", "one.two"])
def test_a_name_of_nothing_is_refused(name):
    with pytest.raises(UsageError, match="neither a version nor a folder"):
        site(name)


def test_a_folder_of_something_else_is_refused(tmp_path):
    with pytest.raises(UsageError, match="holds no mlx_lm"):
        site(str(tmp_path))


@pytest.fixture
def pip(tmp_path, monkeypatch):
    """Installs run a program of ours in place of pip, in a cache of our own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")

    def put(code):
        monkeypatch.setattr(against, "_pip", lambda *words: [sys.executable, "-c", code, *words])

    return put


MAKES = "import os, sys; os.makedirs(os.path.join(sys.argv[2], 'mlx_lm', 'models')); print(sys.argv[3])"


def test_a_version_is_installed_once_into_a_folder_of_its_own(pip, tmp_path):
    pip(MAKES)
    found = site("0.9.1")
    folder = tmp_path / "mlxdiag" / "libraries" / "mlx-lm-0.9.1"
    assert found.first == (str(folder),)
    assert (folder / "mlx_lm").is_dir()
    pip("raise SystemExit(1)")
    assert site("v0.9.1").first == found.first
    assert [path.name for path in folder.parent.iterdir()] == ["mlx-lm-0.9.1"]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("print('looking'); print('ERROR: no such version'); raise SystemExit(1)", "ERROR: no such version"),
        ("print('done')", "done"),
        ("raise SystemExit(1)", "pip failed"),
    ],
)
def test_an_install_that_fails_is_unjudged_with_its_last_line_and_leaves_nothing(pip, tmp_path, code, says):
    pip(code)
    with pytest.raises(UnjudgedError, match=f"cannot install mlx-lm 0.9.1: {says}"):
        site("0.9.1")
    assert list((tmp_path / "mlxdiag" / "libraries").iterdir()) == []


def test_the_real_command_asks_pip_for_the_library_alone():
    command = against._pip("--target", "folder", "mlx-lm==0.31.3")
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    assert "--no-deps" in command
    assert command[-3:] == ["--target", "folder", "mlx-lm==0.31.3"]


def test_the_copy_is_what_workers_import(copy):
    package = copy / "mlx_lm"
    (package / "__init__.py").write_text("def say():\n    yield 'another copy'\n")
    with Pool("os:getcwd", jobs=1, site=site(str(copy))) as pool:
        assert pool.call("mlx_lm:say") == ["another copy"]


def test_a_python_without_a_copy_of_its_own_is_not_compared_with_ours(tmp_path):
    venv.create(tmp_path / "bare", with_pip=False)
    with pytest.raises(UnjudgedError, match="no mlx_lm of its own"):
        site(str(tmp_path / "bare" / "bin" / "python"))
