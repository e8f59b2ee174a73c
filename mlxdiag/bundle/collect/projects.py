"""What each project asks of a report, as its own template or its maintainers have it. Data.

Sources: the templates in the projects' repositories, and what was asked for in their threads.
"""

from __future__ import annotations

import msgspec

REQUIRED = "**REQUIRED**"
"""Marks what only a person can fill in."""

WROTE_BY_HAND = (
    "This project does not take machine-written issues: its template says that they are strictly prohibited. "
    "So this file is not to be pasted. It holds facts, for a person to write an issue from in their own "
    "words; attach the reproduction, or its output."
)
SISTER = (
    "The sister project mlx prohibits machine-written issues in its template. This one has none, but its "
    "maintainers are the same people: write the issue in your own words, from the facts below."
)


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """How a project wants a report laid out."""

    name: str
    page: str | None
    """Where its issues are opened, by a person."""
    sections: tuple[tuple[str, str], ...]
    """Heading and the part that stands under it, in the project's order; see `summary.PARTS`."""
    required: tuple[str, ...] = ()
    """What it asks for and no trace can know."""
    notice: str | None = None


COMMAND = "the exact command or HTTP request, with every flag, keys taken out"
VERSION = "version and commit of what was running, as it was loaded (not what a package index offers)"
LATEST = "whether it still happens on the latest release or the main branch, with its commit"

_GENERIC = (
    ("What happened", "happened"),
    ("Finding", "finding"),
    ("See it yourself", "reproduce"),
    ("What was tried around it", "tried"),
    ("Model", "model"),
    ("Versions and machine", "environment"),
    ("Command", "command"),
    ("Logs", "logs"),
)

GENERIC = Project(name="generic", page=None, sections=_GENERIC, required=(COMMAND, VERSION))

PROJECTS: dict[str, Project] = {
    "mlx-lm": Project(
        name="mlx-lm",
        page="https://github.com/ml-explore/mlx-lm/issues",
        notice=SISTER,
        sections=(
            ("What happened", "happened"),
            ("Finding", "finding"),
            ("Reproduction (needs only mlx-lm)", "reproduce"),
            ("What was tried around it", "tried"),
            ("Model", "model"),
            ("Versions and machine", "environment"),
            ("Command", "command"),
            ("Logs", "logs"),
        ),
        required=(COMMAND, LATEST, "whether the code is stock, or changed where"),
    ),
    "mlx": Project(
        name="mlx",
        page="https://github.com/ml-explore/mlx/issues",
        notice=WROTE_BY_HAND,
        sections=(
            ("Describe the bug", "happened"),
            ("Finding", "finding"),
            ("To Reproduce", "reproduce"),
            ("Expected behavior", "expected"),
            ("Desktop", "environment"),
            ("Additional context", "tried"),
            ("Model", "model"),
            ("Command", "command"),
            ("Logs", "logs"),
        ),
        required=(LATEST, "a snippet in mlx alone, where the fault is in mlx and not in what calls it"),
    ),
    "mlxcel": Project(
        name="mlxcel",
        page="https://github.com/lablup/mlxcel/issues",
        sections=(
            ("Summary", "happened"),
            ("Finding", "finding"),
            ("Steps to reproduce", "command"),
            ("Reproduction without the model or the prompt", "reproduce"),
            ("Expected behavior", "expected"),
            ("Actual behavior", "logs"),
            ("Version and platform", "environment"),
            ("Checkpoint", "model"),
            ("What was tried around it", "tried"),
        ),
        required=(
            COMMAND,
            VERSION,
            "how it was installed (Homebrew, a release, from source)",
            "the platform (an Apple chip, or a CUDA machine such as gb10 or gh200)",
            "logs made with RUST_LOG=mlxcel=debug; `--log FILE` puts them here, cleaned",
            "that you looked for a duplicate, and that this is no security problem",
        ),
    ),
    "mlx-vlm": Project(
        name="mlx-vlm",
        page="https://github.com/Blaizzy/mlx-vlm/issues",
        sections=_GENERIC,
        required=(COMMAND, LATEST, "number, kind and size of the images, audio or video, if any"),
    ),
    "vllm": Project(
        name="vllm",
        page="https://github.com/vllm-project/vllm/issues",
        sections=(
            ("Your current environment", "environment"),
            ("Model", "model"),
            ("Describe the bug", "happened"),
            ("Finding", "finding"),
            ("Minimal code (no external data)", "reproduce"),
            ("Command", "command"),
            ("Full traceback and logs", "logs"),
            ("What was tried around it", "tried"),
        ),
        required=(
            "the output of `python collect_env.py`",
            COMMAND,
            "engine generation (V0 or V1)",
            "logs made with VLLM_LOGGING_LEVEL=DEBUG; for a hang also VLLM_TRACE_FUNCTION=1",
            "the same request on transformers, and what differs",
        ),
    ),
    "transformers": Project(
        name="transformers",
        page="https://github.com/huggingface/transformers/issues",
        sections=(
            ("System Info", "environment"),
            ("Who can help?", "whom"),
            ("Information", "scripts"),
            ("Tasks", "tasks"),
            ("Reproduction", "reproduce"),
            ("Expected behavior", "expected"),
            ("What happened", "happened"),
            ("Finding", "finding"),
            ("Model", "model"),
            ("What was tried around it", "tried"),
            ("Command", "command"),
            ("Logs", "logs"),
        ),
        required=(
            "the output of `transformers env`",
            "whom to mention (the template lists people by model and by subject)",
            "your own code, where it was running, as text and shortened; no screenshots",
        ),
    ),
    "llama.cpp": Project(
        name="llama.cpp",
        page="https://github.com/ggml-org/llama.cpp/issues",
        sections=(
            ("Name and Version", "version"),
            ("Operating systems, backends and hardware", "environment"),
            ("Models", "model"),
            ("Problem description and steps to reproduce", "happened"),
            ("Command line", "command"),
            ("Finding", "finding"),
            ("Reproduction without the model or the prompt", "reproduce"),
            ("What was tried around it", "tried"),
            ("Relevant log output", "logs"),
        ),
        required=(
            "the version string and the compiler, as `llama-cli --version` prints them",
            "a link to the model and its quantisation; whether F16 fails too",
            "the exact command with its flags narrowed down, on one of llama.cpp's own programs",
            "the first bad commit",
            "the result of test-backend-ops for the backend",
        ),
    ),
}
"""By the value of `--for`."""
