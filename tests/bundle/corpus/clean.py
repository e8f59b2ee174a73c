# ruff: noqa: E501  a line of data is as long as it is
"""What must survive word for word: numbers, shapes, versions, codes, and the names of libraries' own things."""

from __future__ import annotations

LINES: tuple[str, ...] = (
    "2026-07-24T09:15:02.114390Z  INFO chunked_prefill_start{seq_id=seq-3 prompt_len=1250 chunk_size=512 cached=0}: mlxcel::server::batch::scheduler: chunk 0..512",
    "2026-07-24T09:15:02.871204Z  WARN chunked_prefill_continue{seq_id=seq-3 offset=1024 total=1250}: mlxcel::models::gemma4: trim_mask_to_keys: mask shorter than key length, discarding caller mask mask_len=256 key_len=767 query_len=256",
    "libc++abi: terminating due to uncaught exception of type std::invalid_argument: [broadcast_shapes] Shapes (300,128) and (1,64,300,300) cannot be broadcast.",
    "2026-08-30 11:02:17,553 - INFO - Prompt processing progress: 2048/3120",
    "2026-08-30 11:02:19,004 - INFO - Prompt Cache: 3 sequences, 0.41 GB",
    "2026-08-30 11:02:19,004 - INFO - Starting httpd at 127.0.0.1 on port 8080...",
    "ValueError: [broadcast_shapes] Shapes (1,8,96,128) and (1,8,256,128) cannot be broadcast.",
    "ValueError: [concatenate] All the input array dimensions must match exactly except for the concatenation axis. However, the provided shapes are (1,8,4,256), (1,8,1029,256), and the concatenation axis is 2.",
    "ValueError: [rope] offset must be a scalar or vector with 16 elements but has shape (4).",
    "[2026-09-14 08:00:01 TP0] Prefill batch. #new-seq: 2, #new-token: 4096, #cached-token: 512, token usage: 0.31, #running-req: 3, #queue-req: 0",
    "[2026-09-14 08:00:02 TP0] Decode batch. #running-req: 5, #token: 9120, token usage: 0.44, gen throughput (token/s): 88.1, #queue-req: 0",
    "slot update_slots: id  1 | task 7 | new prompt, n_ctx_slot = 8192, n_keep = 0, n_prompt_tokens = 3000",
    "slot update_slots: id  1 | task 7 | n_past = 2900, cache_tokens.size() = 3050, seq_id = 1, pos_min = 2027, n_swa = 1024",
    "slot update_slots: id  1 | task 7 | forcing full prompt re-processing due to lack of cache data (likely due to SWA ...)",
    "slot update_slots: id  1 | task 7 | kv cache rm [0, end)",
    'time=2026-09-14T08:00:00.000-03:00 level=TRACE source=rotating.go:106 msg=(*RotatingKVCache).update keys_dim="[1 8 1 256]" values_dim="[1 8 1 256]" offset=1030 idx=6 max_size=1024',
    'time=2026-09-14T08:00:01.000-03:00 level=DEBUG source=server.go:816 msg="prediction aborted, token repeat limit reached"',
    "2026-09-14 08:00:00,100 - omlx.scheduler - DEBUG - [-] - Normalized RotatingKVCache snapshot: len 1535->1024, idx 1535->1024, offset=4096, max_size=1024",
    "INFO:rapid_mlx.memory_cache:[cache_fetch] LCP unavailable: shared=4000 entry_len=4016 requested_len=4200 non_trimmable=True",
    "INFO 09-14 08:00:02 [scheduler.py:463] num_new_tokens=8192 token_budget=8192",
    "INFO: mlx 0.32.4, mlx-lm 0.32.2, transformers 5.24.1, torch 2.6.0+cu124, python 3.11.7",
    "INFO: mlx-lm 0.32.2.dev20260823+d78bf58 commit d78bf58",
    "INFO: built from commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    "INFO: layer model.layers.12.self_attn.q_proj float16 (2048, 2048)",
    "INFO: language_model.model.layers.0.mlp.down_proj.weight bfloat16 [2560, 10240]",
    "INFO: quantization group_size=64 bits=4 mode=affine mxfp4 q4_0 q8_0 int8 uint32",
    "INFO: sliding_window=512 rope_theta=1000000.0 head_dim=256 num_key_value_heads=4 max_position_embeddings=131072",
    "INFO: MD101 mask-shorter-than-keys MD206 MD404",
    "INFO: loaded mlx-community/gemma-3-12b-it-4bit",
    "INFO: loaded google/gemma-3n-E4B-it and Qwen/Qwen3-8B and openai/gpt-oss-20b and meta-llama/Llama-3.2-3B-Instruct",
    "INFO: sampled <unused2115><unused2102><pad><eos>",
    "INFO: offsets [4, 0, 4, 4] key_len=671 mask (160, 160) keys (1, 8, 671, 256)",
    "INFO: logit delta 3.4 vs 1e-6, tolerance 0.001, nan=0 inf=0",
    "INFO: peak memory 12.4 GB, 98.2 tokens-per-sec, 45.1 ms",
    "WARNING: chunk 768 at offset 768, W=512: 256 empty rows",
    'INFO:     127.0.0.1:50912 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    "MLX_DISABLE_COMPILE=1",
    "Prompt: 14 tokens, 98.200 tokens-per-sec",
    "AttributeError: 'RotatingKVCache' object has no attribute 'trim'",
    "NotImplementedError: RotatingKVCache Quantization NYI",
    '{"object": "chat.completion", "usage": {"prompt_tokens": 7, "completion_tokens": 12, "total_tokens": 19}}',
    '{"finish_reason": "length", "index": 0}',
    "INFO: CUDA 12.4, compute capability 9.0, driver 550.54",
    "python -m mlx_lm server --model mlx-community/gemma-3-12b-it-4bit --port 8080 --max-tokens 512",
    "mlx_lm.generate --max-kv-size 1024 --prefill-step-size 512 --seed 0 --temp 0.0",
    "vllm serve google/gemma-3-12b-it --max-model-len 8192 --kv-cache-dtype fp8",
)  # fmt: skip

FRAMES: tuple[tuple[str, str], ...] = (
    (
        '  File "/Users/annabel/.venv/lib/python3.11/site-packages/mlx_lm/models/cache.py", line 1188, in merge',
        '  File "[path]/mlx_lm/models/cache.py", line 1188, in merge',
    ),
    (
        '  File "/opt/x/lib/python3.12/site-packages/transformers/models/gemma3/modeling_gemma3.py", line 9, in forward',
        '  File "[path]/transformers/models/gemma3/modeling_gemma3.py", line 9, in forward',
    ),
    (
        "MLX/ErrorHandler.swift:343: Fatal error: [broadcast_shapes] Shapes (24,24) and (1,4,24,536) cannot be "
        "broadcast. at /Users/dev/x/mlx-c/mlx/c/fast.cpp:598",
        "MLX/ErrorHandler.swift:343: Fatal error: [broadcast_shapes] Shapes (24,24) and (1,4,24,536) cannot be "
        "broadcast. at [path]/mlx-c/mlx/c/fast.cpp:598",
    ),
)
"""Paths keep the part that is the library's own."""
