"""Published model configurations: BERT (Devlin et al. 2018; small ones Turc et al. 2019), RoBERTa (Liu et al. 2019),
XLM-R (Conneau et al. 2020), DistilBERT (Sanh et al. 2019), ALBERT (Lan et al. 2020, version 2), ELECTRA (Clark et al.
2020), MPNet (Song et al. 2020), BigBird (Zaheer et al. 2020), ModernBERT (Warner et al. 2024), DeBERTa (He et
al. 2021, 2023) and GPT-2 (Radford et al. 2019). Recurrent networks: the medium and large language models of Zaremba et
al. 2014, the depth of GNMT (Wu et al. 2016), and our own small ones.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ..core import config as settings
from ..core.errors import ConfigError
from ..core.registry import unknown_name
from .config import ModelConfig

if TYPE_CHECKING:
    from ..text.tokenizers.tokenizer import Tokenizer


def _sizes(layers: int, hidden: int, **others: Any) -> ModelConfig:
    """BERT's proportions: head dimension 64, feed-forward size 4 x hidden; `others` override the defaults."""
    sizes = {"num_attention_heads": hidden // 64, "intermediate_size": 4 * hidden}
    return ModelConfig(hidden_size=hidden, num_hidden_layers=layers, **(sizes | others))


# Settings of each family that differ from BERT.
ROBERTA: dict[str, Any] = {
    "family": "roberta",
    "vocab_size": 50_265,
    "positions": "offset",
    "pad_token_id": 1,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "mlm_act": "gelu",
    "classifier_act": "tanh",
}
XLM_ROBERTA = ROBERTA | {"family": "xlm-roberta", "vocab_size": 250_002}
DISTILBERT: dict[str, Any] = {
    "family": "distilbert",
    "type_vocab_size": 0,
    "pooler": False,
    "residual_dropout": "ffn",
    "classifier_act": "relu",
    "classifier_input_dropout": False,
    "classifier_dropout": 0.2,
    "choice_act": "relu",
    "tagging_dropout": "hidden",
    "span_dropout": 0.1,
}
ALBERT: dict[str, Any] = {
    "family": "albert",
    "vocab_size": 30_000,
    "embedding_size": 128,
    "num_hidden_groups": 1,
    "hidden_act": "gelu_new",
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "residual_dropout": "attention",
    "classifier_dropout": 0.1,
    "pair_objective": "sop",
}
ELECTRA: dict[str, Any] = {
    "family": "electra",
    "pooler": False,
    "mlm_act": "gelu",
    "classifier_act": "gelu",
    "choice_act": "gelu",
    "choice_dropout": 0.1,
}
BIGBIRD: dict[str, Any] = {
    "family": "big_bird",
    "vocab_size": 50_358,
    "hidden_act": "gelu_new",
    "embedding_dropout": "before",
    "max_position_embeddings": 4_096,
    "attention": "big_bird_published",
    "idle_pooler": True,
    "classifier_act": "gelu_new",
    "span_ffn": True,
    "question_sep_token_id": 66,
}
MODERNBERT: dict[str, Any] = {
    "family": "modernbert",
    "vocab_size": 50_368,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "residual_dropout": "inner",
    "max_position_embeddings": 8_192,
    "positions": "rotary",
    "rotary_theta": 160_000.0,
    "rotary_local_theta": 10_000.0,
    "attention": "window",
    "full_attention_every": 3,
    "type_vocab_size": 0,
    "layer_norm_eps": 1e-5,
    "norm": "pre",
    "first_norm": False,
    "norm_bias": False,
    "linear_bias": False,
    "gated": True,
    "pad_token_id": 50_283,
    "pooler": False,
    "mlm_act": "gelu",
    "head_dense": True,
    "head_bias": False,
    "classifier_act": "gelu",
    "classifier_dropout": 0.0,
    "classifier_input_dropout": False,
    "choice_act": "gelu",
}
GPT2: dict[str, Any] = {
    "family": "gpt2",
    "vocab_size": 50_257,
    "hidden_act": "gelu_new",
    "embedding_norm": False,
    "max_position_embeddings": 1_024,
    "attention": "causal",
    "norm": "pre",
    "shrink_residuals": True,
    "type_vocab_size": 0,
    "layer_norm_eps": 1e-5,
    "pad_token_id": None,
    "pooler": False,
    "bare_heads": True,
}
TRANSFORMER: dict[str, Any] = {  # Vaswani et al. 2017, table 3; vocabulary of English and German
    "family": "marian",
    "vocab_size": 37_000,
    "hidden_act": "relu",
    "embedding_norm": False,
    "scale_embeddings": True,
    "attention_dropout": 0.0,
    "max_position_embeddings": 1_024,
    "positions": "sinusoidal_halves",
    "type_vocab_size": 0,
    "layer_norm_eps": 1e-5,
    "pooler": False,
    "decoder_start_token_id": 0,
}
BART: dict[str, Any] = {
    "family": "bart",
    "vocab_size": 50_265,
    "max_position_embeddings": 1_024,
    "positions": "offset",
    "pad_token_id": 1,
    "attention_dropout": 0.0,
    "type_vocab_size": 0,
    "layer_norm_eps": 1e-5,
    "pooler": False,
    "decoder_start_token_id": 2,
    "eos_token_id": 2,
}
RECURRENT: dict[str, Any] = {
    "family": "maskwright",
    "recurrent": "lstm",
    "vocab_size": 10_000,
    "num_attention_heads": 1,
    "embedding_norm": False,
    "max_position_embeddings": 65_536,
    "positions": "none",
    "type_vocab_size": 0,
    "initializer_range": 0.1,
    "pooler": False,
    "classifier_act": "tanh",
    "choice_act": "tanh",
}
BAG: dict[str, Any] = {  # no layers: the mean of the token embeddings
    "family": "maskwright",
    "vocab_size": 30_000,
    "num_attention_heads": 1,
    "hidden_dropout": 0.0,
    "embedding_norm": False,
    "max_position_embeddings": 65_536,
    "positions": "none",
    "type_vocab_size": 0,
    "pooler": False,
    "pooling": "mean",
    "bare_heads": True,
}
FROM_LEFT = RECURRENT | {"attention": "causal"}
FROM_BOTH_ENDS = RECURRENT | {"pooling": "mean"}
SEQ2SEQ = RECURRENT | {  # bidirectional
    "max_position_embeddings": 1_024,
    "hidden_dropout": 0.3,
    "decoder_start_token_id": 0,
    "attention_score": "mlp",
    "input_feeding": True,
}
GRU_SEQ2SEQ = SEQ2SEQ | {"recurrent": "gru"}
MPNET = ROBERTA | {"family": "mpnet", "vocab_size": 30_527, "type_vocab_size": 0, "relative_buckets": 32}
DEBERTA: dict[str, Any] = {
    "family": "deberta",
    "vocab_size": 50_265,
    "positions": "none",
    "position_attention": "both",
    "relative_distance": 512,
    "key_bias": False,
    "type_vocab_size": 0,
    "layer_norm_eps": 1e-7,
    "pooler": False,
    "classifier_act": "gelu",
    "classifier_input_dropout": False,
    "pooler_dropout": 0.0,
    "choice_act": "gelu",
    "tagging_dropout": "hidden",
}
DEBERTA_3 = DEBERTA | {
    "family": "deberta-v2",
    "vocab_size": 128_100,
    "key_bias": True,
    "position_buckets": 256,
    "position_norm": True,
    "share_position_keys": True,
}
DEBERTA_2 = DEBERTA_3 | {"conv_width": 3, "conv_act": "gelu"}

PRESETS: dict[str, ModelConfig] = {
    "bert-tiny": _sizes(2, 128),
    "bert-mini": _sizes(4, 256),
    "bert-small": _sizes(4, 512),
    "bert-medium": _sizes(8, 512),
    "bert-base": _sizes(12, 768),
    "bert-large": _sizes(24, 1024),
    "roberta-base": _sizes(12, 768, **ROBERTA),
    "roberta-large": _sizes(24, 1024, **ROBERTA),
    "xlm-roberta-base": _sizes(12, 768, **XLM_ROBERTA),
    "xlm-roberta-large": _sizes(24, 1024, **XLM_ROBERTA),
    "distilbert-base": _sizes(6, 768, **DISTILBERT),
    "albert-base": _sizes(12, 768, **ALBERT),
    "albert-large": _sizes(24, 1024, **ALBERT),
    "albert-xlarge": _sizes(24, 2048, num_attention_heads=16, **ALBERT),
    "albert-xxlarge": _sizes(12, 4096, **ALBERT),
    "electra-small": _sizes(12, 256, embedding_size=128, **ELECTRA),
    "electra-base": _sizes(12, 768, **ELECTRA),
    "electra-large": _sizes(24, 1024, **ELECTRA),
    "electra-base-generator": _sizes(12, 256, embedding_size=768, **ELECTRA),
    "electra-large-generator": _sizes(24, 256, embedding_size=1024, **ELECTRA),
    "mpnet-base": _sizes(12, 768, **MPNET),
    "bigbird-base": _sizes(12, 768, **BIGBIRD),
    "bigbird-large": _sizes(24, 1024, **BIGBIRD),
    "modernbert-base": _sizes(22, 768, intermediate_size=1_152, **MODERNBERT),
    "modernbert-large": _sizes(28, 1024, intermediate_size=2_624, **MODERNBERT),
    "deberta-base": _sizes(12, 768, **DEBERTA),
    "deberta-large": _sizes(24, 1024, **DEBERTA),
    "deberta-v2-xlarge": _sizes(24, 1536, **DEBERTA_2),
    "deberta-v2-xxlarge": _sizes(48, 1536, **DEBERTA_2),
    "deberta-v3-xsmall": _sizes(12, 384, **DEBERTA_3),
    "deberta-v3-small": _sizes(6, 768, **DEBERTA_3),
    "deberta-v3-base": _sizes(12, 768, **DEBERTA_3),
    "deberta-v3-large": _sizes(24, 1024, **DEBERTA_3),
    "gpt2": _sizes(12, 768, **GPT2),
    "gpt2-medium": _sizes(24, 1024, **GPT2),
    "gpt2-large": _sizes(36, 1280, **GPT2),
    "gpt2-xl": _sizes(48, 1600, **GPT2),
    "transformer-mini": _sizes(3, 256, num_decoder_layers=3, **TRANSFORMER),
    "transformer-base": _sizes(6, 512, num_decoder_layers=6, **TRANSFORMER),
    "transformer-big": _sizes(6, 1024, num_decoder_layers=6, hidden_dropout=0.3, **TRANSFORMER),
    "bart-base": _sizes(6, 768, num_decoder_layers=6, **BART),
    "bart-large": _sizes(12, 1024, num_decoder_layers=12, **BART),
    "bag-small": _sizes(0, 100, **BAG),
    "rnn-small": _sizes(2, 512, **FROM_LEFT | {"recurrent": "rnn"}),
    "gru-small": _sizes(2, 512, **FROM_LEFT | {"recurrent": "gru"}),
    "lstm-small": _sizes(2, 512, **FROM_LEFT),
    "lstm-medium": _sizes(2, 650, hidden_dropout=0.5, **FROM_LEFT),
    "lstm-large": _sizes(2, 1500, hidden_dropout=0.65, **FROM_LEFT),
    "bilstm-small": _sizes(2, 512, **FROM_BOTH_ENDS),
    "bilstm-char-small": _sizes(2, 512, embedding_size=32, character_width=5, **FROM_BOTH_ENDS | {"vocab_size": 256}),
    "seq2seq-small": _sizes(2, 256, num_decoder_layers=2, **SEQ2SEQ),
    "autoencoder-small": _sizes(
        1, 512, num_decoder_layers=1, **GRU_SEQ2SEQ | {"attention_score": "none", "input_feeding": False}
    ),
    "gnmt": _sizes(8, 1024, num_decoder_layers=8, recurrent_residual=True, **GRU_SEQ2SEQ | {"hidden_dropout": 0.2}),
    "elmo-small": _sizes(2, 512, separate_directions=True, recurrent_residual=True, **FROM_BOTH_ENDS),
}


def preset(name: str, **overrides: Any) -> ModelConfig:
    """Returns a named model configuration with some fields replaced: preset("bert-base", vocab_size=30522).

    A published padding id outside a smaller vocabulary becomes None, unless it is set too.

    Args:
        name: Name of the preset.
        overrides: Fields of ModelConfig.

    Raises:
        ConfigError: If the name or a field is unknown (with the closest known one), or a value is out of range.
    """
    if name not in PRESETS:
        raise ConfigError(unknown_name("preset", name, PRESETS))
    values = dataclasses.asdict(PRESETS[name]) | overrides
    pad, size = values["pad_token_id"], values["vocab_size"]
    if "pad_token_id" not in overrides and isinstance(size, int) and pad is not None and size <= pad:
        values["pad_token_id"] = None
    return settings.from_dict(ModelConfig, values, where=f"the overrides of preset {name}")


def special_token_settings(published: ModelConfig, tokenizer: Tokenizer) -> dict[str, Any]:
    """Start and end token settings of an encoder-decoder preset from `tokenizer`; empty for other presets.

    If positions start after the padding token, its id stays that of the published vocabulary.
    """
    if not published.num_decoder_layers:
        return {}
    ends = {"decoder_start_token_id": tokenizer.bos_id, "eos_token_id": tokenizer.eos_id}
    return ends | ({"pad_token_id": published.pad_token_id} if published.positions == "offset" else {})
