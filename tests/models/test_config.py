"""Configurations, presets, initial weights, and what stands between encoder and head."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from contracts.common import ROWS, SMALL, lively
from contracts.networks import learns, packs, travels
from maskwright.core.errors import ConfigError, InputError
from maskwright.data.batch import Batch
from maskwright.models.build import build
from maskwright.models.config import RANGES, ModelConfig
from maskwright.models.presets import preset
from maskwright.models.probes import TokenProbe
from maskwright.models.sizes import parameter_count
from maskwright.nn.layers import LayerNorm
from maskwright.train.finetuning.config import FinetuneConfig

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


# -- Initial weights -------------------------------------------------------------------------------------------------

CONFIG = ModelConfig(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)


def test_matrices_are_truncated_normal_biases_zero_norms_one_and_zero():
    model = build(CONFIG, "pretraining")
    for name, part in model.named_modules():
        for field, value in part.named_parameters(recurse=False):
            if isinstance(part, LayerNorm):
                assert (value == (1.0 if field == "weight" else 0.0)).all(), name
            elif value.ndim == 1:
                assert not value.any(), name
            else:
                # A normal of deviation 0.02 cut at two deviations has deviation 0.02 * 0.8796.
                assert float(value.detach().abs().max()) <= 0.04
                assert float(value.detach().std()) == pytest.approx(0.0176, rel=0.15), name
    assert not model.word_embeddings[0].any()


def test_gpt_is_a_normal_that_is_not_truncated():
    weights = build(replace(CONFIG, attention="causal"), "clm").word_embeddings.detach()[1:]
    assert float(weights.std()) == pytest.approx(0.02, rel=0.02)
    assert float((weights.abs() > 0.04).float().mean()) == pytest.approx(0.0455, rel=0.15)  # beyond two deviations


def test_labels_belong_to_sequence_heads():
    model = build(CONFIG, "classification", labels=["bad", "good", "so-so"])
    assert model.labels == ("bad", "good", "so-so") and model.num_labels == 3 and model.problem_type is None
    assert build(CONFIG, "classification", labels=4).labels == ("LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3")
    assert build(CONFIG, "regression").num_labels == 1
    assert build(CONFIG, "regression").problem_type == "regression"
    assert build(CONFIG, "mlm").labels == ()


@pytest.mark.parametrize(
    "head, options, said",
    [
        ("clasification", {}, "classification"),
        ("mlm", {"labels": 3}, "mlm"),
        (None, {"labels": ["a"]}, "labels"),
        ("classification", {"labels": ["a", "a"]}, "unique"),
        ("classification", {"labels": []}, "at least one"),
        ("classification", {"problem_type": "multi"}, "multi_label_classification"),
    ],
)
def test_impossible_heads_are_refused_in_words(head, options, said):
    with pytest.raises(ConfigError, match=said):
        build(CONFIG, head, **options)


def test_an_unsupported_request_to_a_head_is_rejected():
    model = build(CONFIG, "classification")
    with pytest.raises(InputError, match="predict masked tokens"):
        model.mlm_logits(torch.zeros(1, 64))
    with pytest.raises(InputError, match="no pooler"):
        build(CONFIG, "mlm").pool(torch.zeros(1, 64), None)


def test_a_tied_decoder_is_stored_and_trained_once():
    model = build(CONFIG, "mlm")
    assert sum(value.numel() for value in model.parameters() if 500 in value.shape) == 500 * 64 + 500
    model.mlm_logits(torch.ones(2, 64)).sum().backward()
    assert model.word_embeddings.grad is not None and model.word_embeddings.grad.any()


# -- The probe on given vectors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["linear", "bilstm"])
def test_a_sentence_is_scored_alike_alone_and_beside_others(kind):
    probe = TokenProbe(6, 3, kind, hidden_size=4, num_layers=2, seed=1).eval()
    vectors, lengths = torch.randn(9, 6, generator=torch.Generator().manual_seed(0)), [4, 1, 4]
    together = probe(vectors, lengths)
    apart = torch.cat([probe(part, [len(part)]) for part in vectors.split(lengths)])
    assert together.shape == (9, 3)
    torch.testing.assert_close(together, apart)


def test_every_parameter_learns():
    probe = TokenProbe(6, 3, "bilstm", hidden_size=4, dropout_rate=0.0, crf=True)
    vectors, tags = torch.randn(5, 6, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 0, 1])
    probe.crf.losses(probe(vectors, [3, 2]), tags, [3, 2]).sum().backward()
    idle = [name for name, parameter in probe.named_parameters() if not parameter.grad.abs().sum() > 0]
    assert idle == []
    assert probe.num_parameters == sum(parameter.numel() for parameter in probe.parameters())


# -- Between encoder and head ----------------------------------------------------------------------------------------

TOP = {"mix_layers": True, "top_layers": 1}


def networks():
    sizes = {name: SMALL[name] for name in ("vocab_size", "hidden_size", "num_hidden_layers")}
    return {
        "bert": ModelConfig(**SMALL, **TOP, pooler=False, pooling="mean", classifier_act="tanh", choice_act="tanh"),
        "elmo": preset("elmo-small", **sizes, **TOP),
        "mix": ModelConfig(**SMALL, mix_layers=True),
        "beside": preset("elmo-small", **sizes, **TOP, top_embedding_size=6),
    }


@pytest.mark.parametrize(
    ("name", "head"), [("bert", "classification"), ("elmo", "tagging-crf"), ("mix", "qa"), ("beside", "tagging-crf")]
)
def test_heads_on_it_learn_pack_and_travel(name, head, tmp_path):
    made = lively(networks()[name], head)
    packs(made)
    travels(made, tmp_path / "m")
    if head != "qa":
        learns(made)


def test_it_is_the_mix_of_all_layers_with_its_scale():
    made = lively(networks()["mix"], "tagging")
    encoded = made.encode(Batch.from_sequences(ROWS), hidden_states=True)
    shares, scale = made.top.mix.weights.softmax(0), made.top.mix.scale
    assert len(encoded.hidden_states) == 3
    mixed = scale * sum(share * layer for share, layer in zip(shares, encoded.hidden_states, strict=True))
    torch.testing.assert_close(encoded.hidden, mixed)
    assert made.top.mixture()["scale"] == pytest.approx(float(scale))


def test_what_it_cannot_stand_before_is_refused():
    with pytest.raises(ConfigError, match="pre-train without"):
        build(networks()["bert"], "mlm")
    with pytest.raises(ConfigError, match="even"):
        ModelConfig(**{**SMALL, "hidden_size": 33, "num_attention_heads": 3}, top_layers=1)
    with pytest.raises(ConfigError, match="encoder-decoder"):
        replace(preset("transformer-mini"), mix_layers=True)
    with pytest.raises(ConfigError, match="only mix_layers, top_layers and top_embedding_size"):
        FinetuneConfig(Path("a"), Path("b"), model="m", network={"hidden_size": 3})


def test_vectors_of_its_own_stand_beside_what_the_encoder_gives():
    made = lively(networks()["beside"], "tagging")
    batch = Batch.from_sequences(ROWS)
    encoded = made.encode(batch, hidden_states=True)
    read = torch.cat([made.top.mix(encoded.hidden_states), made.top.words.weight[batch.input_ids]], dim=-1)
    torch.testing.assert_close(encoded.hidden, made.top.stack(read, batch.lengths).layers[-1])
    assert made.top.words.weight.shape == (SMALL["vocab_size"], 6)
    with pytest.raises(ConfigError, match="top_embedding_size is used by top_layers"):
        ModelConfig(**SMALL, mix_layers=True, top_embedding_size=6)
