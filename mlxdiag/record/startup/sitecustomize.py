"""Imported by Python before any program, because its folder comes first on PYTHONPATH.

Starts the recorder's import hook, leaves the search path as it was, and imports the `sitecustomize` that
this file has taken the place of.
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

_here = Path(__file__).resolve().parent
sys.path[:] = [place for place in sys.path if Path(place).resolve() != _here]

try:
    from mlxdiag.record.hook import start
except ImportError as error:
    sys.stderr.write(f"mlxdiag: not recorded: {sys.executable} cannot import mlxdiag ({error})\n")
else:
    start()

_spec = PathFinder.find_spec("sitecustomize")
if _spec is not None and _spec.loader is not None:
    sys.modules["sitecustomize"] = _module = module_from_spec(_spec)
    _spec.loader.exec_module(_module)
