from mlxdiag.audit.engine.tasks import Described
from mlxdiag.reports.audit import listing

HELD = Described(
    families=("a", "b"), others={"base": "no model"}, libraries={"mlx-lm": "1"}, device="cpu", root="/"
)


def test_the_list_names_scenarios_families_and_what_is_no_family():
    found = listing.document(HELD, ["no-cache", "decode-across-window"], ["b"])
    out = listing.text(found)
    assert out.startswith("scenarios: 2\n  prefill\n    no-cache")
    assert "\n  decode\n    decode-across-window  token by token" in out
    assert "families: 1\n  b\n" in out
    assert "base: no model" in out
    assert [scenario["group"] for scenario in found["scenarios"]] == ["prefill", "decode"]
