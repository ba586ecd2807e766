"""A distillation as a user meets it: the distance to the teacher falls, it continues exactly, the report compares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import maskwright as mw
from maskwright.core import storage
from maskwright.core.errors import InputError, ModelFolderError, RunError
from maskwright.hub.folders import load_model, read_facts
from maskwright.inference.engine import operators
from maskwright.train.distillation.config import DistillConfig
from maskwright.train.distillation.distill import distill
from maskwright.train.finetuning.finetune import finetune
from maskwright.train.pretraining.pretrain import pretrain
from train.runs import TINY, continues_exactly, corpus, finetuning, labeled, pretraining, records, stopped

DEEP = TINY | {"num_hidden_layers": 2}


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pre-trained teacher of two layers, with next sentence."""
    folder = tmp_path_factory.mktemp("pretrained")
    result = pretrain(pretraining(folder, model=DEEP, steps=60, lr=3e-3, checkpoint_every=60, dropout=0.0))
    assert result.scores["mlm_accuracy"] > 0
    return result.model


@pytest.fixture(scope="module")
def opinionated(tmp_path_factory: pytest.TempPathFactory, pretrained: Path) -> Path:
    """A teacher whose layers differ much, so that its lowest alone says something else than both."""
    folder = tmp_path_factory.mktemp("opinionated") / "model"
    model, _ = load_model(pretrained)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.1 if "embeddings" in name else 0.25, generator=generator)
    model.save(folder)
    return folder


@pytest.fixture(scope="module")
def finetuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fine-tuned teacher of two layers (the preset's own sizes)."""
    result = finetune(finetuning(tmp_path_factory.mktemp("finetuned"), epochs=10, lr=1e-3))
    assert result.mean["accuracy"] > 0.9, "a teacher that knows nothing teaches nothing"
    return result.model


def on_text(folder: Path, teacher: Path, **changes: Any) -> DistillConfig:
    settings: dict[str, Any] = {
        "teacher": str(teacher),
        "output": folder / "run",
        "corpus": (str(corpus(folder)),),
        "steps": 6,
        "batch_tokens": 256,
        "max_length": 32,
        "checkpoint_every": 2,
        "log_every": 1,
        "holdout": 0.15,
        "precision": "fp32",
    }
    return DistillConfig(**{**settings, **changes})


def on_rows(folder: Path, teacher: Path, **changes: Any) -> DistillConfig:
    settings: dict[str, Any] = {
        "teacher": str(teacher),
        "output": folder / "run",
        "train": labeled(folder / "train.tsv", 64, 1),
        "dev": labeled(folder / "dev.tsv", 24, 2),
        "epochs": 2,
        "lr": 1e-3,
        "batch_size": 16,
        "max_length": 24,
        "log_every": 1,
        "precision": "fp32",
    }
    return DistillConfig(**{**settings, **changes})


def test_the_distance_to_a_pre_trained_teacher_falls(tmp_path: Path, opinionated: Path):
    result = distill(on_text(tmp_path, opinionated, steps=80, lr=3e-3, checkpoint_every=20))
    logged = records(tmp_path / "run")
    for part in ("soft_loss", "hidden_loss"):
        training = [record[part] for record in logged if part in record]
        assert sum(training[-5:]) < 0.85 * sum(training[:5]), part
    held_out = [record["eval_soft_loss"] for record in logged if "eval_soft_loss" in record]
    distill(on_text(tmp_path, opinionated, output=tmp_path / "start", steps=1, warmup=0, lr=1e-30, weight_decay=0.0))
    untrained = next(record["eval_soft_loss"] for record in records(tmp_path / "start") if "eval_soft_loss" in record)
    assert max(held_out) < 0.85 * untrained
    first = next(record for record in logged if "loss" in record)
    total = 2 * first["mlm_loss"] + 5 * first["soft_loss"] + first["hidden_loss"]
    assert first["loss"] == pytest.approx(total, rel=1e-9)
    teacher, student = mw.load(opinionated), mw.load(result.model)
    assert (student.head_name, student.config.num_hidden_layers) == ("mlm", 1)
    assert student.num_parameters < teacher.num_parameters
    assert mw.FillMask(result.model).fill(["the [MASK] was here"])
    storage.verify_folder(result.model)


def test_a_student_that_was_not_trained_is_the_teachers_layers(tmp_path: Path, pretrained: Path):
    result = distill(on_text(tmp_path, pretrained, steps=1, warmup=0, lr=1e-30, weight_decay=0.0))
    teacher, student = mw.load(pretrained), mw.load(result.model)
    theirs, ours = dict(teacher.named_parameters()), dict(student.named_parameters())
    for name in (name for name in ours if name.startswith("encoder.")):
        assert torch.equal(ours[name], theirs[name]), name


def test_the_report_compares_teacher_student_and_what_pruning_leaves(tmp_path: Path, pretrained: Path):
    result = distill(on_text(tmp_path, pretrained, prune_heads=0.5))
    rows = {row.name: row for row in result.rows}
    int8 = rows.pop("teacher in int8", None)
    teacher, student, fewer_heads, fewer_layers, factorized, shared = rows.values()
    assert [teacher.name, student.name] == ["teacher", "student"]
    assert "word table of rank" in factorized.name and "share" in shared.name
    assert (int8 is None) == (operators.missing_int8() is not None)  # none if products overflow
    if int8 is not None:
        assert int8.parameters == teacher.parameters and int8.size_bytes < teacher.size_bytes
        assert int8.texts_per_second > 0
    assert factorized.parameters < teacher.parameters and shared.parameters < teacher.parameters
    assert shared.layers == teacher.layers == factorized.layers
    assert fewer_heads.heads == teacher.heads // 2 and fewer_heads.parameters < teacher.parameters
    assert fewer_layers.layers == student.layers == 1
    assert result.score_kept == pytest.approx(student.scores["mlm_accuracy"] / teacher.scores["mlm_accuracy"])
    assert all(row.texts_per_second > 0 and row.size_bytes == 4 * row.parameters for row in rows.values())
    page = result.report.read_text(encoding="utf-8")
    for words in ("Score kept", "least important heads pruned", "top 1 layer removed", "texts/s"):
        assert words in page, words
    again = distill(on_text(tmp_path, pretrained, prune_heads=0.5))
    assert again.already_finished and again.rows == result.rows


def test_an_interrupted_run_on_text_ends_with_the_same_bits(
    tmp_path: Path, pretrained: Path, monkeypatch: pytest.MonkeyPatch
):
    continues_exactly(distill, on_text(tmp_path, pretrained), monkeypatch)


def test_a_fine_tuned_teacher_teaches_its_task_and_the_run_continues_exactly(
    tmp_path: Path, finetuned: Path, monkeypatch: pytest.MonkeyPatch
):
    result = distill(on_rows(tmp_path, finetuned, output=tmp_path / "whole"))
    student, _ = load_model(result.model)
    assert (student.head_name, student.config.num_hidden_layers) == ("classification", 1)
    assert student.labels == ("animal", "place") and read_facts(result.model)["task"] == "classification"
    training = [record["soft_loss"] for record in records(tmp_path / "whole") if "soft_loss" in record]
    assert sum(training[-4:]) < sum(training[:4])
    assert result.metric == "accuracy" and result.score_kept is not None
    continues_exactly(distill, on_rows(tmp_path, finetuned), monkeypatch, step=5, whole=tmp_path / "whole")


def test_a_run_does_not_go_on_with_another_teacher(tmp_path: Path, finetuned: Path, monkeypatch: pytest.MonkeyPatch):
    teacher = tmp_path / "teacher"
    model, _ = load_model(finetuned)
    model.save(teacher, facts=read_facts(finetuned))
    stopped(distill, on_rows(tmp_path, teacher), monkeypatch, 5)
    with torch.no_grad():
        model.word_embeddings.add_(0.01)
    model.save(teacher, facts=read_facts(finetuned), replace=True)
    with pytest.raises(RunError, match=r"teacher/model\.safetensors has changed"):
        distill(on_rows(tmp_path, teacher))


def test_a_teacher_that_does_not_fit_the_data_is_refused_and_leaves_nothing(
    tmp_path: Path, pretrained: Path, finetuned: Path
):
    with pytest.raises(ModelFolderError, match="a classifier"):
        distill(on_text(tmp_path, finetuned))
    with pytest.raises(ModelFolderError, match="pre-trained"):
        distill(on_rows(tmp_path, pretrained))
    with pytest.raises(InputError, match="has 2"):
        distill(on_text(tmp_path, pretrained, layers=3))
    with pytest.raises(InputError, match="positions"):
        distill(on_text(tmp_path, pretrained, max_length=4000, batch_tokens=8000))
    assert not (tmp_path / "run").exists()
