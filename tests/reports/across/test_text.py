from mlxdiag.reports.across.text import render
from tests.reports.across.made import across


def test_the_table_has_a_sign_for_each_cell() -> None:
    lines = render(across()).split("\n")
    assert lines[0] == (
        "mlx-lm 0.32.2 and transformers 5.24.0 on the same weights, on cpu: 1 difference in 1 of 2 families "
        "that could be compared"
    )
    assert "llama   .  o" in lines
    assert "mistral D  r" in lines
    assert "  2  as-saved           the folder that transformers 5 writes" in "\n".join(lines)


def test_a_difference_names_its_side_its_line_and_its_keys() -> None:
    text = render(across())
    assert "MD403 window-not-read: queries see other keys" in text
    assert "departs: mlx-lm, mlx_lm/models/llama.py:42" in text
    assert "cause: The window is not read." in text
    assert "layer 0, position 8: the config means 8 keys, 1 to 8; keys seen: transformers 8, mlx-lm 9" in text
    assert "faults of transformers's own, told by its own table: as-saved (1)" in text
