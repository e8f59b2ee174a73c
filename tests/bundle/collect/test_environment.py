from __future__ import annotations

import socket
import subprocess
from importlib import metadata

from mlxdiag.bundle.collect import environment


def test_variables_enter_by_name_and_only_as_switches():
    environ = {
        "MLX_DISABLE_COMPILE": "1",
        "RUST_LOG": "/Users/zorblax/x y",
        "HF_TOKEN": "hf_x",
        "PATH": "/bin",
    }
    assert environment.here(environ)["variables"] == {"MLX_DISABLE_COMPILE": "1"}


def test_this_machines_name_is_not_told():
    told = str(environment.here({}))
    assert socket.gethostname() not in told.split()
    assert environment.here({})["libraries"]["mlxdiag"]["version"] == metadata.version("mlxdiag")


def test_a_slow_or_missing_program_of_the_system_is_done_without(monkeypatch):
    def never(*_, **__):
        raise subprocess.TimeoutExpired("x", 1)

    monkeypatch.setattr(environment.shutil, "which", lambda _: "/bin/true")
    monkeypatch.setattr(environment.subprocess, "run", never)
    assert "gpus" not in environment.here({})


def test_gpus_are_read_from_the_drivers_tool(monkeypatch):
    monkeypatch.setattr(environment, "_ask", lambda *_: "NVIDIA H200, 550.54.15, 143771 MiB\nodd line")
    assert environment.here({})["gpus"] == [
        {"name": "NVIDIA H200", "driver": "550.54.15", "memory": "143771 MiB"}
    ]


def test_what_the_trace_recorded_is_apart_from_this_machine():
    told = environment.document({"os": "macOS 26"}, {"program": "mlxcel"})
    assert told["recorded"] == {"environment": {"os": "macOS 26"}, "source": {"program": "mlxcel"}}
    assert "may be another" in told["here"]["note"]
