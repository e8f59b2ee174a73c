"""Every family of an installed library through every scheduling path, judged by three oracles.

A *scenario* makes a trace by hand of what a scheduler would do; `replay` turns it into a plan and runs it on
the family's own code at a tiny size; what comes out is one *cell* of the table. Cells that fail for one cause
are one *fault*.
"""
