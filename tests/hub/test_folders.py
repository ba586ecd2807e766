"""Model folders: round trips, old and odd checkpoints, and heads that change over one encoder."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from hub.folder_tools import CONFIG, IDS, foreign, make
from maskwright.core import storage
from maskwright.core.errors import ConfigError, CorruptFileError, ModelFolderError, RunError
from maskwright.hub.folders import load_model, read_facts, save_model
from maskwright.models.config import ModelConfig
from maskwright.models.device import DTYPES


def same(a, b):
    """Whether two models have the same parameters, bit for bit."""
    ours, others = dict(a.named_parameters()), dict(b.named_parameters())
    return ours.keys() == others.keys() and all(torch.equal(value, others[name]) for name, value in ours.items())


@pytest.mark.parametrize("form", ["fp16", "bf16", "fp32"])
def test_weights_are_stored_in_half_the_size_and_load_as_float32(form, tmp_path):
    model = make("mlm")
    model.save(tmp_path / "whole")
    save_model(model, tmp_path / "m", weights_as=form)
    again, report = load_model(tmp_path / "m")
    assert not report.new and not report.unused and again.word_embeddings.dtype == torch.float32
    for (name, ours), theirs in zip(model.named_parameters(), again.parameters(), strict=True):
        assert torch.equal(theirs, ours.to(DTYPES[form]).float()), name
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("m", "whole")]
    count = sum(parameter.numel() for parameter in model.parameters())
    assert sizes[1] - sizes[0] == pytest.approx(0 if form == "fp32" else 2 * count, rel=0.02)
    assert storage.read_json(tmp_path / "m" / "config.json")["dtype"] == str(DTYPES[form]).removeprefix("torch.")


def test_int8_has_a_scale_for_each_row_and_loads_as_float32(tmp_path):
    model = make("mlm")
    with torch.no_grad():
        model.word_embeddings[3] = 0.0
    model.save(tmp_path / "whole")
    save_model(model, tmp_path / "m", weights_as="int8")
    again, report = load_model(tmp_path / "m")
    assert not report.new and not report.unused and again.word_embeddings.dtype == torch.float32
    for (name, ours), theirs in zip(model.named_parameters(), again.parameters(), strict=True):
        if ours.dim() < 2:
            assert torch.equal(theirs, ours), name
        else:  # rounding is off by at most half of the scale, 1/127 of the largest number of the row
            limit = ours.abs().amax(dim=1, keepdim=True) / 127 * 0.501
            assert ((theirs - ours).abs() <= limit).all() and not torch.equal(theirs, ours), name
    cards = [(tmp_path / name / "README.md").read_text(encoding="utf-8") for name in ("m", "whole")]
    assert "--weights fp32" in cards[0] and "from_pretrained" not in cards[0] and "from_pretrained" in cards[1]
    save_model(again, tmp_path / "twice", weights_as="int8")
    assert same(again, load_model(tmp_path / "twice")[0])
    stored = load_file(tmp_path / "m" / "model.safetensors")
    sizes = {parameter.dim() > 1: 0 for parameter in model.parameters()}
    for parameter in model.parameters():
        sizes[parameter.dim() > 1] += parameter.numel()
    rows = sum(len(parameter) for parameter in model.parameters() if parameter.dim() > 1)
    assert sum(tensor.nbytes for tensor in stored.values()) == sizes[True] + 4 * rows + 4 * sizes[False]


def test_int8_without_a_scale_for_each_row_is_refused(tmp_path):
    save_model(make("mlm"), tmp_path / "m", weights_as="int8")
    path = tmp_path / "m" / "model.safetensors"
    tensors = load_file(path)
    name = next(name for name in tensors if name.endswith(".row_scale"))
    for scale in (None, tensors[name][:-1]):
        changed = {key: tensor for key, tensor in tensors.items() if key != name}
        save_file(changed if scale is None else changed | {name: scale}, path)
        (tmp_path / "m" / "manifest.json").unlink(missing_ok=True)
        facts = storage.read_json(tmp_path / "m" / "maskwright.json")
        storage.write_json(tmp_path / "m" / "maskwright.json", {k: v for k, v in facts.items() if k != "manifest"})
        with pytest.raises(CorruptFileError, match="without one scale for each"):
            load_model(tmp_path / "m")


def test_weights_that_a_format_cannot_hold_are_refused(tmp_path):
    model = make("mlm")
    with torch.no_grad():
        model.word_embeddings[0, 0] = 70_000.0
    with pytest.raises(ConfigError, match="65,504"):
        save_model(model, tmp_path / "m", weights_as="fp16")
    with pytest.raises(ConfigError, match="fp8"):
        save_model(model, tmp_path / "m", weights_as="fp8")
    assert not (tmp_path / "m").exists()
    save_model(model, tmp_path / "m", weights_as="bf16")


def test_saving_twice_writes_the_same_bytes(tmp_path):
    model = make("pretraining")
    model.save(tmp_path / "a")
    model.save(tmp_path / "b")
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


def test_labels_and_problem_type_come_back(tmp_path):
    model = make("classification", labels=["down", "up", "sideways"], problem_type="multi_label_classification")
    model.save(tmp_path / "m")
    again, _ = load_model(tmp_path / "m")
    assert again.labels == ("down", "up", "sideways") and again.problem_type == "multi_label_classification"


def test_a_model_in_half_precision_comes_back_as_float32(tmp_path):
    model = make("mlm").bfloat16()
    model.save(tmp_path / "m")
    assert json.loads((tmp_path / "m/config.json").read_text())["dtype"] == "bfloat16"
    again, _ = load_model(tmp_path / "m")
    assert again.word_embeddings.dtype == torch.float32 and same(model.float(), again)


def test_a_folder_is_only_overwritten_on_request(tmp_path):
    make().save(tmp_path / "m")
    with pytest.raises(RunError, match="not empty"):
        make("mlm").save(tmp_path / "m")
    make("mlm").save(tmp_path / "m", replace=True)
    assert load_model(tmp_path / "m")[0].head_name == "mlm"


def test_the_tokenizer_travels_with_the_model(tmp_path):
    from maskwright.text.tokenizers.tokenizer import Tokenizer

    tokenizer = Tokenizer.train_from_iterator(["some words to train on, some more words"] * 3, vocab_size=60)
    model = make()
    model.tokenizer = tokenizer
    model.save(tmp_path / "m")
    again, _ = load_model(tmp_path / "m")
    assert again.tokenizer("some words").ids == tokenizer("some words").ids
    assert {"tokenizer.json", "tokenizer_config.json", "vocab.txt"} <= {f.name for f in (tmp_path / "m").iterdir()}


def test_facts_and_card_say_what_the_model_is(tmp_path):
    facts = {"task": "classification", "training": {"steps": 12, "metrics": {"accuracy": 0.875}}}
    save_model(make("classification", labels=["bad", "good"]), tmp_path / "m", facts=facts)
    read = read_facts(tmp_path / "m")
    assert read["format"] == 1 and read["task"] == "classification" and read["labels"] == ["bad", "good"]
    assert read["training"]["steps"] == 12 and {"python", "torch", "maskwright"} <= read["versions"].keys()
    card = (tmp_path / "m/README.md").read_text()
    for said in ("pipeline_tag: text-classification", "`bad`, `good`", "training.metrics.accuracy | 0.875", "16"):
        assert said in card
    assert read_facts(tmp_path) == {}


@pytest.mark.parametrize(
    ("facts", "length"),
    [
        ({}, None),
        ({"max_length": 128}, 128),
        ({"max_length": True}, None),
        ({"max_length": "x"}, None),
        ({"training": {"max_length": 64}}, 64),
        ({"training": {"max_length": "x"}}, None),
        ({"max_length": 32, "training": {"max_length": 64}}, 32),
        ({"training": "x"}, None),
    ],
)
def test_a_model_knows_what_its_folder_says_of_its_training(facts, length, tmp_path):
    save_model(make("mlm"), tmp_path / "m", facts={**facts, "task": "generation"})
    model, _ = load_model(tmp_path / "m")
    assert (model.trained_length, model.task_name) == (length, "generation")


def test_a_card_cannot_be_broken_by_what_it_tells(tmp_path):
    facts = {"note": "a | b\n---\n<script>alert(1)</script> `x`", "long": "x" * 5000}
    save_model(make("classification", labels=["a|b\n# c", "`d`"]), tmp_path / "m", facts=facts)
    card = (tmp_path / "m/README.md").read_text()
    assert "<script>" not in card and "x" * 500 not in card and "\n# c" not in card
    assert card.count("\n---\n") == 1


@pytest.mark.parametrize("head", ["classification", "tagging", "tagging-crf", "qa", "choice"])
def test_a_new_head_is_drawn_by_its_width_so_that_logits_start_alike_on_narrow_and_wide_encoders(head, tmp_path):
    for width in (48, 192):
        sizes = {"hidden_size": width, "intermediate_size": 64, "num_hidden_layers": 1}
        make(None, ModelConfig(**(vars(CONFIG) | sizes))).save(tmp_path / f"{width}")
        labels = None if head in ("qa", "choice") else [f"L{number}" for number in range(40)]
        model, _ = load_model(tmp_path / f"{width}", head=head, labels=labels)
        assert not model.head.classifier.bias.any()
        weight = model.head.classifier.weight.detach()  # [outputs, width]; of unit inputs the logits have spread 1
        assert float(weight.square().sum(-1).mean().sqrt()) == pytest.approx(1.0, rel=0.35 if len(weight) < 3 else 0.1)
        limit = 2 * model.config.initializer_range
        if head == "tagging-crf":  # no linear layer: as published
            assert float(model.head.crf.transitions.detach().abs().max()) <= limit
        number, _ = load_model(tmp_path / f"{width}", head="regression")  # a number begins at the mean of its targets
        assert float(number.head.classifier.weight.detach().abs().max()) <= limit


def test_other_labels_start_a_new_classifier(tmp_path):
    make("classification", labels=["a", "b"]).save(tmp_path / "m")
    for labels in (["x", "y"], ["a", "b", "c"]):
        model, report = load_model(tmp_path / "m", head="classification", labels=labels)
        assert model.labels == tuple(labels)
        assert report.new == report.unused[::-1] == ["classifier.weight", "classifier.bias"]


def test_labels_that_nobody_named_can_be_named(tmp_path):
    model = make("classification")
    model.save(tmp_path / "m")
    named, report = load_model(tmp_path / "m", head="classification", labels=["no", "yes"])
    assert named.labels == ("no", "yes") and not report.new and same(model, named)


def test_a_masked_language_model_has_no_pooler_and_needs_none(tmp_path):
    make("mlm").save(tmp_path / "m")
    bare, report = load_model(tmp_path / "m", head=None)
    assert not bare.has_pooler and bare(IDS).pooler_output is None and not report.new
    _, report = load_model(tmp_path / "m", head="nsp")
    assert "bert.pooler.dense.weight" in report.new


def test_labels_for_a_head_without_any_are_refused(tmp_path):
    make().save(tmp_path / "m")
    with pytest.raises(ConfigError, match="labels"):
        load_model(tmp_path / "m", head="mlm", labels=["a"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_become_float32(dtype, tmp_path):
    model = make("nsp")
    model.save(tmp_path / "m")
    again, _ = load_model(foreign(tmp_path / "m", lambda s: {name: value.to(dtype) for name, value in s.items()}))
    for a, b in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(a.to(dtype).float(), b)


def test_a_decoder_of_its_own_stays_one_whatever_the_config_says(tmp_path):
    own = torch.randn(61, 16, generator=torch.Generator().manual_seed(0))
    model = make("mlm")
    model.save(tmp_path / "m")
    again, report = load_model(foreign(tmp_path / "m", lambda s: s | {"cls.predictions.decoder.weight": own}))
    assert not again.config.tie_word_embeddings and torch.equal(again.head.decoder, own) and not report.unused
    assert not torch.allclose(again(IDS).logits, model(IDS).logits)


@pytest.mark.parametrize("classes", ["absent", ["AntiBERTy"]], ids=str)
@pytest.mark.parametrize("head", ["mlm", "pretraining", "classification"], ids=str)
def test_where_no_class_names_it_the_tensors_tell_the_head(head, classes, tmp_path):
    model = make(head)
    model.save(tmp_path / "m")
    again, report = load_model(foreign(tmp_path / "m", settings={"architectures": classes}))
    assert again.head_name == head and same(model, again) and not report.new


def test_an_unsupported_head_is_dropped_only_on_request(tmp_path):
    make().save(tmp_path / "m")
    folder = foreign(tmp_path / "m", settings={"architectures": ["BertForPuzzles"]})
    with pytest.raises(ModelFolderError, match=r"BertForPuzzles.*classification"):
        load_model(folder)
    assert load_model(folder, head=None)[0].head_name is None
    assert load_model(folder, head="classification")[0].head_name == "classification"
