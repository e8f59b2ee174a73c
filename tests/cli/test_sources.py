from __future__ import annotations

import pytest

from mlxdiag.cli.sources import open_source
from mlxdiag.errors import UnreadableError
from tests.bundle.orders import made
from tests.samples.expected import FOLDER

SAMPLE = FOLDER / "gpt-oss-one-pass.yaml"


def test_a_bundle_and_its_trace_hold_the_same_steps(tmp_path):
    (tmp_path / "b.zip").write_bytes(made(SAMPLE).data)
    with open_source(str(tmp_path / "b.zip")) as inside, open_source(str(SAMPLE)) as outside:
        assert [entry.step for entry in inside] == [entry.step for entry in outside]
        assert inside.name == str(tmp_path / "b.zip")


def test_what_is_not_there_is_told_by_whoever_opens_it(tmp_path):
    with pytest.raises(UnreadableError, match="no such file"):
        open_source(str(tmp_path / "none.yaml"))
