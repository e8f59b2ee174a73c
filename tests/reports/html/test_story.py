from mlxdiag.reports.html import story
from tests.reports.html.pages import BLIND, DECODE, told


def test_lanes_hold_the_steps_of_each_sequence():
    held = told(BLIND, DECODE, DECODE.replace("seq: a", "seq: b").replace("step: 2", "step: 3"))
    assert {name: list(lane.places) for name, lane in held.lanes.items()} == {"a": [0, 1], "b": [2]}
    assert held.steps == [1, 2, 3]


def test_lengths_are_what_the_trace_says():
    track = told(BLIND, DECODE).tracks["a", "sliding"]
    columns = dict(zip(story.COLUMNS, map(list, track.columns), strict=True))
    assert columns == {
        "offset": [0, 8],
        "live": [story.NONE, story.NONE],
        "keys": [8, 4],
        "mask": [4, story.NONE],
    }


def test_packed_rows_share_the_columns_of_one_mask():
    packed = (
        "- {step: 8, rows: [{seq: a, offset: 21, tokens: 1}, {seq: b, offset: 2, tokens: 1}], attention: "
        "[{family: full, cache: paged, offset: [21, 2], q: 2, k: [22, 3], mask: [1, 1, 2, 25]}]}\n"
    )
    short = packed.replace("2, 25]", "2, 24]")
    columns = [told(step).tracks["b", "full"].columns for step in (packed, short)]
    keys, mask = story.COLUMNS.index("keys"), story.COLUMNS.index("mask")
    assert [(list(one[keys]), list(one[mask])) for one in columns] == [([3], [3]), ([3], [24])]


def test_the_calls_of_findings_are_kept_however_many_there_are():
    many = [DECODE.replace("step: 2", f"step: {n}").replace("8", str(n)) for n in range(3, 300)]
    held = told(*many, BLIND.replace("step: 1", "step: 900"))
    assert len(held.calls) <= story.CALLS
    assert 900 in {call.entry.step for _, call in held.calls}


def test_lanes_beyond_the_limit_are_counted_once_each(monkeypatch):
    monkeypatch.setattr(story, "LANES", 2)
    steps = [
        f"- {{step: {n}, rows: [{{seq: s{n % 4}, offset: 0, tokens: 4}}], attention: []}}\n"
        for n in range(12)
    ]
    held = told(*steps)
    assert len(held.lanes) == 2
    assert len(held.hidden_lanes) == 2


def test_a_finding_without_a_step_number_is_found_by_its_place():
    held = told(DECODE.replace("step: 2, ", ""), BLIND.replace("step: 1, ", ""))
    (finding,) = [one for one in held.report.findings if one.code == "MD101"]
    assert held.place_of(finding) == 1


def test_parity_keeps_the_positions_it_compared():
    step = (
        "- {step: 1, rows: [{seq: a, offset: 6, tokens: 3}], output: [{parity: {reference: single-pass, "
        "max_abs: 0.5, first: 7, tolerance: 0.001, compared: 3}}]}\n"
    )
    (one,) = told(step).parity
    assert (one.start, one.stop, one.first, one.max_abs) == (6, 9, 7, 0.5)


def test_parity_stands_at_the_positions_of_the_tokens_where_padding_was_left_in_the_cache():
    """The call runs at 8, but the token sees itself at 6: two keys of padding lie before it."""
    step = (
        "- {step: 2, rows: [{seq: a, offset: 8, tokens: 1}], attention: [{family: full, offset: 8, q: 1, "
        "k: 9, first: [[0]], last: [[6]], visible: [[9]], padding: [[0, 0, -1], [0, 0, -1]]}], "
        "output: [{parity: {max_abs: 0.5, first: 6, tolerance: 0.001, compared: 1}}]}\n"
    )
    (one,) = told(step).parity
    assert (one.start, one.stop, one.first) == (6, 7, 6)


def test_an_unnumbered_step_is_found_behind_a_model_of_its_own():
    """Findings count the entries of the file, models included; places count steps."""
    model = "- {phase: model, name: other, layers: {sliding: {attention: sliding, window: 4}}}\n"
    held = told(DECODE.replace("step: 2, ", ""), model, BLIND.replace("step: 1, ", ""))
    (finding,) = [one for one in held.report.findings if one.code == "MD101"]
    assert held.place_of(finding) == 1
    assert 1 in {place for place, _ in held.calls}


def test_the_calls_of_errors_go_before_those_of_warnings(monkeypatch):
    """More harmless misfits than are drawn, each of layers of its own, then one that is not harmless."""
    monkeypatch.setattr(story, "CALLS", 4)
    families = [f"f{n}" for n in range(1, 9)]
    layers = ", ".join(f"{name}: {{attention: sliding, window: 4}}" for name in ("sliding", *families))
    harmless = BLIND.replace("fallback: sliced", "fallback: windowed")
    many = [
        harmless.replace("step: 1", f"step: {n}").replace("family: sliding", f"family: {name}")
        for n, name in enumerate(families, 1)
    ]
    held = told(
        *many, BLIND.replace("step: 1", "step: 900"), head=f"model: {{layers: {{{layers}}}}}\nsteps:\n"
    )
    severities = [one.severity for one in held.report.findings]
    assert severities.count("warning") == len(families) > story.CALLS
    assert severities.count("error") == 1
    assert 900 in {call.entry.step for _, call in held.calls}


def test_a_call_of_too_many_queries_is_not_drawn(monkeypatch):
    monkeypatch.setattr(story, "LARGEST_CALL", 4)
    held = told(BLIND, DECODE)
    assert {call.entry.step for _, call in held.calls} == {2}
    assert held.left_out == 0


def test_the_calls_that_are_not_drawn_are_counted():
    many = [DECODE.replace("step: 2", f"step: {n}").replace("8", str(n)) for n in range(8, 108)]
    held = told(*many)
    assert held.calls
    assert len(held.calls) + held.left_out == 2 * len(many)


def test_a_call_that_looks_wrong_goes_before_one_that_does_not(monkeypatch):
    """Of one fault the finding names the first step; the next ones only look like it."""
    monkeypatch.setattr(story, "CALLS", 4)
    right = BLIND.replace("[8, 4], fate: discarded, fallback: sliced", "[8, 8]")
    healthy = [right.replace("step: 1", f"step: {n}").replace("seq: a", f"seq: h{n}") for n in range(1, 9)]
    wrong = [BLIND.replace("step: 1", f"step: {n}").replace("seq: a", f"seq: w{n}") for n in (50, 51)]
    held = told(*healthy, *wrong)
    assert {one.step for one in held.report.findings} == {50}
    assert 51 in {call.entry.step for _, call in held.calls}


def test_sequences_that_findings_name_are_drawn_beyond_the_limits(monkeypatch):
    monkeypatch.setattr(story, "LANES", 2)
    monkeypatch.setattr(story, "TRACKS", 2)
    many = [DECODE.replace("step: 2", f"step: {n}").replace("seq: a", f"seq: s{n}") for n in range(4)]
    held = told(*many, BLIND.replace("step: 1", "step: 9").replace("seq: a", "seq: late"))
    assert "late" in held.lanes
    assert ("late", "sliding") in held.tracks
    assert held.hidden_lanes == {"s2", "s3"}
    assert held.hidden_tracks == {"s1", "s2", "s3"}


def test_a_row_of_a_mixed_batch_has_its_own_phase():
    held = told(
        "- {step: 1, phase: chunk, rows: [{seq: a, phase: decode, offset: 4, tokens: 1}, "
        "{seq: b, offset: 4, tokens: 4}]}\n"
    )
    assert {name: lane.kinds for name, lane in held.lanes.items()} == {"a": ["decode"], "b": ["chunk"]}
