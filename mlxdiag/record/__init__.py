"""Run an unmodified program under the probe: launcher, start-up hook, ring, and a room for each library.

`launcher` starts the program; `startup/sitecustomize.py` and `hook` wait in it for a library of `followed`;
`session` has it followed: `mlx` and `torch` put the probe in and hook what schedules forwards; `recorder`
turns what they say into lines of a trace, and knows no library.
"""
