"""Small real programs with a tiny model of transformers; `tests.record.programs` runs them."""

from __future__ import annotations

PROMPT, ANSWER = 40, 12
MODEL = """
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig
torch.manual_seed(0)
model = Gemma3ForCausalLM(Gemma3TextConfig(
    vocab_size=300, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=8, sliding_window=16, layer_types=["sliding_attention", "full_attention"],
    pad_token_id=0, eos_token_id=1, bos_token_id=2,
)).eval()
"""
"""A sliding layer with a window of 16, then a full one."""
GENERATE = f"""
from transformers.generation.streamers import BaseStreamer
class Streamer(BaseStreamer):
    said = 0
    def put(self, value):
        if self.said:
            print(value.tolist(), flush=True)
            after(self.said)
        self.said += 1
    def end(self):
        print("end")
model.generate(
    torch.arange(5, {PROMPT + 5})[None], max_new_tokens={ANSWER}, do_sample=False, streamer=Streamer()
)
"""
PLAIN = MODEL + "after = lambda number: None\n" + GENERATE


def ending(action: str) -> str:
    """A program that does `action` after its fifth token."""
    return MODEL + f"def after(number):\n    if number == 5:\n        {action}\n" + GENERATE
