import re

from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.reports.html import trace_page
from mlxdiag.reports.html.page import section
from mlxdiag.traces.reader import parse
from tests.reports.examples import POLICIES
from tests.reports.html.pages import ATTACK, BLIND, DECODE, HEAD, Page, rendered


def test_the_verdict_comes_first_then_what_is_wrong_then_the_call():
    read = Page(rendered(BLIND, DECODE))
    assert read.faults == []
    assert [attributes["id"] for attributes in read.all("section")][:2] == ["findings", "masks"]
    assert read.text.index("1 error") < read.text.index("MD101") < read.text.index("key position")


def test_a_clean_trace_says_so_and_still_shows_a_call():
    read = Page(rendered(BLIND.replace("[8, 4], fate: discarded, fallback: sliced", "[8, 8]"), DECODE))
    assert "clean: no rule fired" in read.text
    assert read.all("section", id="masks")
    assert not read.all("section", id="findings")


def test_a_trace_without_calls_has_no_pictures_and_is_not_called_clean():
    read = Page(rendered("- {step: 1, rows: [{seq: a}]}\n"))
    assert "not the same as clean" in read.text
    assert not read.all("section", id="masks")


def test_an_empty_trace_is_a_page():
    assert Page(rendered(head="schema: mlxdiag.trace/1\nsteps:\n")).faults == []


def test_the_call_of_the_finding_is_the_one_chosen():
    text = rendered(DECODE.replace("step: 2", "step: 1"), BLIND.replace("step: 1", "step: 2"))
    (chosen,) = re.findall(r"<option[^>]* selected>([^<]*)", text)
    assert chosen.startswith("step 2 · prefill · sliding")


def test_no_text_of_a_trace_becomes_markup_or_script():
    """Every string that a stranger writes: names, notes, errors, sources, configs."""
    quoted = ATTACK.replace("\\", "\\\\").replace('"', '\\"')
    head = (
        f'note: "{quoted}"\nsource: {{program: "{quoted}", version: "{quoted}", "{quoted}": "{quoted}"}}\n'
        f'environment: {{os: "{quoted}", libraries: {{"{quoted}": "{quoted}"}}}}\nplanted: "{quoted}"\n'
        f'model: {{name: "{quoted}", architecture: "{quoted}", layers: {{"{quoted}": {{attention: sliding, '
        f"window: 4}}}}}}\nsteps:\n"
    )
    steps = (
        DECODE
        + BLIND.replace("family: sliding", f'family: "{quoted}"').replace("seq: a", f'seq: "{quoted}"')
        + (f'- {{step: 2, error: {{text: "{quoted}", where: "{quoted}"}}}}\n')
    )
    attacked = Page(rendered(steps, head=head, source=ATTACK))
    assert attacked.faults == []
    assert len(attacked.all("script")) == 3  # two of ours, one of data
    assert not attacked.all("img")
    assert not [name for _, attributes in attacked.elements for name in attributes if name.startswith("on")]
    assert attacked.text.count("alert(1)") > 5


def test_every_drawing_has_its_words():
    read = Page(rendered(BLIND, DECODE))
    pictures = read.all("svg") + read.all("div", role="img")
    assert pictures
    assert all(one.get("aria-label") for one in pictures if one.get("aria-hidden") != "true")
    assert len(read.all("details")) >= len(read.all("figure"))


def test_equal_traces_are_equal_pages():
    assert rendered(BLIND, DECODE) == rendered(BLIND, DECODE)


def test_a_long_decode_stays_small():
    steps = [
        f"- {{step: {n}, rows: [{{seq: a, offset: {n}, tokens: 1}}], attention: [{{family: full, "
        f"offset: {n}, k: {n + 1}, mask: null}}]}}\n"
        for n in range(1, 2001)
    ]
    assert len(rendered(*steps)) < len(rendered(*steps[:200])) * 1.1


def test_what_a_report_says_beside_its_findings_is_shown():
    trace = parse(HEAD + BLIND)
    report = inspect_trace(trace)
    report.sections.append(POLICIES)
    text = Page(trace_page.render(trace.header, trace.entries, report)).text
    assert "The discarded mask changes nothing." in text
    assert "1.5e-06" in text


def chosen(*steps):
    return re.findall(r"<option[^>]* selected>([^<]*)", rendered(*steps))[0]


def test_the_drawing_that_bears_a_finding_out_is_chosen():
    """The mask of step 1 was not read: its drawing shows what is due and nothing wrong."""
    unread = (
        "- {step: 1, rows: [{seq: b, offset: 0, tokens: 8}], attention: [{family: full, offset: 0, k: 8, "
        "mask: [8, 4]}]}\n"
    )
    assert chosen(unread) == "step 1 · prefill · full · b"
    assert chosen(unread, BLIND.replace("step: 1", "step: 2")) == "step 2 · prefill · sliding · a"


def test_of_a_step_the_layers_that_the_finding_names_are_chosen():
    both = (
        "- {step: 1, rows: [{seq: a, offset: 0, tokens: 8}], attention: [{family: sliding, offset: 0, k: 8, "
        "mask: [8, 8]}, {family: full, offset: 0, k: 8, mask: [8, 4]}]}\n"
    )
    assert chosen(both) == "step 1 · prefill · full · a"


def test_of_a_clean_trace_the_call_that_reaches_furthest_is_chosen():
    right = (
        "- {{step: {}, rows: [{{seq: a, offset: {}, tokens: 4}}], attention: [{{family: sliding, offset: {}, "
        "k: {}, mask: [4, {}]}}]}}\n"
    )
    assert chosen(right.format(1, 0, 0, 4, 4), right.format(2, 4, 4, 7, 7)).startswith("step 2 ")


def test_what_the_header_says_is_shown():
    head = (
        "source: {program: server, version: '0.4', importer: log}\n"
        "environment: {os: macOS 26, libraries: {mlx: 0.32.1}}\nscheduler: {chunk: 512}\n"
    )
    text = rendered(BLIND, DECODE, head=head + HEAD)
    pairs = dict(re.findall(r"<div><dt>(.*?)</dt><dd>(.*?)</dd></div>", text.split('class="facts"')[1]))
    assert [pairs[name] for name in ("program", "model", "libraries", "machine", "importer")] == [
        "server 0.4",
        "tiny (gemma3_text)",
        "mlx 0.32.1",
        "macOS 26",
        "log",
    ]
    assert "<td>sliding</td><td>sliding</td><td>–</td><td>4</td>" in text
    assert "<td>chunk</td><td>512</td>" in text


def test_what_limits_the_judgement_is_said():
    trace = parse(HEAD + BLIND)
    report = inspect_trace(trace)
    report.summary.truncated = True
    report.summary.notes.append("a note of its own")
    text = Page(trace_page.render(trace.header, trace.entries, report)).text
    assert "The trace is cut off" in text
    assert "Note: a note of its own" in text


def test_what_stands_beside_the_trace_follows_the_findings():
    trace = parse(HEAD + BLIND + DECODE)
    text = trace_page.render(trace.header, trace.entries, inspect_trace(trace), section("tried", "Tried"))
    assert [one["id"] for one in Page(text).all("section")][:4] == ["findings", "masks", "tried", "steps"]
