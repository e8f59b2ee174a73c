import pytest

from mlxdiag.cli.settings import settle
from mlxdiag.errors import UsageError
from tests.cli.program import HEALTHY, SHORT_BUT_RIGHT, SHORT_MASK, call


def configure(folder, text):
    (folder / "pyproject.toml").write_text(text)


def test_the_command_line_wins_over_the_file_and_the_file_over_the_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert settle().format == "text"
    configure(tmp_path, '[tool.mlxdiag]\nformat = "json"\nselect = ["MD1"]\nfail-on = "warning"\n')
    settings = settle(select=["MD2"])
    assert (settings.format, settings.select, settings.fail_on) == ("json", ("MD2",), "warning")
    assert settle(format="sarif").format == "sarif"


def test_the_nearest_file_with_a_table_counts(tmp_path, monkeypatch):
    configure(tmp_path, '[tool.mlxdiag]\nformat = "json"\n')
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    configure(tmp_path / "a", "[tool.other]\n")
    monkeypatch.chdir(inner)
    assert settle().format == "json"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[tool.mlxdiag]\nfromat = 'json'\n", "has no key 'fromat'"),
        ("[tool.mlxdiag]\nformat = 7\n", "format must be text"),
        ("[tool.mlxdiag]\nselect = 'MD1'\n", "select must be a list of codes"),
        ("[tool.mlxdiag]\nselect = [1]\n", "select must be a list of codes"),
        ("[tool.mlxdiag]\nselect = ['MD8']\n", "begins with 'MD8'"),
        ("[tool.mlxdiag]\nfail-on = 'never'\n", "'never' is none of"),
        ("[tool.mlxdiag\n", "pyproject.toml"),
        ("[tool]\nmlxdiag = 3  # tool.mlxdiag\n", "must be a table"),
    ],
)
def test_a_wrong_table_is_a_usage_error_that_says_where(tmp_path, monkeypatch, text, told):
    monkeypatch.chdir(tmp_path)
    configure(tmp_path, text)
    with pytest.raises(UsageError, match=told.replace("(", r"\(")):
        settle()


def test_the_table_reaches_the_verb(trace, capsys, tmp_path):
    configure(tmp_path, "[tool.mlxdiag]\nfail-on = 'warning'\n")
    name = trace(HEALTHY, SHORT_BUT_RIGHT)
    assert call(capsys, "inspect", name).code == 1
    configure(tmp_path, "[tool.mlxdiag]\nignore = ['MD1']\n")
    assert call(capsys, "inspect", trace(HEALTHY, SHORT_MASK)).code == 0
    configure(tmp_path, "[tool.mlxdiag]\nnonsense = 1\n")
    assert call(capsys, "inspect", name).code == 2
