from mlxdiag.reports.locate import lines_of_steps

FLOW = """schema: mlxdiag.trace/1
steps:
- {"phase": "model", "name": "step: 7"}
- {"step": 5, "phase": "chunk"}
- {"phase": "decode", "step": 6, "rows": [{"seq": "a"}]}
- {"step": 5}
"""
BLOCK = """schema: mlxdiag.trace/1
steps:
- step: 5
  phase: chunk
-
  phase: decode
  step: 6
"""


def test_flow_and_block_style_lines_are_found(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text(FLOW)
    assert lines_of_steps(path, {5, 6}) == {5: 4, 6: 5}
    path.write_text(BLOCK)
    assert lines_of_steps(path, {5, 6}) == {5: 3, 6: 7}


def test_what_cannot_be_found_is_left_out(tmp_path):
    path = tmp_path / "t.yaml"
    assert lines_of_steps(path, {5}) == {}
    path.write_bytes(b"\x28\xb5\x2f\xfd\x00\xff")
    assert lines_of_steps(path, {5}) == {}
