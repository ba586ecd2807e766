"""Distillation from a sentence encoder: texts, the cache of embeddings, the student, and exact resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import maskwright as mw
from maskwright.api import open_embedder
from maskwright.core import storage
from maskwright.core.errors import ConfigError, InputError, ModelFolderError, RunError
from maskwright.hub.folders import load_model
from maskwright.hub.sentence import declared_by
from maskwright.inference.embed import TextEncoder
from maskwright.models.build import build
from maskwright.text.readers.corpus import read_documents
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.distillation.config import DistillConfig
from maskwright.train.distillation.distill import distill
from maskwright.train.distillation.sentences import fill_word_table, make_texts, read_texts
from train.runs import TINY, continues_exactly, corpus, records, sentence_teacher

STILL = {"steps": 1, "warmup": 0, "lr": 1e-30, "weight_decay": 0.0}  # a run that changes no weight


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("teacher")
    return sentence_teacher(corpus(folder), folder / "model")


def recipe(folder: Path, teacher: Path, **changes: Any) -> DistillConfig:
    settings: dict[str, Any] = {
        "teacher": str(teacher),
        "output": folder / "run",
        "corpus": (str(corpus(folder)),),
        "preset": "bert-tiny",
        "model": TINY,
        "vocab_size": 80,
        "steps": 6,
        "batch_tokens": 256,
        "max_length": 32,
        "checkpoint_every": 2,
        "log_every": 1,
        "holdout": 0.15,
        "precision": "fp32",
    }
    return DistillConfig(**{**settings, **changes})


def weights(run: Path) -> str:
    return storage.sha256(run / "model" / "model.safetensors")


# -- the student -------------------------------------------------------------------------------------------------


def test_a_student_with_its_own_network_and_vocabulary_learns_the_teachers_embeddings(tmp_path: Path, teacher: Path):
    result = distill(recipe(tmp_path, teacher, steps=80, checkpoint_every=40, lr=3e-3))
    logged = records(tmp_path / "run")
    losses = [record["embedding_loss"] for record in logged if "embedding_loss" in record]
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])
    first = next(record for record in logged if "loss" in record)
    assert first["loss"] == pytest.approx(first["embedding_loss"] + 0.1 * first["mlm_loss"], rel=1e-9)
    assert result.metric == "cosine" and [row.name for row in result.rows][:2] == ["teacher", "student"]
    assert result.rows[0].scores["cosine"] == pytest.approx(1.0, abs=1e-4)  # what was kept is what it gives now
    assert result.rows[1].scores["cosine"] == pytest.approx(1 - logged[-1]["eval_embedding_loss"])
    texts = ["the red cat sees a tree .", "it was here and then the dog"]
    ours, theirs = (open_embedder(folder, precision="fp32").vectors(texts) for folder in (result.model, teacher))
    assert (ours * theirs).sum(axis=1).min() > 0.7
    student = mw.load(result.model)
    assert (student.head_name, student.tokenizer.vocab_size) == ("mlm", 80)
    assert declared_by(result.model).pooling == "mean" and declared_by(result.model).normalize
    assert mw.FillMask(result.model).fill(["the [MASK] was here"])
    page = result.report.read_text(encoding="utf-8")
    assert "Distance to the teacher" in page and "maskwright embed" in page


def test_the_word_table_is_initialized_with_the_teachers_embeddings_of_the_tokens(tmp_path: Path, teacher: Path):
    model, _ = load_model(teacher)
    encoder = TextEncoder(model, normalize=True)
    result = distill(recipe(tmp_path, teacher, **STILL))
    student = mw.load(result.model)
    drawn = build(student.config, "mlm", seed=0).word_embeddings
    expected = drawn.detach().clone()
    fill_word_table(expected, student.tokenizer, encoder)
    assert torch.allclose(student.word_embeddings, expected, atol=1e-6)
    special = sorted(student.tokenizer.special_ids)
    assert torch.equal(expected[special], drawn[special])
    ordinary = [index for index in range(80) if index not in student.tokenizer.special_ids]
    assert expected[ordinary].std() == pytest.approx(0.04, rel=1e-3)
    assert expected[ordinary].mean(dim=0).abs().max() < 1e-6
    index = next(index for index in ordinary if student.tokenizer.id_to_token(index).startswith("##"))
    alone = torch.from_numpy(encoder.vectors([student.tokenizer.id_to_token(index)[2:]]))[0]
    other = torch.from_numpy(encoder.vectors(["the cat"]))[0]
    centered = expected[index] - expected[ordinary].mean(dim=0)
    assert torch.dot(centered, alone) > torch.dot(centered, other)


def test_a_student_of_another_width_is_trained_with_a_projection_that_is_not_saved(tmp_path: Path, teacher: Path):
    result = distill(recipe(tmp_path, teacher, model=TINY | {"hidden_size": 16}, steps=40, lr=3e-3))
    losses = [record["embedding_loss"] for record in records(tmp_path / "run") if "embedding_loss" in record]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    student = mw.load(result.model)
    assert student.config.hidden_size == 16
    assert not [name for name, _ in student.named_parameters() if "projection" in name]


# -- resume ----------------------------------------------------------------------------------------------------


def test_an_interrupted_run_ends_with_the_same_bits(tmp_path: Path, teacher: Path, monkeypatch: pytest.MonkeyPatch):
    continues_exactly(distill, recipe(tmp_path, teacher), monkeypatch)


def test_a_damaged_part_is_computed_again(tmp_path: Path, teacher: Path, capsys: pytest.CaptureFixture[str]):
    cache = tmp_path / "embeddings"
    distill(recipe(tmp_path, teacher, embeddings=cache))
    part = next(cache.glob("*/vectors.bin"))
    whole = part.read_bytes()
    part.write_bytes(b"\0" + whole[1:])
    distill(recipe(tmp_path, teacher, embeddings=cache, output=tmp_path / "again"))
    assert part.read_bytes() == whole
    assert "computed again" in capsys.readouterr().err
    assert weights(tmp_path / "again") == weights(tmp_path / "run")


def test_a_cache_of_another_teacher_is_rejected(tmp_path: Path, teacher: Path):
    cache = tmp_path / "embeddings"
    distill(recipe(tmp_path, teacher, embeddings=cache))
    model, _ = load_model(teacher)
    with torch.no_grad():
        model.word_embeddings.add_(0.01)
    model.save(tmp_path / "other")
    with pytest.raises(RunError, match="another teacher"):
        distill(recipe(tmp_path, tmp_path / "other", embeddings=cache, output=tmp_path / "again"))


# -- the texts ---------------------------------------------------------------------------------------------------


def test_every_sentence_is_in_one_text_and_the_kinds_have_their_shares(tmp_path: Path):
    sentences = [f"word{index} is here ." for index in range(4000)]
    lines = ["\n".join(sentences[start : start + 40]) for start in range(0, 4000, 40)]
    (tmp_path / "corpus.txt").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    tokenizer = Tokenizer.train_from_iterator(["word is here . 0 1 2 3 4 5 6 7 8 9"] * 3, vocab_size=60)
    texts = make_texts([str(tmp_path / "corpus.txt")], tmp_path / "texts", tokenizer, 64, 0, False)
    documents = [document for path in texts.files for document in read_documents(path)]
    assert texts.count == len(documents)
    found = " ".join(text for path in texts.files for text in read_texts(path))
    assert found.split() == " ".join(sentences).split()
    pairs = sum(2 for document in documents if len(document.sentences) == 2)
    sizes = [document.sentences[0].count(" .") for document in documents if len(document.sentences) == 1]
    windows = sum(size for size in sizes if size > 1)
    assert pairs / 4000 == pytest.approx(0.10, abs=0.03)
    assert windows / 4000 == pytest.approx(0.15, abs=0.04)
    again = make_texts([str(tmp_path / "corpus.txt")], tmp_path / "again", tokenizer, 64, 0, False)
    assert [path.read_bytes() for path in again.files] == [path.read_bytes() for path in texts.files]
    (tmp_path / "corpus.txt").write_text("something else\n", encoding="utf-8")
    with pytest.raises(RunError, match="not the one"):
        make_texts([str(tmp_path / "corpus.txt")], tmp_path / "texts", tokenizer, 64, 0, False)


# -- bad input ---------------------------------------------------------------------------------------------


def test_a_teacher_without_sentence_embeddings_or_a_suitable_head_is_rejected(tmp_path: Path, teacher: Path):
    model, _ = load_model(teacher)
    model.sentence = None
    model.save(tmp_path / "bare")
    changes = {"preset": "half", "model": {}, "vocab_size": None}
    with pytest.raises(ModelFolderError, match="encoder without a head"):
        distill(recipe(tmp_path, tmp_path / "bare", **changes))
    with pytest.raises(ConfigError, match="modules.json"):
        distill(recipe(tmp_path, tmp_path / "bare"))
    with pytest.raises(InputError, match="positions"):
        distill(recipe(tmp_path, teacher, **changes, max_length=4000, batch_tokens=8000))
    assert not (tmp_path / "run").exists()
