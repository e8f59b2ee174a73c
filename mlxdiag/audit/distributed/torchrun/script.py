"""A standalone script for a family that goes wrong when it is split: it starts torchrun itself."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pprint import pformat
from typing import Any

from mlxdiag.audit.cell import Fault
from mlxdiag.audit.distributed.launch import RANKS
from mlxdiag.audit.distributed.schedules import SCHEDULES, tokens
from mlxdiag.audit.distributed.told import TENSOR
from mlxdiag.audit.distributed.torchrun import split
from mlxdiag.audit.distributed.torchrun.launch import TorchrunLaunch
from mlxdiag.audit.judge import noise
from mlxdiag.audit.libraries import table
from mlxdiag.audit.repro.subject import WIDTH, joined, quoted, tolerance
from mlxdiag.audit.repro.transformers import parts
from mlxdiag.audit.repro.transformers.model import Model, head_lines, weights
from mlxdiag.errors import UnjudgedError
from mlxdiag.models.adapter import Skipped

RUN = '''\
transformers.utils.logging.disable_progress_bar()


def load(folder, **given):
    loaded = Model.from_pretrained(
        folder, dtype=torch.float32, local_files_only=True, attn_implementation=ATTENTION, **given
    )
    if loaded._can_set_experts_implementation():
        loaded.set_experts_implementation("eager")
    return loaded.eval()


def run(model):
    """The logits of each schedule: some rows of the tokens, fed in pieces on a fresh cache."""
    seen = {{}}
    for name, (rows, pieces) in SCHEDULES.items():
        cache, logits, start = DynamicCache(config=model.config), [], 0
        for length in pieces:
            ids = torch.tensor(TOKENS)[:rows, start : start + length]
            with torch.no_grad():
                out = model(input_ids=ids, use_cache=True, cache=cache)
            logits.append({logits})
            start += length
        seen[name] = torch.cat(logits, dim=1).float()
    return seen


def rank(folder):
    """What each of the processes does with its part of the model."""
    number = os.environ["RANK"]
    torch.distributed.init_process_group("gloo", timeout=datetime.timedelta(seconds=40))
    try:
        seen = run(load(folder, distributed_config=DistributedConfig(**HOW)))
    except Exception as error:
        said = " ".join(f"{{type(error).__name__}}: {{error}}".split())
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "transformers" in f.filename]
        with open(os.path.join(folder, f"{{number}}.error"), "w") as file:
            file.write(f"{{said}} ({{frames[-1].filename}}:{{frames[-1].lineno}})" if frames else said)
        os._exit(3)  # the other one may wait for this one
    torch.save(seen, os.path.join(folder, f"{{number}}.logits"))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def split(folder):
    """What each process computed, or what it failed with."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
    command += ["--nproc-per-node", str(RANKS), os.path.abspath(__file__)]
    loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    more = {{"FOLDER": folder, "GLOO_SOCKET_IFNAME": loopback, "CUDA_VISIBLE_DEVICES": ""}}
    done = subprocess.run(
        command, env={{**os.environ, **more}}, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    errors = {{}}
    for number in range(RANKS):
        path = os.path.join(folder, f"{{number}}.error")
        if os.path.exists(path):
            with open(path) as file:
                errors[number] = file.read()
    own = {{n: said for n, said in errors.items() if not any(words in said for words in LEFT_ALONE)}}
    if errors:
        return own or errors
    if done.returncode:
        print("could not run: torchrun:", done.stderr.strip()[-600:])
        sys.exit(2)
    return {{number: torch.load(os.path.join(folder, f"{{number}}.logits")) for number in range(RANKS)}}
'''

MAIN = """\
def main():
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, cpu, {ATTENTION}")
    print(TITLE)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        expected = run(load(folder))
        found = split(folder)
    wrong = []
    for number, seen in sorted(found.items()):
        if isinstance(seen, str):
            print("expected: no exception, as in one process")
            print(f"seen:     rank {number}: {seen}")
            print("FAULT")
            return 1
        for name, logits in expected.items():
            apart = (seen[name] - logits).abs().amax(dim=-1).nan_to_num(float("inf"))
            limit = TOLERANCE * logits.std(unbiased=False).item()
            if (apart > limit).any():
                first = (apart > limit).nonzero()[0].tolist()
                wrong.append((apart.max().item(), number, name, first, limit))
    if wrong:
        most, number, name, (row, position), limit = max(wrong)
        print("expected: the logits of one process with the same checkpoint")
        print(f"seen:     rank {number}, {name}: row {row}, position {position} is the first that differs")
        print(f"          (largest {most:.3g}; rounding stays below {limit:.2g})")
    print("FAULT" if wrong else "OK: the fault is not there")
    return 1 if wrong else 0


try:
    model = build()
"""

END = """\
except Exception as error:
    print(f"could not run: {error}")
    sys.exit(2)

if __name__ == "__main__":
    sys.exit(rank(os.environ["FOLDER"]) if "RANK" in os.environ else main())
"""


def compose(found: Fault, seed: int = 0) -> str:
    """The text of the script for a fault of one kind of splitting.

    Raises UnjudgedError for a family that cannot be built here.
    """
    family, kind = found.cells[0] if found.cells else (found.families[0], TENSOR)
    instance: Any = table.named("transformers").tiny(family, seed, "cpu")
    if isinstance(instance, Skipped):
        raise UnjudgedError(f"{family}: {instance}")
    return joined(_parts(found, instance, kind, seed))


def _parts(found: Fault, instance: Any, kind: str, seed: int) -> Iterator[str]:
    made = Model(instance)
    yield "#!/usr/bin/env python3\n" + _docstring(found, instance, kind)
    opening = parts.OPENING.format(imports="\n    ".join(made.imports), caches="DynamicCache")
    opening = opening.replace("import copy\n", "import copy\nimport datetime\n", 1)
    opening = opening.replace(
        "import sys\nimport warnings\n",
        "import socket\nimport subprocess\nimport sys\nimport tempfile\nimport traceback\nimport warnings\n",
        1,
    )
    yield opening.replace(
        "    import transformers\n",
        "    import torch.distributed\n    import transformers\n"
        "    from transformers.distributed import DistributedConfig\n",
        1,
    )
    yield "\n".join(
        [
            f"TITLE = {_title(instance, kind)!r}",
            f"RANKS = {RANKS}",
            f"HOW = {split.HOW[kind]!r}",
            f"LEFT_ALONE = {TorchrunLaunch.lost!r}  # what a rank says whose peer is gone",
            *weights(instance, seed),
            tolerance(noise.tolerance(noise.floor(instance, seed))),
            *made.lines(),
            f"TOKENS = {pformat(tokens(instance, seed).tolist(), width=WIDTH - 10, compact=True)}",
            f"SCHEDULES = {pformat(SCHEDULES, width=WIDTH - 10, sort_dicts=False)}  # rows, and pieces",
        ]
    )
    yield parts.BUILD.format(config=made.expression)
    yield RUN.format(logits="out.logits" if instance.head is None else "out.last_hidden_state @ HEAD.T")
    yield MAIN + head_lines(instance) + END


def _title(instance: Any, kind: str) -> str:
    return f"{instance.module.__name__} ({instance.name}): {kind} over {RANKS} processes"


def _docstring(found: Fault, instance: Any, kind: str) -> str:
    lines = [_title(instance, kind), "", *textwrap.wrap(found.cause, WIDTH - 6), ""]
    if found.where:
        lines += [f"Where: {found.where}", ""]
    lines += [
        "Looked at: no exception; logits of every rank against those of one process with the same weights.",
        "Needs torch and transformers and nothing else: no checkpoint, no network, tiny random weights.",
        f"It starts torchrun itself, with {RANKS} processes that meet on the loopback.",
        "Exit code: 0 right, 1 the fault is there, 2 it could not run.",
    ]
    return quoted(lines)
