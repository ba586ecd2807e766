"""Folders of every family: old weight names, our own format for other networks, and rejected folders."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

import maskwright as mw
from hub.folder_tools import IDS, family_config, foreign, make, tensors
from inference.samples import tokenizer
from maskwright.core import storage
from maskwright.core.errors import ModelFolderError
from maskwright.core.registry import TABLE
from maskwright.hub.family import family_for, family_named
from maskwright.hub.folders import load_model
from maskwright.models.presets import PRESETS, preset

SMALL = {
    "vocab_size": 61,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
}
FAMILIES = [name for name in TABLE["family"] if name != "maskwright"]
WRITERS = [name for name in FAMILIES if "seq2seq" in family_named(name).classes.values()]
ENCODERS = [name for name in FAMILIES if name not in WRITERS]


def small(family, **changes):
    """A small configuration of a family."""
    narrow = {"embedding_size": 8} if family in ("albert", "electra", "roformer", "rembert") else {}
    if family.startswith("deberta"):
        narrow = {"position_attention": "both", "relative_distance": 20}
    return family_config(family, **(SMALL | narrow | changes))


def most_heads(family):
    """The head of a family with most names: words, and what was trained with them."""
    heads = family_named(family).classes.values()
    return next(head for head in ("pretraining", "mlm", "clm", "seq2seq") if head in heads)


def word_head(family):
    """Return the language modeling head of a family."""
    return "mlm" if most_heads(family) == "pretraining" else most_heads(family)


def same(a, b):
    ours, others = dict(a.named_parameters()), dict(b.named_parameters())
    return ours.keys() == others.keys() and all(torch.equal(value, others[name]) for name, value in ours.items())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tied", [True, False])
def test_every_head_comes_back_bit_for_bit(family, tied, tmp_path):
    pad = 1 if family in ("mpnet", "bart") else 3
    plain = small(family, tie_word_embeddings=tied, hidden_act="relu", pad_token_id=pad)
    if family in WRITERS and not tied:
        pytest.skip("its decoder is always the table of words")
    heads = [*family_named(family).classes.values(), *(["regression"] if family in ENCODERS else [])]
    for head in heads if tied else [most_heads(family)]:
        config = replace(plain, attention="causal") if head == "clm" else plain
        model = make(head, config)
        model.save(tmp_path / str(head))
        again, report = load_model(tmp_path / str(head))
        assert again.head_name == head and again.config == config and not again.training
        assert same(model, again) and not report.new and not report.unused
        assert family_for(config, head).model_type == family


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_written_in_their_familys_format(name):
    config = preset(name)
    assert {family_for(config, head).model_type for head in family_named(config.family).classes.values()} == {
        config.family
    }


def old_norms(stored, family):
    """gamma and beta for the norms, and the position buffer that some releases stored."""
    renamed = {}
    for name, value in stored.items():
        old = name.replace(".weight", ".gamma").replace(".bias", ".beta")
        renamed[old if "norm" in name.lower() else name] = value
    return renamed | {f"{family.prefix}embeddings.position_ids": torch.arange(20)[None]}


def without_prefix(stored, family):
    return {name.removeprefix(family.prefix): value for name, value in stored.items()}


def with_decoder_copies(stored, family):
    weight, decoder_bias, bias = family.decoder(most_heads(family.model_type))
    words = stored[family.prefix + family.words].clone()
    return stored | {weight: words, decoder_bias: stored[bias].clone()}


def only_decoder_bias(stored, family):
    _, decoder_bias, bias = family.decoder(most_heads(family.model_type))
    value = stored.pop(bias)
    return stored | {decoder_bias: value}


def with_float_buffer(stored, family):
    return stored | {f"{family.prefix}embeddings.position_ids": torch.arange(20.0)[None]}


CHANGES = [old_norms, without_prefix, with_decoder_copies, only_decoder_bias, with_float_buffer]


@pytest.mark.parametrize("family", ENCODERS)
@pytest.mark.parametrize("change", CHANGES)
def test_names_of_other_times_load_without_a_remark(family, change, tmp_path):
    if family in ("gpt2", "eurobert", "rembert") and change in (with_decoder_copies, only_decoder_bias):
        pytest.skip("its decoder has no bias, its only table, or one of another size")
    model = make(most_heads(family), small(family))
    model.save(tmp_path / "m")
    folder = foreign(tmp_path / "m", lambda stored: change(stored, family_named(family)))
    again, report = load_model(folder)
    assert same(model, again) and not report.new and not report.unused


@pytest.mark.parametrize("family", FAMILIES)
def test_a_bare_model_may_carry_the_prefix_and_lie_in_shards_of_half_precision(family, tmp_path):
    model = make(None, small(family))
    model.save(tmp_path / "m")
    prefix = family_named(family).prefix
    folder = foreign(tmp_path / "m", lambda stored: {prefix + name: value.half() for name, value in stored.items()})
    stored = tensors(folder)
    places = {name: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, name in enumerate(sorted(stored))}
    for file in set(places.values()):
        save_file({name: value for name, value in stored.items() if places[name] == file}, folder / file)
    (folder / "model.safetensors").unlink()
    storage.write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": places})
    again, report = load_model(folder)
    assert same(model.half().float(), again) and not report.new and not report.unused


@pytest.mark.parametrize("family", FAMILIES)
def test_without_architectures_the_tensors_tell_the_head(family, tmp_path):
    own = [most_heads(family), None] if family in WRITERS else ["mlm", most_heads(family), "classification", "qa", None]
    heads = dict.fromkeys(head for head in own if head in family_named(family).classes.values())
    if family == "modernbert":  # its heads with a classifier have the same names
        del heads["qa"]
    if family == "gpt2":  # a tied decoder leaves no trace among the tensors
        del heads["clm"]
    for head in heads:
        model = make(head, small(family))
        model.save(tmp_path / str(head))
        again, report = load_model(foreign(tmp_path / str(head), settings={"architectures": "absent"}))
        assert again.head_name == head and same(model, again) and not report.new, head


@pytest.mark.parametrize("family", ENCODERS)
def test_another_head_keeps_the_encoder_and_names_what_is_new(family, tmp_path):
    model = make(most_heads(family), small(family))
    model.save(tmp_path / "m")
    for head in ("classification", "qa"):
        other, report = load_model(tmp_path / "m", head=head)
        assert torch.equal(other.word_embeddings, model.word_embeddings)
        expected = {
            name
            for ours, _ in other.named_parameters()
            if ours.startswith("head.")
            for name in family_named(family).stored_names(ours, head)
        }
        if family == "modernbert":  # its heads begin alike, under the same names
            expected -= set(tensors(tmp_path / "m"))
        assert expected <= set(report.new)
        assert not any(name.startswith(f"{family_named(family).prefix}encoder") for name in report.new)


@pytest.mark.parametrize("family", ENCODERS)
def test_the_same_labels_in_another_order_are_the_same_classifier(family, tmp_path):
    for head in ("classification", *(["tagging"] if family == "bert" else [])):
        model = make(head, small(family), labels=["a", "b", "c"])
        model.save(tmp_path / head)
        other, report = load_model(tmp_path / head, head=head, labels=["c", "a", "b"])
        assert not report.new
        torch.testing.assert_close(other(IDS).logits, model(IDS).logits[..., [2, 0, 1]])


DEPARTURES = [
    ("bert", {"positions": "offset"}, "mlm"),
    ("bert", {"relative_buckets": 32}, None),
    ("bert", {"num_hidden_groups": 1, "embedding_size": 8}, "pretraining"),
    ("bert", {}, "rtd"),
    ("roberta", {}, "pretraining"),
    ("roberta", {"classifier_act": "relu"}, "classification"),
    ("mpnet", {"pad_token_id": 0}, "mlm"),
    ("electra", {"embedding_size": 16}, "rtd"),
    ("electra", {"choice_act": None}, "choice"),
    ("albert", {"embedding_size": None}, "mlm"),
    ("albert", {"num_hidden_groups": None}, "qa"),
    ("distilbert", {"layer_norm_eps": 1e-5}, "tagging"),
    ("big_bird", {"attention": "big_bird"}, "mlm"),
    ("big_bird", {"classifier_act": "tanh"}, "classification"),
    ("big_bird", {}, "nsp"),
    ("modernbert", {"first_norm": True}, "mlm"),
    ("modernbert", {"full_attention_every": 0}, None),
    ("modernbert", {"mlm_act": "relu"}, "mlm"),
    ("nomic_bert", {"linear_bias": True}, "mlm"),
    ("gte", {"ffn_dropout": 0.0}, "classification"),
    ("gte", {}, "qa"),
    ("jina_embeddings_v3", {"num_key_value_heads": 1}, None),
    ("eurobert", {"mlm_dense": True}, "mlm"),
    ("eurobert", {"norm_kind": "layer"}, None),
    ("bert", {"positions": "sinusoidal"}, "mlm"),
    ("bert", {"positions": "relative_key_value", "attention": "big_bird"}, "pretraining"),
]


@pytest.mark.parametrize("family, changes, head", DEPARTURES)
def test_what_no_family_describes_is_saved_in_our_own_format(family, changes, head, tmp_path):
    config = replace(small(family), **changes)
    model = make(head, config)
    model.save(tmp_path / "m")
    assert json.loads((tmp_path / "m/config.json").read_text())["model_type"] == "maskwright"
    assert "only Maskwright can load" in (tmp_path / "m/README.md").read_text()
    again, report = load_model(tmp_path / "m")
    assert again.head_name == head and again.config == config
    assert same(model, again) and not report.new and not report.unused


REFUSED = [
    ("bert", {"model_type": "llama"}, "'llama'; supported: bert, roberta, xlm-roberta, distilbert, albert, electra"),
    ("bert", {"model_type": ["bert"]}, "supported: bert"),
    ("bert", {"model_type": "camenbert"}, r"'camenbert' \(did you mean 'camembert'\?\); supported: bert"),
    ("bert", {"model_type": "custom", "auto_map": {"AutoModel": "a.B"}}, "auto_map names code, which is never run"),
    ("roberta", {"architectures": ["RobertaForCausalLM"]}, r"RobertaForCausalLM.*Supported: RobertaModel"),
    ("roberta", {"is_decoder": True}, "is_decoder"),
    ("roberta", {"pad_token_id": None}, "pad_token_id"),
    ("roberta", {"max_position_embeddings": 1}, "max_position_embeddings"),
    ("distilbert", {"n_layers": 10**12}, "num_hidden_layers"),
    ("distilbert", {"activation": "mystery"}, "hidden_act"),
    ("distilbert", {"dim": 32}, r"word_embeddings.weight has shape \[61, 16\].* requires \[61, 32\]"),
    ("albert", {"inner_group_num": 2}, r"albert_layers\.1"),
    ("albert", {"inner_group_num": 10**9}, "inner_group_num is 1000000000"),
    ("albert", {"inner_group_num": 0}, "inner_group_num is 0"),
    ("albert", {"num_hidden_groups": 3}, "num_hidden_groups"),
    ("albert", {"num_hidden_groups": 2}, r"albert_layer_groups\.1"),
    ("albert", {"embedding_size": 10**9}, "embedding_size"),
    ("albert", {"embedding_size": 9}, r"\[61, 8\].*\[61, 9\]"),
    ("electra", {"embedding_size": 16}, r"\[61, 8\].*\[61, 16\]"),
    ("big_bird", {"attention_type": "dense"}, "attention_type is 'dense'"),
    ("big_bird", {"use_bias": 3}, "qkv_bias is 3"),
    ("modernbert", {"layer_types": ["sliding_attention", "full_attention"]}, "every n-th"),
    ("modernbert", {"layer_types": "full"}, "layer_types must contain"),
    ("modernbert", {"mlp_bias": True}, "mlp_bias and attention_bias differ"),
    ("modernbert", {"decoder_bias": False}, "decoder_bias"),
    ("modernbert", {"classifier_pooling": "max"}, "classifier_pooling"),
    ("modernbert", {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "rope_type"),
    ("nomic_bert", {"rope_parameters": {"rope_type": "longrope", "factor": 2.0}}, "'longrope' is not supported"),
    ("nomic_bert", {"rope_parameters": "yarn"}, "rope_parameters are 'yarn'"),
    ("nomic_bert", {"activation_function": "gelu"}, "activation_function is 'gelu'"),
    ("nomic_bert", {"rotary_emb_interleaved": True}, "rotary_emb_interleaved"),
    ("gte", {"rope_parameters": {"rope_type": "linear", "factor": "2"}}, "factor of rope_type linear is '2'"),
    ("gte", {"rope_parameters": {"rope_type": "llama3", "factor": 2.0}}, "needs low_freq_factor"),
    ("gte", {"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    ("gte", {"logn_attention_scale": True}, "logn_attention_scale"),
    ("jina_embeddings_v3", {"rope_scaling": {"type": "dynamic"}}, "needs factor"),
    ("eurobert", {"num_key_value_heads": 3}, "num_key_value_heads is 3"),
    ("eurobert", {"num_key_value_heads": 1}, r"k_proj.weight has shape \[16, 16\].* requires \[8, 16\]"),
    ("eurobert", {"mlp_bias": True}, "mlp_bias and attention_bias differ"),
    ("eurobert", {"classifier_pooling": "max"}, "classifier_pooling"),
    ("longformer", {"attention_window": 5}, "attention_window is 5"),
    ("longformer", {"attention_window": [4, 6, 8]}, "has 3 sizes; the 2 layers"),
    ("longformer", {"sep_token_id": "x"}, "global_sep_token_id"),
    ("xmod", {"languages": ["a", "b"], "default_language": None}, "one of the languages: a, b .*default_language"),
    ("xmod", {"languages": "en_XX"}, "languages is 'en_XX'"),
    ("xmod", {"default_language": "de_DE"}, "'de_DE'; it must be one of the languages: en_XX"),
    ("xmod", {"adapter_reduction_factor": 2.5}, "adapter_reduction is 2.5"),
    ("mpnet", {"relative_attention_num_buckets": 8}, "32 buckets"),
    ("mpnet", {"relative_attention_num_buckets": 64}, r"relative_attention_bias.weight has shape \[32, 2\]"),
    ("mpnet", {"max_position_embeddings": 512}, r"position_embeddings.weight has shape \[22, 16\].*\[512, 16\]"),
]


@pytest.mark.parametrize("family, settings, said", REFUSED)
def test_what_we_do_not_compute_is_named(family, settings, said, tmp_path):
    make("mlm", small(family)).save(tmp_path / "m")
    with pytest.raises(ModelFolderError, match=said) as caught:
        load_model(foreign(tmp_path / "m", settings=settings))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_tensor_that_is_missing_or_belongs_to_nothing_is_named(family, tmp_path):
    words = word_head(family)
    make(words, small(family)).save(tmp_path / "m")
    whole = (tmp_path / "m/model.safetensors").read_bytes()
    table = family_named(family)
    gone = table.stored_names("encoder.layers.0.ffn_norm.weight", words)[0]
    with pytest.raises(ModelFolderError, match=gone.removeprefix(table.prefix).replace(".", r"\.")):
        load_model(foreign(tmp_path / "m", lambda stored: {n: v for n, v in stored.items() if n != gone}))
    (tmp_path / "m/model.safetensors").write_bytes(whole)
    _, report = load_model(foreign(tmp_path / "m", lambda stored: stored | {"adapter.weight": torch.zeros(2)}))
    assert report.unused == ["adapter.weight"]


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_what_a_folder_lacks_and_has_besides_is_said_in_full(family, tmp_path, capsys):
    make("classification", small(family)).save(tmp_path / "m")
    gone = family_named(family).stored_names("head.classifier.weight", "classification")[0]
    foreign(tmp_path / "m", lambda stored: {n: v for n, v in stored.items() if n != gone} | {"x.y": torch.zeros(2)})
    mw.load(tmp_path / "m")
    said = capsys.readouterr().err
    assert f"warning: {tmp_path / 'm'} has no weights for {gone}" in said and "randomly initialized" in said
    assert "also contains" in said and "x.y, which this model does not use" in said
    mw.load(tmp_path / "m", head=None)
    said = capsys.readouterr().err
    assert "x.y, which this model does not use" in said and "classifier" not in said  # the caller wants no head


@pytest.mark.parametrize("family", ["bert", "bart"])
def test_a_tokenizer_that_knows_more_tokens_than_there_are_vectors_is_refused(family, tmp_path):
    words = tokenizer()
    model = make(word_head(family), small(family, vocab_size=words.vocab_size - 1))
    model.tokenizer = words
    model.save(tmp_path / "m")
    with pytest.raises(
        ModelFolderError, match=f"has {words.vocab_size:,} tokens.*embeddings for {words.vocab_size - 1:,}"
    ):
        load_model(tmp_path / "m")
    model = make(word_head(family), small(family, vocab_size=words.vocab_size + 3))  # rows to spare are common
    model.tokenizer = words
    model.save(tmp_path / "n")
    assert load_model(tmp_path / "n")[0].tokenizer.vocab_size == words.vocab_size
