"""The experiment: a trace's schedule on real model code, compared with a single pass of the same tokens.

`plan.lay` makes a trace into ops (pure data); `run.Runner` carries them out under the probe and writes
another trace; `experiment` ties plan, model and misfit policies together; `verdict` says what came out.
"""
