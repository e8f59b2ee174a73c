"""Which attention functions are the library's own: real ones, and what programs put in their place."""

from __future__ import annotations

from functools import partial, wraps
from typing import Any

import pytest
import torch
from transformers import AttentionInterface
from transformers.integrations.eager_paged import eager_paged_attention_forward
from transformers.integrations.flash_attention import flash_attention_forward
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.models.gemma3.modeling_gemma3 import eager_attention_forward as gemma3_eager
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward as gpt_oss_eager

from mlxdiag.models.torch.probe_functions import ADDED, FLASH, FOREIGN, SDPA, kind_of


def mine(*args: Any, **kwargs: Any) -> Any:
    """Like the library's, but for the mask."""
    return sdpa_attention_forward(*args[:4], None, *args[5:], **kwargs)


@wraps(sdpa_attention_forward)
def disguised(*args: Any, **kwargs: Any) -> Any:
    return mine(*args, **kwargs)


class Callable(torch.nn.Module):
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return mine(*args, **kwargs)


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (sdpa_attention_forward, SDPA),
        (flash_attention_forward, FLASH),
        (partial(flash_attention_forward, implementation=None), FLASH),
        (eager_paged_attention_forward, ADDED),
        (gemma3_eager, ADDED),
        (gpt_oss_eager, ADDED),
    ],
)
def test_functions_that_the_library_ships(function: Any, kind: str) -> None:
    assert kind_of(function) == kind


def test_every_function_that_the_library_has_registered_is_known() -> None:
    kinds = {name: kind_of(function) for name, function in AttentionInterface._global_mapping.items()}
    assert FOREIGN not in kinds.values()
    assert {name for name, kind in kinds.items() if kind == FLASH} == {
        f"flash_attention_{n}" for n in (2, 3, 4)
    }
    assert kinds["sdpa"] == SDPA


@pytest.mark.parametrize(
    "function", [mine, disguised, partial(mine), partial(disguised), Callable(), torch.add, lambda *_: None]
)
def test_functions_of_anybody_else(function: Any) -> None:
    assert kind_of(function) == FOREIGN


def test_a_name_is_no_proof() -> None:
    posing = partial(mine)
    posing.__module__ = "transformers.integrations.sdpa_attention"  # type: ignore[attr-defined]
    assert kind_of(posing) == FOREIGN


def test_what_this_package_wraps_stays_what_it_is() -> None:
    from mlxdiag.models.torch.probe_calls import attention_wrapper
    from mlxdiag.models.torch.probe_frame import Local

    for function, kind in ((sdpa_attention_forward, SDPA), (gemma3_eager, ADDED), (mine, FOREIGN)):
        assert kind_of(attention_wrapper(function, kind, Local(None), None)) == kind
