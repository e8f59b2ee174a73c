# ruff: noqa: E501  a line of data is as long as it is
"""Logs of seven programs from their start to an error: what a maintainer reads must stand in the cleaned log."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "logs"

KEPT: dict[str, tuple[str, ...]] = {
    "mlxcel": (
        "chunked_prefill_continue{seq_id=seq-3 offset=1024 total=1250}", "mask_len=256 key_len=767 query_len=256",
        "src/models/gemma4.rs:598:13", "what: \"[broadcast_shapes] Shapes (300,128) and (1,64,300,300) cannot be broadcast.\"",
        "mlxcel serve --model mlx-community/gemma-3-12b-it-4bit", "2026-07-24T09:16:02.114390Z  INFO mlxcel::server: done",
    ),
    "mlx-lm": (
        "$ mlx_lm.server --model mlx-community/gemma-3-12b-it-4bit --port 8080 --log-level DEBUG",
        "Prompt processing progress: 2048/3120", "Prompt Cache: 3 sequences, 0.41 GB", "\"POST /v1/chat/completions HTTP/1.1\" 200",
        "mlx_lm/models/gemma3_text.py\", line 212, in __call__", "h = layer(",
        "Shapes (160,160) and (1,8,160,671) cannot be broadcast.",
    ),
    "vllm": (
        "vLLM API server version 0.10.1", "GPU KV cache size: 262,144 tokens", "num_computed_tokens=[2048]", "total_num_scheduled_tokens=160",
        "vllm/v1/engine/core.py\", line 693, in run_engine_core", "output = self.model_executor.execute_model(",
        "The size of tensor a (160) must match the size of tensor b (671) at non-singleton dimension 3",
        "Avg prompt throughput: 1088.1 tokens/s", "GPU KV cache usage: 12.5%",
    ),
    "sglang": (
        "max_total_num_tokens=262144, chunked_prefill_size=8192", "#new-token: 4096, #cached-token: 512", "gen throughput (token/s): 1088.12",
        "NaN in the logits", "mat1 and mat2 shapes cannot be multiplied (298x2048 and 1024x512)",
    ),
    "llama-cpp": (
        "build: 6123 (d78bf58a)", "n_threads = 8", "gemma3.attention.sliding_window u32              = 1024", "print_info: n_swa            = 1024",
        "llama_kv_cache_unified: size = 512.00 MiB", "n_ctx_slot = 8192, n_keep = 0, n_prompt_tokens = 3000", "n_past = 2048",
        "forcing full prompt re-processing due to lack of cache data", "1234.56 ms /  3000 tokens", "127.0.0.1 200",
    ),
    "ollama": (
        "keys_dim=\"[1 8 1 256]\" values_dim=\"[1 8 1 256]\" offset=1030 idx=6 max_size=1024", "token repeat limit reached",
        "total=\"21.3 GiB\"", "| 200 |  1.234567s |",
    ),
    "omlx": (
        "len 1535->1024, idx 1535->1024, offset=4096, max_size=1024", "cached=8192 suffix=310 blocks=4 lookup=1.2ms",
        "shared=4000 entry_len=4016 requested_len=4200", "[host] omlx: 2026-09-14 08:00:01,100",
    ),
}  # fmt: skip
"""What must be left of each."""

GONE = (
    "annabel", "Secret", "kestrel", "31337", "4242", "258027", "of the cache", "helpful", "the mask of", "chatcmpl", "unused49",
    "INFO: the mask",
)  # fmt: skip
"""What must not be left of any."""
