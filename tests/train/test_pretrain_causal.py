"""A left-to-right run from text to a classifier: files, scores, what a person is shown, what follows."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

import maskwright as mw
from maskwright.core import storage
from maskwright.core.errors import ConfigError
from maskwright.data.batch import Batch
from maskwright.hub.folders import load_model
from maskwright.inference.embed import TextEncoder
from maskwright.inference.held_out_text import score_text
from maskwright.train import loop
from maskwright.train.finetuning.finetune import finetune
from maskwright.train.pretraining.pretrain import PretrainResult, first_batch, pretrain, pretraining_plan
from maskwright.train.signals import Interrupted, StopRequest
from train.runs import corpus, finetuning, pretraining


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> PretrainResult:
    return pretrain(
        pretraining(tmp_path_factory.mktemp("clm"), objective="clm", steps=60, lr=3e-3, checkpoint_every=20)
    )


def test_it_learns_and_says_so_beside_the_unigram_baseline(run: PretrainResult):
    assert set(run.scores) == {
        *("loss", "clm_loss", "clm_scored_loss", "clm_baseline_loss", "clm_accuracy", "clm_baseline"),
    }
    assert run.scores["clm_scored_loss"] < run.baseline.mlm_loss
    assert "of the next tokens correct" in " ".join(run.verdict.reasons)
    lines = [json.loads(line) for line in (run.output / "metrics.jsonl").read_text().splitlines()]
    assert lines[0]["clm_loss"] > run.scores["clm_loss"] and "eval_clm_accuracy" in lines[-1]
    report = run.report.read_text()
    assert "Perplexity" in report and "maskwright generate" in report
    assert "Next-token predictions" in report and "fill-mask" not in report


def test_its_folder_is_a_decoder_whose_perplexity_is_evaluated(run: PretrainResult):
    assert storage.read_json(run.model / "config.json")["architectures"] == ["BertLMHeadModel"]
    model, report = load_model(run.model)
    assert model.config.pools_last_token and not report.new and not report.unused
    found = score_text(model, run.output.parent / "corpus.txt", max_length=32).metrics
    assert set(found) == {"clm_accuracy", "clm_baseline", "perplexity"}
    assert math.log(found["perplexity"]) == pytest.approx(run.scores["clm_loss"], abs=0.5)


def test_an_interrupted_run_ends_with_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pretrain(pretraining(tmp_path, objective="clm", output=tmp_path / "whole"))
    original = loop._stop_if_requested

    def ask_at_the_third_step(request: StopRequest, run: object, step: int, steps: int) -> None:
        request.requested = step == 3
        original(request, run, step, steps)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "_stop_if_requested", ask_at_the_third_step)
    with pytest.raises(Interrupted):
        pretrain(pretraining(tmp_path, objective="clm"))
    monkeypatch.setattr(loop, "_stop_if_requested", original)
    pretrain(pretraining(tmp_path, objective="clm"))
    one, other = (storage.sha256(tmp_path / name / "model/model.safetensors") for name in ("run", "whole"))
    assert one == other


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


def test_what_makes_no_sense_with_it_is_refused(run: PretrainResult):
    model = mw.load(run.model, head=None)
    assert TextEncoder(model, pooling="mean").vectors(["the cat"]).shape == (1, 32)
    with pytest.raises(ConfigError, match="causal language model attends only to itself"):
        TextEncoder(model, pooling="cls")


def test_the_plan_and_the_first_batch_are_said_before_it_runs(tmp_path: Path):
    config = pretraining(tmp_path, objective="clm")
    plan = pretraining_plan(config)
    assert plan["objective"] == "clm" and plan["parameters"] > 0
    assert {token.fate for one in first_batch(config) for token in one.tokens} == {"", "next"}
    assert corpus(tmp_path).is_file()
