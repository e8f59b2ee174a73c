"""Traces from foreign logs: one file a format, all of them listed in `registry.IMPORTERS`.

Only lengths, offsets, shapes, counters and token classes are taken over. Texts, prompts, token ids, paths,
names of hosts and of users stay behind: nothing of a line is copied into a trace that a pattern here did not
single out, and identifiers are replaced by labels. What a log does not say and a trace needs is worked out
only where it follows, and every such field is named in the entry's note and in `source.inferred`.
"""
