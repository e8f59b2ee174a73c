"""No value of a tiny config is the neutral one: a library that leaves it out gives other logits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlxdiag.models.adapter import Skipped
from mlxdiag.models.torch import library
from mlxdiag.models.torch import tiny as tiny_models
from mlxdiag.models.torch.instance import TorchInstance
from mlxdiag.models.torch.zoo.build import tiny_config
from mlxdiag.models.torch.zoo.rows import row

HEAD_DIM = 32
NEUTRAL = [
    ("gemma2", "attn_logit_softcapping", None),
    ("gemma2", "final_logit_softcapping", None),
    ("gemma2", "query_pre_attn_scalar", HEAD_DIM),
    ("vaultgemma", "attn_logit_softcapping", None),
    ("gemma3_text", "query_pre_attn_scalar", HEAD_DIM),
    ("gemma3n_text", "final_logit_softcapping", 1e6),
    ("beam", "final_logit_softcapping", None),
    ("recurrent_gemma", "logits_soft_cap", 1e6),
    ("granite", "attention_multiplier", HEAD_DIM**-0.5),
    ("granite", "embedding_multiplier", 1.0),
    ("granite", "residual_multiplier", 1.0),
    ("granite", "logits_scaling", 1.0),
    ("cohere2", "logit_scale", 1.0),
]


def logits(family: str, **other: Any) -> Any:
    classes = library.family(row(family).model_type)
    assert not isinstance(classes, Skipped)
    config = {**tiny_config(family, classes), **other}
    made = tiny_models.instance(classes, config, name=family, device="cpu")
    assert isinstance(made, TorchInstance)
    return made.backend.read(made.forward(np.arange(10, 34)[None], made.new_cache()))[0]


@pytest.mark.parametrize(("family", "field", "neutral"), NEUTRAL)
def test_a_value_that_is_left_out_shows(family: str, field: str, neutral: Any) -> None:
    meant = logits(family)
    apart = np.abs(meant - logits(family, **{field: neutral})).max() / meant.std()
    # The tolerance between two libraries is 2e-4 of the spread.
    assert apart > 0.02
