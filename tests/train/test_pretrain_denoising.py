"""A denoising run from text to a translation model: its metrics, its report, and fine-tuning from its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from maskwright.core import storage
from maskwright.core.errors import InputError
from maskwright.hub.folders import load_model
from maskwright.models.encoder_decoder import EncoderDecoder
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.finetuning.finetune import finetune
from maskwright.train.pretraining.pretrain import PretrainResult, pretrain
from train.runs import pretraining

NETWORK = {"hidden_size": 32, "num_hidden_layers": 1, "num_decoder_layers": 1, "num_attention_heads": 2}
WRITES = {"objective": "denoise", "preset": "transformer-mini", "model": NETWORK | {"intermediate_size": 48}}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> PretrainResult:
    return pretrain(pretraining(tmp_path_factory.mktemp("denoise"), steps=60, lr=5e-3, checkpoint_every=20, **WRITES))


def test_what_it_learns_is_compared_with_its_baseline_and_shown(run: PretrainResult):
    names = ("loss", "scored_loss", "baseline_loss", "accuracy", "baseline")
    assert set(run.scores) == {"loss", *(f"denoise_{name}" for name in names)}
    # It has learned where marks stand, and no word of the text: the loss over both must not make it healthy.
    assert run.scores["denoise_loss"] < run.scores["denoise_baseline_loss"] == run.baseline.mlm_loss
    assert run.scores["denoise_scored_loss"] > run.baseline.mlm_loss and run.verdict.level == "bad"
    assert "of the hidden tokens correct" in " ".join(run.verdict.reasons)
    report = run.report.read_text()
    assert "Hidden tokens correct" in report and "finetune translation" in report
    assert "One masked word per sequence of " in report


def test_its_folder_is_a_marian_that_a_translator_begins_with(run: PretrainResult, tmp_path: Path):
    assert storage.read_json(run.model / "config.json")["architectures"] == ["MarianMTModel"]
    model, report = load_model(run.model)
    assert isinstance(model, EncoderDecoder) and not report.new and not report.unused
    for name in ("a", "b"):
        (tmp_path / name).write_text("the red cat was here\nthe old river was here\n" * 10, encoding="utf-8")
    paths = {
        "train": tmp_path / "a",
        "train_target": tmp_path / "b",
        "dev": tmp_path / "a",
        "dev_target": tmp_path / "b",
    }
    recipe = FinetuneConfig(
        task="translation", model=run.model, output=tmp_path / "t", epochs=1, max_length=16, device="cpu", **paths
    )
    assert "bleu" in finetune(recipe).final


def test_networks_of_another_kind_are_refused_in_words(tmp_path: Path):
    with pytest.raises(InputError, match=r"Objective denoise needs an encoder-decoder .*, which bert-mini is not"):
        pretrain(pretraining(tmp_path, **(WRITES | {"preset": "bert-mini", "model": {}})))
    with pytest.raises(InputError, match="which transformer-mini is not: use --objective denoise, or train it on"):
        pretrain(pretraining(tmp_path, **(WRITES | {"objective": "mlm"})))
