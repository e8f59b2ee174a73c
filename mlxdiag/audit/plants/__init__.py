"""Faults put into the library in memory, to see whether the audit finds them."""
