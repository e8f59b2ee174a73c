"""What is read out of a dead worker's standard error, as faulthandler and the C++ runtime write it."""

import pytest

from mlxdiag.audit.engine.death import message, where

ABORT = """libc++abi: terminating due to uncaught exception of type std::runtime_error: no device
Fatal Python error: Aborted

Current thread 0x00007f21a3bfe6c0 (most recent call first):
  File "/env/lib/python3.12/site-packages/mlx/nn/layers/base.py", line 12 in __call__
  File "/env/lib/python3.12/site-packages/mlx_lm/models/cache.py", line 512 in update_and_fetch
  File "/env/lib/python3.12/site-packages/mlx_lm/models/llama.py", line 88 in __call__
  ...

Thread 0x00007f21a43ff6c0 (most recent call first):
  <no Python frame>

Extension modules: numpy._core._multiarray_umath (total: 1)
"""


def test_the_innermost_line_of_the_library_is_where_it_died():
    assert where(ABORT) == "mlx_lm/models/cache.py:512"
    assert where("Segmentation fault\n") == ""


@pytest.mark.parametrize("said", [ABORT, ABORT.replace("Current thread", "Thread")])
def test_what_is_told_is_what_was_said_before_the_dump(said):
    assert message(said).startswith("libc++abi: terminating")
    assert message(said.partition("\n")[2]) == ""
