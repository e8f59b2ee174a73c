"""A real tokenizer that knows one word for each id, trained on no text, and texts of a known length."""

from __future__ import annotations

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

PAD, EOS, BOS, TURN, UNKNOWN = "<pad>", "<eos>", "<bos>", "<start_of_turn>", "<unk>"
SPECIALS = (PAD, EOS, BOS, TURN, UNKNOWN)
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<start_of_turn> {{ m['role'] }} {{ m['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn> assistant {% endif %}"
)


def tokenizer(vocab: int, *more: str) -> PreTrainedTokenizerFast:
    """One word per id, split at spaces: word-7 is a token, and so is every special one; `more` are special,
    too.
    """
    specials = (*SPECIALS, *more)
    words = [*specials, "system", "user", "assistant"]
    words += [f"word-{i}" for i in range(len(words), vocab)]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=UNKNOWN))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    inner.add_special_tokens([AddedToken(word, special=True) for word in specials])
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token=PAD,
        eos_token=EOS,
        bos_token=BOS,
        unk_token=UNKNOWN,
        chat_template=TEMPLATE,
    )


def text(count: int, start: int = 0) -> str:
    """`count` words, all different and none special: as many tokens."""
    return " ".join(f"word-{9 + (start + i) % 200}" for i in range(count))
