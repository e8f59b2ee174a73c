import json

from mlxdiag.cli import doctor as verb
from mlxdiag.models.device import Device
from mlxdiag.models.doctor import Backend, Examination, Missing
from tests.cli.program import call


def examined(works):
    return Examination(
        python="3.11.7",
        system="Linux x86_64",
        libraries={"mlx": "0.32.4"},
        backends=[
            Backend(
                name="mlx",
                works=works,
                devices=[
                    Device(name="cuda", works=False, reason="not seen", hint="pip install mlx[cuda13]"),
                    Device(name="cpu", works=works, reason="" if works else "nonsense"),
                ],
            ),
            Backend(name="torch", works=False, reason="torch not installed", hint="pip install torch"),
        ],
        families=["llama"] if works else [],
        missing=[Missing(name="mellum", reason="not in mlx-lm 0.32.2")],
        transformers_families=["gemma3_text", "llama"] if works else [],
    )


def test_here_the_cpu_computes_and_what_is_absent_has_a_reason(capsys):
    ran = call(capsys, "doctor", "--format", "json")
    assert ran.code == 0
    found = json.loads(ran.out)
    mlx = next(backend for backend in found["backends"] if backend["name"] == "mlx")
    assert mlx["works"]
    assert next(device for device in mlx["devices"] if device["name"] == "cpu")["works"]
    assert "llama" in found["families"]
    assert all(family["reason"] for family in found["missing"])


def test_each_failure_says_why_and_what_to_do(capsys, monkeypatch):
    monkeypatch.setattr(verb, "examine", lambda: examined(works=True))
    ran = call(capsys, "doctor")
    assert ran.code == 0
    for line in (
        "Python 3.11.7 on Linux x86_64",
        "mlx: works",
        "  cpu: computes",
        "  cuda: does not compute: not seen (try: pip install mlx[cuda13])",
        "torch: does not work: torch not installed (try: pip install torch)",
        "mlx-lm: 1 model families load: llama",
        "  not mellum: not in mlx-lm 0.32.2",
        "transformers: 2 model families can be replayed: gemma3_text, llama",
    ):
        assert line in ran.out.split("\n")


def test_no_backend_is_four(capsys, monkeypatch):
    monkeypatch.setattr(verb, "examine", lambda: examined(works=False))
    ran = call(capsys, "doctor")
    assert ran.code == 4
    assert "nothing can be replayed" in ran.err
