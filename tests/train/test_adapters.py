"""Fine-tuning of adapters: every task, resuming, what is stored, and bad settings."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import maskwright as mw
from inference.samples import tiny, tokenizer
from maskwright.api import open_ensemble, open_predictor
from maskwright.core import storage
from maskwright.core.errors import ConfigError, InputError, ModelFolderError
from maskwright.hub.convert import convert
from maskwright.hub.folders import load_model, read_facts
from maskwright.models.build import build
from maskwright.models.presets import preset
from maskwright.tasks.base import task_of_model
from maskwright.train.checkpoint import list_checkpoints, read_weights
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.finetuning.finetune import finetune
from train.runs import continues_exactly, finetuning

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
ANIMALS, PLACES = ("cat", "dogs", "birds"), ("garden", "store", "mat")


def base_for(task, folder):
    if task == "generation":
        model = build(preset("gpt2", vocab_size=len(tokenizer()), max_position_embeddings=48, **SMALL), "clm", seed=1)
        model.tokenizer = tokenizer()
    elif task == "translation":
        changes = {"decoder_start_token_id": tokenizer().pad_id, "eos_token_id": tokenizer().token_to_id("[SEP]")}
        config = preset(
            "transformer-mini", vocab_size=len(tokenizer()), num_decoder_layers=2, pad_token_id=tokenizer().pad_id,
            **SMALL, **changes,
        )  # fmt: skip
        model = build(config, "seq2seq", seed=1)
        model.tokenizer = tokenizer()
    else:
        model = tiny()
    model.save(folder / "base", replace=True)
    return str(folder / "base")


def rows_for(task, folder):
    words = [(word, word in ANIMALS) for word in (ANIMALS + PLACES) * 6]
    tables = {
        "classification": ("text\tlabel", [f"the {word} fell\t{'ab'[is_animal]}" for word, is_animal in words]),
        "similarity": (
            "text\ttext_pair\tscore",
            [f"the {word}\tthe {'cat' if n % 2 else 'mat'}\t{n % 2}" for n, (word, _) in enumerate(words)],
        ),
        "generation": ("source\ttarget", [f"the {word}\t{word} the" for word, _ in words]),
        "translation": ("source\ttarget", [f"the {word}\t{word} the" for word, _ in words]),
    }
    if task in tables:
        header, lines = tables[task]
        path = folder / f"{task}.tsv"
        path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
        return path
    if task == "tagging":
        path = folder / "rows.conll"
        blocks = [f"the\tO\n{word}\tB-{'ANI' if is_animal else 'LOC'}" for word, is_animal in words]
        path.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
        return path
    rows = [
        {
            "id": str(n),
            "question": "cats ?",
            "context": f"the {word} fell",
            "answers": {"text": [word], "answer_start": [4]},
        }
        for n, (word, _) in enumerate(words)
    ]
    path = folder / f"{task}.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    return path


def recipe(task, folder, **changes):
    path = rows_for(task, folder)
    settings: dict[str, object] = {
        "task": task, "train": path, "dev": path, "output": folder / "run", "model": base_for(task, folder),
        "adapter": "lora", "epochs": 2, "lr": 3e-3, "max_length": 24, "precision": "fp32", "warmup": 0.1,
        "schedule": "linear",
    }  # fmt: skip
    if task != "translation":
        settings["batch_size"] = 12
    return FinetuneConfig(**{**settings, **changes})


@pytest.mark.parametrize(
    "task",
    [
        "classification",
        "tagging",
        "translation",
        *(pytest.param(task, marks=pytest.mark.slow) for task in ("qa", "similarity", "generation")),
    ],
)
def test_every_task_trains_an_adapter_and_answers_as_the_merged_model(task, tmp_path):
    config = recipe(task, tmp_path)
    before = storage.sha256(Path(config.model) / "model.safetensors")
    result = finetune(config)
    assert storage.sha256(Path(config.model) / "model.safetensors") == before
    assert not (result.model / "model.safetensors").exists() and (result.model / "adapter_model.safetensors").is_file()
    assert finetune(config).already_finished
    convert(result.model, tmp_path / "whole")
    adapter, model = load_model(result.model)[0], load_model(tmp_path / "whole")[0]
    assert adapter.adapter is not None and model.adapter is None
    assert (adapter.head_name, adapter.labels) == (model.head_name, model.labels)
    made = task_of_model(adapter, read_facts(result.model))
    assert made.to_json() == task_of_model(model, read_facts(tmp_path / "whole")).to_json()
    rows = type(made).read(config.train).rows
    scores = [made.evaluate(one, made.examples(rows, one.tokenizer, 24)) for one in (adapter, model)]
    assert scores[0].metrics == pytest.approx(scores[1].metrics, abs=1e-4)
    assert scores[0].metrics[made.main_metric] == pytest.approx(result.final[made.main_metric], abs=1e-3)


def test_it_learns_and_every_loader_reads_the_folder(tmp_path):
    result = finetune(recipe("classification", tmp_path, epochs=10, lr=1e-2, targets="all-linear", adapter_dropout=0.1))
    assert result.mean["accuracy"] == 1.0
    texts = ["the dogs fell", "the garden fell"]
    assert mw.TextClassifier.load(result.model).predict(texts).tolist() == ["b", "a"]
    assert [one["label"] for one in open_predictor(result.model).predict(texts)] == ["b", "a"]
    assert mw.load(result.model).labels == ("a", "b")


def test_checkpoints_hold_the_trained_parameters_alone(tmp_path):
    result = finetune(recipe("classification", tmp_path, targets="query"))
    run = result.output / "seed-0"
    (_, folder), *_ = list_checkpoints(run / "checkpoints")
    names = set(read_weights(folder))
    assert names == set(read_weights(run / "best"))
    updates = {f"encoder.layers.{n}.attention.qkv.lora.query.{side}" for n in range(4) for side in "AB"}
    assert names == updates | {"head.classifier.weight", "head.classifier.bias"}


def test_a_pooler_that_the_base_lacks_is_trained_and_stored(tmp_path):
    model = tiny("mlm")
    model.save(tmp_path / "lm")
    result = finetune(recipe("classification", tmp_path, model=str(tmp_path / "lm")))
    assert "encoder.pooler.weight" in read_weights(result.output / "seed-0" / "best")
    config = storage.read_json(result.model / "adapter_config.json")
    assert config["modules_to_save"] == ["pooler", "classifier"]
    _, report = load_model(result.model)
    assert report.new == []


def test_layers_between_encoder_and_head_and_a_crf_are_stored_too(tmp_path):
    result = finetune(recipe("tagging", tmp_path, crf=True, network={"mix_layers": True, "top_layers": 1}))
    model, report = load_model(result.model)
    assert report.new == [] and model.top is not None and model.head_name == "tagging-crf"
    best = read_weights(result.output / "seed-0" / "best")
    assert {"head.crf.transitions", "top.mix.scale"} <= set(best) or any(name.startswith("top.") for name in best)
    for name, tensor in best.items():
        assert torch.equal(model.state_dict()[name], tensor), name


def test_an_interrupted_run_ends_with_the_same_bits(tmp_path, monkeypatch):
    config = recipe("classification", tmp_path, epochs=4, adapter_dropout=0.2, checkpoint_every=2)
    continues_exactly(finetune, config, monkeypatch, step=7, files=["model/adapter_model.safetensors"])


def test_several_seeds_are_an_ensemble_on_one_base(tmp_path):
    config = recipe("classification", tmp_path, seeds=2)
    finetune(config)
    members = open_ensemble([config.output]).members
    models = [member.open().model for member in members]
    first, second = (one.encoder.embeddings.word.weight for one in models)
    assert first.data_ptr() == second.data_ptr()
    updates = [one.encoder.layers[0].attention.qkv.lora["query"].A for one in models]
    assert not torch.equal(*updates)


def test_a_new_delimiter_comes_with_the_adapter(tmp_path):
    result = finetune(recipe("generation", tmp_path, delimiter="<to-fr>"))
    model, report = load_model(result.model)
    assert model.tokenizer.token_to_id("<to-fr>") is not None and report.new == []
    assert model.config.vocab_size == len(tokenizer()) + 1
    base = load_model(tmp_path / "base")[0]
    assert torch.equal(model.word_embeddings[: base.config.vocab_size], base.word_embeddings)


def test_full_fine_tuning_of_an_adapter_starts_from_the_merged_model(tmp_path):
    first = finetune(recipe("classification", tmp_path, epochs=6))
    still = {"adapter": None, "epochs": 1, "lr": 1e-12, "output": tmp_path / "full", "model": str(first.model)}
    second = finetune(replace(recipe("classification", tmp_path), **still))
    assert second.mean["loss"] == pytest.approx(first.mean["loss"], abs=1e-4)
    with pytest.raises(ModelFolderError, match=r"is an adapter itself: merge it first with maskwright export"):
        finetune(replace(recipe("classification", tmp_path), model=str(first.model), output=tmp_path / "two"))


def test_a_distillation_may_have_an_adapter_as_its_teacher(tmp_path):
    from maskwright.train.distillation.config import DistillConfig
    from maskwright.train.distillation.distill import distill

    teacher = finetune(recipe("classification", tmp_path))
    rows = rows_for("classification", tmp_path)
    config = DistillConfig(
        teacher=str(teacher.model), train=rows, dev=rows, output=tmp_path / "d", layers=2, epochs=1, max_length=24
    )
    assert (distill(config).model / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank": 4}, "'rank' requires --adapter lora"),
        ({"merge": True}, "'merge' requires --adapter lora"),
        ({"adapter": "lora", "rank": 0}, "'rank' is 0; it must be at least 1"),
        ({"adapter": "lora", "alpha": 0.0}, "'alpha' is 0.0; it must be above 0"),
        ({"adapter": "lora", "adapter_dropout": 1.0}, r"'dropout' is 1.0; it must be in \[0, 1\)"),
        ({"adapter": "lora", "targets": "query,valu"}, "valu"),
        ({"adapter": "lora", "freeze_encoder": True}, "--adapter and --freeze-encoder exclude each other"),
        ({"adapter": "lora", "seeds": 2, "average_seeds": True}, "cannot be averaged"),
        ({"adapter": "lora", "task": "anomaly"}, "not for anomaly"),
        ({"adapter": "lora", "preset": "bert-tiny", "tokenizer": "tok"}, "--adapter requires --model"),
        ({"adapter": "lorax"}, "'adapter' is 'lorax'"),
    ],
)
def test_settings_that_do_not_fit_are_named(tmp_path, settings, message):
    with pytest.raises(ConfigError, match=message):
        FinetuneConfig(**{"train": tmp_path / "a.tsv", "output": tmp_path / "run", **settings})


def test_a_network_without_targets_is_refused_and_leaves_nothing(tmp_path):
    start = finetune(finetuning(tmp_path, preset="lstm-small", network={"hidden_size": 32}, epochs=1))
    config = recipe("classification", tmp_path, model=str(start.model), train=tmp_path / "train.tsv", dev=None)
    with pytest.raises(InputError, match="has no linear layer that is a target"):
        finetune(config)
    assert not config.output.exists()
