"""Defaults of fine-tuning: more epochs on small data sets, and the learning rate that a model recommends."""

from __future__ import annotations

import json

import pytest

import maskwright as mw
from inference.samples import tiny
from maskwright.core import storage
from maskwright.core.errors import CorruptFileError
from maskwright.core.storage import accept
from maskwright.hub.published import inherited_settings, recommended_lr
from maskwright.train.finetuning.config import FinetuneConfig, epochs_for
from maskwright.train.finetuning.finetune import finetune
from train.runs import finetuning, labeled

PATHS = {"train": "t.tsv", "output": "run"}


@pytest.fixture
def recommending(tmp_path):
    """A model folder that recommends a learning rate, set by the test."""
    tiny().save(tmp_path / "model")

    def with_value(value: object):
        path = tmp_path / "model" / "maskwright.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "finetuning": value}))
        accept(tmp_path / "model")
        return str(tmp_path / "model")

    return with_value


@pytest.mark.parametrize(
    ("steps_per_epoch", "expected"), [(1, 10), (9, 10), (10, 10), (12, 9), (33, 4), (34, 3), (1000, 3)]
)
def test_small_data_sets_get_more_epochs(steps_per_epoch, expected):
    assert epochs_for(3, 100, steps_per_epoch) == expected
    assert epochs_for(3, 0, steps_per_epoch) == 3
    assert epochs_for(30, 100, steps_per_epoch) == 30


def test_epochs_that_are_set_are_kept():
    assert FinetuneConfig(**PATHS, model="m").min_steps == 100
    assert FinetuneConfig(**PATHS, model="m", epochs=3).min_steps == 0
    assert FinetuneConfig(**PATHS, model="m", epochs=3, min_steps=50).min_steps == 50
    assert FinetuneConfig(**PATHS, model="m", task="translation").min_steps == 0
    assert FinetuneConfig(**PATHS, model="m", task="anomaly").min_steps == 0


def test_a_run_has_the_epochs_that_it_states_and_resumes(tmp_path, capsys):
    finetuning(tmp_path)
    settings = {**vars(finetuning(tmp_path)), "epochs": None, "min_steps": 10, "output": tmp_path / "run"}
    config = FinetuneConfig(**settings)
    finetune(config)
    assert "3 epochs" not in capsys.readouterr().err  # 4 steps each: three epochs are more than 10 steps
    config = FinetuneConfig(**{**settings, "min_steps": 20, "output": tmp_path / "longer"})
    result = finetune(config)
    assert "5 epochs of 4 steps instead of 3" in capsys.readouterr().err
    steps = [json.loads(line)["step"] for line in (result.output / "seed-0" / "metrics.jsonl").read_text().splitlines()]
    assert max(steps) == 20
    assert finetune(config).already_finished


def test_a_run_of_an_older_version_stays_finished(tmp_path):
    config = finetuning(tmp_path)
    finetune(config)
    path = config.output / "config.toml"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("min_steps")]
    storage.write_text(path, "\n".join(lines) + "\n")
    assert finetune(config).already_finished
    assert finetune(FinetuneConfig(**{**vars(config), "epochs": None, "min_steps": None})).already_finished


def test_a_model_recommends_its_learning_rate(recommending):
    model = recommending({"lr": 4e-4})
    assert recommended_lr(model) == 4e-4 and inherited_settings(model) == {"finetuning": {"lr": 4e-4}}
    assert FinetuneConfig(**PATHS, model=model).lr == 4e-4
    assert FinetuneConfig(**PATHS, model=model, lr=1e-5).lr == 1e-5
    assert FinetuneConfig(**PATHS, model=model, adapter="lora").lr == 2e-3
    assert FinetuneConfig(**PATHS, model=model, task="anomaly").lr == 1e-3  # only the head is trained
    assert mw.TextClassifier(model)._lr() == 4e-4
    assert mw.TextClassifier(model, lr=1e-5)._lr() == mw.TextClassifier(model, learning_rate=1e-5)._lr() == 1e-5
    assert mw.TextClassifier(model, adapter="lora")._lr() == 2e-3


@pytest.mark.parametrize("value", ["fast", {"lr": 0}, {"lr": "1e-4"}, {"lr": True}, {}, {"lr": 3.0}])
def test_a_damaged_recommendation_is_an_error(recommending, value):
    with pytest.raises(CorruptFileError, match="'finetuning' needs a learning rate"):
        FinetuneConfig(**PATHS, model=recommending(value))


def test_the_estimator_trains_as_long_as_the_command(tmp_path):
    rows = [line.split("\t") for line in labeled(tmp_path / "t.tsv", 64, 1).read_text().splitlines()[1:]]
    tiny().save(tmp_path / "model")
    texts, labels = zip(*rows, strict=True)
    short = {"batch_size": 16, "max_length": 16, "precision": "fp32"}
    assert mw.TextClassifier(tmp_path / "model", **short).fit(texts, labels).fit_result_.steps == 40
    assert mw.TextClassifier(tmp_path / "model", epochs=2, **short).fit(texts, labels).fit_result_.steps == 8
