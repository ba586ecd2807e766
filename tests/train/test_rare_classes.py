"""What fine-tuning does for a rare class: thresholds, resampling, anomalies."""

import json

import pytest
import torch

from maskwright.core.randomness import generator
from maskwright.hub.folders import read_facts
from maskwright.tasks.classification import resample_rows
from maskwright.tasks.evaluation.rare import row_key
from maskwright.text.readers.tables import read_table
from maskwright.train.distillation.config import DistillConfig
from maskwright.train.distillation.distill import distill
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.finetuning.finetune import FinetuningSetup, finetune
from maskwright.train.run import RunFolder
from train.rare_rows import encoder, rare_file

QUICK = {"epochs": 1, "lr": 3e-3, "batch_size": 16, "max_length": 16, "precision": "fp32"}


def tuning(folder, **changes):
    for name, seed in (("train", 1), ("dev", 2), ("test", 3)):
        rare_file(folder / f"{name}.tsv", 8, 92, seed)
    paths = {"train": folder / "train.tsv", "dev": folder / "dev.tsv", "output": folder / "run"}
    return FinetuneConfig(model=str(encoder(folder)), **{**paths, **QUICK, **changes})


def test_a_threshold_is_chosen_on_dev_kept_and_used(tmp_path, maskwright):
    config = tuning(tmp_path, threshold_for="spam", resample="balanced", focal=1.0, epochs=2)
    result = finetune(config)
    assert result.main_metric == "pr_auc" and {"f1", "recall_at_precision_90"} <= result.mean.keys()
    facts = read_facts(result.model)
    rare = facts["rare"]
    assert rare["label"] == "spam" and len(rare["threshold"]["tuned_on"]) == 100 and facts["focal"] == 1.0
    page = result.report.read_text(encoding="utf-8")
    assert "chosen on the dev examples" in page and "Rare classes" in page and "random order" in page
    _, out, _ = maskwright("evaluate", result.model, tmp_path / "dev.tsv", "--json")
    assert json.loads(out)["metrics"]["f1"] == pytest.approx(result.mean["f1"])  # chosen on dev: cross-fitted
    _, out, _ = maskwright("predict", result.model, "--input", tmp_path / "test.tsv", "--json")
    for answer in map(json.loads, out.splitlines()):
        assert (answer["label"] == "spam") == (answer["probabilities"]["spam"] > rare["threshold"]["value"])


def test_a_student_chooses_a_threshold_of_its_own(tmp_path):
    teacher = finetune(tuning(tmp_path, threshold_for="spam"))
    paths = {"train": tmp_path / "train.tsv", "dev": tmp_path / "test.tsv", "output": tmp_path / "student"}
    student = distill(DistillConfig(teacher=str(teacher.model), **paths, **QUICK))
    before, after = (read_facts(model)["rare"]["threshold"] for model in (teacher.model, student.model))
    keys = {row_key(one.text) for one in read_table(tmp_path / "test.tsv").rows}
    assert set(after["tuned_on"]) == keys != set(before["tuned_on"])


def test_resampling_draws_by_seed_and_epoch_alone(tmp_path):
    config = tuning(tmp_path, resample="sqrt").resolved("cpu", "fp32")
    bench = FinetuningSetup(config, torch.device("cpu"))
    chances = bench.task.row_probabilities(bench.train)
    job = bench.job(3, RunFolder(tmp_path / "seed", {}))
    steps = job.steps_per_epoch
    rows = [batch.labels["example"].tolist() for step in range(steps) for batch in job.micro_batches(step)]
    expected = resample_rows(chances, generator(3, "resample", 0)).tolist()
    assert sorted(number for step in rows for number in step) == sorted(expected)
    again = [batch.labels["example"].tolist() for batch in job.micro_batches(2)]  # as in a resumed run
    assert again == [rows[2]]


def test_rows_of_a_class_are_scored_against_the_rest(tmp_path, maskwright):
    result = finetune(tuning(tmp_path))
    assert result.main_metric == "macro_f1" and "pr_auc" not in result.mean
    code, out, _ = maskwright("evaluate", result.model, tmp_path / "test.tsv", "--rare-class", "spam", "--json")
    assert {"pr_auc", "f1", "recall_at_precision_90"} <= json.loads(out)["metrics"].keys()
    code, _, err = maskwright("evaluate", result.model, tmp_path / "test.tsv", "--rare-class", "eggs")
    assert code == 2 and "Unknown class 'eggs'" in err


def test_an_anomaly_run_learns_the_commonest_class(tmp_path, maskwright):
    output, model = tmp_path / "a", encoder(tmp_path)
    tuning(tmp_path)
    words = ["finetune", "anomaly", "--model", model, "--train", tmp_path / "train.tsv", "--dev", tmp_path / "dev.tsv"]
    words += ["--epochs", "3", "--max-length", "16", "--precision", "fp32", "-o", output, "--json"]
    code, out, err = maskwright(*words)
    assert code == 0, err
    assert {"pr_auc", "f1", "recall_at_precision_90", "explained_variance"} <= json.loads(out)["metrics"].keys()
    facts = read_facts(output / "model")
    assert facts["normal"] == "ham" and len(facts["threshold"]["tuned_on"]) == 100
    assert "Reconstruction errors: spam" in (output / "report.html").read_text(encoding="utf-8")
    code, out, _ = maskwright("evaluate", output / "model", tmp_path / "test.tsv", "--json", "--errors", "2")
    assert {"pr_auc", "f1"} <= json.loads(out)["metrics"].keys()
    code, out, _ = maskwright("predict", output / "model", "the cat sat", "--json")
    answer = json.loads(out)
    assert answer["is_rare"] == (answer["score"] > facts["threshold"]["value"])
    code, out, _ = maskwright("predict", output / "model", "the cat sat")
    assert code == 0 and ("normal" in out or "rare" in out)
    code, _, err = maskwright(*words[:-2], tmp_path / "b", "--normal", "hams")
    assert code == 2 and "Did you mean 'ham'" in err


def test_texts_without_classes_are_all_normal(tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"the cat {number} sat on the mat\n" for number in range(60)), encoding="utf-8")
    output = tmp_path / "plain"
    config = FinetuneConfig(task="anomaly", model=str(encoder(tmp_path)), train=texts, output=output, max_length=16)
    assert (config.epochs, config.lr) == (30, 1e-3)
    result = finetune(FinetuneConfig(**{**vars(config), "epochs": 2}))
    assert list(result.mean) == ["loss", "explained_variance"]
    assert read_facts(output / "model")["threshold"]["value"] > 0
