"""Audits that the renderer tests share: one with faults, one clean, one that judged nothing, one hostile."""

from mlxdiag.audit.cell import Audit, Cell, Fault
from mlxdiag.audit.faults.against import Change, Comparison
from mlxdiag.audit.faults.baseline import Difference
from mlxdiag.reports.audit.shown import Shown

SCENARIOS = ("fresh-within-window", "chunks-below-window", "key-cap", "no-cache")
NASTY = '\x1b[31m::error::x|y]](http://e)\n::set-output name=a::b\r<b>&"\x00￾@all ##[add-mask]`'


def cell(family, scenario, result="pass", **more):
    return Cell(library="mlx-lm", family=family, scenario=scenario, result=result, seconds=0.25, **more)


WINDOW = Fault(
    id="gemma2-window",
    code="MD108",
    codes=["MD108", "MD302"],
    library="mlx-lm",
    families=["gemma2"],
    cells=[("gemma2", "chunks-below-window"), ("gemma2", "key-cap")],
    cause="One causal mask serves the sliding layers too.",
    where="mlx_lm/models/gemma2.py:176",
    oracles=["geometry", "visibility"],
    smallest="schema: mlxdiag.trace/1\nsteps:\n- {}\n",
    schedule="prefill 9 (window 8)",
    positions=[8],
    first=8,
    max_abs=1.5,
    tolerance=0.001,
    known=True,
)
ABORT = Fault(
    id="md902-old-1a2b3c",
    code="MD902",
    codes=["MD902"],
    library="mlx-lm",
    families=["old"],
    cells=[("old", "no-cache")],
    cause="the process died of SIGABRT: bad gather",
    repro="md902-old-1a2b3c.py",
)


def faulty() -> Audit:
    cells = [
        cell("gemma2", SCENARIOS[0]),
        cell(
            "gemma2",
            SCENARIOS[1],
            "fail",
            oracles=["geometry", "visibility"],
            signature=WINDOW.id,
            reason="r1",
            trace="steps: []\n",
            codes=["MD108"],
        ),
        cell("gemma2", SCENARIOS[2], "fail", oracles=["parity"], signature=WINDOW.id, reason="r2"),
        cell("gemma2", SCENARIOS[3], "unsupported", reason="needs a cache"),
        *(cell("llama", name) for name in SCENARIOS[:2]),
        cell("llama", SCENARIOS[2], excuse="sinks", reason="Sinks are kept by design."),
        cell("llama", SCENARIOS[3], "skipped", reason="nothing to do"),
        *(cell("metal", name, "skipped", reason="metal runs on Metal only") for name in SCENARIOS),
        *(cell("old", name) for name in SCENARIOS[:3]),
        cell("old", SCENARIOS[3], "crash", codes=["MD902"], signature=ABORT.id, reason=ABORT.cause),
    ]
    return Audit(
        libraries={"mlx": "0.32.4", "mlx-lm": "0.32.2"},
        device="cpu",
        families=126,
        cells=cells,
        faults=[WINDOW, ABORT],
        notes=["stale cause gone: a.py does not hold 'x'"],
        seconds=12.5,
    )


def crashing(reason, *others, known=True, cause="The layer asks a list for its shape."):
    """A fault over cells with these reasons, the first of which crashes, and what is shown of it alone."""
    cells = [cell("old", SCENARIOS[0], "crash", reason=reason)]
    cells += [
        cell("old", name, "fail", reason=text) for name, text in zip(SCENARIOS[1:], others, strict=False)
    ]
    fault = Fault(
        id="old-list",
        code="MD402",
        library="mlx-lm",
        families=["old"],
        cells=[(one.family, one.scenario) for one in cells],
        cause=cause,
        known=known,
    )
    audit = Audit(libraries={"mlx-lm": "0.32.2"}, device="cpu", families=1, cells=cells, faults=[fault])
    return fault, Shown(audit=audit)


def clean() -> Audit:
    return Audit(
        libraries={"mlx-lm": "0.32.2"},
        device="cpu",
        families=1,
        cells=[cell("llama", name) for name in SCENARIOS],
    )


def blind() -> Audit:
    cells = [cell("metal", name, "skipped", reason="metal runs on Metal only") for name in SCENARIOS]
    return Audit(libraries={"mlx-lm": "0.32.2"}, device="cpu", families=1, cells=cells)


def hostile() -> Audit:
    """Names and texts that a reader might obey; a library's error text is a stranger's."""
    fault = Fault(
        id="x",
        code="MD901",
        library="mlx-lm",
        families=[NASTY],
        cells=[(NASTY, "no-cache")],
        cause=NASTY,
        where="mlx_lm/models/a b.py:3",
    )
    cells = [cell(NASTY, "no-cache", "crash", signature="x", reason=NASTY, trace=NASTY)]
    return Audit(libraries={"mlx-lm": NASTY}, device="cpu", families=1, cells=cells, faults=[fault])


DIFFERENCE = Difference(
    accepted=[WINDOW.id],
    new_faults=[ABORT.id],
    new_cells={WINDOW.id: ["gemma2/key-cap"]},
    fixed_faults=["long-gone"],
)
ACCEPTED = Difference(accepted=[WINDOW.id], new_faults=[ABORT.id], fixed_faults=["long-gone"])
COMPARISON = Comparison(
    other={"mlx-lm": "0.31.3", "mlxdiag": "1"},
    broke=[Change(family="old", scenario="no-cache", before="pass", after="crash", reason="it died")],
    skipped=[
        Change(
            family="old",
            scenario="key-cap",
            before="skipped",
            after="fail",
            reason="a key is lost",
            skip="it has no cap",
        )
    ],
    differs=[Change(family="new", scenario="no-cache", before="", after="pass")],
    same=7,
    new_faults=[ABORT.id],
)


def shown(audit=None, **more) -> Shown:
    return Shown(audit=audit or faulty(), **more)
