"""How the lines begin that programs of this field print about themselves."""

from __future__ import annotations

import re

from mlxdiag.bundle.redact import heads

RECORDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("level first", re.compile(rf"[\[(]?{heads.LEVEL}\b[\])]?\s*[:\d\[ |(-]")),
    ("key=value", re.compile(r"time=\S+ level=")),
    ("process first", re.compile(r"\([A-Za-z]+(?:[\w ]| rank=)*\bpid=\d+\)\s")),
    ("klog", re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [\w.]+:\d+\] ")),
    (
        "llama.cpp",
        re.compile(
            r"(?:slot|srv|que|main|decode|llama_\w+|llm_\w+|ggml_\w+|common_\w+|load_\w+|print_info"
            r"|system_info|system info|build)\s*[\w:]*\s*:"
        ),
    ),
    (
        "traceback",
        re.compile(
            r"(?:Traceback \(most recent call last\)|Current thread 0x[\da-f]+ |Thread 0x[\da-f]+ "
            r"|During handling of the above|The above exception was)"
        ),
    ),
    (
        "exception",
        re.compile(
            r"(?:E {2,8})?(?:[A-Za-z_]\w*\.){0,6}[A-Z]\w{0,60}(?:Error|Exception|Warning|Interrupt"
            r"|Exit|Fault)\b(?::|$)"
        ),
    ),
    (
        "abort",
        re.compile(
            r"Exception in |Token indices sequence length|"
            r"called `(?:Result|Option)::unwrap|stack backtrace:|libc\+\+abi:|terminate called"
            r"|what\(\):|thread '|Fatal error|[\w/.-]+:\d+: Fatal error|zsh: "
            r"|Fatal Python error: |panic: |goroutine \d+ \[|assertion `|(?:/\S{1,200}:\d+: )?GGML_ASSERT\("
            r"|note: run with `RUST_BACKTRACE|Abort|Trace/BPT|Segmentation fault|Assertion failed"
            r"|fatal runtime error|panicked at"
        ),
    ),
    ("native frame", re.compile(r"\s*(?:#?\d+:? |at |frame #\d+)")),
    ("request", re.compile(r"(?:GET|POST|PUT|DELETE) /|[\w.:\[\]]+ - - \[")),
    ("out of memory", re.compile(r"(?:[A-Z][A-Za-z]+ )?(?:backend )?out of memory\b", re.IGNORECASE)),
    ("timings", re.compile(r"\s*(?:(?:prompt )?eval|total|load|sampling) time\s*=\s*\d")),
    (
        "statistics",
        re.compile(
            r"(?:Iter|Mismatched elements|(?:Max|Greatest) (?:absolute|relative) difference"
            r"|Capturing CUDA graph|Prompt|Generation|Peak memory|Total|Fetching|Loading|Model loaded|Prefill"
            r"|Decode)\b[^:]{0,60}: *(?:\d|Val loss|Train loss)"
        ),
    ),
    (
        "command",
        re.compile(
            r"(?:\$ |\+ |% )?(?:sudo )?(?:[A-Z_]+=\S+ )*(?:python[\d.]*|mlx_lm\S*|mlx_vlm\S*|mlxcel\S*"
            r"|llama-\S+|vllm|sglang|ollama|omlx|rapid-mlx|mlxdiag|curl|docker|uv|uvx|pipx?|git|export|ssh|ENV|set)\s"
        ),
    ),
    ("assignment", re.compile(r"\s*(?:export )?[A-Z][A-Z0-9_]{2,}=")),
    ("numbers", re.compile(r"[\[(]?[\w.\]]{1,80}\s{0,40}[=:]\s{0,40}[\[(]?-?\d")),
    ("two sides", re.compile(r"  ?(?:left|right): \d+$")),
    (
        "pytest",
        re.compile(
            r"(?:FAILED|ERROR|PASSED|XFAIL) [\w/.-]{1,200}\.py(?:::\S{1,200})?(?: - |$)"
            r"|=+ (?:\d+ [a-z]+,? )+in [\d.]+s"
        ),
    ),
    ("pytest frame", re.compile(r"\S{1,300}\.py:\d+: (?:[A-Z]\w*(?:Error|Exception)|in )")),
    ("rich frame", re.compile(r"│ \S{1,300}\.py:\d+ in [\w.<>]+ *│?$")),
    ("device", re.compile(r"  Device \d+: ")),
    ("requirement", re.compile(r"(?:mlx|mlx-lm|mlx-metal|mlx-vlm|torch|transformers|vllm|sglang|numpy)==\d")),
    (
        "environment",
        re.compile(r"- (?:Platform|Python version|PyTorch version|`\w+` version|Huggingface_hub version)\b"),
    ),
    ("module first", re.compile(r"\[[A-Za-z_]+(?:[ -]\w+)?(?:\.(?:py|go|rs|cpp))?(?::\d+)?\]")),
    ("importer line", re.compile(r"(?:RequestOutput|SchedulerOutput|CompletionOutput)\(|MLX/\w+\.swift")),
)
"""Name of the format, and how a line of it begins. What begins otherwise is left out of a bundle."""
COMMAND = next(pattern for name, pattern in RECORDS if name == "command")
