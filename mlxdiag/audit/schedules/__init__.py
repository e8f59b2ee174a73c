"""What each path by which a scheduler reaches a model looks like, as a trace. Pure."""
