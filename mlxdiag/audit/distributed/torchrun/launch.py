"""Two ranks of torchrun on this machine, which meet on the loopback."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from mlxdiag.audit.distributed.launch import RANKS, Launch

CLOSING = 10.0
"""Seconds that torchrun gets to end its ranks."""


class TorchrunLaunch(Launch):
    """See `Launch`. torchrun gives each rank a process group of its own, and ends these groups when it is
    told to stop."""

    quiet = 60.0
    startup = 120.0
    lost = ("Connection closed by peer", "Connection reset by peer", "Timed out waiting", "Broken pipe")

    @staticmethod
    def missing() -> str | None:
        if importlib.util.find_spec("torch") is None:
            return "torch is not installed"
        from torch import distributed

        if not distributed.is_available():
            return "this build of torch has no torch.distributed"
        if not distributed.is_gloo_available():
            return "this build of torch has no gloo backend, with which processes meet on a CPU"
        return None

    def program(self) -> tuple[str, ...]:
        return (sys.executable, "-m", "mlxdiag.audit.distributed.torchrun.rank")

    def start(self) -> None:
        with (self.folder / "agent.err").open("wb") as errors:
            self.agent = subprocess.Popen(
                [
                    *(sys.executable, "-m", "mlxdiag.audit.distributed.torchrun.agent", str(self._ends)),
                    *("--standalone", "--nnodes", "1", "--nproc-per-node", str(RANKS)),
                    *("--local-addr", "127.0.0.1", "--monitor-interval", "0.1", "--shutdown-timeout", "2"),
                    *("--log-dir", str(self.folder / "logs"), "--redirects", "3"),
                    *("--no-python", *self.arguments),
                ],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )

    def stop(self) -> None:
        """Politely first: only torchrun knows everything that it started."""
        with suppress(ProcessLookupError):
            self.agent.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.agent.wait(CLOSING)
        for pid in (self.agent.pid, *self._pids()):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        self.agent.wait()

    def status(self) -> list[int | None]:
        """torchrun ends when its ranks have; those that it ended itself, after another one, ended well."""
        code = self.agent.poll()
        if code is None:
            return [None] * RANKS
        if not self._ends.exists():
            # It never got as far as ranks.
            return [code or 1] * RANKS
        told: dict[str, int] = json.loads(self._ends.read_text())
        found = [told[str(rank)] for rank in range(RANKS)]
        own = [code if code != -signal.SIGTERM else 0 for code in found]
        return [*own] if any(own) else [*found]

    def stderr(self, rank: int) -> str:
        for file in sorted((self.folder / "logs").glob(f"*/attempt_0/{rank}/stderr.log")):
            return file.read_text(errors="replace")
        return (self.folder / "agent.err").read_text(errors="replace")

    @property
    def _ends(self) -> Path:
        return self.folder / "ends.json"

    def _pids(self) -> list[int]:
        """Of the ranks, as they wrote them down when they began."""
        return [int(file.read_text()) for file in self.folder.glob("*.pid") if file.read_text().isdigit()]

    def _environment(self) -> dict[str, str]:
        loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
        return {
            **os.environ,
            "GLOO_SOCKET_IFNAME": loopback,
            # The library takes whatever accelerator it finds, and two ranks need two of them.
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
            "PYTHONFAULTHANDLER": "1",
        }
