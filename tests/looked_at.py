"""Small networks of every family, with random weights and a tokenizer: what the tests of `inspect` look at."""

from typing import Any

from inference.samples import tokenizer
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.models.encoder_decoder import EncoderDecoder
from maskwright.text.tokenizers.tokenizer import Tokenizer

TEXT = "the cat sat on the mat ."
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 400,
    "initializer_range": 0.3,
}
SWITCHES: dict[str, dict[str, Any]] = {
    "BERT": {},
    "RoBERTa": {"positions": "offset", "type_vocab_size": 1, "pad_token_id": 0},
    "ALBERT": {"num_hidden_groups": 1, "embedding_size": 8, "num_hidden_layers": 3},
    "DistilBERT": {"type_vocab_size": 0, "pooler": False},
    "MPNet": {"positions": "offset", "relative_buckets": 32, "type_vocab_size": 0},
    "Shaw": {"positions": "relative_key_value", "relative_distance": 4},
    "Huang": {"positions": "relative_key_query", "relative_distance": 4},
    "ModernBERT": {"positions": "rotary", "attention": "window", "full_attention_every": 2, "norm": "pre"},
    "BigBird": {"attention": "big_bird_published", "block_size": 4, "random_blocks": 1},
    "GPT-2": {"attention": "causal", "norm": "pre", "bare_heads": True, "pooler": False, "type_vocab_size": 0},
    "GPT-2, other scales": {
        "attention": "causal",
        "norm": "pre",
        "scale_attention": False,
        "scale_attention_by_layer": True,
        "upcast_attention": True,
    },
}


def network(name):
    """A network of a family with random weights, large enough that tokens matter."""
    config = ModelConfig(vocab_size=len(tokenizer()), **SIZES | SWITCHES[name])
    model = build(config, None, seed=3)
    model.tokenizer = tokenizer()
    return model.eval()


def translator(**switches):
    """A small encoder-decoder over one vocabulary of words, which has tokens that begin and end a text."""
    words = Tokenizer.train_from_iterator(iter([TEXT, "rain fell on dogs"] * 3), kind="byte-bpe", vocab_size=300)
    start, end = words.bos_id, words.eos_id
    if end is None:
        words = words.with_tokens(["<s>", "</s>"])
        words = words.with_template("<s>", "</s>", "</s>")
    start, end = words.token_to_id("<s>") if start is None else start, words.eos_id
    config = ModelConfig(
        vocab_size=len(words),
        **SIZES | {"type_vocab_size": 0, "pooler": False, "num_decoder_layers": 3, "positions": "sinusoidal"},
        decoder_start_token_id=start,
        eos_token_id=end,
        **switches,
    )
    model = build(config, "seq2seq", seed=5)
    model.tokenizer = words
    assert isinstance(model, EncoderDecoder)
    return model.eval()
