"""`experiment rare` from data to table and page, tiny, and what fine-tuning does for a rare class."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cli.conftest import maskwright
from maskwright.core.errors import InputError, RunError
from maskwright.core.randomness import generator
from maskwright.experiments.rare import run as lab_module
from maskwright.experiments.rare.config import RareLabConfig
from maskwright.experiments.rare.run import METHODS, errors_by_length, length_sentence, rare_lab
from maskwright.hub.folders import read_facts
from maskwright.tasks.classification import resample_rows
from maskwright.tasks.evaluation.rare import METRICS, row_key
from maskwright.text.readers.tables import read_table
from maskwright.train.distillation.config import DistillConfig
from maskwright.train.distillation.distill import distill
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.finetuning.finetune import FinetuningSetup, finetune
from train.rare_rows import encoder, rare_file

__all__ = ["maskwright"]

QUICK = {"epochs": 1, "lr": 3e-3, "batch_size": 16, "max_length": 16, "precision": "fp32"}


def recipe(folder: Path, **changes) -> RareLabConfig:
    data = folder / "rows.tsv"
    if not data.exists():
        rare_file(data, 30, 170)
    settings = {"data": data, "model": str(encoder(folder)), "rare_class": "spam", "output": folder / "lab", **QUICK}
    return RareLabConfig(**{**settings, "rate": 0.1, "seeds": 2, "max_train_rows": 60, **changes})


# -- the comparison ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    return folder, rare_lab(recipe(folder))


def test_every_method_has_its_scores_with_intervals(done):
    result = done[1]
    assert [row["method"] for row in result.rows] == list(METHODS)
    for row in result.rows:
        for metric in METRICS:
            assert 0 <= row[metric]["low"] <= row[metric]["mean"] <= row[metric]["high"] <= 1
        assert ("minus_plain" in row) == (row["method"] != "plain")
    by_name = {row["method"]: row for row in result.rows}
    assert by_name["threshold"]["pr_auc"] == by_name["plain"]["pr_auc"]
    assert by_name["tfidf"]["pr_auc"]["mean"] > 0.9  # one word tells the class
    assert result.parts["test"] == {"rows": 37, "rare": 3}
    kept = json.loads((result.output / "result.json").read_text(encoding="utf-8"))
    assert list(kept["curves"]) == [name for name in METHODS if name != "threshold"]
    assert kept["curves"]["tfidf"]["precision"][0] > 0.9
    assert {name: len(errors) for name, errors in kept["errors"].items()} == {"ham": 18, "news": 16, "spam": 3}
    by_length = kept["errors_by_length"]
    rest, rare = (np.array([*kept["errors"]["ham"], *kept["errors"]["news"]]), np.array(kept["errors"]["spam"]))
    assert by_length["auc"] == pytest.approx((rare[:, None] > rest).mean())
    assert by_length["correlation"] is None and by_length["long_auc"] is None  # all texts are equally long


def test_an_error_that_follows_the_length_is_reported():
    words = np.arange(5, 65)
    gold = words >= 50  # the rare texts are long, and longer texts have smaller errors
    errors = 1.0 / words + 0.001 * (words % 3)
    data: Any = SimpleNamespace(
        words=words, gold=gold, errors=errors, config=SimpleNamespace(rare_class="spam"), classes=gold
    )
    found = errors_by_length(data)
    assert found["correlation"] < -0.9 and (found["rare_words"], found["rest_words"]) == (57.0, 27.0)
    assert found["auc"] < 0.05 and found["long_words"] == 51 and found["long_auc"] is None
    assert length_sentence(data).endswith("'spam' has 57 words, the rest 27 (medians).")
    data.errors = np.random.default_rng(0).normal(size=len(words))
    assert length_sentence(data) == ""


def test_the_page_has_the_table_the_curves_and_the_errors_by_class(done):
    result = done[1]
    page = result.report.read_text(encoding="utf-8")
    for words in ("Minus plain fine-tuning", "Precision by recall", "Test rows: ham", "Test rows: spam", "TF-IDF"):
        assert words in page, words
    assert "<script" not in page


def test_finished_parts_are_kept_and_a_finished_run_is_not_run_again(done, monkeypatch):
    folder, result = done
    runs: list[str] = []
    judge = lab_module.MethodRunner.judge
    monkeypatch.setattr(lab_module.MethodRunner, "judge", lambda runner, name: runs.append(name) or judge(runner, name))
    assert rare_lab(recipe(folder)).already_finished and not runs
    (folder / "lab" / "result.json").unlink()
    (folder / "lab" / "parts" / "tfidf-1.json").unlink()
    again = rare_lab(recipe(folder))
    assert runs == ["tfidf"] and again.rows == result.rows


def test_changed_rows_are_noticed(done):
    folder, _ = done
    (folder / "lab" / "result.json").unlink(missing_ok=True)
    text = (folder / "rows.tsv").read_text(encoding="utf-8")
    rare_file(folder / "rows.tsv", 30, 170, seed=9)
    with pytest.raises(RunError, match="has changed"):
        rare_lab(recipe(folder))
    (folder / "rows.tsv").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"rare_class": "spa"}, "Did you mean 'spam'"), ({"rate": 0.005}, "too few"), ({"max_length": 99}, "positions")],
)
def test_bad_input_is_refused_and_leaves_no_folder(tmp_path, changes, words):
    with pytest.raises(InputError, match=words):
        rare_lab(recipe(tmp_path, **changes))
    assert not (tmp_path / "lab").exists()


def test_the_command_prints_json_and_names_a_class_that_is_not_there(done, maskwright):
    folder, _ = done
    config = recipe(folder)
    words = ["--data", config.data, "--model", config.model, "--rate", "0.1", "--seeds", "2", "--max-train-rows", "60"]
    words += ["--epochs", "1", "--lr", "0.003", "--batch-size", "16", "--max-length", "16", "--precision", "fp32"]
    code, out, _ = maskwright(
        "experiment", "rare", *words, "--rare-class", "spam", "-o", config.output, "--json", "--quiet"
    )
    assert code == 0 and [row["method"] for row in json.loads(out)["rows"]] == list(METHODS)
    code, out, err = maskwright("experiment", "rare", *words, "--rare-class", "eggs", "-o", folder / "other")
    assert code == 2 and "Unknown class 'eggs'" in err and not out


# -- fine-tuning ---------------------------------------------------------------------------------------------------


def tuning(folder: Path, **changes) -> FinetuneConfig:
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
    job = bench.job(3, lab_module.RunFolder(tmp_path / "seed", {}))
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
