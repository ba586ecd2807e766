"""Folders whose config.json has no model_type: the class or the names of the weights identify the family."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file

from hub.bin_samples import saved
from hub.folder_tools import IDS, foreign, make
from hub.test_family_folders import FAMILIES, WRITERS, most_heads, small
from maskwright.core.errors import ModelFolderError
from maskwright.hub.config_file import read_config
from maskwright.hub.convert import convert
from maskwright.hub.family import family_named
from maskwright.hub.folders import load_model

OLD_BERT = [  # all that the config.json of 2018 held
    "attention_probs_dropout_prob",
    "hidden_act",
    "hidden_dropout_prob",
    "hidden_size",
    "initializer_range",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "type_vocab_size",
    "vocab_size",
]


def without(folder, *keys):
    """The config.json of a folder without some keys."""
    path = folder / "config.json"
    values = {key: value for key, value in json.loads(path.read_text()).items() if key not in keys}
    path.write_text(json.dumps(values))


def saved_in(folder, family, head):
    model = make(head, small(family))
    model.save(folder)
    foreign(folder)
    return model


@pytest.mark.parametrize("family", FAMILIES)
def test_the_class_says_which_family_it_is(family, tmp_path, capsys):
    saved_in(tmp_path / "m", family, most_heads(family))
    without(tmp_path / "m", "model_type")
    path = tmp_path / "m/config.json"
    config = json.loads(path.read_text())
    for name, head in family_named(family).classes.items():
        if head == "clm" and not family_named(family).is_causal:
            continue  # needs is_decoder
        path.write_text(json.dumps(config | {"architectures": [name]}))
        assert read_config(tmp_path / "m").family.model_type == family
        assert f"has no model_type: read as {family}" in capsys.readouterr().err


@pytest.mark.parametrize("family", FAMILIES)
def test_the_weights_say_it_where_nothing_else_does(family, tmp_path, capsys):
    heads = ["seq2seq"] if family in WRITERS else ["classification"]
    for head in heads:
        model = saved_in(tmp_path / head, family, head)
        without(tmp_path / head, "model_type", "architectures")
        loaded, report = load_model(tmp_path / head)
        # RoBERTa, XLM-R and CamemBERT are one network under one set of names.
        assert loaded.config.family == ("roberta" if family in ("xlm-roberta", "camembert") else family)
        assert loaded.head_name == head and not report.new and not report.unused
        assert "from its weights' names" in capsys.readouterr().err
        ours, theirs = dict(model.named_parameters()), dict(loaded.named_parameters())
        assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


@pytest.mark.usefixtures("unconfined")
@pytest.mark.parametrize("form", ["safetensors", "bin"])
@pytest.mark.parametrize("head", [None, "pretraining"])
def test_a_bert_of_2018_loads_with_its_numbers(head, form, tmp_path, capsys):
    """Eleven settings, gamma and beta, and perhaps a pickle of weights."""
    model = saved_in(tmp_path / "old", "bert", head)
    path = tmp_path / "old/config.json"
    path.write_text(json.dumps({key: json.loads(path.read_text())[key] for key in OLD_BERT}))

    def named(stored):
        return {
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
            for name, value in stored.items()
        }

    foreign(tmp_path / "old", named)
    folder = tmp_path / "old"
    if form == "bin":
        weights = folder / "model.safetensors"
        (folder / "pytorch_model.bin").write_bytes(saved(load_file(weights), "legacy"))
        weights.unlink()
        folder = tmp_path / "new"
        convert(tmp_path / "old", folder)
        assert json.loads((folder / "config.json").read_text())["model_type"] == "bert"
        assert capsys.readouterr().err.count("has no model_type") == 1
    loaded, report = load_model(folder)
    assert (loaded.head_name, loaded.config.family) == (head, "bert") and not report.new
    expected, found = model(IDS), loaded(IDS)
    for name in expected.keys():  # noqa: SIM118 - not a dict
        assert torch.equal(found[name], expected[name]), name
    loaded.save(tmp_path / "again")
    assert json.loads((tmp_path / "again/config.json").read_text())["model_type"] == "bert"


def test_what_fits_several_families_or_none_is_refused(tmp_path):
    saved_in(tmp_path / "bare", "roberta", None)  # named as BERT's, with other positions
    without(tmp_path / "bare", "model_type", "architectures")
    with pytest.raises(ModelFolderError, match=r"match several families \(bert, roberta.*add the right model_type"):
        load_model(tmp_path / "bare")
    saved_in(tmp_path / "strange", "bert", None)
    foreign(tmp_path / "strange", lambda stored: {f"net.{name}": value for name, value in stored.items()})
    without(tmp_path / "strange", "model_type", "architectures")
    with pytest.raises(ModelFolderError, match="neither its architectures nor its weights .*: add the model_type"):
        load_model(tmp_path / "strange")
