"""A trace in two libraries, from the trace to the report."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import msgspec
import pytest

from mlxdiag.audit.across import replayed
from mlxdiag.audit.across.compared import Unlike
from mlxdiag.errors import UnjudgedError
from mlxdiag.inspect.findings import Report
from mlxdiag.models import convert
from mlxdiag.models.convert.rows import row
from mlxdiag.models.convert.write import republished, saved
from mlxdiag.replay import experiment
from mlxdiag.replay.experiment import Prepared
from mlxdiag.traces.types import Entry, Header, Model, Row, Trace
from tests.audit.across.models import pair

SOURCE = "here.yaml"


def prepared(architecture: str, config: dict[str, object] | None = None, *feeds: int) -> Prepared:
    steps, offset = [], 0
    for step, tokens in enumerate(feeds or (6, 5, 1, 1), 1):
        steps.append(Entry(step=step, rows=[Row(seq="a", offset=offset, tokens=tokens)]))
        offset += tokens
    trace = Trace(Header(model=Model(architecture=architecture, config=config)), steps)
    return experiment.prepare(trace, source=SOURCE, backend="torch")


def run(plan: Prepared) -> tuple[replayed.Replayed, Report]:
    found = replayed.replay(plan, replayed.instances_for(plan), ("strict",))
    return found, replayed.report(found, SOURCE, {"MD403"})


@cache
def mistral_run() -> tuple[replayed.Replayed, Report]:
    return run(prepared("mistral", mistral()))


def mistral() -> dict[str, object]:
    return dict(pair("mistral").torch.config)


def test_two_that_are_right_agree_and_say_how_near() -> None:
    plan = prepared("gemma3_text", {"sliding_window": 4, "num_hidden_layers": 6})
    found, report = run(plan)
    assert report.findings == []
    assert report.source == "here.yaml (transformers against mlx-lm)"
    assert "transformers and mlx-lm agree: 13 positions within" in report.sections[0].lines[0]
    assert [side.library for side in found.sides] == ["transformers", "mlx-lm"]
    assert [side.ran[0].outcome.first_wrong for side in found.sides] == [None, None]
    assert found.compared.queries > 0


def test_a_window_that_one_side_does_not_read_is_told_with_the_keys() -> None:
    _, report = mistral_run()
    (finding,) = report.findings
    assert (finding.code, finding.severity, finding.step, finding.seq) == ("MD403", "error", 2, "a")
    assert finding.evidence["kind"] == "visibility"
    assert (finding.evidence["layer"], finding.evidence["query"]) == (0, 8)
    assert (finding.evidence["seen"], finding.evidence["seen_there"]) == ([0, 8], [1, 8])
    assert "position 8 sees 0-8 here and 1-8 there" in finding.message
    assert report.sections[0].lines[1] == (
        "Layer 0, position 8: transformers sees 1-8, mlx-lm sees 0-8; the config means 1-8."
    )


def test_the_second_runs_trace_holds_the_first_one_as_its_reference() -> None:
    found, _ = mistral_run()
    parities = [output.parity for entry in found.trace.entries for output in entry.output or []]
    assert [parity.reference for parity in parities if parity is not None] == ["transformers"] * 4
    assert [parity.first for parity in parities if parity is not None] == [None, 8, 11, 12]


@pytest.mark.parametrize(("kind", "later"), [("precision", "precision"), ("experts", None)])
def test_what_is_only_rounded_is_called_so_at_every_step(kind: str, later: str | None) -> None:
    """Of other kinds only the first wrong row tells: behind it all is wrong for the same reason."""
    found, _ = mistral_run()
    trace = replayed.traced(found.sides[1].ran[0].trace, found.compared, None, kind)
    parities = [output.parity for entry in trace.entries for output in entry.output or []]
    assert [parity.kind for parity in parities if parity is not None] == [None, kind, later, later]


def test_the_query_that_is_told_is_the_one_that_made_the_position_wrong() -> None:
    found, _ = mistral_run()
    first = found.compared.first
    assert first is not None
    # In the same forward layer 0 sees other keys behind the first wrong position, layer 2 at it.
    later = Unlike(first.place, 0, "a", first.position + 1, (9,), (8, 9))
    cause = Unlike(first.place, 2, "a", first.position, (7, 8), (6, 7, 8))
    compared = msgspec.structs.replace(found.compared, unlike=(later, cause))
    trace = replayed.traced(found.sides[1].ran[0].trace, compared, None, "visibility")
    parities = [output.parity for entry in trace.entries for output in entry.output or []]
    told = next(parity for parity in parities if parity is not None and parity.layer is not None)
    assert (told.layer, told.query, told.seen, told.seen_there) == (2, 8, [6, 8], [7, 8])
    report = replayed.report(msgspec.structs.replace(found, compared=compared), SOURCE, {"MD403"})
    verdict = next(section for section in report.sections if section.name == "across")
    assert verdict.lines[-1].startswith("Layer 2, position 8: transformers sees 7-8, mlx-lm sees 6-8")


def test_a_rule_that_is_not_chosen_is_counted_as_hidden() -> None:
    report = replayed.report(mistral_run()[0], SOURCE, set())
    assert (report.findings, report.summary.hidden, report.summary.errors) == ([], 1, 0)


@pytest.mark.parametrize(
    ("family", "said"), [("beam", "mlx-lm 0.* has no family beam"), ("minimax", "is MiniMax-M2")]
)
def test_one_library_alone_is_nothing_to_compare(family: str, said: str) -> None:
    from mlxdiag.models.torch import zoo

    instance = zoo.tiny(family)
    assert not isinstance(instance, convert.Apart)
    plan = prepared(family, dict(instance.config))  # type: ignore[union-attr]
    with pytest.raises(UnjudgedError, match=f"{said}.*nothing to compare"):
        replayed.instances_for(plan)


def test_a_checkpoint_is_read_by_both_as_it_is(tmp_path: Path) -> None:
    source = saved(pair("gemma3_text").torch.model, tmp_path / "saved")
    folder = republished(source, tmp_path / "published", row("gemma3_text"))
    config = json.loads((folder / "config.json").read_text())
    plan = prepared("gemma3_text", config, 12, 1)
    instances = replayed.instances_for(plan, model_dir=folder)
    found = replayed.replay(plan, instances, ("strict",))
    assert [one.name for one in instances] == ["published", "published"]
    assert (found.compared.count, found.compared.first) == (13, None)


def test_a_checkpoint_that_one_library_cannot_run_is_nothing_to_compare(tmp_path: Path) -> None:
    # mlx-lm reads no layer_types, and looks for a full layer where its own pattern has one: behind the last.
    folder = saved(pair("gemma3_text").torch.model, tmp_path / "saved")
    plan = prepared("gemma3_text", json.loads((folder / "config.json").read_text()))
    instances = replayed.instances_for(plan, model_dir=folder)
    with pytest.raises(UnjudgedError, match="saved: mlx-lm fails in a short pass: IndexError: "):
        replayed.replay(plan, instances, ("strict",))


@pytest.mark.parametrize("field", ["quantization", "quantization_config"])
def test_quantised_weights_are_refused_before_anything_is_read(field: str, tmp_path: Path) -> None:
    plan = prepared("mistral", {**mistral(), field: {"bits": 4, "group_size": 64}})
    with pytest.raises(UnjudgedError, match=f"quantised .config field {field}.*give the checkpoint"):
        replayed.instances_for(plan, model_dir=tmp_path)
