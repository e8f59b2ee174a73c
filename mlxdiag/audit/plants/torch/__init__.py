"""Faults put into transformers in memory, to see whether the audit finds them: see `plants.plant`."""
