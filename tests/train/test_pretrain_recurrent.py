"""Recurrent runs from text to samples: carried memory, exact resume, perplexity, and the pair of directions."""

from __future__ import annotations

from pathlib import Path

import pytest

import maskwright as mw
from maskwright.hub.folders import load_model
from maskwright.inference.held_out_text import score_text
from maskwright.train.finetuning.finetune import finetune
from maskwright.train.pretraining.config import PretrainConfig
from maskwright.train.pretraining.pretrain import PretrainResult, pretrain
from train.runs import continues_exactly, corpus, finetuning, pretraining

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "hidden_dropout": 0.1}


def recurrent(folder: Path, **changes) -> PretrainConfig:
    settings = {"preset": "lstm-small", "objective": "clm", "model": SMALL, "steps": 60, "lr": 2e-2, "max_length": 16}
    return pretraining(folder, **{**settings, "checkpoint_every": 30, **changes})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> PretrainResult:
    return pretrain(recurrent(tmp_path_factory.mktemp("lstm")))


def test_a_run_that_was_cut_off_ends_with_the_bits_of_one_that_was_not(
    tmp_path: Path, run: PretrainResult, monkeypatch: pytest.MonkeyPatch
):
    continues_exactly(pretrain, recurrent(tmp_path), monkeypatch, step=33, whole=run.output)


def test_memory_that_goes_on_is_another_run_than_memory_that_does_not(tmp_path: Path, run: PretrainResult):
    anew = pretrain(recurrent(tmp_path, reset_state=True))
    assert anew.scores["clm_loss"] != pytest.approx(run.scores["clm_loss"], rel=1e-3)


def test_its_folder_writes_and_is_scored(run: PretrainResult, tmp_path: Path):
    writer = mw.Generator(run.model, max_new_tokens=8, top_k=1)
    one, other = writer.predict(["the cat"]), writer.predict(["the cat"])
    assert one == other and one[0]
    drawn = mw.Generator(run.model, max_new_tokens=20, top_k=5, random_state=3).predict(["the cat", "a dog"])
    assert drawn == mw.Generator(run.model, max_new_tokens=20, top_k=5, random_state=3).predict(["the cat", "a dog"])
    text = corpus(tmp_path, 6)
    model = load_model(run.model)[0]
    remembered, anew = score_text(model, text), score_text(model, text, max_length=8, carries=False)
    assert set(remembered.metrics) == {"clm_accuracy", "clm_baseline", "perplexity"}
    assert remembered.metrics["perplexity"] < anew.metrics["perplexity"]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> PretrainResult:
    folder = tmp_path_factory.mktemp("elmo")
    return pretrain(recurrent(folder, preset="elmo-small", objective="bilm", max_length=32))


def test_both_directions_learn_and_are_scored(both: PretrainResult, tmp_path: Path):
    assert both.scores["clm_scored_loss"] < both.baseline.mlm_loss > both.scores["backward_scored_loss"]
    found = score_text(load_model(both.model)[0], corpus(tmp_path, 6))
    assert set(found.metrics) == {
        *("clm_accuracy", "clm_baseline", "perplexity", "backward_accuracy", "backward_baseline"),
    }
    assert found.tokens > found.examples


def test_a_pair_of_language_models_is_fine_tuned(both: PretrainResult, tmp_path: Path):
    result = finetune(finetuning(tmp_path, model=both.model, preset=None, tokenizer=None, epochs=16, lr=1e-2))
    assert result.mean["accuracy"] > 0.9
