"""Standalone scripts that show a fault of transformers with nothing but transformers and torch."""

from __future__ import annotations

from mlxdiag.audit.repro.transformers.assemble import compose

__all__ = ["compose"]
