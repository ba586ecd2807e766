"""A fine-tuning run as a user meets it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import maskwright as mw
from maskwright.core import storage
from maskwright.core.errors import InputError, RowErrors
from maskwright.train.finetuning.finetune import finetune
from train.runs import finetuning


def test_it_learns_and_leaves_a_model_that_says_the_same(tmp_path: Path):
    result = finetune(finetuning(tmp_path, epochs=6))
    assert result.mean["accuracy"] > 0.9
    assert result.report.is_file()
    classifier = mw.TextClassifier.load(result.model)
    assert classifier.predict(["the red cat was here", "the old river was here"]).tolist() == ["animal", "place"]


def test_seeds_give_mean_and_deviation_and_the_best_is_kept(tmp_path: Path):
    result = finetune(finetuning(tmp_path, seeds=2, epochs=1, lr=5e-4))
    scores = [seed["accuracy"] for seed in result.seeds]
    assert [seed["seed"] for seed in result.seeds] == [0, 1]
    assert result.mean["accuracy"] == pytest.approx(sum(scores) / 2)
    assert result.deviation["loss"] > 0
    best = max(result.seeds, key=lambda seed: seed["accuracy"])
    saved = storage.sha256(result.model / "model.safetensors")
    single = finetune(finetuning(tmp_path, seed=best["seed"], epochs=1, lr=5e-4, output=tmp_path / "single"))
    assert storage.sha256(single.model / "model.safetensors") == saved


def test_the_average_of_the_seeds_is_the_mean_of_their_weights(tmp_path: Path):
    start = finetune(finetuning(tmp_path, epochs=1))
    settings = {"preset": None, "tokenizer": None, "model": str(start.model), "epochs": 1, "lr": 5e-4}
    result = finetune(
        finetuning(tmp_path, **settings, seeds=2, average_seeds=True, output=tmp_path / "averaged"),
    )
    averaged = mw.load(result.model)
    parts = []
    for seed in range(2):
        single = finetune(finetuning(tmp_path, **settings, seed=seed, output=tmp_path / f"single-{seed}"))
        parts.append(mw.load(single.model).state_dict())
    for name, tensor in averaged.state_dict().items():
        torch.testing.assert_close(tensor, torch.stack([part[name] for part in parts]).mean(dim=0), rtol=0, atol=1e-6)
    rows = [line.split("\t") for line in (tmp_path / "dev.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    texts, labels = zip(*rows, strict=True)
    assert result.average is not None
    assert mw.TextClassifier.load(result.model).score(texts, labels) == pytest.approx(result.average["accuracy"])


def test_a_frozen_encoder_stays_as_it_was(tmp_path: Path):
    start = finetune(finetuning(tmp_path, epochs=1))
    frozen = finetune(
        finetuning(
            tmp_path, preset=None, tokenizer=None, model=str(start.model), freeze_encoder=True, output=tmp_path / "f"
        )
    )
    before, after = mw.load(start.model).state_dict(), mw.load(frozen.model).state_dict()
    for name, tensor in before.items():
        is_encoder = name.startswith(("encoder.embeddings", "encoder.layers"))
        assert bool((tensor == after[name]).all()) == is_encoder, name


def test_without_dev_a_tenth_is_set_aside_by_class(tmp_path: Path):
    result = finetune(finetuning(tmp_path, dev=None, epochs=1))
    facts = storage.read_json(result.model / "maskwright.json")
    assert facts["training"]["dev_from_train"] is True


def test_patience_stops_a_run_that_does_not_gain(tmp_path: Path):
    result = finetune(finetuning(tmp_path, epochs=12, patience=2, lr=5e-3))
    lines = (tmp_path / "tuned" / "seed-0" / "metrics.jsonl").read_text().count("eval_loss")
    assert lines < 12
    assert result.seeds[0]["best_step"] > 0


def test_regression_learns_a_number(tmp_path: Path):
    path = tmp_path / "numbers.tsv"
    lines = [f"the {'old' if number % 2 else 'red'} cat\t{1.0 if number % 2 else 0.0}" for number in range(96)]
    path.write_text("text\tscore\n" + "\n".join(lines) + "\n")
    result = finetune(finetuning(tmp_path, task="regression", train=path, dev=path, epochs=8, lr=3e-3))
    assert result.mean["pearson"] > 0.9
    regressor = mw.TextRegressor.load(result.model)
    assert regressor.predict(["the old cat"])[0] > regressor.predict(["the red cat"])[0] + 0.5


def numbers(path: Path, shift: float) -> Path:
    """Rows whose number can be read off one word, all of them `shift` higher."""
    lines = [f"the {'old' if n % 2 else 'red'} cat\t{shift + n % 2}" for n in range(32)]
    path.write_text("text\tscore\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_new_head_starts_at_the_mean_and_a_trained_one_is_kept(tmp_path: Path):
    """With a rate of nearly nothing a run ends where it began."""
    still = {"task": "regression", "epochs": 1, "lr": 1e-12}
    low, high = numbers(tmp_path / "low.tsv", 0.0), numbers(tmp_path / "high.tsv", 7.0)
    first = finetune(finetuning(tmp_path, train=low, dev=low, **still))
    bias = mw.load(first.model).head.classifier.bias.item()
    assert bias == pytest.approx(0.5)
    on = {"preset": None, "tokenizer": None, "train": high, "dev": high, "output": tmp_path / "on"}
    second = finetune(finetuning(tmp_path, model=str(first.model), **on, **still))
    assert mw.load(second.model).head.classifier.bias.item() == pytest.approx(bias)
    regressor = mw.TextRegressor(str(first.model), epochs=1, lr=1e-12).fit(["the old cat", "the red cat"], [7.0, 8.0])
    assert regressor.model_.head.classifier.bias.item() == pytest.approx(bias)
    regressor = mw.TextRegressor(mw.load(first.model), epochs=1, lr=1e-12).fit(["an old cat", "a red cat"], [7.0, 8.0])
    assert regressor.model_.head.classifier.bias.item() == pytest.approx(7.5)


def test_several_labels_a_row(tmp_path: Path):
    path = tmp_path / "multi.tsv"
    rows = ["the cat\tanimal", "the tree\tplace", "the cat and the tree\tanimal|place", "it was then\t"]
    path.write_text("text\tlabel\n" + "\n".join(rows * 16) + "\n")
    config = finetuning(tmp_path, train=path, dev=path, epochs=18, lr=3e-3, multi_label=True)
    result = finetune(config)
    assert result.mean["f1"] > 0.9


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["a cat\tanimal"] * 20, "only the label 'animal'"),
        (["a cat\tanimal", "\tplace", "a tree\t"] * 7, "bad rows"),
        (["\N{GRINNING FACE}\tglad", "\N{CRYING FACE}\tsad"] * 7, "are unknown to the model's tokenizer"),
    ],
)
def test_rows_that_cannot_teach_are_refused_and_leave_nothing(tmp_path: Path, rows: list[str], message: str):
    path = tmp_path / "bad.tsv"
    path.write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    with pytest.raises(InputError, match=message):
        finetune(finetuning(tmp_path, train=path, dev=path))
    assert not (tmp_path / "tuned").exists()


def test_a_dev_label_that_training_does_not_know_is_named_with_its_line(tmp_path: Path):
    config = finetuning(tmp_path)
    with (tmp_path / "dev.tsv").open("a") as handle:
        handle.write("the car was here\tvehicle\n")
    with pytest.raises(RowErrors, match=r"dev\.tsv:26.*vehicle"):
        finetune(config)
