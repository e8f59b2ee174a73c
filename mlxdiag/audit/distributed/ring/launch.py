"""Two ranks of MLX's ring, each a process of ours that reads who its peer is from a host file."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress

from mlxdiag.audit.distributed.launch import RANKS, Launch


class RingLaunch(Launch):
    """See `Launch`."""

    lost = ("connection to a peer was lost",)

    def program(self) -> tuple[str, ...]:
        return (sys.executable, "-m", "mlxdiag.audit.distributed.ring.rank")

    def start(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        hosts = self.folder / "hosts.json"
        hosts.write_text(json.dumps([[f"127.0.0.1:{port}"] for port in free_ports(RANKS)]))
        for rank in range(RANKS):
            environment = {
                **os.environ,
                "MLX_RANK": str(rank),
                "MLX_HOSTFILE": str(hosts),
                "PYTHONFAULTHANDLER": "1",
            }
            with (self.folder / f"{rank}.err").open("wb") as errors:
                self.processes.append(
                    subprocess.Popen(
                        self.arguments,
                        env=environment,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=errors,
                        start_new_session=True,
                    )
                )

    def stop(self) -> None:
        for process in self.processes:
            # It may have ended, and nothing of its group be left.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def status(self) -> list[int | None]:
        return [process.poll() for process in self.processes]

    def stderr(self, rank: int) -> str:
        return (self.folder / f"{rank}.err").read_text(errors="replace")


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody uses at the moment."""
    held = [socket.socket() for _ in range(count)]
    try:
        for sock in held:
            sock.bind(("127.0.0.1", 0))
        return [int(sock.getsockname()[1]) for sock in held]
    finally:
        for sock in held:
            sock.close()
