# ruff: noqa: E501  a line of data is as long as it is
"""Where secrets have been seen in public reports: a line or a few, with a place for one secret.

Each is modelled on a public format (a server's log, a traceback, a dump); the words are ours. `q` is a secret as
it would stand inside of a JSON string.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.bundle.corpus.secrets import SECRETS, Secret

TEXT = ("prompt", "completion")
KEYS = (
    "bearer", "openai-key", "hf-token", "aws-key", "github-token", "slack-token", "jwt", "other-key", "password",
)  # fmt: skip
PATHS = ("home-path", "volume-path", "windows-path", "unc-path")
ADDRESSES = ("ipv4", "ipv6", "host-name")
WEB = ("url", "url-credentials", "git-remote")
PLAIN = (
    "user-name",
    "e-mail",
    "phone",
    "number",
    "mac-address",
    "request-id",
    "prompt-hash",
    "private-model",
)

PLACES: dict[str, tuple[tuple[str, ...], str]] = {
    "mlx-lm-body": (TEXT, '2026-08-30 11:02:17,553 - DEBUG - Incoming Request Body: {{"messages": [{{"role": "user", "content": "{q}"}}], "max_tokens": 64}}'),
    "mlx-lm-bad-json": (TEXT, "2026-08-30 11:02:17,553 - ERROR - JSONDecodeError: Expecting value - Request body: b'{{\"messages\": [{{\"content\": \"{q}\""),
    "mlx-lm-generate": (TEXT, "==========\n{s}\n==========\nPrompt: 14 tokens, 98.200 tokens-per-sec\nPeak memory: 4.2 GB"),
    "sse": (TEXT, 'data: {{"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{{"index":0,"delta":{{"content":"{q}"}}}}]}}'),
    "ndjson": (TEXT, '{{"model":"m","message":{{"role":"assistant","content":"{q}"}},"done":false}}'),
    "openai-body": (TEXT, '{{"object":"text_completion","choices":[{{"text":"{q}","finish_reason":"stop"}}],"usage":{{"prompt_tokens":7}}}}'),
    "vllm-prompt": (TEXT, "INFO 09-14 08:00:01 [logger.py:40] Received request cmpl-1: prompt: '{q}', params: SamplingParams(n=1, temperature=0.0)"),
    "vllm-output": (TEXT, "RequestOutput(request_id=0, prompt='{q}', outputs=[CompletionOutput(index=0, text='{q}', finish_reason=stop)])"),
    "llama-verbose": (TEXT, "slot update_slots: id  1 | task 7 | prompt: {s}"),
    "ollama-prompt": (TEXT, 'time=2026-09-14T08:00:00.000Z level=DEBUG source=routes.go:1 msg="chat request" prompt="{q}" images=0'),
    "mlx-serve": (TEXT, "INFO: user: {s}"),
    "tail": (TEXT, "INFO: generating\nassistant:\n{s}\nINFO: done"),
    "launch-prompt": (TEXT, 'python -m mlx_lm generate --model mlx-community/gemma-3-12b-it-4bit --prompt "{q}" --max-tokens 10'),
    "argv": (TEXT, "INFO: argv ['mlx_lm.generate', '--prompt', '{q}', '--seed', '1']"),
    "namespace": (TEXT, "DEBUG:root:Namespace(max_tokens=10, prompt='{q}', seed=1)"),
    "pydantic": (TEXT, "ValidationError: 1 validation error for ChatRequest\n  Input should be a valid list [type=list_type, input_value={{'role': 'user', 'content': '{q}'}}, input_type=dict]"),
    "curl-body": (TEXT, "curl http://localhost:8080/v1/chat/completions -d '{{\"messages\": [{{\"role\": \"user\", \"content\": \"{q}\"}}]}}'"),
    "frame-source": (TEXT, 'Traceback (most recent call last):\n  File "/Users/annabel/run.py", line 3, in main\n    print(generate(model, tokenizer, "{q}"))'),
    "quoted": (TEXT, "2026-08-30 11:02:17,553 - WARNING - could not parse '{q}' as JSON"),
    "grammar": (TEXT, "[2026-09-14 08:00:00.123] [error] The model returned: {s}"),
    "vllm-ids": (("token-ids",), "INFO 09-14 08:00:01 [logger.py:40] Received request cmpl-1: prompt_token_ids: {s}, lora_request: None"),
    "vllm-repr-ids": (("token-ids",), "RequestOutput(request_id=0, prompt_token_ids={s}, finished=True)"),
    "json-ids": (("token-ids",), '{{"type": "scheduler_output", "payload": {{"prompt_token_ids": {s}, "prompt_len": 12}}}}'),
    "bare-ids": (("token-ids",), "DEBUG:root:tokens {s}"),
    "tensor-ids": (("token-ids",), "DEBUG:root:input_ids tensor([{s}], dtype=torch.int64)"),
    "ollama-context": (("token-ids",), '{{"model":"m","response":"","done":true,"context":{s}}}'),
    "array-ids": (("token-ids",), "2026-08-30 11:02:17,553 - DEBUG - array({s}, dtype=int32)"),
    "llama-prompt-token": (("token-id",), "slot update_slots: id  1 | task 7 | prompt token  1:  {s} ' of'"),
    "llama-tokens": (("token-id",), "DEBUG: {s} -> ' of'"),
    "detokenized": (("token-id",), '2026-07-24T09:15:02.114390Z DEBUG mlxcel::tokenizer: detokenized {s} -> " of"'),
    "sampled": (("token-id",), "DEBUG:root:sampled token {s}, logprob -0.12"),
    "sampled-key": (("token-id",), "INFO: sampled_token={s} offset=2048"),
    "token-key": (("token-id",), "INFO: step 5 token: {s}"),
    "top-tokens": (("token-id",), "INFO: top {s}:0.31 7:0.22"),
    "json-token": (("token-id",), '{{"details": {{"tokens": [{{"id": {s}, "logprob": -0.5}}]}}}}'),
    "curl-header": (KEYS, 'curl http://localhost:8080/v1/models -H "Authorization: {s}"'),
    "curl-bearer": (KEYS, "curl -s http://localhost:8080/v1/models -H 'Authorization: Bearer {s}' -H 'X: 1'"),
    "api-key-flag": (KEYS, "vllm serve google/gemma-3-12b-it --api-key {s} --port 8000"),
    "api-key-equals": (KEYS, "$ llama-server -m model.gguf --api-key={s} -c 8192"),
    "env-export": (KEYS, 'export HF_TOKEN="{s}"'),
    "env-dump": (KEYS, "WANDB_API_KEY={s}"),
    "environ-repr": (KEYS, "DEBUG:root:environ({{'OPENAI_API_KEY': '{q}', 'LANG': 'C'}})"),
    "docker-env": (KEYS, "docker run --gpus all -e HUGGING_FACE_HUB_TOKEN={s} -p 8000:8000 vllm/vllm-openai"),
    "header-dump": (KEYS, "DEBUG:httpx:headers: {{'x-api-key': '{q}', 'accept': '*/*'}}"),
    "query-string": (KEYS, 'INFO:     127.0.0.1:50912 - "GET /v1/models?api_key={s} HTTP/1.1" 200 OK'),
    "json-key": (KEYS, '2026-08-30 11:02:17,553 - DEBUG - {{"api_key": "{q}", "stream": true}}'),
    "yaml-key": (KEYS, "INFO: loaded config password: {s}"),
    "refused-key": (KEYS, "AuthenticationError: Incorrect API key provided: {s}"),
    "cookie": (KEYS, "DEBUG: Cookie: session={s}; theme=dark"),
    "frame": (PATHS, 'Traceback (most recent call last):\n  File "{s}", line 3, in main'),
    "model-flag": (PATHS, "python -m mlx_lm server --model {s} --port 8080"),
    "load-error": (PATHS, "FileNotFoundError: [Errno 2] No such file or directory: '{s}'"),
    "loading": (PATHS, "2026-08-30 11:02:17,553 - INFO - Loading model from {s}"),
    "omlx-cache": (PATHS, "2026-09-14 08:00:00,100 - omlx.scheduler - DEBUG - [-] - snapshot dir={s} len=12"),
    "cwd": (PATHS, "INFO: cwd: {s}"),
    "env-path": (PATHS, "HF_HOME={s}"),
    "json-path": (PATHS, '{{"level": "error", "model_path": "{q}", "n_ctx": 4096}}'),
    "swift-at": (PATHS, "MLX/ErrorHandler.swift:343: Fatal error: [reshape] failed at {s}"),
    "gguf": (PATHS, "llama_model_loader: loaded meta data from {s} (version GGUF V3)"),
    "access": (("ipv4", "ipv6"), 'INFO:     {s} - "POST /v1/chat/completions HTTP/1.1" 200 OK'),
    "listening": (ADDRESSES, "2026-08-30 11:02:17,553 - INFO - Starting httpd at {s}"),
    "host-flag": (ADDRESSES, "mlx_lm.server --host {s} --port 8080"),
    "nccl": (ADDRESSES, "INFO 09-14 08:00:01 [parallel_state.py:1] rank 0 in world size 2, init method host={s} backend=nccl"),
    "ssh": (ADDRESSES, "$ ssh {s}"),
    "mlx-launch": (ADDRESSES, "INFO: hostname: {s} rank: 1"),
    "json-host": (ADDRESSES, '{{"level": "info", "peer": "{q}", "status": 200}}'),
    "journald": (("host-name",), "Sep 14 08:00:01 {s} ollama[31337]: time=2026-09-14T08:00:01Z level=INFO msg=started"),
    "refused": (ADDRESSES, "ConnectionError: connection to {s} refused"),
    "web-error": (WEB, "OSError: 401 Client Error: Unauthorized for url: {s}"),
    "git-remote-v": (WEB, "git remote add origin {s}"),
    "proxy": (WEB, "export HTTPS_PROXY={s}"),
    "clone": (WEB, "INFO: cloning {s} into model"),
    "json-url": (WEB, '{{"level": "info", "url": "{q}", "status": 200}}'),
    "pip": (WEB, "pip install {s}"),
    "image-url": (("attachment",), '{{"messages": [{{"role": "user", "content": [{{"type": "image_url", "image_url": {{"url": "{q}"}}}}]}}]}}'),
    "image-log": (("attachment",), "2026-08-30 11:02:17,553 - DEBUG - image: {s}"),
    "image-arg": (("attachment",), "DEBUG:root:decoded {s} to 896x896"),
    "audio": (("attachment",), "INFO: audio_bytes={s}"),
    "who": (PLAIN, "2026-08-30 11:02:17,553 - INFO - user={s} status=ok"),
    "log-tail": (PLAIN, "ERROR: request failed for {s}"),
    "span": (PLAIN, "2026-07-24T09:15:02.114390Z  INFO chunked_prefill_start{{seq_id={s} prompt_len=1250 cached=0}}: mlxcel::server: chunk 0..512"),
    "cache-key": (PLAIN, "INFO:rapid_mlx.memory_cache:[cache_fetch] key={s} shared=4000 entry_len=4016"),
    "model-name": (("private-model",), "INFO: serving model {s} on port 8080"),
    "model-arg": (("private-model",), "vllm serve {s} --max-model-len 8192"),
    "repo-missing": (("private-model",), "RepositoryNotFoundError: 404 Client Error. Repository not found: {s}"),
    "json-model": (("private-model",), '{{"id":"cmpl-1","object":"chat.completion","model":"{q}","choices":[]}}'),
    "lora": (("private-model",), "INFO: lora_request=LoRARequest(lora_name='{q}', lora_int_id=1)"),
    "keyblock": (("ssh-key",), "INFO: offering {s}"),
    "keyfile": (("ssh-key",), "export SSH_KEY='{s}'"),
    "authorized": (("ssh-key",), "DEBUG: authorized_keys: {s}"),
    "free-text": (tuple(dict.fromkeys(secret.kind for secret in SECRETS)), "here is my output, {s}, please help"),
}  # fmt: skip


def planted() -> Iterator[tuple[str, Secret, str]]:
    """Every secret in every place that can hold it: place, secret, and the text."""
    for place, (kinds, template) in PLACES.items():
        for secret in SECRETS:
            if secret.kind in kinds:
                inside = json.dumps(secret.text, ensure_ascii=False)[1:-1]
                inside = inside.replace("'", "\\'") if "='{q}" in template or ": '{q}" in template else inside
                yield place, secret, template.format(s=secret.text, q=inside)
