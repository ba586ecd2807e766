"""Adapter folders: shared bases, equal numbers on every path, and folders that do not fit."""

from __future__ import annotations

import copy
import gc
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import maskwright as mw
from inference.samples import TEXTS, tiny
from maskwright.core.errors import MissingFileError
from maskwright.core.storage import accept
from maskwright.doctor.model import examine_model
from maskwright.hub import adapters
from maskwright.hub.adapters import attach_adapter
from maskwright.hub.convert import convert, store_as
from maskwright.hub.folders import load_model, merged, save_model
from maskwright.inference.engine import operators
from maskwright.inference.ready import calibrate, place
from maskwright.models.config import ModelConfig
from maskwright.models.lora_config import LoraConfig
from maskwright.models.model import Model

ROWS = [text for text in TEXTS if text]


def make(folder: Path, name: str = "adapter", head: str | None = "classification", seed: int = 1, **settings) -> Path:
    """An adapter with random weights on the model in `folder / "base"`, which is made first."""
    if not (folder / "base").exists():
        tiny().save(folder / "base")
    base = str(folder / "base")
    model, report = load_model(base, head, labels=["a", "b", "c"] if head == "classification" else None)
    attach_adapter(model, base, LoraConfig(**{"rank": 4, "alpha": 8.0, **settings}), report.new, seed, {})
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.normal_(0, 0.3, generator=generator)
    save_model(model, folder / name, facts={"task": head} if head else None)
    return folder / name


def batch_for(model: Model):
    return model.tokenizer.batch(ROWS, max_length=40)


def change(folder: Path, **values) -> Path:
    """The folder with other settings in its adapter_config.json, accepted in its manifest."""
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    accept(folder)
    return folder


def rename(folder: Path, **names) -> Path:
    """The folder with some tensors renamed (by their ends), accepted in its manifest."""
    path = folder / "adapter_model.safetensors"
    tensors = load_file(path)
    for old, new in names.items():
        tensors = {name.replace(old, new): tensor for name, tensor in tensors.items()}
    save_file(tensors, path)
    accept(folder)
    return folder


def test_a_folder_has_the_updates_and_the_head_and_no_path_of_this_machine(tmp_path: Path):
    folder = make(tmp_path)
    names = {path.name for path in folder.iterdir()}
    files = {"adapter_config.json", "adapter_model.safetensors", "maskwright.json", "manifest.json", "README.md"}
    assert names == files
    tensors = load_file(folder / "adapter_model.safetensors")
    assert len(tensors) == 4 * 2 * 2 + 2  # A and B of query and value in four layers, and the head
    assert (folder / "adapter_model.safetensors").stat().st_size < (tmp_path / "base/model.safetensors").stat().st_size
    for name in ("maskwright.json", "README.md"):
        assert str(tmp_path) not in (folder / name).read_text()
    card = (folder / "README.md").read_text()
    assert "base_model: base\n" in card and "rank 4, alpha 8" in card and "`a`, `b`, `c`" in card


def test_adapters_on_one_base_share_its_weights_until_all_are_gone(tmp_path: Path):
    folders = [make(tmp_path, "one"), make(tmp_path, "two", None), make(tmp_path, "three", "tagging", seed=3)]
    models = [mw.load(folder) for folder in folders]
    addresses = [{name: one.data_ptr() for name, one in model.named_parameters()} for model in models]
    base = load_model(tmp_path / "base")[0]
    for name, _ in base.named_parameters():
        if not name.startswith("encoder.pooler"):  # a tagger has none
            assert len({known[name] for known in addresses}) == 1, name
    updates = [next(ptr for name, ptr in known.items() if ".lora." in name) for known in addresses]
    assert len(set(updates)) == 3
    assert base.word_embeddings.data_ptr() != addresses[0]["encoder.embeddings.word.weight"]
    del models
    gc.collect()
    assert not len(adapters._BASES)


@pytest.mark.parametrize("targets", ["query,value", "all-linear", "ffn-in", "ffn-out,key"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_modules_engine_and_merged_model_agree(targets: str, precision: str, tmp_path: Path):
    folder = make(tmp_path, targets=tuple(targets.split(",")))
    model, whole = mw.load(folder), merged(mw.load(folder))
    batch = batch_for(model)
    for one in (model, whole):
        place(one, "cpu", precision)
    plain = model.logits(batch)
    with torch.inference_mode():
        fast, other = model.logits(batch), whole.logits(batch)
    tolerance = 1e-5 if precision == "fp32" else 0.15  # these weights are large: 0.1 on a Zen 5
    assert torch.allclose(plain, fast, atol=tolerance) and torch.allclose(fast, other, atol=tolerance)


@pytest.mark.compatibility(
    "peft 0.21.2",
    theirs="`all-linear` of a text classifier includes the pooler, besides the linear layers of the encoder's layers.",
    ours="The same set.",
)
def test_all_linear_is_the_set_of_peft(tmp_path: Path):
    import transformers
    from peft import LoraConfig as TheirConfig
    from peft import get_peft_model

    folder = make(tmp_path, targets=("all-linear",))
    network = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "base", num_labels=3)
    theirs = get_peft_model(network, TheirConfig(r=4, target_modules="all-linear", task_type="SEQ_CLS"))
    wanted = {name.replace(".default", "") for name, _ in theirs.named_parameters() if ".lora_" in name}
    found = {name for name in load_file(folder / "adapter_model.safetensors") if ".lora_" in name}
    assert found == wanted and any("pooler" in name for name in found)


@pytest.mark.parametrize("gated", [{"gated": True}, {"norm": "pre"}])
def test_gated_and_pre_norm_layers_agree_too(gated: dict, tmp_path: Path):
    """In the own format, whose joint layer has one name: an adapter changes it as one."""
    from inference.samples import tokenizer
    from maskwright.models.build import build

    config = ModelConfig(
        vocab_size=len(tokenizer()), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        initializer_range=0.2, **gated,
    )  # fmt: skip
    model = build(config, None, seed=2)
    model.tokenizer = tokenizer()
    model.save(tmp_path / "base")
    model = mw.load(make(tmp_path, targets=("all-linear",)))
    batch = batch_for(model)
    plain = model.logits(batch)
    with torch.inference_mode():
        assert torch.allclose(plain, place(model, "cpu", "fp32").logits(batch), atol=1e-5)
    assert torch.allclose(plain, merged(model).logits(batch), atol=1e-5)


@pytest.mark.skipif(operators.missing_int8() is not None, reason="int8 cannot run here")
def test_int8_keeps_the_updates(tmp_path: Path):
    model = mw.load(make(tmp_path, targets=("all-linear",)))
    batch = batch_for(model)
    plain = model.logits(batch)
    place(model, "cpu", "int8")
    calibrate(model, ROWS * 4, 40)
    with torch.inference_mode():
        fast = model.logits(batch)
    without = load_model(tmp_path / "base", "classification", labels=3)[0]
    without.head.load_state_dict(model.head.state_dict())
    assert (fast - plain).abs().mean() < 0.2 * (without.logits(batch) - plain).abs().mean()


@pytest.mark.compatibility(
    "peft 0.21.2",
    theirs="unmerge_adapter subtracts the update from rounded weights: the base is not restored, and in bfloat16 moves "
    "away with each merge.",
    ours="A base that adapters share is never written: merging makes a whole model with weights of its own.",
)
def test_copies_and_merged_models_change_nothing_of_the_base(tmp_path: Path):
    folder = make(tmp_path)
    model, other = mw.load(folder), mw.load(folder)
    expected = other.logits(batch_for(other))
    duplicate = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in (*duplicate.parameters(), *merged(model).parameters()):
            parameter.add_(1.0)
    assert torch.equal(other.logits(batch_for(other)), expected)
    changed = duplicate.word_embeddings.clone()
    assert torch.equal(place(duplicate, "cpu").word_embeddings, changed)
    assert not model.adapter and all(parameter.requires_grad for parameter in model.parameters())


def test_converting_merges_and_weights_may_be_halved(tmp_path: Path):
    folder = make(tmp_path)
    done = convert(folder, tmp_path / "whole")
    assert done.num_tensors > 60 and examine_model(tmp_path / "whole")["problems"] == []
    model, whole = mw.load(folder), mw.load(tmp_path / "whole")
    assert torch.allclose(model.logits(batch_for(model)), whole.logits(batch_for(model)), atol=1e-5)
    store_as(folder, tmp_path / "half", "bf16")
    assert (tmp_path / "half/model.safetensors").stat().st_size < 0.6 * done.num_bytes


def test_another_head_is_put_on_the_merged_encoder(tmp_path: Path):
    folder = make(tmp_path)
    model, report = load_model(folder, "tagging", labels=["O", "B"])
    assert model.adapter is None and report.new == ["classifier.weight", "classifier.bias"]
    kept, report = load_model(folder, "classification", labels=["c", "a", "b"])
    assert report.new == []
    stored = mw.load(folder)
    wanted = stored.logits(batch_for(stored))[:, [2, 0, 1]]
    assert torch.allclose(kept.logits(batch_for(kept)), wanted, atol=1e-5)


def test_sentence_settings_are_those_of_the_base_or_its_own(tmp_path: Path):
    from maskwright.models.model import SentenceSettings

    model = tiny()
    model.sentence = SentenceSettings("cls", True, 32)
    model.save(tmp_path / "base")
    assert mw.load(make(tmp_path, "own", None)).sentence == SentenceSettings("cls", True, 32)
    assert (tmp_path / "own" / "modules.json").is_file()
    vectors = mw.Embedder(str(tmp_path / "own")).fit(ROWS).transform(ROWS)
    assert vectors.shape == (len(ROWS), 32) and abs(float((vectors[0] ** 2).sum()) - 1) < 1e-3


def test_base_and_adapter_may_move_together_or_the_adapter_alone(tmp_path: Path):
    make(tmp_path / "here")
    shutil.copytree(tmp_path / "here" / "adapter", tmp_path / "elsewhere" / "deep" / "adapter")
    assert mw.load(tmp_path / "elsewhere" / "deep" / "adapter").num_labels == 3
    (tmp_path / "here").rename(tmp_path / "there")
    assert mw.load(tmp_path / "there" / "adapter").num_labels == 3
    with pytest.raises(MissingFileError, match="is an adapter, and its base model is missing: .* does not exist"):
        mw.load(tmp_path / "elsewhere" / "deep" / "adapter")


def other_base(folder: Path) -> Path:
    adapter = make(folder)
    shutil.rmtree(folder / "base")
    tiny(seed=9).save(folder / "base")
    return adapter


def broken_base(folder: Path) -> Path:
    adapter = make(folder)
    path = folder / "base" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    return adapter


def adapter_on_adapter(folder: Path) -> Path:
    make(folder, "first")
    adapter = change(make(folder), base_model_name_or_path=str(folder / "first"))
    facts = json.loads((adapter / "maskwright.json").read_text())
    facts["adapter"]["base"] = "../first"
    (adapter / "maskwright.json").write_text(json.dumps(facts))
    accept(adapter)
    return adapter


def pickled(folder: Path) -> Path:
    adapter = make(folder)
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    accept(adapter)
    return adapter


def foreign(folder: Path) -> Path:
    """An adapter without maskwright.json on a base of another size."""
    adapter = make(folder)
    for name in ("maskwright.json", "manifest.json"):
        (adapter / name).unlink()
    from inference.samples import tokenizer
    from maskwright.models.build import build

    config = ModelConfig(vocab_size=len(tokenizer()), hidden_size=48, num_hidden_layers=4, num_attention_heads=4)
    shutil.rmtree(folder / "base")
    build(config).save(folder / "base")
    return adapter


def with_facts(folder: Path, head: object = "classification", **facts: object) -> Path:
    """An adapter whose maskwright.json says something else of it."""
    adapter = make(folder)
    known = json.loads((adapter / "maskwright.json").read_text())
    known["head"] = head
    known["adapter"] |= facts
    (adapter / "maskwright.json").write_text(json.dumps(known))
    accept(adapter)
    return adapter


def labels_without_end(folder: Path) -> Path:
    """A classifier of a billion labels in no byte."""
    adapter = foreign(folder)
    shutil.rmtree(folder / "base")
    tiny().save(folder / "base")
    path = adapter / "adapter_model.safetensors"
    tensors = load_file(path)
    tensors["base_model.model.classifier.weight"] = torch.empty(1_000_000_000, 0)
    save_file(tensors, path)
    return adapter


def changed(**values):
    """Makes an adapter with other settings in its adapter_config.json."""
    return lambda folder: change(make(folder), **values)


def renamed(old: str, new: str):
    """Makes an adapter whose tensors have other names."""
    return lambda folder: rename(make(folder), **{old: new})


BAD = {
    "strange facts": (lambda folder: with_facts(folder, network={"a": 1}), "not as written by"),
    "unknown head": (lambda folder: with_facts(folder, head="lorax"), "lorax"),
    "other labels": (lambda folder: with_facts(folder, labels=["a", "b"]), "has shape [3, 32], but the base requires"),
    "too many labels": (labels_without_end, "1,000,000,000 labels; 100,000 is the limit"),
    "another base": (other_base, "the base has changed, or it is another model"),
    "changed base": (broken_base, "the base has changed, or it is another model"),
    "adapter as base": (adapter_on_adapter, "which is an adapter too: merge that one first"),
    "pickle": (pickled, "contains its adapter as a pickle"),
    "another size": (foreign, "lora_A.weight has shape [4, 32]"),
    "unknown target": (renamed("self.query", "self.rotary"), "has no such linear layer"),
    "unknown tensor": (renamed("classifier.bias", "classifier.extra"), "trained with another head, or on another base"),
    "embedding": (renamed("classifier.bias", "embeddings.word_embeddings.lora_embedding_A"), "LoRA of an embedding"),
    "half an update": (renamed("layer.0.attention.self.value.lora_B", "x.lora_B"), "layer"),
    "other rank": (changed(r=5), "requires [5, 32] at rank 5"),
    "dora": (changed(use_dora=True), "use_dora is True, which is not"),
    "rank pattern": (changed(rank_pattern={"query": 2}), "rank_pattern is"),
    "prefix tuning": (changed(peft_type="PREFIX_TUNING"), "only LORA is supported"),
    "no numbers": (changed(r="x"), "r is 'x'"),
    "not sealed": (
        lambda folder: make(folder).joinpath("adapter_config.json").write_text("{}") and folder / "adapter",
        "its manifest records",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_folder_that_does_not_fit_is_one_sentence_and_exit_code_2(case: str, tmp_path: Path, refused):
    prepare, message = BAD[case]
    refused(message, "predict", prepare(tmp_path), "a text")
