"""Shards joined equal the audit that was never split; anything amiss is said."""

import json

import msgspec
import pytest

from mlxdiag.audit.engine.run import run
from mlxdiag.audit.faults.causes import Causes
from mlxdiag.audit.faults.merge import merge, read
from mlxdiag.errors import UnreadableError, UsageError
from mlxdiag.reports.audit import json as writer
from mlxdiag.reports.audit.shown import Shown
from tests.audit.standin import PARTS, QUICK, wanted


def text(audit):
    return writer.render(Shown(audit=audit))


@pytest.fixture(scope="module")
def whole():
    return run(wanted(*QUICK), causes=Causes(), parts=PARTS)


@pytest.fixture(scope="module")
def parts():
    return [run(wanted(*QUICK, shard=(i, 3)), causes=Causes(), parts=PARTS) for i in (1, 2, 3)]


@pytest.fixture
def files(parts, tmp_path):
    """The shards as files."""
    paths = []
    for number, part in enumerate(parts, 1):
        path = tmp_path / f"s{number}.json"
        path.write_text(text(part))
        paths.append(path)
    return paths


def joined(paths):
    return merge([(path.name, read(path)) for path in paths])


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_shards_joined_in_any_order_equal_the_whole(files, whole, order):
    assert text(joined([files[i] for i in order])) == text(whole)


def test_each_shard_has_its_own_cells(parts, whole):
    held = [{cell.key for cell in part.cells} for part in parts]
    assert all(held)
    assert sum(map(len, held)) == len(set().union(*held)) == len(whole.cells)


def test_a_missing_shard_is_an_error(files):
    with pytest.raises(UnreadableError, match="missing: shard 2/3"):
        joined([files[0], files[2]])


def test_a_shard_given_twice_is_an_error(files):
    with pytest.raises(UsageError, match=r"s1.json: is shard 1/3, and so is s1.json"):
        joined([*files, files[0]])


def test_a_whole_audit_is_no_shard(files, whole, tmp_path):
    path = tmp_path / "whole.json"
    path.write_text(text(whole))
    with pytest.raises(UsageError, match=r"whole\.json: is a whole audit"):
        joined([*files, path])


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("libraries", {"mlx-lm": "1.1"}, "s2.json: other libraries than s1.json: mlx-lm 1.1, not mlx-lm 1.0"),
        ("sources", {"mlx-lm": "0b"}, "s2.json: other sources than s1.json: mlx-lm 0b, not mlx-lm 0a"),
        ("seed", 5, "s2.json: other seed than s1.json: 5, not 0"),
        ("device", "cuda", "s2.json: other device"),
        ("families", 3, "s2.json: other families"),
        ("shard", [2, 4], "different splits: into 3 and 4"),
    ],
)
def test_shards_that_do_not_belong_together_are_refused(files, field, value, says):
    document = json.loads(files[1].read_text())
    document[field] = value
    files[1].write_text(json.dumps(document))
    with pytest.raises(UsageError, match=says):
        joined(files)


def test_shards_of_other_scenarios_are_refused(files, parts):
    short = [cell for cell in parts[1].cells if cell.scenario != "three"]
    files[1].write_text(text(msgspec.structs.replace(parts[1], cells=short)))
    with pytest.raises(UsageError, match=r"s2\.json: other scenarios than s1\.json"):
        joined(files)


def test_a_shard_from_which_faults_were_hidden_is_refused(files, parts):
    faulty = next(n for n, part in enumerate(parts) if part.faults)
    files[faulty].write_text(text(msgspec.structs.replace(parts[faulty], faults=[])))
    with pytest.raises(UnreadableError, match="--select or --ignore"):
        joined(files)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": "mlxdiag.findings/1"}', "\xff"])
def test_what_is_no_audit_is_unreadable(tmp_path, content):
    path = tmp_path / "x.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(UnreadableError, match=r"x\.json"):
        read(path)


def test_a_missing_file_is_unreadable(tmp_path):
    with pytest.raises(UnreadableError, match="No such file"):
        read(tmp_path / "none.json")


def test_another_schema_is_refused(files):
    document = json.loads(files[0].read_text())
    document["schema"] = "mlxdiag.audit/2"
    files[0].write_text(json.dumps(document))
    with pytest.raises(UnreadableError, match=r"mlxdiag\.audit/2"):
        read(files[0])


def test_shards_of_different_families_are_no_parts_of_one_audit(files):
    other = json.loads(files[1].read_text())
    other["asked"] = ["some-other-family"]
    files[1].write_text(json.dumps(other))
    with pytest.raises(UsageError, match="other asked"):
        joined(files)


@pytest.mark.parametrize("shard", [[-1, -1], [1, 10**30], [4, 3], [0, 3]])
def test_a_shard_that_cannot_be_is_refused(files, shard):
    other = json.loads(files[0].read_text())
    other["shard"] = shard
    files[0].write_text(json.dumps(other))
    with pytest.raises(UnreadableError, match=r"shard|integer"):
        read(files[0])
