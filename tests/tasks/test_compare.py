"""Two models on the same rows, for every task's main metric."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from maskwright.core.errors import InputError
from maskwright.tasks.choice import Choice
from maskwright.tasks.classification import Classification
from maskwright.tasks.evaluation import compare as comparison
from maskwright.tasks.evaluation.compare import bootstrap_scores, compare, mcnemar, permutation_test
from maskwright.tasks.examples import Examples
from maskwright.tasks.regression import Regression
from maskwright.tasks.similarity import Similarity
from maskwright.tasks.tagging.task import Tagging
from tasks.standins import row


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    monkeypatch.setattr(comparison, "SAMPLES", 200)


def classified(right, task=None):
    """Ratings of a two-class model that has these rows right; every gold class is 1."""
    task = task or Classification(["no", "yes"])
    logits = torch.tensor([[0.0, 1.0] if is_right else [1.0, 0.0] for is_right in right])
    rows = [row(str(place), "yes") for place in range(len(right))]
    return task.rate(logits, Examples([np.zeros(1)] * len(rows), None, torch.ones(len(rows), dtype=torch.int64), rows))


def test_classifiers_are_compared_by_accuracy_and_mcnemar():
    first, second = [True] * 90 + [False] * 10, [True] * 60 + [False] * 40
    found = compare(classified(first), classified(second))
    assert (found.metric, found.first, found.second) == ("accuracy", 0.9, pytest.approx(0.6))
    assert found.difference == bootstrap_scores(first, second)
    ones = np.ones(100, dtype=bool)
    assert found.mcnemar == mcnemar(ones, np.array(first), np.array(second))
    assert found.is_significant and "A is better" in found.to_json()["sentence"]


def test_a_small_difference_is_reported_as_chance_and_none_as_none():
    found = compare(classified([True] * 10 + [False] * 2), classified([True] * 9 + [False] * 3))
    assert not found.is_significant and "not significant on these" in found.sentence("A", "B")
    same = compare(classified([True, False]), classified([True, False]))
    assert same.sentence("A", "B").startswith("A and B have the same accuracy") and same.permutation_p == 1.0


def test_numbers_and_several_labels_have_parts_that_make_their_metric():
    task = Regression()
    draw = torch.Generator().manual_seed(0)
    gold = torch.randn(50, generator=draw)
    rows = [row(str(place), "1") for place in range(50)]
    logits = gold[:, None] + torch.randn(50, 1, generator=draw)
    rated = task.rate(logits, Examples([np.zeros(1)] * 50, None, gold, rows))
    assert rated.metric == "pearson" and rated.is_right is None
    assert rated.of(rated.parts) == pytest.approx(task.metrics(logits, gold)["pearson"])
    several = Classification(list("abc"), True)
    targets = (torch.rand(50, 3, generator=draw) > 0.5).float()
    guess = torch.randn(50, 3, generator=draw)
    rated = several.rate(guess, Examples([np.zeros(1)] * 50, None, targets, rows))
    assert rated.of(rated.parts) == pytest.approx(several.metrics(guess, targets)["f1"])


def test_taggers_are_compared_by_entities_of_whole_sentences():
    from inference.samples import tiny
    from maskwright.text.readers.tagged import Sentence

    task = Tagging(["O", "B-X", "I-X"])
    model = tiny("tagging", labels=task.labels)
    rows = [Sentence.of_words(["the", "cat", "sat"], ["O", "B-X", "I-X"], n + 1, "f.conll") for n in range(12)]
    rows += [Sentence.of_words(["rain", "fell"], ["B-X", "O"], n + 20, "f.conll") for n in range(5)]
    examples = task.examples(rows, model.tokenizer, 32)
    evaluation = task.evaluate(model, examples)
    rated = task.rate(evaluation.logits, examples)
    assert rated.of(rated.parts) == pytest.approx(evaluation.metrics["entity_f1"])
    assert rated.parts[:, 0].sum() == 17
    assert compare(rated, rated).difference.difference == 0


def test_models_of_different_metrics_are_refused():
    with pytest.raises(InputError, match="their tasks differ"):
        compare(
            classified([True]), classified([True], Classification(["a", "b"])).__class__("f1", np.ones((1, 3)), sum)
        )


def test_a_permutation_test_by_hand():
    """The first model wins all three rows: of eight ways to swap, two give as large a difference, so p nears 1/4."""
    ones, zeros = np.ones((3, 1)), np.zeros((3, 1))
    p_value = permutation_test(lambda _, parts: float(parts.mean()), np.ones(3), ones, zeros, samples=4000)
    assert p_value == pytest.approx(0.25, abs=0.03)


def test_the_permutation_test_rejects_true_hypotheses_as_often_as_it_says():
    draw = np.random.Generator(np.random.PCG64(1))
    rejected = 0
    for number in range(100):
        a, b = draw.normal(size=(2, 30, 1))
        p_value = permutation_test(lambda _, x: float(x.mean()), a[:, 0], a, b, samples=199, seed=number)
        rejected += p_value <= 0.1
    assert 2 <= rejected <= 20


def test_choices_are_compared_by_accuracy():
    from inference.samples import tokenizer
    from maskwright.tasks.choice import tokenize_choices
    from maskwright.text.readers.choices import ChoiceRow

    rows = [ChoiceRow("she", "", ("a", "cats", "fell"), place % 3, place, "rows.jsonl") for place in range(9)]
    examples = tokenize_choices(rows, tokenizer(), None, torch.arange(9) % 3)
    logits = torch.eye(3).repeat(3, 1)
    logits[4] = torch.tensor([1.0, 0.0, 0.0])
    rated = Choice().rate(logits, examples)
    assert (rated.metric, rated.of(rated.parts), rated.is_right.sum()) == ("accuracy", pytest.approx(8 / 9), 8)
    assert compare(rated, rated).sentence("A", "B").startswith("A and B have the same accuracy")


def test_vectors_of_sentences_are_compared_by_rank():
    from inference.samples import tokenizer

    draw = torch.Generator().manual_seed(0)
    rows = [row("she", str(place % 4), text_pair="cats fell") for place in range(12)]
    task = Similarity()
    examples = task.examples(rows, tokenizer())
    vectors = torch.nn.functional.normalize(torch.randn(12, 2, 5, generator=draw), dim=-1)
    rated = task.rate(vectors, examples)
    assert rated.metric == "spearman"
    assert rated.of(rated.parts) == pytest.approx(task.score(vectors, examples).metrics["spearman"])
