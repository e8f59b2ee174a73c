"""Secrets planted wherever a log can hold them; none may be found in the trace."""

from __future__ import annotations

import json

import pytest

from mlxdiag.traces.encode import entry_line, header_text
from tests.traces.importers.reading import imported

SECRETS = (
    "hunter2", "jane", "acme-host", "10.77.66.55", "Projekt-X", "sk-live-abcdef", "/Users/", "chatcmpl-9f3",
    "kiwi", "31337", "private-model", "0d9c1e5a",
)  # fmt: skip
PATH = "/Users/jane/Projekt-X"
PROMPT = "kiwi hunter2 <pad>"
SSE = {
    "id": "chatcmpl-9f3",
    "model": "private-model",
    "choices": [{"index": 0, "delta": {"content": " kiwi"}}],
}
CHAT = {
    "id": "chatcmpl-9f3",
    "model": "private-model",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": PROMPT}, "finish_reason": "stop",
                 "logprobs": {"content": [{"token": "kiwi", "logprob": None, "bytes": [1]}]}}],
}  # fmt: skip
TGI = {
    "generated_text": PROMPT,
    "details": {"finish_reason": "length", "tokens": [{"id": 31337, "text": "kiwi", "logprob": -0.5}],
                "prefill": [{"id": 31337, "text": "hunter2", "logprob": None}]},
}  # fmt: skip
STEPS = {
    "type": "scheduler_output",
    "payload": {"num_scheduled_tokens": {"chatcmpl-9f3": 12}, "scheduled_new_requests": [
        {"req_id": "chatcmpl-9f3", "num_computed_tokens": 0, "prompt_len": 12, "prompt_token_ids": [31337]}]},
}  # fmt: skip

LOGS = {
    "mlxcel": (
        "acme-host mlxcel[31337]: chunked_prefill_continue{seq_id=jane-6 offset=2048 total=2201}: "
        "mlxcel::models::gemma4: trim_mask_to_keys: discarding caller mask mask_len=160 key_len=671 "
        f"path={PATH} user=hunter2"
    ),
    "mlxcel-refusal": (
        f"WARN mlxcel::server: prompt-cache snapshot restore failed (open {PATH}: hunter2); falling back to "
        "cold prefill seq_id=jane"
    ),
    "mlxcel-error": (
        "ERROR mlxcel::server: MLX threw at the decode/prefill eval FFI boundary; hunter2: "
        f"[broadcast_shapes] Shapes (1,2) and (3,4) cannot be broadcast. at {PATH}/fast.cpp:31337"
    ),
    "mlxcel-layers": (
        f"{PATH} [mlxcel][na-attention] dispatch=1 phase=prefill route=mask note=hunter2 q=[1, 8, 32, 256] "
        "k=[1, 4, 32, 256] window_size=512"
    ),
    "abort": (
        "libc++abi: terminating due to uncaught exception of type std::invalid_argument: [broadcast_shapes] "
        f"Shapes (298,128) and (1,64,298,298) cannot be broadcast. hunter2 {PATH}"
    ),
    "swift": (
        "MLX/ErrorHandler.swift:343: Fatal error: [broadcast_shapes] Shapes (24,24) and (1,4,24,536) cannot "
        f"be broadcast. at {PATH}/mlx/c/fast.cpp:31337"
    ),
    "traceback": (
        f'Traceback (most recent call last):\n  File "{PATH}/hunter2.py", line 3, in jane_private\n'
        f'    go("{PROMPT}")\n  File "{PATH}/mlx_lm/models/cache.py", line 9, in merge\n    hunter2()\n'
        "ValueError: [broadcast_shapes] Shapes (1,8,96,128) and (1,8,256,128) cannot be broadcast. kiwi"
    ),
    "attribute": (
        f'  File "{PATH}/x.py", line 3, in jane\n'
        "AttributeError: 'RotatingKVCache' object has no attribute 'trim' hunter2"
    ),
    "mlx_lm": (
        "2026-08-30 11:02:17,553 - INFO - Prompt processing progress: 2048/3120\n"
        f"2026-08-30 11:02:17,553 - DEBUG - Incoming Request Body: {json.dumps({'messages': PROMPT})}"
    ),
    "vllm": (
        "(EngineCore_0 pid=31) ERROR 09-14 08:00:01 [dump_input.py:76] SchedulerOutput(scheduled_new_reqs=["
        "NewRequestData(req_id=chatcmpl-9f3,prompt_token_ids=[31337],prompt_token_ids_len=30,params=('hunter2'),"
        "num_computed_tokens=0)], num_scheduled_tokens={chatcmpl-9f3: 30})"
    ),
    "vllm-output": (
        f"RequestOutput(request_id=chatcmpl-9f3, prompt='{PROMPT}', prompt_token_ids=[31337], outputs=["
        f"CompletionOutput(index=0, text='{PROMPT}', token_ids=[31337, 31337], cumulative_logprob=-1.0, "
        "finish_reason=stop)])"
    ),
    "sglang": (
        "[2026-09-14 08:00:01 TP0] Prefill batch. #new-seq: 1, #new-token: 40, #cached-token: 5, "
        "#running-req: 3, host: acme-host 10.77.66.55"
    ),
    "llama.cpp": (
        "acme-host slot update_slots: id  1 | task 31337 | prompt done, n_past = 30, n_tokens = 30, "
        f"text = {PROMPT}"
    ),
    "ollama": (
        "time=2026-09-14T08:00:00.000Z level=TRACE source=rotating.go:1 msg=(*RotatingKVCache).update "
        f'keys_dim="[1 8 1 256]" offset=103 max_size=64 prompt="{PROMPT}" path={PATH}'
    ),
    "omlx": (
        "2026-09-14 08:00:00,400 - omlx.scheduler - INFO - [jane] - Prefix cache restore for 0d9c1e5a: "
        f"source=paged cached=81 suffix=31 path={PATH}"
    ),
    "rapid": (
        "INFO:rapid_mlx.scheduler:[schedule] request=0d9c1e5a uid=2 prompt_tokens=42 tokens_to_prefill=42 "
        "user=jane key=sk-live-abcdef"
    ),
    "lm-studio": (
        f"[2026-09-14 08:00:00.123] [error] hunter2 ValueError: [full] Negative dimensions not allowed.\n"
        f"{PROMPT}\nAt:\n  {PATH}/secret.py(31337): jane_private"
    ),
    "openai-sse": "\n".join(["data: " + json.dumps(SSE)] * 3),
    "openai": json.dumps(CHAT),
    "openai-pretty": json.dumps(CHAT, indent=2),
    "ollama-stream": json.dumps(
        {"model": "private-model", "response": PROMPT, "done": False, "context": [31337]}
    ),
    "tgi": json.dumps(TGI),
    "json-steps": json.dumps(STEPS),
    "text": f"{PROMPT}<pad> sk-live-abcdef",
}


def written(*logs):
    trace = imported(*logs).trace
    return header_text(trace.header) + b"".join(entry_line(entry) for entry in trace.entries)


@pytest.mark.parametrize("name", LOGS)
def test_no_secret_reaches_the_trace(name):
    text = written(LOGS[name]).decode()
    assert [secret for secret in SECRETS if secret in text] == []


def test_all_of_them_together():
    text = written("\n".join(LOGS.values())).decode()
    assert [secret for secret in SECRETS if secret in text] == []


def test_the_secrets_were_there():
    whole = "\n".join(LOGS.values())
    assert [secret for secret in SECRETS if secret not in whole] == []
