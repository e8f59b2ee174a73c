"""torchrun, with an eye on whoever started it: `python -m ...torchrun.agent FILE ARG...`.

The ARGs are torchrun's own. How each rank ended is written to FILE as JSON, `{"0": 0, "1": -11}`: torchrun
says it on its standard error for people only.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mlxdiag.audit.distributed.launch import RANKS
from mlxdiag.audit.distributed.rank import end_with_parent


def main(arguments: list[str]) -> int:
    """Run torchrun to its end; its exit status."""
    end_with_parent()
    file, *given = arguments
    # torch may be built without it, and says so here.
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    status = dict.fromkeys(range(RANKS), 0)
    try:
        run.main(given)
    except ChildFailedError as error:
        status |= {rank: failure.exitcode for rank, failure in error.failures.items()}
    Path(file).write_text(json.dumps(status))
    return int(any(status.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
