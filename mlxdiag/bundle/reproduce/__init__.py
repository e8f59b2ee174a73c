"""The smallest schedule that fails, the nearest that passes, and what else was tried around the fault."""
