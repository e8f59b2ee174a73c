"""Lines of the library: what made the mask, the state, or took tokens back."""

from pathlib import Path

import mlx_lm
import pytest

from mlxdiag.audit.judge.judge import judge
from mlxdiag.audit.schedules.scenarios import named
from mlxdiag.models.mlx import zoo

ROOT = Path(mlx_lm.__file__).parents[1]


def line(family, scenario):
    found = judge(zoo.tiny(family), named(scenario), noise=1e-5)
    assert found.wrong, found
    file, number = found.where.rsplit(":", 1)
    return file, (ROOT / file).read_text().splitlines()[int(number) - 1]


@pytest.mark.parametrize(
    ("family", "scenario", "file", "says"),
    [
        ("gemma2", "chunks-above-window", "mlx_lm/models/gemma2.py", "create_attention_mask"),
        ("gemma2", "left-padding", "mlx_lm/models/gemma2.py", "scores"),
        ("mamba", "right-padding", "mlx_lm/models/mamba.py", "cache["),
        ("gemma3_text", "speculative-across-wrap", "mlx_lm/generate.py", "trim_prompt_cache(model_cache"),
        ("llama4", "trim-after-wrap-chunk", "mlx_lm/models/cache.py", "def trim"),
        ("afm7", "right-padding", "mlx_lm/models/afm7.py", "rope"),
        ("deepseek_v3", "quantized-keys", "mlx_lm/models/deepseek_v3.py", "swapaxes"),
    ],
)
def test_the_line_that_is_named_makes_what_is_wrong(family, scenario, file, says):
    named_file, text = line(family, scenario)
    assert named_file == file
    assert says in text
