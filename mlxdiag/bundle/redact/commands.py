"""Command lines: programs, subcommands, options, and values that are a number or one of a few words.

What a person types between options, or in place of one, is a prompt or a path as often as not.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from mlxdiag.bundle.redact.publishers import is_public
from mlxdiag.bundle.redact.vocabulary import Vocabulary

Put = Callable[[str, str, str], str]

PLAIN = frozenset(
    (
        "sudo time env exec nohup python python3 pip pip3 pipx uv uvx docker podman git curl export set ssh ENV "
        "mlx_lm mlx_vlm mlxcel mlxdiag vllm sglang ollama omlx rapid-mlx llama-server llama-cli llama-bench mlx "
        "mlx-lm mlx-vlm mlx.launch llama.cpp transformers torch "
        "server serve generate chat run convert fuse lora evaluate benchmark cache_prompt manage share launch pull "
        "show list ps stop start bench inspect replay record audit bundle verify install upgrade uninstall tool "
        "clone checkout remote add origin main commit rev-parse HEAD status compose up exec -m . && || | > >> < \\ &"
    ).split()
)
"""Words that may stand outside of an option."""
MODULE = re.compile(r"(?:mlx|mlx_lm|mlx_vlm|vllm|sglang|transformers|torch)(?:\.[a-z_]+){0,4}\Z")
VERSIONED = re.compile(r"[A-Za-z][\w-]*(?:[=<>~!]=\d[\w.]*)\Z")
CHOICES = frozenset(
    (
        "auto none null true false on off yes no float16 bfloat16 float32 half fp16 bf16 fp32 fp8 fp8_e4m3 fp8_e5m2 "
        "int8 int4 f16 f32 q8_0 q4_0 q4_1 q5_0 q5_1 mxfp4 nvfp4 mxfp8 affine awq gptq gguf safetensors debug info "
        "warning error critical trace json text spawn fork ray mp mpi ring nccl jaccl cpu gpu cuda metal mps all "
        "flash_attn FLASH_ATTN FLASHINFER TRITON_ATTN XFORMERS flashinfer triton fa3 torch_native eager sdpa causal "
        "full sliding slow fast mistral hermes llama3_json pythonic harmony raw localhost 127.0.0.1 0.0.0.0 default "
        "DEBUG INFO WARNING ERROR POST GET PUT DELETE"
    ).split()
)
"""Values that a person picks and does not make up."""

_FLAG = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*(?==|\s|$)")
_PIECE = re.compile(r"(?:\"(?:[^\"\\]|\\.)*\"?|'[^']*'?|[^\s\"']|[\"'])+")
_VALUE = re.compile(r"-?\d[\d.,]{0,11}[kKmMgG]?\Z")
_ASSIGNED = re.compile(r"[A-Z][A-Z0-9_]*=")
_OPERATORS = frozenset(("&&", "||", "|", ";", ">", ">>", "<", "&", "\\", "2>&1"))
_QUOTED_END = re.compile(r"[,)\]}:;]\Z")


def is_flagged(text: str) -> bool:
    """Whether the text holds a long option."""
    return re.search(r"(?<![\w-])--[a-z][\w-]*(?:=|\s|$)", text) is not None


def clean(text: str, hidden: re.Pattern[str], vocabulary: Vocabulary, put: Put, *, whole: bool) -> str:
    """`text` with what is neither option, number nor known choice replaced.

    `hidden`: what earlier rules put in; it stays. `whole`: the text is a command from its first word on; else
    only what stands behind an option is looked at.
    """
    done: list[str] = []
    at, expects, active, repeats = 0, False, whole, False
    for match in _PIECE.finditer(text):
        piece = match.group()
        done.append(text[at : match.start()])
        at = match.end()
        flag = _FLAG.match(piece) if hidden.search(piece) is None or piece.startswith("-") else None
        if flag is not None or piece.startswith("--"):
            name, equals, value = piece.partition("=")
            active, expects, repeats = True, not equals, False
            kept = equals and not _may_stay(value, hidden, vocabulary)
            done.append(name + equals + put("positional", value, "[value]") if kept else piece)
            continue
        stays = (
            not active
            or _may_stand(piece, hidden, vocabulary)
            or (expects and _may_stay(piece, hidden, vocabulary))
        )
        expects = False
        if stays:
            done.append(piece)
            active, repeats = active and (whole or piece not in _OPERATORS), False
        else:
            mark = put("positional", piece, "" if repeats else "[text]")
            done.append(mark)
            repeats = True
    return "".join(done) + text[at:]


def _may_stand(piece: str, hidden: re.Pattern[str], vocabulary: Vocabulary) -> bool:
    """Outside of an option."""
    bare = hidden.sub("", piece).strip("\"'$+%(),")
    return (
        not bare.strip(":/.")
        or bare in PLAIN
        or bare in _OPERATORS
        or (MODULE.match(bare) is not None and vocabulary.knows(bare))
        or (VERSIONED.match(bare) is not None and vocabulary.knows(bare))
        or _ASSIGNED.match(bare) is not None
        or bare in vocabulary.kept
        or is_public(bare, vocabulary)
        or (bare.startswith(("http://localhost", "http://127.0.0.1", "http://0.0.0.0")))
    )


def _may_stay(value: str, hidden: re.Pattern[str], vocabulary: Vocabulary) -> bool:
    """As an option's value."""
    bare = hidden.sub("", value).strip("\"'")
    return (
        not bare.strip(":/.,")
        or _VALUE.match(bare) is not None
        or bare in CHOICES
        or bare in vocabulary.kept
        or is_public(bare, vocabulary)
        or (MODULE.match(bare) is not None and vocabulary.knows(bare))
        or re.match(r"(?:localhost|127\.0\.0\.1|0\.0\.0\.0)(?::\d{1,5})?\Z", bare) is not None
    )
