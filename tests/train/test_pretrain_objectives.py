"""Runs with sentence order and with replaced tokens: files, scores, exact resume, what a person is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import maskwright as mw
from maskwright.core import storage
from maskwright.core.errors import InputError
from maskwright.inference.held_out_text import score_text
from maskwright.train.pretraining.pretrain import pretrain, pretraining_plan
from train.runs import continues_exactly, corpus, pretraining

FAMILY = {"mlm+sop": "albert-base", "rtd": "electra-small"}
SMALL = {
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "embedding_size": 16,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
WEIGHTS = {"mlm+sop": ["model"], "rtd": ["model", "model/generator"]}


def configured(folder: Path, objective: str, **changes: object):  # type: ignore[no-untyped-def]
    return pretraining(folder, objective=objective, preset=FAMILY[objective], model=SMALL, **changes)


@pytest.mark.parametrize("objective", ["mlm+sop", "rtd", "clm"])
def test_an_interrupted_run_ends_with_the_same_bits(objective: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    files = [f"{name}/model.safetensors" for name in WEIGHTS.get(objective, ["model"])]
    config = pretraining(tmp_path, objective="clm") if objective == "clm" else configured(tmp_path, objective)
    continues_exactly(pretrain, config, monkeypatch, files=files)


def test_a_run_with_sentence_order_leaves_a_model_that_judges_it(tmp_path: Path):
    result = pretrain(configured(tmp_path, "mlm+sop"))
    assert set(result.scores) == {
        *("loss", "mlm_loss", "mlm_scored_loss", "mlm_baseline_loss", "mlm_accuracy", "mlm_baseline"),
        *("sop_loss", "sop_accuracy", "sop_baseline"),
    }
    model = mw.load(result.model)
    assert (model.head_name, model.config.pair_objective, model.config.family) == ("pretraining", "sop", "albert")
    found = score_text(model, corpus(tmp_path), max_length=32).metrics
    assert set(found) == {"mlm_accuracy", "mlm_baseline", "perplexity", "sop_accuracy", "sop_baseline"}
    assert "Sentence orders" in result.report.read_text(encoding="utf-8")


def test_a_run_with_replaced_tokens_leaves_the_discriminator_and_its_generator(tmp_path: Path):
    result = pretrain(configured(tmp_path, "rtd"))
    assert set(result.scores) >= {"mlm_accuracy", "rtd_accuracy", "rtd_baseline", "rtd_loss"}
    assert result.scores["loss"] == pytest.approx(result.scores["mlm_loss"] + 50 * result.scores["rtd_loss"])
    model, generator = mw.load(result.model), mw.load(result.model / "generator")
    assert (model.head_name, generator.head_name) == ("rtd", "mlm")
    assert generator.config.hidden_size == 8
    assert torch.equal(model.word_embeddings, generator.word_embeddings)
    storage.verify_folder(result.model)
    storage.verify_folder(result.model / "generator")
    with pytest.raises(InputError, match="generator"):
        score_text(model, corpus(tmp_path))
    found = score_text(model, corpus(tmp_path), generator=generator, max_length=32).metrics
    assert set(found) == {"mlm_accuracy", "mlm_baseline", "perplexity", "rtd_accuracy", "rtd_baseline"}
    assert mw.FillMask(result.model / "generator").fill(["the [MASK] was here"])
    page = result.report.read_text(encoding="utf-8")
    assert "Tokens classified correctly" in page and "model/generator" in page


def test_the_plan_counts_both_networks_and_shared_tables_once(tmp_path: Path):
    config = configured(tmp_path, "rtd")
    planned = pretraining_plan(config)["parameters"]
    pretrain(config)
    model, generator = mw.load(tmp_path / "run" / "model"), mw.load(tmp_path / "run" / "model" / "generator")
    tables = [name for name, _ in model.encoder.embeddings.named_parameters() if not name.startswith("project")]
    shared = sum(model.encoder.embeddings.get_parameter(name).numel() for name in tables)
    assert model.config.vocab_size == config.vocab_size
    assert model.num_parameters + generator.num_parameters - shared == planned
