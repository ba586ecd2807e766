"""Configurations and presets: exact sizes, and sentences for what cannot be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import ConfigError
from maskwright.models.build import build
from maskwright.models.config import RANGES, ModelConfig
from maskwright.models.presets import preset
from maskwright.models.sizes import parameter_count

PUBLISHED = {
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "roberta-base": 124_645_632,
    "roberta-large": 355_359_744,
    "xlm-roberta-base": 278_043_648,
    "distilbert-base": 66_362_880,
    "albert-base": 11_683_584,
    "albert-large": 17_683_968,
    "albert-xlarge": 58_724_864,
    "albert-xxlarge": 222_595_584,
    "electra-small": 13_483_008,
    "electra-base": 108_891_648,
    "mpnet-base": 109_486_464,
    "bigbird-base": 127_468_800,
    "modernbert-base": 149_014_272,
    "deberta-v3-base": 183_831_552,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sizes_are_exact(name):
    assert parameter_count(preset(name)) == PUBLISHED[name]


def test_counting_agrees_with_the_model_that_is_built():
    config = preset("bert-tiny", vocab_size=100)
    for head, labels in ((None, None), ("mlm", None), ("nsp", None), ("pretraining", None), ("classification", 7)):
        assert parameter_count(config, head, labels) == build(config, head, labels=labels).num_parameters


def test_overrides_replace_fields_and_unknown_ones_name_the_nearest():
    assert preset("bert-mini", hidden_dropout=0.2).hidden_dropout == 0.2
    with pytest.raises(ConfigError, match="bert-mini"):
        preset("bert-minni")
    with pytest.raises(ConfigError, match="hidden_size"):
        preset("bert-mini", hidden_sise=5)


BAD = [
    ("hidden_size", 100, "num_attention_heads"),
    ("hidden_size", 0, "hidden_size"),
    ("vocab_size", -1, "vocab_size"),
    ("vocab_size", True, "vocab_size"),
    ("num_hidden_layers", 10**9, "num_hidden_layers"),
    ("num_hidden_layers", 2.0, "num_hidden_layers"),
    ("hidden_dropout", 1.0, "hidden_dropout"),
    ("attention_dropout", -0.1, "attention_dropout"),
    ("classifier_dropout", float("nan"), "classifier_dropout"),
    ("layer_norm_eps", 0, "layer_norm_eps"),
    ("initializer_range", float("inf"), "initializer_range"),
    ("pad_token_id", 30522, "pad_token_id"),
    ("hidden_act", "gelus", "gelu_new"),
    ("tie_word_embeddings", "yes", "tie_word_embeddings"),
    ("hidden_act", ["gelu"], "hidden_act"),
    ("family", "robert", "roberta"),
    ("positions", "somewhere", "offset"),
    ("relative_buckets", 8, "32 buckets"),
    ("num_hidden_groups", 13, "more than the 12 layers"),
    ("embedding_size", 0, "embedding_size"),
    ("choice_act", "gelus", "choice_act"),
    ("pooler", 1, "pooler"),
    ("span_dropout", None, "span_dropout"),
    ("ffn_dropout", None, "ffn_dropout"),
    ("attention", "some", "big_bird"),
    ("rotary_theta", 0, "rotary_theta"),
    ("rotary_local_theta", float("nan"), "rotary_local_theta"),
    ("attention_seed", 1.5, "attention_seed"),
    ("num_key_value_heads", 5, "12 num_attention_heads"),
    ("attention_head_size", 0, "attention_head_size"),
    ("rotary_scaling", "yarn", "rotary_scaling"),
    ("rotary_scaling", {"rope_type": "longrope"}, "longrope"),
    ("rotary_scaling", {"rope_type": "linear"}, "needs factor"),
    ("rotary_scaling", {"rope_type": "linear", "factor": 0}, "factor"),
    ("rotary_scaling", {"rope_type": "linear", "factor": 2.0, "beta_fast": 1}, "no setting beta_fast"),
    ("question_sep_token_id", -1, "question_sep_token_id"),
    ("head_dense", True, "classifier_act"),
]


@pytest.mark.parametrize("name, value, said", BAD)
def test_values_out_of_range_are_refused_in_words(name, value, said):
    with pytest.raises(ConfigError, match=said):
        ModelConfig(**{name: value})


def test_a_table_that_no_file_holds_is_bounded():
    """Sinusoids are computed: no stored tensor would contradict an absurd size."""
    with pytest.raises(ConfigError, match="table of more than"):
        ModelConfig(positions="sinusoidal", max_position_embeddings=1_048_576)
    assert ModelConfig(positions="rotary", max_position_embeddings=1_048_576).max_position_embeddings == 1_048_576


@given(st.sampled_from(sorted(RANGES)), st.one_of(st.integers(), st.floats(), st.text(max_size=3), st.none()))
def test_a_configuration_exists_only_when_it_is_valid(name, value):
    try:
        config = ModelConfig(**{name: value})
    except ConfigError as error:
        assert str(error).endswith(".")
    else:
        held = getattr(config, name)
        least, most = RANGES[name]
        assert (held is None and getattr(ModelConfig, name) is None) or least <= held <= most
