"""Reports that the renderer tests share: one like the first sample's, one clean, one blind, one hostile."""

from mlxdiag.inspect.findings import Finding, Report, Section, Summary

SHORT = Finding(
    code="MD101",
    name="mask-shorter-than-keys",
    severity="error",
    message="The mask covers 160 keys, the layer returned 671.",
    step=5,
    seq="seq-6",
    family="sliding",
    evidence={"q": 160, "k": 671, "mask": [160, 160]},
    cause=["MD105 mask-from-stale-offset: built with offset 0 where 2048 were held"],
    count=35,
    hint="mlxdiag replay trace.yaml",
)
PADS = Finding(
    code="MD504",
    name="all-padding-chunk",
    severity="warning",
    message="Row 1 is padding only.",
    rests_on="run",
    step=6,
)
GUARD = Finding(
    code="MD905",
    name="guard-refused",
    severity="info",
    message="The engine prefilled again.",
    rests_on="run",
)
POLICIES = Section(
    name="policies",
    title="What a consumer does with the mask",
    lines=["The discarded mask changes nothing."],
    header=["policy", "crash", "empty rows", "parity"],
    rows=[["strict", True, None, None], ["discard:windowed", False, 0, 1.5e-06]],
    data={"seed": 0},
)


def faulty() -> Report:
    return Report(
        source="runs/a.yaml",
        findings=[SHORT, PADS, GUARD],
        summary=Summary(steps=13, calls=24, judged=22, not_observed=2, errors=1, warnings=1, infos=1),
        sections=[POLICIES],
    )


def clean() -> Report:
    return Report(source="b.yaml", summary=Summary(steps=3, calls=6, judged=6))


def blind() -> Report:
    return Report(source="c.yaml", summary=Summary(steps=2, calls=4, not_observed=4))


NASTY = '\x1b[31m::error::x|y]](http://e)\n::set-output name=a::b\r<b>&"\x00\ufffe@all ##[add-mask]`'


def hostile() -> Report:
    """Every text that comes from a trace is an attack on some format."""
    finding = Finding(
        code="MD101",
        name="mask-shorter-than-keys",
        severity="error",
        message=NASTY,
        step=1,
        seq=NASTY,
        family=NASTY,
        evidence={NASTY: NASTY, "list": list(range(100))},
        cause=[NASTY],
        hint=NASTY,
    )
    section = Section(name="s", title=NASTY, lines=[NASTY], header=[NASTY], rows=[[NASTY]])
    summary = Summary(steps=1, calls=1, judged=1, errors=1, notes=[NASTY])
    return Report(source=NASTY, findings=[finding], summary=summary, sections=[section])
