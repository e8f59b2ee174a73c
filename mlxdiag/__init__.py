"""Flight recorder and test bench for LLM attention masks and KV caches."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from contextlib import AbstractContextManager
    from pathlib import Path

__version__ = "0.1.0"


def recording(
    path: str | os.PathLike[str],
    *,
    level: str = "shapes",
    ring: int = 0,
    tokens: bool = False,
    force: bool = False,
) -> AbstractContextManager[Path]:
    """Record what mlx-lm and transformers do inside the `with` block into the trace `path`.

    `level`: shapes, digest or visibility; `ring`: keep the last steps only; `tokens`: record real ids.
    Models and caches made before the block are followed too; of functions imported by name before it, as
    `from mlx_lm import stream_generate`, the tokens are not seen. With a ring, SIGUSR1 freezes a copy beside
    the trace, unless the program has a handler of its own or the block is not in the main thread. Raises
    UsageError where the file exists (unless `force`) or cannot be written.
    """
    from mlxdiag.record.library import recording as record

    return record(path, level=level, ring=ring, tokens=tokens, force=force)
