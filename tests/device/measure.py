"""`python -m tests.device.measure`: the stories and a sample of the audit on a GPU, and on the CPU.

Everything is said in Markdown, on standard output and with `-o` in a file. A part that finds no time left is
named as left out. Exit 0 where GPU and CPU agree, 1 where they do not, 4 where nothing could be compared.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from mlxdiag.audit.judge.judge import audit_family
from mlxdiag.audit.schedules import scenarios
from mlxdiag.errors import CLEAN, FINDINGS, UNJUDGED, MlxdiagError
from mlxdiag.inspect.findings import codes
from mlxdiag.models.adapter import Skipped
from mlxdiag.models.torch import devices, zoo
from mlxdiag.replay import experiment
from mlxdiag.traces.reader import read

ROOT = Path(__file__).parents[2]
LIBRARIES = ("mlxdiag", "torch", "transformers", "mlx", "mlx-lm", "numpy")
FAMILIES = (
    *("gemma3_text", "gemma4_text", "gemma3n_text", "gpt_oss", "gemma2", "mistral", "cohere2", "olmo3"),
    *("exaone4", "ministral3", "recurrent_gemma", "qwen3", "llama4_text", "afmoe"),
)
"""Windows of every kind, shared keys, sinks, soft caps, recurrent layers, experts."""
SAMPLED = ("gemma3_text", "gemma4_text", "gpt_oss", "mistral")
SCENARIOS = (
    *("fresh-over-window", "chunks-below-window", "chunks-above-window", "decode-across-window"),
    *("speculative-before-wrap", "left-padding", "interleaved", "no-cache"),
)
LENGTH = 64
"""Tokens of the pass whose logits are compared: eight windows."""


class Clock:
    """How much of the time that was given is left."""

    def __init__(self, seconds: float) -> None:
        self.start = time.monotonic()
        self.seconds = seconds

    @property
    def left(self) -> float:
        return self.seconds - (time.monotonic() - self.start)


class Tally:
    """What was compared, and what disagreed."""

    def __init__(self) -> None:
        self.compared = 0
        self.wrong: list[str] = []

    def agree(self, same: bool, what: str) -> str:
        self.compared += 1
        if not same:
            self.wrong.append(what)
        return "yes" if same else "NO"


def main(arguments: list[str] | None = None) -> int:
    options = parsed(arguments)
    clock, tally = Clock(options.seconds), Tally()
    lines: list[str] = []

    def say(text: str) -> None:
        lines.append(text)
        print(text, flush=True)

    try:
        devices.choose(options.device)
    except MlxdiagError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return UNJUDGED
    parts: Iterable[Callable[[], Iterator[str]]] = (
        lambda: machine(options.device),
        lambda: noise(options.device, options.families, clock, tally),
        lambda: halves(options.device, options.families[:4], clock),
        lambda: stories("torch", options.device, options.stories, clock, tally),
        lambda: audits(options.device, clock, tally),
        lambda: on_mlx(options.device, options.stories, clock, tally),
    )
    for part in parts:
        for line in part():
            say(line)
    say(f"\n{tally.compared} comparisons, {len(tally.wrong)} disagree{': ' if tally.wrong else '.'}")
    for what in tally.wrong:
        say(f"- {what}")
    say(f"\n{time.monotonic() - clock.start:.0f} s in all.")
    if options.output is not None:
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return FINDINGS if tally.wrong else CLEAN if tally.compared else UNJUDGED


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/device/run_cuda.sh")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=330.0)
    parser.add_argument("--families", type=lambda text: tuple(text.split(",")), default=FAMILIES)
    every = tuple(sorted(path.stem for path in (ROOT / "traces").glob("*.yaml")))
    parser.add_argument("--stories", type=lambda text: tuple(text.split(",")), default=every)
    return parser.parse_args(arguments)


def machine(device: str) -> Iterator[str]:
    """Versions and devices."""
    import torch

    name = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()
    yield f"# Measured on {name}\n"
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    yield f"`tests/device/run_cuda.sh --device {device}`, {system}.\n"
    yield "| library | version |\n|---|---|"
    for library in LIBRARIES:
        with suppress(metadata.PackageNotFoundError):
            yield f"| {library} | {metadata.version(library)} |"
    if device == "cuda":
        major, minor = torch.cuda.get_device_capability()
        memory = torch.cuda.get_device_properties(0).total_memory / 2**30
        yield f"| CUDA of torch | {torch.version.cuda} |"
        yield f"| compute capability, memory | {major}.{minor}, {memory:.0f} GiB |"
    for one in (device, "cpu"):
        # What is slow once: kernels that are loaded, and memory that is asked for.
        warm = zoo.tiny("llama", device=one)
        if not isinstance(warm, Skipped):
            logits(warm, 5)
    yield f"\nTF32: matmul {torch.backends.cuda.matmul.allow_tf32}, cudnn {torch.backends.cudnn.allow_tf32}."


def noise(device: str, families: tuple[str, ...], clock: Clock, tally: Tally) -> Iterator[str]:
    """How far float32 logits of the GPU lie from those of the CPU, by family and implementation."""
    yield f"\n## float32 logits against the CPU: one pass of {LENGTH} tokens, and the same in chunks of 5\n"
    yield "Differences as fractions of the standard deviation of the logits.\n"
    yield "| family | attention | pass: median | pass: largest | chunks: largest | below 2e-4 |"
    yield "|---|---|---|---|---|---|"
    largest = 0.0
    for family in families:
        for attention in kinds(family):
            if clock.left < 0.6 * clock.seconds:
                yield f"| {family} | {attention or 'own'} | left out: no time | | | |"
                continue
            pair = [zoo.tiny(family, attention=attention, device=one) for one in ("cpu", device)]
            absent = next((one for one in pair if isinstance(one, Skipped)), None)
            if absent is not None:
                yield f"| {family} | {attention or 'own'} | skipped: {absent} | | | |"
                continue
            reference = logits(pair[0], LENGTH)
            unit = float(reference.std())
            whole, pieces = (np.abs(logits(pair[1], size) - reference) / unit for size in (LENGTH, 5))
            worst = float(max(whole.max(), pieces.max()))
            largest = max(largest, worst)
            same = tally.agree(worst < 2e-4, f"{family} {pair[1].attention}: logits by {worst:.1e}")
            yield (
                f"| {family} | {pair[1].attention} | {np.median(whole):.1e} | {whole.max():.1e} | "
                f"{pieces.max():.1e} | {same} |"
            )
    yield f"\nThe largest of them is {largest:.1e}."


def kinds(family: str) -> tuple[str | None, ...]:
    """The family's own implementation of attention, and the one by hand where that is another."""
    own = zoo.tiny(family, device="cpu")
    return (None,) if isinstance(own, Skipped) or own.attention == "eager" else (None, "eager")


def halves(device: str, families: tuple[str, ...], clock: Clock) -> Iterator[str]:
    """Half precision, which is a statistic and no judge."""
    import torch

    yield "\n## bfloat16 and float16 on the GPU against its own float32\n"
    yield "| family | dtype | median | 99 % | largest | argmax agrees |\n|---|---|---|---|---|---|"
    for family in families:
        instance = zoo.tiny(family, device=device)
        if isinstance(instance, Skipped) or clock.left < 0.5 * clock.seconds:
            yield f"| {family} | left out | | | | |"
            continue
        reference = logits(instance, LENGTH)
        for dtype in (torch.bfloat16, torch.float16):
            instance.model.to(dtype)
            rounded = logits(instance, LENGTH)
            apart = np.abs(rounded - reference) / reference.std()
            agree = (rounded.argmax(-1) == reference.argmax(-1)).mean()
            yield (
                f"| {family} | {str(dtype).removeprefix('torch.')} | {np.median(apart):.1e} | "
                f"{np.quantile(apart, 0.99):.1e} | {apart.max():.1e} | {agree:.2f} |"
            )


def logits(instance: Any, size: int) -> np.ndarray[Any, Any]:
    """[LENGTH, V] of the same ids, fed in chunks of `size`."""
    ids = np.random.default_rng(0).permutation(instance.vocab)[:LENGTH][None]
    caches = instance.new_cache()
    pieces = [
        instance.backend.read(instance.forward(ids[:, at : at + size], caches))[0]
        for at in range(0, LENGTH, size)
    ]
    return np.concatenate(pieces)


def stories(backend: str, device: str, names: tuple[str, ...], clock: Clock, tally: Tally) -> Iterator[str]:
    """Every shipped trace, replayed on both devices."""
    yield f"\n## The shipped traces, replayed by {backend} on {device} and on the CPU\n"
    yield "| trace | on the GPU | on the CPU | same codes | parity GPU | parity CPU | time GPU / CPU |"
    yield "|---|---|---|---|---|---|---|"
    for name in names:
        if clock.left < 0.25 * clock.seconds:
            yield f"| {name} | left out: no time | | | | | |"
            continue
        try:
            here, there = (replayed(backend, one, name) for one in (device, "cpu"))
        except MlxdiagError as error:
            yield f"| {name} | {error} | | | | | |"
            continue
        same = tally.agree(here[0] == there[0], f"{backend} {name}: {here[0]} and {there[0]}")
        yield (
            f"| {name} | {here[0] or 'clean'} | {there[0] or 'clean'} | {same} | {here[1]} | {there[1]} | "
            f"{here[2] / there[2]:.2f} |"
        )


def replayed(backend: str, device: str, name: str) -> tuple[str, str, float]:
    """Codes, largest logit difference from the single pass on the same device, and seconds."""
    from mlxdiag.models import backends

    if backend == "mlx":
        backends.use_device(backend, device)
    started = time.monotonic()
    prepared = experiment.prepare(read(ROOT / "traces" / f"{name}.yaml"), source=name, backend=backend)
    instance = experiment.instance_for(prepared, device=device)
    ran = experiment.run_policies(prepared, instance, (prepared.plan.misfit,))[0]
    found = codes(finding for finding in ran.report.findings if finding.severity != "info")
    worst = ran.outcome.max_abs
    return " ".join(sorted(found)), "-" if worst is None else f"{worst:.1e}", time.monotonic() - started


def audits(device: str, clock: Clock, tally: Tally) -> Iterator[str]:
    """A sample of the audit's cells on both devices."""
    yield f"\n## A sample of the audit of transformers on {device} and on the CPU\n"
    yield "| family | cells | same result and codes | results | time GPU / CPU |\n|---|---|---|---|---|"
    chosen = [scenarios.named(name) for name in SCENARIOS]
    for family in SAMPLED:
        if clock.left < 0.1 * clock.seconds:
            yield f"| {family} | left out: no time | | | |"
            continue
        cells, seconds = [], []
        for one in (device, "cpu"):
            started = time.monotonic()
            cells.append(list(audit_family(family, chosen, library="transformers", device=one)))
            seconds.append(time.monotonic() - started)
        alike = [(a.result, a.codes) == (b.result, b.codes) for a, b in zip(*cells, strict=True)]
        for cell, same in zip(cells[0], alike, strict=True):
            tally.agree(same, f"{family} {cell.scenario}: {cell.result} {' '.join(cell.codes)}")
        results = [cell.result for cell in cells[0]]
        told = ", ".join(f"{results.count(one)} {one}" for one in dict.fromkeys(results))
        yield f"| {family} | {len(alike)} | {sum(alike)} | {told} | {seconds[0] / seconds[1]:.2f} |"


def on_mlx(device: str, names: tuple[str, ...], clock: Clock, tally: Tally) -> Iterator[str]:
    """The stories once more, where MLX has the same device."""
    from mlxdiag.models.mlx import devices as mlx_devices

    if device == "cpu":
        return
    found = mlx_devices.devices()
    reason = str(found) if isinstance(found, Skipped) else ""
    for one in [] if isinstance(found, Skipped) else found:
        if one.name == device and not one.works:
            reason = one.reason
    if reason:
        yield f"\nMLX was not run on {device}: {reason}."
        return
    yield from stories("mlx", device, names, clock, tally)


if __name__ == "__main__":
    sys.exit(main())
