"""The bug report: what a maintainer needs to see a fault, and nothing of the reporter's.

Every part of it goes through an allow-list first (`redact.fields` for traces, `redact.message` and
`redact.lines` for text), and the finished archive through `detect.detector`, which shares neither code nor
patterns with them. Nothing here uploads anything.
"""
