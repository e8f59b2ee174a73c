"""Model and machines as the lists of a summary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mlxdiag.bundle.collect.projects import REQUIRED


def model(card: Mapping[str, Any]) -> Iterator[str]:
    """What of the model decides its masks."""
    if card.get("missing"):
        yield f"- {REQUIRED}: which model, exactly ({card['missing']})"
        return
    name = card.get("name")
    yield (
        f"- Name: {name}" if name else f"- {REQUIRED}: the model's public name and revision, if it is public"
    )
    yield f"- Architecture: {card.get('architecture') or 'not known'}"
    for family, layers in (card.get("layers") or {}).items():
        facts = ", ".join(f"{key} {value}" for key, value in layers.items() if key not in ("layers",))
        yield f"- {family} layers: {facts}"
    config = {k: v for k, v in (card.get("config") or {}).items() if isinstance(v, int | float | str)}
    if config:
        yield "- Config: " + ", ".join(f"{key} {value}" for key, value in sorted(config.items())[:40])
    for key in ("quantization", "dtype"):
        if card.get(key):
            yield f"- {key.capitalize()}: {card[key]}"
    if card.get("files"):
        yield f"- Weight files: {len(card['files'])}, with hashes in model.json"


def environment(told: Mapping[str, Any]) -> Iterator[str]:
    """The machine that recorded and the one that bundled."""
    recorded = told["recorded"]["environment"]
    if recorded:
        yield "Where it was recorded:"
        yield ""
        yield from _listed(recorded)
        yield ""
    else:
        yield f"- {REQUIRED}: the trace does not say where it was recorded: system, chip, memory, versions"
        yield ""
    here = {k: _torch(v) if k == "torch" else v for k, v in told["here"].items() if k != "note"}
    yield "Where this bundle was made (the same machine, unless you moved the trace):"
    yield ""
    yield from _listed(here)


def _torch(told: Any) -> Any:
    """How it was built and what it finds, in a line."""
    if not isinstance(told, dict):
        return told
    build = [f"built for {told.get('built for')}"]
    build += [f"commit {told['commit']}"] if told.get("commit") else []
    build += [f"cuDNN {told['cudnn']}"] if told.get("cudnn") else []
    devices = told.get("devices")
    found = ", ".join(map(str, devices)) if isinstance(devices, list) else devices
    return f"{', '.join(build)}; devices: {found}"


NAMED = {
    "os": "System", "machine": "Processor", "chip": "Chip", "python": "Python", "device": "Device",
    "attention": "Attention",
    "variables": "Environment variables",
}  # fmt: skip


def _listed(values: Mapping[str, Any]) -> Iterator[str]:
    """A trace may hold anything under these names, so only what has the expected form is laid out."""
    for key, value in values.items():
        if key == "libraries" and isinstance(value, dict):
            told = (f"{name} {_version(one)}" for name, one in value.items())
            yield f"- Libraries: {', '.join(told)}"
        elif key == "gpus" and isinstance(value, list) and all(isinstance(gpu, dict) for gpu in value):
            for gpu in value:
                yield f"- GPU: {gpu.get('name')}, driver {gpu.get('driver')}, {gpu.get('memory')}"
        elif key == "memory_gib":
            yield f"- Memory: {value} GiB"
        elif isinstance(value, list):
            yield f"- {NAMED.get(key, key)}: " + ", ".join(map(str, value))
        elif isinstance(value, dict):
            yield f"- {NAMED.get(key, key)}: " + ", ".join(f"{name}={one}" for name, one in value.items())
        else:
            yield f"- {NAMED.get(key, key)}: {value}"


def _version(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    return str(value.get("version")) + (f" (commit {value['commit']})" if value.get("commit") else "")
