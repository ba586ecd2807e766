"""A denoising run from text to a translator: what it scores and shows, and what follows from its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from maskwright.core import storage
from maskwright.core.errors import InputError
from maskwright.hub.folders import load_model
from maskwright.models.encoder_decoder import EncoderDecoder
from maskwright.train.finetune import finetune
from maskwright.train.finetune_config import FinetuneConfig
from maskwright.train.pretrain import PretrainResult, first_batch, pretrain
from train.runs import pretraining

NETWORK = {"hidden_size": 32, "num_hidden_layers": 1, "num_decoder_layers": 1, "num_attention_heads": 2}
WRITES = {"objective": "denoise", "preset": "transformer-mini", "model": NETWORK | {"intermediate_size": 48}}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> PretrainResult:
    return pretrain(pretraining(tmp_path_factory.mktemp("denoise"), steps=60, lr=5e-3, checkpoint_every=20, **WRITES))


def test_it_learns_and_its_report_shows_what_it_writes(run: PretrainResult):
    assert set(run.scores) == {"loss", "denoise_loss", "denoise_accuracy"}
    assert run.scores["denoise_loss"] < run.baseline.mlm_loss
    assert "hidden tokens right" in " ".join(run.verdict.reasons)
    report = run.report.read_text()
    assert "Hidden tokens written right" in report and "finetune translation" in report
    assert "One word hidden at a time" in report


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


def test_the_first_batch_shows_spans_at_their_marks(tmp_path: Path):
    shown = first_batch(pretraining(tmp_path, **WRITES))
    assert all(any(token.fate == "masked" and token.original for token in one.tokens) for one in shown)


def test_networks_of_another_kind_are_refused_in_words(tmp_path: Path):
    with pytest.raises(InputError, match="Objective denoise trains an encoder-decoder, and bert-mini is none"):
        pretrain(pretraining(tmp_path, **(WRITES | {"preset": "bert-mini", "model": {}})))
    with pytest.raises(
        InputError, match="transformer-mini is an encoder-decoder: pre-train it with --objective denoise"
    ):
        pretrain(pretraining(tmp_path, **(WRITES | {"objective": "mlm"})))
