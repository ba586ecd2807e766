"""Checkpoints whose authors' code is not part of transformers, but whose network is: read without running that code."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from maskwright.core.errors import ConfigError, ModelFolderError
from maskwright.hub.convert import store_as
from maskwright.hub.folders import load_model, save_model
from parity.checkpoints import checkpoint, padded_rows
from parity.comparing import largest


def as_if(folder, config, rename=lambda name: name, without=(), extra=None):
    """Change a folder of transformers to what the authors' code writes."""
    path = folder / "config.json"
    values = {key: value for key, value in json.loads(path.read_text()).items() if key not in without}
    path.write_text(json.dumps(values | config | {"auto_map": {"AutoModel": "modeling.Model"}}))
    stored = {rename(name): value for name, value in load_file(folder / "model.safetensors").items()}
    save_file(stored | (extra or {}), folder / "model.safetensors")


def hidden_of(model, rows):
    with torch.no_grad():
        return model(**rows).last_hidden_state


def test_a_new_model_is_gte_with_its_own_scaling(tmp_path):
    theirs = checkpoint("gte", None, type_vocab_size=0)
    theirs.save_pretrained(tmp_path / "m")
    scaling = {"factor": 3.0, "type": "ntk"}
    config = {"model_type": "new", "architectures": ["NewModel"], "rope_theta": 50.0, "rope_scaling": scaling}
    config |= {"position_embedding_type": "rope", "layer_norm_type": "layer_norm", "pack_qkv": True}
    as_if(tmp_path / "m", config, lambda name: f"new.{name}", without=("rope_parameters",))
    ours, report = load_model(tmp_path / "m")
    assert ours.config.family == "gte" and not report.new and not report.unused
    exponents = torch.arange(0, 6, 2) / 6
    theirs.rotary_emb.inv_freq.copy_(1.0 / (50.0 * 3.0) ** exponents / 3.0 ** (2 / 6))  # head_dim 6
    rows = padded_rows(theirs.config)
    assert largest(hidden_of(ours, rows), hidden_of(theirs, rows), rows["attention_mask"]) < 5e-5
    save_model(ours, tmp_path / "saved")
    again = type(theirs).from_pretrained(tmp_path / "saved").eval()
    assert largest(hidden_of(ours, rows), hidden_of(again, rows), rows["attention_mask"]) < 5e-5


def jina(folder, task=None):
    """A model in the authors' layout, with an adapter for each of two tasks in every linear layer and embedding table.

    Returns transformers' model, with the adapter of index `task` in its weights.
    """
    theirs = checkpoint("jina_embeddings_v3", None, rope_parameters={"rope_type": "default", "rope_theta": 70.0})
    theirs.save_pretrained(folder / "theirs")
    theirs.save_pretrained(folder / "m")
    tasks = {"retrieval.query": "Represent the query: ", "classification": ""}
    config = {"model_type": "xlm-roberta", "architectures": ["XLMRobertaLoRA"], "position_embedding_type": "rotary"}
    config |= {"rotary_emb_base": 70.0, "lora_adaptations": [*tasks], "lora_rank": 2, "lora_alpha": 1}
    stored, adapted = load_file(folder / "m/model.safetensors"), {}
    for name in [name for name, tensor in stored.items() if tensor.ndim == 2]:
        rows, size = stored[name].shape
        is_table, stem = "embeddings" in name, name.removesuffix("weight") + "parametrizations.weight"
        down = torch.randn(2, rows, 2) if is_table else torch.randn(2, 2, size)
        up = torch.randn(2, 2, size) if is_table else torch.randn(2, rows, 2)
        adapted |= {f"{stem}.0.lora_A": down, f"{stem}.0.lora_B": up, f"{stem}.original": stored[name].clone()}
        if task is not None:
            stored[name] += (down[task] @ up[task] if is_table else up[task] @ down[task]) / 2
    as_if(folder / "m", config | {"task_instructions": tasks}, without=("rope_parameters",))
    save_file(stored, folder / "theirs/model.safetensors", {"format": "pt"})
    vectors = {name: tensor for name, tensor in stored.items() if tensor.ndim == 1}
    save_file(vectors | adapted, folder / "m/model.safetensors")
    return type(theirs).from_pretrained(folder / "theirs").eval()


@pytest.mark.parametrize(
    "adapter, index, prompt",
    [(None, None, ""), ("retrieval.query", 0, "Represent the query: "), ("classification", 1, "")],
)
def test_a_jina_model_has_the_adapter_that_is_named(adapter, index, prompt, tmp_path):
    theirs = jina(tmp_path, index)
    rows = padded_rows(theirs.config)
    expected = hidden_of(theirs, rows)
    ours, report = load_model(tmp_path / "m", adapter=adapter)
    assert ours.config.family == "jina_embeddings_v3" and not report.new
    assert all("lora" in name for name in report.unused) and bool(report.unused) is (adapter is None)
    assert largest(hidden_of(ours, rows), expected, rows["attention_mask"]) < 5e-5
    if adapter is not None:
        store_as(tmp_path / "m", tmp_path / "merged", "fp32", adapter)
        again, _ = load_model(tmp_path / "merged")
        assert again.sentence.prompt == ours.sentence.prompt == prompt
        assert largest(hidden_of(again, rows), expected, rows["attention_mask"]) < 5e-5


def test_an_unknown_adapter_is_named_with_the_known_ones(tmp_path):
    jina(tmp_path)
    with pytest.raises(ConfigError, match="'ranking'.*retrieval.query, classification"):
        load_model(tmp_path / "m", adapter="ranking")


def test_nomic_bert_by_its_older_setting_names(tmp_path):
    theirs = checkpoint("nomic_bert", "mlm", rope_parameters={"rope_type": "default", "rope_theta": 70.0})
    theirs.save_pretrained(tmp_path / "m")
    older = {"n_embd": 24, "n_head": 4, "n_layer": 2, "n_inner": 44, "n_positions": 37, "layer_norm_epsilon": 1e-12}
    older |= {"rotary_emb_base": 70.0, "rotary_emb_fraction": 1.0, "activation_function": "swiglu", "prenorm": False}
    newer = ("hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size", "rope_parameters")
    newer += ("max_position_embeddings", "layer_norm_eps", "hidden_act", "head_dim")
    as_if(tmp_path / "m", older, lambda name: name.replace("nomic_bert.", "bert."), without=newer)
    ours, report = load_model(tmp_path / "m")
    assert ours.head_name == "mlm" and not report.new and not report.unused
    rows = padded_rows(theirs.config)
    with torch.no_grad():
        assert largest(ours(**rows).logits, theirs(**rows).logits, rows["attention_mask"]) < 5e-5


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"rope_scaling": {"type": "ntk"}}, "factor must be a number"),
        ({"rope_scaling": {"type": "ntk", "factor": 2.0, "mixed_b": 0.5}}, "'ntk' is not supported"),
        ({"logn_attention_scale": True}, "logn_attention_scale"),
        ({"architectures": ["NewForQuestionAnswering"]}, "GteForQuestionAnswering"),
    ],
)
def test_what_their_code_computes_otherwise_is_named(settings, said, tmp_path):
    checkpoint("gte", None).save_pretrained(tmp_path)
    as_if(tmp_path, {"model_type": "new"} | settings)
    with pytest.raises(ModelFolderError, match=said):
        load_model(tmp_path)
