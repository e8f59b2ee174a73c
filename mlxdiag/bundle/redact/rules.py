"""The redaction rules, as data. Order counts: what an earlier rule took, no later one sees.

They give what is removed a name and a count. They are not the guarantee: whatever no rule names is held to
`vocabulary` word by word, and text that no log format explains does not enter at all.
"""

from __future__ import annotations

import re
from re import Pattern

import msgspec


class Rule(msgspec.Struct, frozen=True):
    """A pattern whose match is replaced; a group named `keep` stays in front of the placeholder."""

    name: str
    what: str
    pattern: Pattern[str]
    put: str


def _rule(name: str, what: str, pattern: str, put: str, flags: int = 0) -> Rule:
    return Rule(name, what, re.compile(pattern, flags), put)


_HEX = r"[0-9a-fA-F]"
_OCTET = r"(?:25[0-5]|2[0-4]\d|[01]?\d?\d)"

RULES: tuple[Rule, ...] = (
    _rule("private-key", "a private or public key block", r"-----BEGIN .*", "[key]"),
    _rule(
        "media", "an image, audio or file put into the text", r"\bdata:[\w.+-]+/[\w.+-]+[;,]\S*", "[media]"
    ),
    _rule(
        "ssh-key", "an SSH key", r"\b(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-\S+)\s+\S+(?:\s+\S+@\S+)?", "[key]"
    ),
    _rule(
        "authorization",
        "what an Authorization header holds",
        r"(?P<keep>\bbearer\s+(?:tokens?\s+|auth\w*\s+)?)(?!(?:auth|tokens?|scheme)\w*\b)[\w.~+/=-]+"
        r"|(?P<keep2>\b(?:basic|digest|apikey)\s+)(?!(?:auth|token|scheme)\w*\b)"
        r"(?=[\w.~+/-]*[\d=])[\w.~+/=-]{6,}",
        "[key]",
        re.IGNORECASE,
    ),
    _rule(
        "known-key",
        "a key whose beginning names its issuer",
        r"(?<![\w-])(?:sk|pk|rk)[-_](?:[\w]+[-_])*[\w-]{8,}|(?<![\w-])(?:hf|api_org|gsk|r8|npm"
        r"|dop_v1|glpat|shpat|ghp|gho|ghu|ghs|ghr|github_pat|xox[abeoprs]|xapp|pypi|nvapi|lm|tvly|pplx|wandb|SG|key"
        r"|dckr_pat)[-_.][\w.-]{10,}|\b(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{12,}\b|\bAIza[\w-]{20,}|\bya29\.[\w-]+"
        r"|\beyJ[\w-]{6,}(?:\.[\w-]+){0,4}|\b\d{8,10}:AA[\w-]{30,}",
        "[key]",
    ),
    _rule("git-remote", "a git remote", r"\b[\w.-]+@[\w.-]+:[\w./~-]+", "[git remote]"),
    _rule(
        "url",
        "a web address, with whatever credentials and query it holds",
        r"\b(?!file:)[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s\"'<>)\]]+",
        "[url]",
    ),
    _rule("e-mail", "a mail address", r"[\w.%+-]+@[\w-]+(?:\.[\w-]+)+", "[e-mail]"),
    _rule("user-at-host", "a user and a host", r"[\w.-]+@[\w-]+\b", "[user]@[host]"),
    _rule(
        "query",
        "the query of a request line",
        r"(?P<keep>(?<=[\w/])\?)[\w%.~-]+=[^\s\"'#]*",
        "[query]",
    ),
    _rule(
        "path",
        "a path of a file system",
        r"(?:\bfile:/{1,3}|(?<![\w.])~[\w-]*)[\\/]?[^\s\"'`,;)\]}>]+"
        r"|\b[A-Za-z]:(?:\\{1,2}|/(?!/))[^\s\"'`,;)\]}>]+"
        r"|(?<![\w\\])\\{2,4}[\w.$-]+\\{1,2}[^\s\"'`,;)\]}>]+",
        "[path]",
    ),
    _rule("mac-address", "a hardware address", rf"\b{_HEX}{{2}}(?:[:-]{_HEX}{{2}}){{5}}\b", "[address]"),
    _rule(
        "ipv4",
        "an IPv4 address",
        rf"(?<![\w.])(?!127\.0\.0\.1\b|0\.0\.0\.0\b)(?<!==)(?<!ersion )"
        rf"(?:{_OCTET}\.){{3}}{_OCTET}(?::\d{{1,5}})?(?:/\d{{1,2}})?(?!\.?\w)"
        rf"|(?<![\w.-])(?:ip-)?{_OCTET}(?P<dash>[-_]){_OCTET}(?P=dash){_OCTET}(?P=dash){_OCTET}(?![\w.-])",
        "[address]",
    ),
    _rule(
        "ipv6",
        "an IPv6 address",
        rf"(?<![\w:.])\[?(?:(?:{_HEX}{{1,4}}:){{7}}{_HEX}{{1,4}}"
        rf"|(?:{_HEX}{{1,4}}:){{1,6}}(?::{_HEX}{{1,4}}){{1,6}}|(?:{_HEX}{{1,4}}:){{2,7}}:"
        rf"|::(?:{_HEX}{{1,4}}:){{0,6}}{_HEX}{{2,4}})(?:%\w+)?\]?(?::\d{{1,5}})?(?![\w:])",
        "[address]",
    ),
    _rule(
        "host",
        "the name of a machine",
        r"(?<![\w./-])[A-Za-z][\w-]*(?:\.[\w-]+)*\.(?:local|lan|home|internal|intranet|corp|localdomain"
        r"|ts\.net|com|net|org|io|dev|cloud|de|fr|eu|uk|us|cn|jp|edu|gov)(?::\d{1,5})?(?![\w/-])"
        r"|(?<![\w./-])(?!(?:llama|mlx|mlxcel|vllm|ollama|api|https?|web|omlx|sglang|uvicorn|lm|inference|multi|single|per|cross"
        r"|inter|intra|sub|client|re|non)-)[A-Za-z][A-Za-z0-9]*-(?:server|node|host|box|pc|nas|machine|laptop|desktop"
        r"|macbook|studio|cluster|rack|workstation|rig)\d*(?::\d{1,5})?(?![\w-])"
        r"|(?<![\w./-])(?:server|host|pc|nas|laptop|desktop|macbook|rack|rig)-?\d+(?![\w-])",
        "[host]",
    ),
    _rule(
        "id",
        "the id of a request, a session or a process",
        rf"\b{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}\b|\b(?:chatcmpl|cmpl|req|resp|msg|call|embd|run"
        r"|thread)[-_](?=[\w-]*\d)[\w-]{2,}|(?P<keep>\bpid[ =:]+)\d+|(?P<keep2>(?<=[a-z_.])\[)\d{2,7}(?=\]:)"
        r"|\b(?:conv|asst|sess|usr|proj)[-_](?=[A-Za-z]*\d)[A-Za-z0-9]{4,}\b"
        r"|(?<= - \[)(?=[\w-]*\d)[\w-]{3,}(?=\] - )",
        "[id]",
    ),
    _rule(
        "phone",
        "a telephone number",
        r"(?<![\w.])\+\d[\d ().-]{7,}\d|\(\d{2,5}\)\s?\d{3,4}[\s-]?\d{3,4}\b"
        r"|(?<![\w.-])\d{3}[-.]\d{3}[-.]\d{4}(?![\w.-])",
        "[phone]",
    ),
    _rule(
        "token-id",
        "a single token id beside its text or its probability",
        r"(?P<keep>\bprompt token +\d+: +)\d+(?: +(?:'[^']*'|\"[^\"]*\"))?"
        r"|(?P<keep2>\b(?:sampled|next|first|last|generated|decoded"
        r"|emitted|detokenized|tokenized|piece|chosen)(?: token)?(?: id)?[ :=]+)\d+"
        r"|(?<![\w.])\d+ ?(?:->|=>|:) ?(?:'(?!<[^'<>]*>')[^']*'|\"(?!<[^\"<>]*>\")[^\"]*\")"
        r"|(?<![\w.])\d+(?= ?(?:->|=>|:) ?[\"'])"
        r"|(?<![\w.:-])\d{2,}:[01]?\.\d+(?![\d:])",
        "[id]",
    ),
    _rule(
        "long-number",
        "a number longer than any length, offset or version",
        r"(?<![\w.-])\d{3}-\d{2}-\d{4}(?![\w.-])|(?<![\w.])\d(?:-?\d){12,}(?![\w]|\.\d)"
        r"|(?<!\d )\b\d{4} (?:\d{4} \d{4} \d{4}|\d{6} \d{5})\b(?! ?\d)",
        "[number]",
    ),
)

SECRET_KEYS = (
    "api_key", "apikey", "api_token", "secret", "secret_key", "access_key", "private_key", "password",
    "passwd",
    "passphrase", "pwd", "token", "bearer", "credential", "credentials", "cookie", "authorization", "auth",
    "signature", "sig", "key_id", "x_api_key", "license", "otp", "pin", "webhook", "dsn",
    "connection_string", "key", "sid",
)  # fmt: skip
CONTENT_KEYS = (
    "prompt", "prompts", "content", "contents", "message", "messages", "text", "texts", "input", "inputs",
    "output",
    "outputs", "completion", "completions", "response", "responses", "answer", "question", "query",
    "instruction",
    "instructions", "generated_text", "generated", "reply", "body", "payload", "user", "assistant", "human",
    "system",
    "delta", "reasoning", "thinking", "arguments", "transcript", "title", "caption", "description",
    "document",
    "documents", "summary", "subject", "comment", "note", "template", "chat_template", "tool_calls", "image",
    "image_url", "audio", "video", "stop_sequence", "suffix_text", "prefill_text", "echo", "said", "story",
)  # fmt: skip
TOKEN_ID_KEYS = (
    "token_ids", "token_id", "input_ids", "output_ids", "argmax", "sampled", "sampled_token", "sampled_id",
    "next_token",
    "last_token", "first_token", "chosen", "draft_tokens", "accepted_tokens", "top_logprobs", "logit_bias",
    "decoded",
)  # fmt: skip
PERSON_KEYS = (
    "user", "username", "user_name", "login", "owner", "author", "account", "email", "mail", "phone", "tel",
    "customer",
    "tenant", "org", "organization", "organisation", "team", "project", "workspace", "session", "session_id",
    "user_id",
    "client_id", "conversation", "conversation_id", "logname", "uname", "contact",
)  # fmt: skip
HOST_KEYS = (
    "host", "hostname", "nodename", "server_name", "addr", "address", "ip", "peer", "client", "remote",
    "remote_addr",
    "bind", "endpoint", "url", "uri", "base_url", "proxy", "domain", "fqdn", "node", "master_addr",
    "interface", "server", "nas", "machine", "box", "cluster", "gateway",
)  # fmt: skip
MODEL_KEYS = (
    "model", "model_id", "model_path", "model_name", "served_model_name", "adapter", "adapter_path", "lora",
    "lora_path",
    "draft_model", "tokenizer", "repo", "repo_id", "hf_repo", "checkpoint", "alias", "dir", "directory",
    "path", "file",
    "cache_dir", "folder", "volume", "mount",
)  # fmt: skip
REQUEST_KEYS = (
    "request_id", "req_id", "request", "trace_id", "span_id", "correlation_id", "pid", "ppid", "tid",
    "thread_id",
)  # fmt: skip
HASH_KEYS = (
    "hash", "prompt_hash", "prefix_hash", "cache_key", "sha", "sha1", "sha256", "md5", "digest",
    "fingerprint",
    "block_hash", "checksum", "etag", "content_hash",
)  # fmt: skip

KEYED: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("secret", "the value of a key, password or token", SECRET_KEYS, "[key]"),
    ("content", "a prompt, a completion or another text of a conversation", CONTENT_KEYS, "[text]"),
    ("token-ids", "token ids, which are text for whoever has the tokenizer", TOKEN_ID_KEYS, "[ids]"),
    ("person", "the name of a user, an account or a project", PERSON_KEYS, "[name]"),
    ("host", "the name of a machine", HOST_KEYS, "[host]"),
    ("model-name", "the name of a model that is not known to be public", MODEL_KEYS, "[model]"),
    ("id", "the id of a request, a session or a process", REQUEST_KEYS, "[id]"),
    ("hash", "a hash that a short text could be guessed from", HASH_KEYS, "[hash]"),
)
"""Rule, what it removes, the names whose value it is about, and what stands in its place."""

ENVIRONMENT = (
    "MLX_DISABLE_COMPILE", "MLX_METAL_JIT", "MLX_METAL_FAST_SYNCH", "MLX_MAX_OPS_PER_BUFFER",
    "MLX_MAX_MB_PER_BUFFER",
    "MLX_USE_CUDA_GRAPHS", "MLX_CUDA_GRAPH_CACHE_SIZE", "MLX_ENABLE_TF32", "MLX_RANK", "MLX_METAL_DEBUG",
    "MTL_CAPTURE_ENABLED", "MTL_DEBUG_LAYER", "METAL_DEVICE_WRAPPER_TYPE", "MTL_SHADER_VALIDATION",
    "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "PYTORCH_ENABLE_MPS_FALLBACK", "TOKENIZERS_PARALLELISM",
    "OMP_NUM_THREADS", "VLLM_USE_V1", "VLLM_LOGGING_LEVEL", "VLLM_ATTENTION_BACKEND", "VLLM_TRACE_FUNCTION",
    "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "RUST_LOG", "RUST_BACKTRACE", "PYTHONHASHSEED",
    "LLAMA_SET_ROWS",
    "GGML_METAL_NDEBUG", "OLLAMA_FLASH_ATTENTION", "OLLAMA_KV_CACHE_TYPE", "OLLAMA_NUM_PARALLEL",
    "OLLAMA_NEW_ENGINE",
    "OLLAMA_CONTEXT_LENGTH",
)  # fmt: skip
"""Environment variables whose value may be told, where it is a number or a switch."""

OTHER: dict[str, str] = {
    "environment": "an environment variable that is not on the list",
    "integer": "a number that nothing beside it shows to be a length, a count or the like",
    "sentence": "a sentence of known words that no library says",
    "positional": "what stands in a command between its options, or a value that is no number and no choice",
    "open": "lines inside of a text, a list or a JSON value that an earlier line opened",
    "integers": "a list of integers too long for a shape: token ids, perhaps",
    "quoted": "quoted text of several words, or with a word that is not known",
    "word": "a word that no library is known to print",
    "message": "a whole message, most of whose words no library is known to print",
    "line": "a line that no known log format explains",
    "long-line": "a line too long for a log",
    "middle": "lines in the middle of a long log",
    "refused-line": "a cleaned line of a log that the detector would not let pass",
    "source-line": "a line of source code that is not a library's",
    "json": "a JSON value that is not on the list",
    "encoded": "an encoded or random text: a key, an attachment or the like",
    "machine": "this machine's user, host or folder",
    "field": "a field of the trace that is not on the list",
    "name": "a free name in the trace",
    "note": "a note in the trace that this program did not write",
    "relabelled": "a sequence's name, replaced by a number",
    "time": "clock times, told from the first one on",
    "raw-ids": "emitted token ids, replaced by labels",
}
"""Removals that are no pattern."""

WHAT: dict[str, str] = {
    **{rule.name: rule.what for rule in RULES},
    **{name: what for name, what, _, _ in KEYED},
    **OTHER,
}


def what(rule: str) -> str:
    """What a rule removes, in words."""
    return WHAT[rule]
