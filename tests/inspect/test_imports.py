"""`mlxdiag inspect` works where neither mlx nor torch can be imported, and starts without the heavy rest."""

from __future__ import annotations

import subprocess
import sys

BLOCKED = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"mlx", "mlx_lm", "torch", "transformers"}:
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocker())
"""

JUDGE = """
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.reader import parse

text = '''
model: {layers: {sliding: {attention: sliding, window: 128}}}
steps:
- {"rows": [{"offset": 0, "tokens": 298}], "attention": [{"family": "sliding", "k": 298, "mask": [298, 128]}]}
'''
print(*(finding.code for finding in inspect_trace(parse(text)).findings))
"""


def python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_trace_is_judged_where_no_framework_can_be_imported():
    assert python(BLOCKED + JUDGE) == ["MD101"]


def test_the_blocker_blocks():
    code = BLOCKED + "try:\n    import mlx\nexcept ImportError:\n    print('blocked')"
    assert python(code) == ["blocked"]


def test_the_inspector_and_its_rules_load_neither_numpy_nor_rich_nor_a_framework():
    code = "import sys, mlxdiag.inspect.inspector\nprint(*sorted({n.split('.')[0] for n in sys.modules}))"
    loaded = set(python(code))
    assert "msgspec" in loaded
    assert not loaded & {"mlx", "mlx_lm", "torch", "transformers", "numpy", "rich", "typer", "yaml"}
