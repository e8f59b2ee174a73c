"""A comparison made by hand."""

from mlxdiag.audit.across.cell import Across, Cell, Difference, Row


def across(**more: object) -> Across:
    seen = {"transformers": [1, 2, 3, 4, 5, 6, 7, 8], "mlx-lm": [0, 1, 2, 3, 4, 5, 6, 7, 8]}
    differing = Cell(
        family="mistral",
        scenario="fresh-over-window",
        result="differ",
        library="mlx-lm",
        kind="visibility",
        codes=["MD403"],
        causes=["window-not-read"],
        reason="step 1 (prefill): logits part at position 8",
        compared=19,
        queries=76,
        largest=4.5,
        tolerance=2e-4,
        evidence={
            "query": {"layer": 0, "seq": "a", "position": 8},
            "seen": seen,
            "keys": {"transformers": 8, "mlx-lm": 9},
            "meant": seen["transformers"],
        },
        seconds=0.5,
    )
    held: dict[str, object] = {
        "libraries": {"mlx-lm": "0.32.2", "transformers": "5.24.0"},
        "device": "cpu",
        "scenarios": ["fresh-within-window", "fresh-over-window", "as-saved"],
        "rows": [
            Row(family="llama", result="agree", noise={"transformers": 3e-6, "mlx-lm": 4e-6}),
            Row(family="mistral", result="differ", noise={"transformers": 3e-6, "mlx-lm": 4e-6}),
            Row(family="beam", result="lacks", library="mlx-lm", reason="mlx-lm has no family beam"),
            Row(family="dbrx", result="refused", library="transformers", reason="cannot be built"),
        ],
        "cells": [
            Cell(
                family="llama",
                scenario="fresh-over-window",
                result="agree",
                compared=19,
                largest=8e-6,
                tolerance=2e-4,
            ),
            Cell(family="llama", scenario="as-saved", result="own", library="transformers"),
            differing,
            Cell(family="mistral", scenario="as-saved", result="refused", library="mlx-lm", reason="not so"),
        ],
        "differences": [
            Difference(
                id="window-not-read",
                kind="visibility",
                library="mlx-lm",
                families=["mistral"],
                cells=[("mistral", "fresh-over-window")],
                cause="The window is not read.",
                where="mlx_lm/models/llama.py:42",
                largest=4.5,
                known=True,
            )
        ],
        "seconds": 3.0,
    }
    return Across(**(held | more))  # type: ignore[arg-type]
