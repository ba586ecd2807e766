"""Model folders: round trips, old and odd checkpoints, and heads that change over one encoder."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from hub.folder_tools import CONFIG, IDS, foreign, make, tensors
from maskwright.core import storage
from maskwright.core.errors import ConfigError, CorruptFileError, ModelFolderError, RunError
from maskwright.hub.folders import load_model, read_facts, save_model
from maskwright.models.config import ModelConfig
from maskwright.models.device import DTYPES

HEADS = [None, "mlm", "nsp", "pretraining", "classification", "regression"]


def same(a, b):
    """Whether two models have the same parameters, bit for bit."""
    ours, others = dict(a.named_parameters()), dict(b.named_parameters())
    return ours.keys() == others.keys() and all(torch.equal(value, others[name]) for name, value in ours.items())


# -- round trips -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", HEADS, ids=str)
@pytest.mark.parametrize("tied", [True, False])
def test_what_is_saved_comes_back_bit_for_bit(head, tied, tmp_path):
    config = ModelConfig(**(vars(CONFIG) | {"tie_word_embeddings": tied, "hidden_act": "relu", "pad_token_id": 3}))
    model = make(head, config)
    model.save(tmp_path / "m")
    again, report = load_model(tmp_path / "m")
    assert again.head_name == head and again.config == config and not again.training
    assert same(model, again) and not report.new and not report.unused
    assert torch.equal(model(IDS).last_hidden_state, again(IDS).last_hidden_state)


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


def test_the_problem_type_follows_from_the_facts_of_the_task(tmp_path):
    for multi, name in ((True, "multi_label_classification"), (False, "single_label_classification")):
        save_model(make("classification", labels=["a", "b"]), tmp_path / name, facts={"multi_label": multi})
        assert load_model(tmp_path / name)[0].problem_type == name


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


def test_a_tokenizer_larger_than_the_word_table_is_refused(tmp_path):
    from maskwright.text.tokenizers.tokenizer import Tokenizer

    text = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789 .,;:!?-"
    model = make()
    model.tokenizer = Tokenizer.train_from_iterator([text] * 3, vocab_size=150, lowercase=False)
    assert model.tokenizer.vocab_size > CONFIG.vocab_size
    model.save(tmp_path / "m")
    with pytest.raises(ModelFolderError, match="embeddings for 61"):
        load_model(tmp_path / "m")


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


# -- heads over one encoder --------------------------------------------------------------------------------------


def test_another_head_keeps_the_encoder_and_names_what_is_new(tmp_path):
    model = make("pretraining")
    model.save(tmp_path / "m")
    classifier, report = load_model(tmp_path / "m", head="classification", labels=["a", "b", "c"])
    assert torch.equal(classifier.encoder.pooler.weight, model.encoder.pooler.weight)
    assert report.new == ["classifier.weight", "classifier.bias"]
    assert set(report.unused) == {name for name in tensors(tmp_path / "m") if name.startswith("cls.")}
    assert set(report.loaded) == {name for name in tensors(tmp_path / "m") if name.startswith("bert.")}
    words, report = load_model(tmp_path / "m", head="mlm")
    assert same(words.head, model.head.predictions) and not report.new
    assert "bert.pooler.dense.weight" in report.unused


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


def test_new_weights_are_those_of_the_seed(tmp_path):
    make().save(tmp_path / "m")
    first, again, other = (load_model(tmp_path / "m", head="classification", seed=s)[0] for s in (1, 1, 2))
    assert same(first, again) and not same(first, other)
    assert not first.head.classifier.bias.any()


def test_the_same_labels_in_another_order_are_the_same_classifier(tmp_path):
    model = make("classification", labels=["a", "b", "c"])
    model.save(tmp_path / "m")
    other, report = load_model(tmp_path / "m", head="classification", labels=["c", "a", "b"])
    assert not report.new
    torch.testing.assert_close(other(IDS).logits, model(IDS).logits[:, [2, 0, 1]])


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


# -- checkpoints of other times and tools ------------------------------------------------------------------------


def old_names(stored):
    """gamma and beta, and the position buffer that some releases stored."""
    renamed = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in stored.items()
    }
    return renamed | {"bert.embeddings.position_ids": torch.arange(20)[None]}


def without_prefix(stored):
    return {name.removeprefix("bert."): value for name, value in stored.items()}


def with_decoder_copies(stored):
    """The tied decoder and its bias stored in addition to the originals."""
    return stored | {
        "cls.predictions.decoder.weight": stored["bert.embeddings.word_embeddings.weight"].clone(),
        "cls.predictions.decoder.bias": stored["cls.predictions.bias"].clone(),
    }


def only_decoder_bias(stored):
    stored["cls.predictions.decoder.bias"] = stored.pop("cls.predictions.bias")
    return stored


@pytest.mark.parametrize("change", [old_names, without_prefix, with_decoder_copies, only_decoder_bias])
def test_names_of_other_times_load_without_a_remark(change, tmp_path):
    model = make("pretraining")
    model.save(tmp_path / "m")
    again, report = load_model(foreign(tmp_path / "m", change))
    assert same(model, again) and not report.new and not report.unused


def test_a_bare_model_may_carry_the_prefix(tmp_path):
    model = make()
    model.save(tmp_path / "m")
    again, report = load_model(foreign(tmp_path / "m", lambda s: {f"bert.{name}": value for name, value in s.items()}))
    assert same(model, again) and not report.new and not report.unused


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


def test_shards_are_read_through_their_index(tmp_path):
    model = make("pretraining")
    model.save(tmp_path / "m")
    folder = foreign(tmp_path / "m")
    stored = tensors(folder)
    names = sorted(stored)
    places = {name: f"model-0000{1 + i % 3}-of-00003.safetensors" for i, name in enumerate(names)}
    for file in set(places.values()):
        save_file({name: stored[name] for name in names if places[name] == file}, folder / file)
    (folder / "model.safetensors").unlink()
    storage.write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": places})
    again, report = load_model(folder)
    assert same(model, again) and not report.new and not report.unused


@pytest.mark.parametrize("classes", ["absent", ["AntiBERTy"]], ids=str)
@pytest.mark.parametrize("head", HEADS[:-1], ids=str)
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


def test_tensors_that_belong_to_nothing_are_named(tmp_path):
    make().save(tmp_path / "m")
    _, report = load_model(foreign(tmp_path / "m", lambda s: s | {"adapter.weight": torch.zeros(2, 2)}))
    assert report.unused == ["adapter.weight"]
    assert "unused: adapter.weight" in str(report)
