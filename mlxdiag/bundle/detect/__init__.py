"""The detector, which looks at a finished bundle and shares no code with `redact`, which cleaned it.

Start at `detector.scan`. It knows `facts` of this machine, tries every piece of a line in `tokens_of` (with
`noise`, `spelt`, `numbers_in` and `rows_in`), looks for human writing in `prose`, and for numbers of the
structured parts in `figures`.
"""
