"""The judgement: geometry, visibility, token streams and the rules. No framework, no file, no output.

Start at `inspector.Inspector` (one entry at a time) or `inspector.inspect_trace` (a whole trace).
"""
