"""The frame of a script's `Run`, with what a recorded program adds to a forward."""

from __future__ import annotations

from mlxdiag.audit.repro.parts import sampling
from mlxdiag.audit.repro.transformers import parts

_FEED = "def feed(self, held, rows):\n"
_REAL = "        real = torch.tensor([[token is not PAD for token in row] for row in rows.values()])\n"
_FORWARD = "        logits = forward(ids, held).float()\n"


def text(fresh: str, logits: str, *, masks: bool, hidden: bool, samples: bool, columns: bool) -> str:
    """The source of `Held`, `forward` and `Run`.

    `masks`: some forward is handed masks; `hidden`: the mask beside the cache hides all padding; `samples`: a
    token is sampled from another row than the last real one; `columns`: some forward is given a 2-D mask of
    fewer columns than there are tokens.
    """
    source = parts.RUN.format(fresh=fresh, logits=logits)
    more = []
    if not hidden:
        more.append("hidden=True")
        source = source.replace(
            _REAL, _REAL + "        if not hidden:  # the mask calls padding a token\n"
            "            real = torch.ones_like(real)\n"
        )  # fmt: skip
    if columns:
        more.append("columns=None")
        source = source.replace("def forward(ids, held=None):", "def forward(ids, held=None, columns=None):")
        source = source.replace(
            '        if not held.mask.all():\n            told["attention_mask"] = held.mask.long()\n',
            "        if columns is not None or not held.mask.all():\n"
            '            told["attention_mask"] = held.mask.long()[:, -(columns or 0) :]\n',
        )
        source = source.replace(_FORWARD, "        logits = forward(ids, held, columns).float()\n")
    if masks:
        more.append("masks={}")
        feed = "        logits = forward(ids, held, columns).float()\n" if columns else _FORWARD
        source = source.replace(
            feed, f"        Handed.masks = masks\n{feed}        Handed.masks = {{}}\n"
        )  # fmt: skip
    if samples:
        more.append("sampled={}")
        source = sampling(source)
    return source.replace(_FEED, _FEED.replace("rows)", ", ".join(["rows", *more]) + ")")) if more else source
