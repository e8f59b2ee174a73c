from __future__ import annotations

from mlxdiag.bundle.collect import listing
from mlxdiag.bundle.collect.projects import REQUIRED

HERE = {"note": "x", "os": "Linux 6", "libraries": {"mlx": {"version": "0.32", "commit": "d78bf58"}}}


def test_what_is_not_known_is_asked_for():
    assert list(listing.model({"missing": "no model"})) == [f"- {REQUIRED}: which model, exactly (no model)"]
    lines = list(listing.environment({"recorded": {"environment": {}}, "here": HERE}))
    assert lines[0].startswith(f"- {REQUIRED}: the trace does not say where it was recorded")


def test_versions_with_their_commits():
    recorded = {"environment": {"device": "metal", "libraries": {"mlx": "0.32.1"}}}
    lines = list(listing.environment({"recorded": recorded, "here": HERE}))
    assert "- Libraries: mlx 0.32.1" in lines
    assert "- Libraries: mlx 0.32 (commit d78bf58)" in lines
    assert not any("note" in line for line in lines)


def test_torch_is_told_in_a_line():
    torch = {
        "built for": "CUDA 12.8",
        "commit": "cf30153",
        "cudnn": "91002",
        "devices": ["NVIDIA H200", "CPU"],
    }
    lines = list(listing.environment({"recorded": {"environment": {}}, "here": {**HERE, "torch": torch}}))
    assert "- torch: built for CUDA 12.8, commit cf30153, cuDNN 91002; devices: NVIDIA H200, CPU" in lines


def test_layers_with_what_decides_their_masks():
    card = {"name": "gemma", "layers": {"sliding": {"attention": "sliding", "window": 8, "layers": [0, 1]}}}
    assert "- sliding layers: attention sliding, window 8" in list(listing.model(card))


def test_an_environment_of_any_form_is_listed():
    odd = {"libraries": "mlx", "gpus": ["metal"], "memory_gib": 64, "os": {"name": "macOS"}}
    assert list(listing.environment({"recorded": {"environment": odd}, "here": HERE}))[2:6] == [
        "- libraries: mlx",
        "- gpus: metal",
        "- Memory: 64 GiB",
        "- System: name=macOS",
    ]
    gpus = {"gpus": [{"name": "H200", "driver": "570", "memory": "141 GiB"}]}
    assert "- GPU: H200, driver 570, 141 GiB" in list(
        listing.environment({"recorded": {"environment": gpus}, "here": HERE})
    )
