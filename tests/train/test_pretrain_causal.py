"""A left-to-right run from text to a classifier: files, scores, what a person is shown, what follows."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

import maskwright as mw
from maskwright.core import storage
from maskwright.data.batch import Batch
from maskwright.hub.folders import load_model
from maskwright.inference.held_out_text import score_text
from maskwright.train.finetuning.finetune import finetune
from maskwright.train.pretraining.pretrain import PretrainResult, pretrain
from train.runs import finetuning, pretraining


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> PretrainResult:
    return pretrain(
        pretraining(tmp_path_factory.mktemp("clm"), objective="clm", steps=60, lr=3e-3, checkpoint_every=20)
    )


def test_its_folder_is_a_decoder_whose_perplexity_is_evaluated(run: PretrainResult):
    assert storage.read_json(run.model / "config.json")["architectures"] == ["BertLMHeadModel"]
    model, report = load_model(run.model)
    assert model.config.pools_last_token and not report.new and not report.unused
    found = score_text(model, run.output.parent / "corpus.txt", max_length=32).metrics
    assert set(found) == {"clm_accuracy", "clm_baseline", "perplexity"}
    assert math.log(found["perplexity"]) == pytest.approx(run.scores["clm_loss"], abs=0.5)


def test_a_classifier_on_it_learns_what_only_the_last_words_tell(run: PretrainResult, tmp_path: Path):
    start = {"preset": None, "tokenizer": None, "model": str(run.model)}
    tuned = finetune(finetuning(tmp_path, epochs=8, lr=5e-3, **start))
    assert tuned.mean["accuracy"] > 0.9
    again = mw.TextClassifier.load(tuned.model)
    assert again.predict(["the red cat was here", "the old river was here"]).tolist() == ["animal", "place"]
    model = mw.load(tuned.model)
    assert (
        model.config.pools_last_token and storage.read_json(tuned.model / "config.json")["model_type"] == "maskwright"
    )
    one = Batch.from_sequences([[5, 6, 7]])
    assert torch.equal(model.first(model.encode(one).hidden, one), model.pool(model.encode(one).hidden, one))
