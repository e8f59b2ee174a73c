"""Run an unmodified program under the probe: launcher, start-up hook, scheduler hooks, ring.

`launcher` starts the program; `startup/sitecustomize.py` and `hook` wait in it for mlx-lm; `session` puts the
probe in and installs the hooks; `recorder` turns what they say into lines of a trace.
"""
