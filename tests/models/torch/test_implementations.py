"""A replay attends as the recorded program did, where it can, and says where it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from mlxdiag.models.adapter import Skipped
from mlxdiag.models.torch import tiny
from mlxdiag.models.torch.implementations import like

CONFIGS: dict[str, dict[str, Any]] = {
    name: {"model_type": name, "num_hidden_layers": 2, "sliding_window": 8}
    for name in ("gemma3_text", "gpt_oss")
}


def ran(recorded: str | None, family: str = "gemma3_text") -> tuple[str, str]:
    """The implementation, and what is said of it."""

    def build(attention: str | None) -> Any:
        return tiny.build(CONFIGS[family], attention=attention)

    made = like(recorded, build)
    assert not isinstance(made, Skipped), str(made)
    assert made.model.config.get_text_config()._attn_implementation == made.attention
    return made.attention, "; ".join(note for note in made.geometry.notes if note.startswith("attention"))


@pytest.mark.parametrize("recorded", ["sdpa", "eager"])
def test_what_every_machine_has_is_run_as_recorded(recorded: str) -> None:
    assert ran(recorded) == (recorded, "")


def test_where_nothing_is_recorded_the_library_chooses() -> None:
    assert ran(None) == ("sdpa", "")


@pytest.mark.parametrize(
    ("recorded", "run"),
    [
        ("flash_attention_2", "sdpa"),
        ("flex_attention", "sdpa"),
        ("paged|sdpa", "sdpa"),
        ("paged|eager", "eager"),
    ],
)
def test_what_is_not_here_is_said(recorded: str, run: str) -> None:
    assert ran(recorded) == (run, f"attention was {recorded} when recorded, and is run with {run}")


def test_what_the_family_refuses_is_said() -> None:
    """Its attention sinks have no place in sdpa."""
    implementation, said = ran("sdpa", "gpt_oss")
    assert implementation == "eager"
    assert said.startswith("attention was sdpa when recorded, and is run with eager (")
