"""One small trace, in two styles and as objects."""

from __future__ import annotations

import msgspec

from mlxdiag.traces.types import Attention, Entry, Header, Row, Trace

# The example of the format's description, in the style a recorder writes.
LINES = """\
schema: mlxdiag.trace/1
source: {program: mlxcel-server, version: 0.4.1}
scheduler: {chunk: 512, pad_to: 32, max_kv: null, misfit: "discard:windowed"}
steps:
- {"step": 5, "phase": "chunk", "rows": [{"seq": "seq-6", "offset": 2048, "tokens": 153, "padded": 160}], "at\
tention": [{"family": "sliding", "q": 160, "k": 671, "mask": [160, 160]}, {"family": "full", "mask": null}]}
- {"step": 6, "phase": "decode", "rows": [{"seq": "seq-6", "offset": 2208, "tokens": 1}]}
"""

BLOCK = """\
# written by hand
--- # one document
schema: mlxdiag.trace/1
source:
  program: mlxcel-server
  version: 0.4.1
scheduler: {chunk: 512, pad_to: 32,
            misfit: discard:windowed}

steps:   # two of them

  - step: 5
    phase: chunk
    rows:
      - seq: seq-6
        offset: 2048
        tokens: 153

        padded: 160
    # the call in question
    attention:
      - {family: sliding, q: 160, k: 671,
         mask: [160, 160]}
      - {family: full, mask: null}
  - {step: 6, phase: decode, "rows": [{seq: seq-6, 'offset': 2208, tokens: 1}]}  # decode
...
"""


def both() -> Trace:
    scheduler = {"chunk": 512, "pad_to": 32, "misfit": "discard:windowed"}
    source = {"program": "mlxcel-server", "version": "0.4.1"}
    header = msgspec.convert({"source": source, "scheduler": scheduler}, Header)
    sliding = Attention(family="sliding", q=160, k=671, mask=(160, 160))
    row = Row(seq="seq-6", offset=2048, tokens=153, padded=160)
    five = Entry(step=5, phase="chunk", rows=[row], attention=[sliding, Attention(family="full", mask=None)])
    six = Entry(step=6, phase="decode", rows=[Row(seq="seq-6", offset=2208, tokens=1)])
    return Trace(header, [five, six])
