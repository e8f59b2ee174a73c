"""The face: one file per verb. Only here is anything printed, parsed from argv, or exited."""
