from mlxdiag.reports.audit import markdown
from tests.reports.audit.examples import ACCEPTED, COMPARISON, DIFFERENCE, blind, hostile, shown


def rows(out, begin):
    return [line for line in out.splitlines() if line.startswith(begin)]


def test_every_family_has_its_row():
    out = markdown.render(shown())
    assert rows(out, "| gemma2 |") == ["| gemma2 | `.` | `gv` | `p` | `u` |"]
    assert rows(out, "| llama |") == ["| llama | `.` | `.` | `e` | `-` |"]
    assert rows(out, "| metal |") == ["| metal | `-` | `-` | `-` | `-` |"]


def test_every_row_of_a_table_has_as_many_columns_as_its_head():
    lines = markdown.render(shown()).splitlines()
    table = lines[lines.index("| family | 1 | 2 | 3 | 4 |") :]
    body = table[: table.index("")]
    assert {line.count("|") for line in body} == {6}


def test_faults_excuses_refusals_and_skips_have_their_own_parts():
    out = markdown.render(shown())
    titles = ["Faults", "Looks wrong, and is not", "Skipped families", "Refused by the library"]
    for title in [*titles, "Skipped cells"]:
        assert f"\n## {title}\n" in out
    assert "- where: mlx\\_lm/models/gemma2.py:176" in out
    assert "```yaml\nschema: mlxdiag.trace/1\nsteps:\n- {}\n```" in out
    assert "- sinks (llama; key-cap): Sinks are kept by design." in out
    assert "needs a cache: gemma2/no-cache" in out


def test_baseline_and_other_copy_are_told():
    out = markdown.render(shown(difference=DIFFERENCE, comparison=COMPARISON))
    assert "### gemma2-window (changed)" in out
    assert "- against mlx-lm 0.31.3: 1 broke" in out


def test_what_is_new_comes_before_the_table_and_what_is_accepted_is_one_line():
    out = markdown.render(shown(difference=ACCEPTED))
    order = [
        "- baseline: new: md902",
        "### md902",
        "## Families and scenarios",
        "## Accepted by the baseline",
    ]
    places = [out.index(part) for part in order]
    assert places == sorted(places)
    line = "- gemma2-window  MD108 window-not-enforced  2 cells  mlx\\_lm/models/gemma2.py:176"
    assert out.split("## Accepted by the baseline\n\n")[1].splitlines()[0] == line
    assert "### gemma2-window" not in out
    assert "### gemma2-window (accepted)" in markdown.render(shown(difference=ACCEPTED, unfold=True))


def test_nothing_judged_is_said_in_the_first_lines():
    assert "not the same as clean" in markdown.render(shown(blind())).split("##")[0]


def test_hostile_text_formats_nothing():
    out = markdown.render(shown(hostile()))
    assert "<b>" not in out
    assert "\x1b" not in out
    assert "@all" not in out
    assert "](http" not in out.replace("\\](", "")
