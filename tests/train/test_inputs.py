"""A run belongs to its data: files with other content stop it, finished or not; other names and dates do not."""

import gzip
import os
import shutil
import typing
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from maskwright.core import storage
from maskwright.core.config import settings_of
from maskwright.core.errors import InputError, RunError
from maskwright.experiments.config import BenchmarkConfig, LadderConfig, LayerLabConfig, RareLabConfig
from maskwright.train.distillation.config import DistillConfig
from maskwright.train.finetuning import finetune as finetune_module
from maskwright.train.finetuning.config import FinetuneConfig, MultiTaskConfig
from maskwright.train.finetuning.finetune import finetune
from maskwright.train.inputs import INPUTS, inputs_of
from maskwright.train.pretraining.config import PretrainConfig
from maskwright.train.pretraining.pretrain import pretrain
from train.rare_rows import encoder
from train.runs import corpus, finetuning, labeled, pretraining

QUICK = {"epochs": 1, "batch_size": 16, "max_length": 24, "precision": "fp32"}
Case = tuple[Callable[..., Any], Any, list[Path]]


def a_pretraining(folder):
    config = pretraining(folder, steps=2, eval=(str(held_out(folder)),))
    return pretrain, config, [Path(config.corpus[0]), folder / "held-out.txt"]


def held_out(folder):
    (folder / "more").mkdir(exist_ok=True)
    return corpus(folder / "more", 8).rename(folder / "held-out.txt")


def continued(folder):
    model = encoder(folder)
    config = pretraining(folder, steps=2, start=str(model), preset=None, model={}, max_length=16)
    return pretrain, config, [model / "model.safetensors", model / "vocab.txt"]


def from_scratch(folder):
    config = finetuning(folder, epochs=1, seeds=2)
    return finetune, config, [config.train, config.dev, config.tokenizer / "vocab.txt"]


def a_finetuning(folder):
    model = encoder(folder)
    rows = {"train": labeled(folder / "train.tsv", 64, 1), "dev": labeled(folder / "dev.tsv", 24, 2)}
    config = FinetuneConfig(**rows, output=folder / "run", model=str(model), **QUICK)
    return finetune, config, [config.dev, model / "model.safetensors", model / "vocab.txt", model / "config.json"]


KINDS = {
    "pretraining": a_pretraining,
    "continued pretraining": continued,
    "from scratch, two seeds": from_scratch,
    "classification": a_finetuning,
}
CONFIGS = (
    PretrainConfig,
    FinetuneConfig,
    MultiTaskConfig,
    DistillConfig,
    LayerLabConfig,
    RareLabConfig,
    LadderConfig,
    BenchmarkConfig,
)


@pytest.mark.parametrize("kind", KINDS)  # other trainings read and compare their files by the same code
def test_changed_data_stop_a_finished_run_and_a_resumed_one(tmp_path, kind):
    run, config, files = KINDS[kind](tmp_path)
    run(config)
    for state in ("finished", "interrupted"):
        for number, path in enumerate(files):
            content = path.read_bytes()
            path.write_bytes((b"", content + b"\n", content.replace(b"a", b"e", 1))[number % 3])
            with pytest.raises(RunError, match=rf"{path.name} has changed.*--restart") as error:
                run(config)
            assert error.value.exit_code == 2
            path.write_bytes(content)
        assert run(config).already_finished == (state == "finished")
        (config.output / "result.json").unlink()


def test_a_moved_run_with_moved_data_is_the_same(tmp_path):
    (tmp_path / "here").mkdir()
    run, config, _ = a_pretraining(tmp_path / "here")
    run(config)
    (tmp_path / "here").rename(tmp_path / "there")
    _, moved, _ = a_pretraining(tmp_path / "there")
    assert run(moved).already_finished
    (moved.output / "result.json").unlink()
    assert not run(moved).already_finished


def test_the_same_content_under_another_name_is_the_same_and_another_format_is_not(tmp_path):
    config = finetuning(tmp_path, epochs=1)
    finetune(config)
    os.utime(config.train, (1, 1))
    copy, table = tmp_path / "copy.tsv", tmp_path / "copy.txt"
    for path in (copy, table):
        shutil.copy(config.train, path)
    assert finetune(config).already_finished
    assert finetune(replace(config, train=copy)).already_finished
    with pytest.raises(RunError, match="train"):
        finetune(replace(config, train=table))
    copy.write_bytes(gzip.compress(copy.read_bytes()))
    with pytest.raises(RunError, match="train"):
        finetune(replace(config, train=copy))


def test_a_run_of_an_older_version_resumes_and_says_so_once(tmp_path, capsys):
    config = finetuning(tmp_path, epochs=1)
    finetune(config)
    (config.output / INPUTS).unlink()
    labeled(config.dev, 30, 5)
    assert finetune(config).already_finished  # its data are unknown, so nothing is recorded
    assert "cannot be compared" in capsys.readouterr().err and not (config.output / INPUTS).exists()
    (config.output / "result.json").unlink()
    finetune(config)
    assert "cannot be compared" in capsys.readouterr().err
    labeled(config.dev, 30, 6)
    with pytest.raises(RunError, match=r"dev\.tsv has changed"):
        finetune(config)
    finetune(config, restart=True)
    assert "cannot be compared" not in capsys.readouterr().err


def test_the_results_of_a_finished_run_can_be_read_without_its_data(tmp_path, capsys):
    config = finetuning(tmp_path, epochs=1)
    finetune(config)
    config.dev.unlink()
    assert finetune(config).already_finished
    assert "dev.tsv cannot be compared" in capsys.readouterr().err
    with pytest.raises(RunError, match="dev"):
        finetune(replace(config, dev=tmp_path / "mistyped.tsv"))


def test_a_file_that_changes_while_it_is_read_is_noticed_and_leaves_no_run(tmp_path, monkeypatch):
    config = finetuning(tmp_path)
    read = finetune_module.read_data

    def read_and_replace(recipe):
        found = read(recipe)
        labeled(recipe.train, 64, 7)
        return found

    monkeypatch.setattr(finetune_module, "read_data", read_and_replace)
    with pytest.raises(InputError, match=r"train\.tsv has changed while"):
        finetune(config)
    assert not config.output.exists()


@pytest.mark.parametrize("cls", CONFIGS)
def test_every_path_of_a_recipe_is_an_input_or_an_output(cls):
    own = {"output", "embeddings", "multi_task"} | ({"data"} if cls is BenchmarkConfig else set())  # found otherwise
    hints = typing.get_type_hints(cls)
    for name, setting in settings_of(cls).items():
        is_path = Path in (hints[name], *typing.get_args(hints[name]))
        is_model = name in ("model", "models", "start", "teacher") and "dict" not in str(hints[name])
        assert bool(setting.reads) == ((is_path or is_model or name in ("corpus", "eval")) and name not in own), name


def test_a_corpus_is_its_files_in_order_and_shards_are_not_read_again(tmp_path, monkeypatch):
    folder = tmp_path / "texts"
    folder.mkdir()
    for name in ("b", "a"):
        (folder / f"{name}.txt").write_text(f"text {name}\n", encoding="utf-8")
    config = pretraining(tmp_path, corpus=(str(folder),))
    assert [Path(one.file).name for one in inputs_of(config).files["corpus"]] == ["a.txt", "b.txt"]
    assert "corpus" not in inputs_of(replace(config, corpus=("hub:owner/name",))).files
    first = pretraining(tmp_path, steps=1)
    pretrain(first)
    shards = replace(first, corpus=(str(first.output / "data"),), tokenizer=first.output / "tokenizer")
    monkeypatch.setattr(storage, "sha256", lambda path: pytest.fail(f"{path} was read") if "shard" in str(path) else "")
    (one,) = inputs_of(shards).files["corpus"]
    assert one.file.endswith("data") and len(one.sha256) == 64


def test_annotations_are_all_files_of_a_folder_and_the_text_beside_a_file(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    for name, text in (("a.txt", "Anna is in Rome"), ("a.ann", "T1\tPER 0 4\tAnna"), (".hidden", "")):
        (folder / name).write_text(text + "\n", encoding="utf-8")
    whole = FinetuneConfig(train=folder, output=tmp_path / "run", task="tagging")
    single = replace(whole, train=folder / "a.ann")
    before = [inputs_of(config) for config in (whole, single)]
    assert [[one.name for one in found.files["train"]] for found in before] == [["a.ann", "a.txt"], [".ann", ".txt"]]
    (folder / "a.txt").write_text("Bert is in Rome\n", encoding="utf-8")
    for config, old in zip((whole, single), before, strict=True):
        (change,) = inputs_of(config).changes(old, {"train"})
        assert "a.txt has changed" in change
