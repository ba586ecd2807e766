"""Anomalies: an autoencoder learns one class, other texts have larger errors, and dev decides where they begin."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import mse_loss

from inference.samples import TEXTS, tiny, tokenizer
from maskwright.core.errors import InputError, ModelFolderError, RowErrors
from maskwright.models.build import initialize
from maskwright.models.config import ModelConfig
from maskwright.models.probes import AutoencoderHead
from maskwright.tasks.anomaly import Anomaly
from maskwright.tasks.windows import LongTexts
from maskwright.train.finetuning.finetune import fit
from tasks.standins import row

SIZE = 16


def head(seed: int = 1) -> AutoencoderHead:
    found = AutoencoderHead(ModelConfig(vocab_size=10, hidden_size=SIZE, num_attention_heads=2))
    initialize(found, 0.2, seed)
    return found


# -- the network ---------------------------------------------------------------------------------------------------


def test_its_logits_are_the_mean_squared_error_of_what_is_given_back():
    found, vectors = head(), torch.randn(5, SIZE)
    found.fit_scale(torch.randn(40, SIZE) * 3 + 2)
    scaled = (vectors - found.center) / found.log_scale.exp()
    expected = torch.stack([mse_loss(found.reconstruct(one[None]), one[None]) for one in scaled])
    assert torch.allclose(found(vectors).squeeze(-1), expected, atol=1e-6)


def test_scale_is_mean_and_deviation_and_a_constant_number_stays_small():
    found, vectors = head(), torch.randn(50, SIZE) * 4 - 1
    vectors[:, 3] = 7.0
    found.fit_scale(vectors)
    assert torch.allclose(found.center, vectors.mean(0))
    assert torch.allclose(found.log_scale.exp()[:3], vectors.std(0, correction=0)[:3])
    assert found.log_scale[3] == 0


# -- the task ------------------------------------------------------------------------------------------------------


def rows_of(*labels):
    return [row(TEXTS[number % 5], label, line=number + 2) for number, label in enumerate(labels)]


def test_the_most_common_class_is_normal_and_the_only_training_data():
    rows = rows_of("a", "b", "b", "c", "b", "a")
    task = Anomaly.from_rows(rows, rows)
    assert task.normal == "b" and task.main_metric == "pr_auc"
    assert [one.label for one in task.learns_from(rows)] == ["b", "b", "b"]
    assert task.examples(rows, tokenizer(), 16).targets.tolist() == [1, 0, 0, 1, 0, 1]
    assert Anomaly.from_rows(rows, normal="c").normal == "c"
    assert Anomaly.from_rows(rows_of("b", "a")).normal == "a"


def test_rows_without_classes_are_all_normal():
    rows = rows_of(None, None, None)
    task = Anomaly.from_rows(rows, rows)
    assert task.normal is None and task.main_metric == "explained_variance"
    assert task.learns_from(rows) == rows


def test_unusable_training_data_is_rejected():
    with pytest.raises(InputError, match="Did you mean 'spam'"):
        Anomaly.from_rows(rows_of("spam", "ham"), normal="spa")
    with pytest.raises(InputError, match="no classes"):
        Anomaly.from_rows(rows_of(None, None), normal="ham")
    with pytest.raises(RowErrors, match="is missing"):
        Anomaly.from_rows(rows_of("ham", None))
    with pytest.raises(InputError, match="has no row"):
        Anomaly.from_rows([])
    for wrong in ({"quantile": 2.0}, {"normal": 3}, {"threshold": "high"}):
        with pytest.raises(ModelFolderError):
            Anomaly.from_json({"task": "anomaly", **wrong})


def logits_of(*errors):
    return torch.tensor(errors)[:, None]


def test_the_threshold_is_a_quantile_of_normal_errors_or_the_best_f1():
    task = Anomaly.from_rows(rows_of("n", "n", "x"))
    errors = logits_of(1.0, 2.0, 3.0, 4.0, 5.0)
    task.tune_threshold(errors, task.examples(rows_of("n", "n", "n", "n", "n"), tokenizer(), 16))
    assert task.threshold.value == pytest.approx(np.quantile([1, 2, 3, 4, 5], 0.95))
    task.tune_threshold(errors, task.examples(rows_of("n", "n", "n", "x", "x"), tokenizer(), 16))
    assert task.threshold.value == 3.5
    assert [answer["is_rare"] for answer in task.decode(errors)] == [False, False, False, True, True]
    assert Anomaly("n").decode(errors)[0] == {"score": 1.0, "is_rare": None, "threshold": None}


def test_rows_that_chose_the_threshold_are_scored_with_others():
    task = Anomaly.from_rows(rows_of("n", "x"), rows_of("n", "x"))
    labels = ["x" if number % 5 == 0 else "n" for number in range(40)]
    rows = [row(f"text {number}", label) for number, label in enumerate(labels)]
    examples = task.examples(rows, tokenizer(), 16)
    errors = torch.linspace(0, 1, 40)[:, None] + torch.tensor([label == "x" for label in labels])[:, None] * 0.3
    before = task.score(errors, examples).metrics
    task.tune_threshold(errors, examples)
    assert task.score(errors, examples).metrics == before
    fresh = task.examples([row(f"new {number}", label) for number, label in enumerate(labels)], tokenizer(), 16)
    own = task.score(errors, fresh).metrics
    assert own["pr_auc"] == before["pr_auc"] and own["f1"] > before["f1"]
    assert own["explained_variance"] == pytest.approx(1 - float(errors[[label == "n" for label in labels]].mean()))


# -- together ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained():
    rows = [row(text, "n") for text in TEXTS if text] * 3
    task = Anomaly.from_rows(rows)
    model = tiny("anomaly")
    before = {name: tensor.clone() for name, tensor in model.encoder.state_dict().items()}
    examples = task.prepare(model, task.examples(rows, tokenizer(), 24))
    task.init_from_counts(model, examples)
    fit(model, task, examples, epochs=20, lr=1e-2, batch_size=8, precision="fp32")
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.encoder.state_dict().items())
    return task, model, examples


def test_the_encoder_stays_and_known_vectors_give_the_same_errors(trained):
    task, model, examples = trained
    assert examples.features is not None
    plain = task.examples(examples.rows, tokenizer(), 24)
    assert torch.allclose(task.logits(model, examples), task.logits(model, plain), atol=1e-5)
    assert float(task.logits(model, examples).mean()) < 0.5


# -- long texts ----------------------------------------------------------------------------------------------------

LONG = " ".join(TEXTS)


@pytest.mark.parametrize("pool", ["mean", "max"])
def test_the_error_of_a_long_text_is_pooled_from_its_windows_by_hand(pool):
    task = Anomaly("n", long=LongTexts(stride=3, pool=pool))
    model, other = tiny("anomaly"), [row("rain fell", "n"), row(LONG, "n", line=2)]
    examples = task.examples(other, tokenizer(), 12)
    model.head.fit_scale(task.features(model, examples))
    alone = torch.cat(
        [model.logits(examples.sequences.batch([index])) for index in range(len(examples.input_ids))]
    ).detach()
    by_hand = alone[1:].mean() if pool == "mean" else alone[1:].max()
    known = task.prepare(model, examples)
    assert known.features.shape == (len(alone), model.config.hidden_size)
    for way in (examples, known):
        found = task.logits(model, way)
        assert torch.allclose(found.flatten(), torch.stack([alone[0, 0], by_hand]), atol=1e-5)
        answer = task.predict(model, way)[1]
        top_window = answer["loudest"]
        assert top_window["windows"] == len(alone) - 1 and top_window["window"] == int(alone[1:].argmax())
        assert top_window["score"] == pytest.approx(float(alone[1:].max()), abs=1e-5)
        assert answer["score"] == pytest.approx(float(by_hand), abs=1e-5)
