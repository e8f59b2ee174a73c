"""The same message, another fault: the frame tells."""

from __future__ import annotations

import pytest

from mlxdiag.errors import UnreadableError
from tests.traces.importers.reading import imported, report_on, steps_of

SITE = "/opt/venv/lib/python3.12/site-packages"


def raised(error, *frames, start="Traceback (most recent call last):"):
    lines = [start]
    for path, function in frames:
        lines += [f'  File "{path}", line 118, in {function}', "    something(that, was, called)"]
    return "\n".join([*lines, error])


MINE = ("/home/jane/secret_project/run.py", "launch_secret")
MERGE = raised(
    "ValueError: [broadcast_shapes] Shapes (1,8,96,128) and (1,8,256,128) cannot be broadcast.",
    MINE,
    (f"{SITE}/mlx_lm/models/cache.py", "merge"),
)
SDPA = raised(
    "ValueError: [broadcast_shapes] Shapes (1,300) and (1,32,1,301) cannot be broadcast.",
    MINE,
    (f"{SITE}/mlx_lm/models/base.py", "scaled_dot_product_attention"),
)
TORCH = raised(
    "RuntimeError: The size of tensor a (1024) must match the size of tensor b (128) "
    "at non-singleton dimension 3",
    (f"{SITE}/transformers/models/gemma3/modeling_gemma3.py", "eager_attention_forward"),
)
QUERIES = raised(
    "ValueError: [broadcast_shapes] Shapes (7,64) and (1,8,5,64) cannot be broadcast.",
    (f"{SITE}/mlx_lm/models/base.py", "scaled_dot_product_attention"),
)


def axis(text):
    (finding,) = report_on(text).findings
    assert finding.code == "MD901"
    return finding.evidence["axis"]


def test_a_merge_is_of_a_cache_and_its_length():
    (step,) = steps_of(MERGE)
    assert step["error"]["where"] == "mlx_lm.models.cache.merge"
    assert "attention" not in step
    assert axis(MERGE) == "length"


def test_attention_is_of_a_mask_and_its_keys():
    (step,) = steps_of(SDPA)
    assert step["error"]["where"] == "mlx_lm.models.base.scaled_dot_product_attention"
    assert step["attention"] == [{"q": 1, "k": 301, "mask": [1, 300], "fate": "rejected"}]
    assert axis(SDPA) == "keys"


def test_torch_names_the_axis_and_the_scores_come_first():
    (finding,) = report_on(TORCH).findings
    assert (finding.evidence["axis"], finding.evidence["sizes"]) == ("keys", [128, 1024])


def test_the_query_axis_is_another_fault():
    assert axis(QUERIES) == "queries"


def test_shapes_that_would_pass_for_a_mask_are_none_in_a_frame_of_a_cache():
    text = raised(
        "ValueError: [broadcast_shapes] Shapes (1,1,96,128) and (1,8,96,64) cannot be broadcast.",
        (f"{SITE}/mlx_lm/models/cache.py", "update_and_fetch"),
    )
    (step,) = steps_of(text)
    assert "attention" not in step


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("ValueError: [reshape] Cannot infer the shape of an empty array", "MD901"),
        ("ValueError: [take] Cannot do a non-empty take from an array with zero elements.", "MD901"),
        ("ValueError: [full] Negative dimensions not allowed.", "MD901"),
        ("ValueError: [rope] offset must be a scalar or vector with 16 elements but has shape (4).", "MD901"),
        ("ValueError: Cannot broadcast array of shape (1,8,4,256) into shape (1,8,1029,256).", "MD901"),
        ("NotImplementedError: RotatingKVCache Quantization NYI", "MD904"),
        ("ValueError: Out of range float values are not JSON compliant: nan", "MD401"),
        ("RuntimeError: probability tensor contains either `inf`, `nan` or element < 0", "MD401"),
    ],
)
def test_message_families(error, code):
    (finding,) = report_on(raised(error, MINE)).findings
    assert finding.code == code or any(cause.startswith(code) for cause in finding.cause)


def test_a_wrapped_error_is_one_fault():
    chained = SDPA + "\n\nDuring handling of the above exception, another exception occurred:\n\n" + SDPA
    assert len(steps_of(chained)) == 1


def test_two_requests_that_fail_alike_are_two_faults():
    assert len(steps_of(MERGE + "\n" + MERGE)) == 2


def test_prefixed_lines_of_a_server_are_read():
    head = "(EngineCore_0 pid=4242) ERROR 09-14 08:00:01 [core.py:710] "
    text = "\n".join(head + line for line in SDPA.split("\n"))
    (step,) = steps_of(text)
    assert step["error"]["where"] == "mlx_lm.models.base.scaled_dot_product_attention"


def test_names_of_the_user_stay_out():
    from mlxdiag.traces.encode import entry_line

    for text in (MERGE, SDPA, raised("ValueError: [full] Negative dimensions not allowed.", MINE)):
        written = b"".join(entry_line(entry) for entry in imported(text).trace.entries)
        assert b"jane" not in written
        assert b"secret" not in written


@pytest.mark.parametrize(
    "error",
    [
        "KeyError: 'model.embed_tokens.weight'",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
    ],
)
def test_other_errors_hold_nothing_for_a_trace(error):
    with pytest.raises(UnreadableError, match="traceback"):
        imported(raised(error, MINE))
