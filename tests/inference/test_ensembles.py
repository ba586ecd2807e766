"""Ensembles: an ensemble of one model equals it, and the mean is the one computed by hand."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from inference.samples import tiny
from maskwright.api import open_ensemble, open_predictor
from maskwright.core.errors import InputError
from maskwright.tasks.base import Task
from maskwright.tasks.choice import Choice
from maskwright.tasks.classification import Classification
from maskwright.tasks.qa.task import QuestionAnswering, Threshold
from maskwright.tasks.regression import Regression
from maskwright.tasks.tagging.schemes import repair
from maskwright.tasks.tagging.task import Tagging
from maskwright.text.readers.choices import read_choices
from maskwright.text.readers.squad import read_questions
from maskwright.text.readers.tables import read_table
from maskwright.text.readers.tagged import read_tagged

ROWS = ["the cat sat\ta", "dogs chase cats\tb", "rain fell\tc", "penguins are birds\ta", "a mat\tb", "milk\tc"]
CONTEXTS = ["the cat sat on", "she bought", "penguins are flightless"]
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def save(folder: Path, name: str, task: Task, seed: int) -> Path:
    tiny(task.head, seed, labels=task.labels or None, problem_type=task.problem_type).save(
        folder / name, facts={**task.to_json(), "max_length": 32}
    )
    return folder / name


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("ensembles")
    (root / "rows.tsv").write_text("text\tlabel\n" + "\n".join(ROWS) + "\n")
    (root / "numbers.tsv").write_text(
        "text\tscore\n" + "\n".join(f"{r.split(chr(9))[0]}\t{n}" for n, r in enumerate(ROWS))
    )
    words = [["the", "cat", "sat"], ["dogs", "chase", "cats", "in", "the", "garden"], ["rain"]]
    (root / "rows.conll").write_text(
        "\n\n".join("\n".join(f"{w}\tO" for w in s[:-1]) + f"\n{s[-1]}\tB-PER" for s in words)
    )
    context = "the cat sat on the mat . rain fell in the garden . she bought a gallon of milk"
    lines = [
        {"id": str(n), "question": q, "context": context, "answers": a}
        for n, (q, a) in enumerate([("where ?", ["the mat"]), ("who ?", ["she"]), ("what ?", []), ("dogs ?", [])])
    ]
    (root / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)))
    for seed in (1, 2, 3):
        save(root, f"class-{seed}", Classification(["a", "b", "c"] if seed < 3 else ["c", "a", "b"]), seed)
        save(root, f"number-{seed}", Regression(), seed)
        save(root, f"tags-{seed}", Tagging(TAGS), seed)
        save(root, f"spans-{seed}", QuestionAnswering(True, Threshold(float(seed), frozenset({f"other-{seed}"}))), seed)
    choices = [{"context": c, "choices": ["a mat", "milk", "birds"], "label": n % 3} for n, c in enumerate(CONTEXTS)]
    (root / "choices.jsonl").write_text("\n".join(map(json.dumps, choices)))
    for seed in (1, 2, 3):
        save(root, f"choice-{seed}", Choice(), seed)
    return root


FILES = {
    "choice": ("choices.jsonl", read_choices),
    "class": ("rows.tsv", read_table),
    "number": ("numbers.tsv", read_table),
    "tags": ("rows.conll", read_tagged),
    "spans": ("rows.jsonl", read_questions),
}


def rows_of(folder: Path, kind: str):
    name, read = FILES[kind]
    return read(folder / name).rows


def combined(folder: Path, kind: str, *seeds: int):
    members = open_ensemble([folder / f"{kind}-{seed}" for seed in seeds], precision="fp32")
    return members.run(lambda task: rows_of(folder, kind))


@pytest.mark.parametrize("kind", FILES)
def test_an_ensemble_of_one_is_that_one(folder: Path, kind: str):
    found = combined(folder, kind, 1)
    predictor = open_predictor(folder / f"{kind}-1", precision="fp32")
    examples, alone = predictor.evaluate(rows_of(folder, kind))
    assert found.evaluation.loss == pytest.approx(alone.loss, rel=1e-4)
    for name, value in alone.metrics.items():
        if "strict" not in name and not (kind == "tags" and name == "accuracy"):  # tags are repaired, entities stay
            assert found.evaluation.metrics[name] == pytest.approx(value, rel=1e-4), name
    assert found.scores == {str(folder / f"{kind}-1"): alone.metrics}
    if kind != "tags":
        for one, two in zip(found.answers(), predictor.task.answers(alone.logits, examples), strict=True):
            assert all(is_alike(one[key], two[key]) for key in two)


def is_alike(one, two) -> bool:
    """Equal, numbers up to rounding."""
    if isinstance(two, dict):
        return all(is_alike(one[key], two[key]) for key in two)
    if isinstance(two, list):
        return len(one) == len(two) and all(map(is_alike, one, two))
    return one == (pytest.approx(two, rel=1e-4) if isinstance(two, float) else two)


def test_probabilities_are_averaged_whatever_the_order_of_the_labels(folder: Path):
    found = list(combined(folder, "class", 1, 2, 3).answers())
    every = [open_predictor(folder / f"class-{seed}", precision="fp32").predict(["rain fell"])[0] for seed in (1, 2, 3)]
    by_hand = {label: np.mean([one["probabilities"][label] for one in every]) for label in "abc"}
    assert found[2]["probabilities"] == pytest.approx(by_hand, rel=1e-4)
    assert found[2]["label"] == max(by_hand, key=by_hand.get) and found[2]["gold"] == "c"
    result = combined(folder, "class", 1, 2, 3)
    assert result.evaluation.metrics["accuracy"] == pytest.approx(np.mean([a["label"] == a["gold"] for a in found]))
    assert len(result.scores) == 3


def test_tags_are_the_mean_of_word_probabilities_and_fit_together(folder: Path):
    result = combined(folder, "tags", 1, 2, 3)
    sentences = rows_of(folder, "tags")
    shares = []
    for seed in (1, 2, 3):
        predictor = open_predictor(folder / f"tags-{seed}", precision="fp32")
        shares.append(predictor.evaluate(sentences)[1].logits.double().softmax(dim=-1))
    names = [TAGS[number] for number in torch.stack(shares).mean(dim=0).argmax(dim=-1).tolist()]
    start = 0
    for sentence, answer in zip(sentences, result.answers(), strict=True):
        assert answer["tags"] == repair(names[start : start + len(sentence)], "BIO")[0]
        start += len(sentence)


@pytest.mark.parametrize("kind", ["number", "spans"])
def test_numbers_and_scores_of_spans_are_averaged(folder: Path, kind: str):
    result = combined(folder, kind, 1, 2, 3)
    members = [open_predictor(folder / f"{kind}-{seed}", precision="fp32") for seed in (1, 2, 3)]
    mean = torch.stack([one.evaluate(rows_of(folder, kind))[1].logits for one in members]).mean(dim=0)
    torch.testing.assert_close(result.evaluation.logits, mean, atol=1e-4, rtol=1e-4)
    if kind == "spans":
        assert result.task.threshold == Threshold(2.0, frozenset({"other-1", "other-2", "other-3"}))


def test_labels_of_several_are_averaged_by_their_probabilities():
    task = Classification(["a", "b"], multi_label=True)
    mean = task.combine_predictions([torch.tensor([[0.0, 4.0]]), torch.tensor([[2.0, -4.0]])], [])
    assert task.probabilities(mean)[0].tolist() == pytest.approx([(0.5 + 0.880797) / 2, 0.5], rel=1e-4)


def test_models_that_answer_other_questions_are_refused(folder: Path, tmp_path: Path):
    other = save(tmp_path, "other", Classification(["a", "x"]), 1)
    with pytest.raises(InputError, match="has other labels"):
        open_ensemble([folder / "class-1", other]).run(lambda task: rows_of(folder, "class"))
    with pytest.raises(InputError, match="fine-tuned for regression, but the first model for classification"):
        open_ensemble([folder / "class-1", folder / "number-1"]).run(lambda task: rows_of(folder, "class"))
    with pytest.raises(InputError, match="listed twice"):
        open_ensemble([folder / "class-1", folder / "class-1"])
    with pytest.raises(InputError, match="at least one model"):
        open_ensemble([])
