"""Two models on the same rows: paired tests that keep what they promise, for every task's main metric."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
import torch

from maskwright.core.errors import InputError
from maskwright.tasks.choice import Choice
from maskwright.tasks.classification import Classification
from maskwright.tasks.evaluation import compare as comparison
from maskwright.tasks.evaluation import metrics
from maskwright.tasks.evaluation.compare import bootstrap_metric, bootstrap_scores, compare, mcnemar, permutation_test
from maskwright.tasks.examples import Examples
from maskwright.tasks.regression import Regression
from maskwright.tasks.similarity import Similarity
from maskwright.tasks.tagging.task import Tagging
from tasks.standins import row


def answers(
    only_first: int, only_second: int, both: int, neither: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(gold, first, second) with these numbers of right rows."""
    first = np.repeat([1, 0, 1, 0], [only_first, only_second, both, neither])
    second = np.repeat([0, 1, 1, 0], [only_first, only_second, both, neither])
    return np.ones_like(first), first, second


@pytest.mark.parametrize("a, b", [(0, 1), (1, 5), (10, 2), (7, 7), (0, 10), (30, 12)])
def test_mcnemar_is_the_two_sided_toss_of_a_coin(a, b):
    result = mcnemar(*answers(a, b, both=20, neither=3))
    tail = sum(comb(a + b, k) for k in range(min(a, b) + 1)) / 2 ** (a + b)
    assert (result.only_first, result.only_second) == (a, b)
    assert result.p_value == pytest.approx(min(1.0, 2 * tail))


def test_two_wrong_answers_that_differ_are_both_wrong():
    result = mcnemar(["a", "a"], ["b", "a"], ["c", "a"])
    assert (result.only_first, result.only_second) == (0, 0)


def test_the_bootstrap_sees_a_large_difference_and_no_small_one():
    gold, first, second = answers(60, 10, 130)
    large = bootstrap_scores(first == gold, second == gold, samples=2000)
    assert large.difference == pytest.approx(0.25) and large.p_value < 0.01 and large.is_significant
    assert 0 < large.low < 0.25 < large.high
    gold, first, second = answers(6, 5, 189)
    small = bootstrap_scores(first == gold, second == gold, samples=2000)
    assert small.p_value > 0.5 and small.low < 0 < small.high and not small.is_significant


def test_exchanging_the_models_changes_the_sign_alone():
    random = np.random.default_rng(1)
    a, b = random.normal(size=50), random.normal(size=50)
    one, two = bootstrap_scores(a, b, samples=500), bootstrap_scores(b, a, samples=500)
    assert one.p_value == two.p_value
    assert (one.difference, one.low, one.high) == pytest.approx((-two.difference, -two.high, -two.low))


def test_the_seed_decides_and_blocks_do_not(monkeypatch):
    random = np.random.default_rng(2)
    a, b = random.normal(size=30), random.normal(size=30)
    one = bootstrap_scores(a, b, samples=300, seed=5)
    assert bootstrap_scores(a, b, samples=300, seed=6) != one
    monkeypatch.setattr("maskwright.tasks.evaluation.compare._INDICES_AT_ONCE", 70)
    assert bootstrap_scores(a, b, samples=300, seed=5) == one


def test_the_interval_of_a_mean_is_that_of_the_normal_law():
    random = np.random.default_rng(3)
    gaps = random.normal(0.3, 1.0, size=400)
    result = bootstrap_scores(gaps, np.zeros(400), samples=4000)
    error = gaps.std() / 20
    assert result.low == pytest.approx(gaps.mean() - 1.96 * error, abs=0.15 * error)
    assert result.high == pytest.approx(gaps.mean() + 1.96 * error, abs=0.15 * error)


def test_metrics_over_all_rows_are_compared():
    random = np.random.default_rng(4)
    gold = random.normal(size=80)
    near, far = gold + random.normal(size=80) * 0.1, gold + random.normal(size=80) * 2
    result = bootstrap_metric(metrics.pearson, gold, near, far, samples=200)
    assert result.difference > 0.3 and result.is_significant and (result.num_rows, result.num_samples) == (80, 200)


def test_false_alarms_come_as_often_as_promised():
    """Equal models, 200 times: about 5 % below 0.05 for the bootstrap, at most that for the exact test."""
    random = np.random.default_rng(5)
    alarms = np.zeros(2)
    for trial in range(200):
        first, second = random.random((2, 100)) < 0.8
        alarms[0] += bootstrap_scores(first, second, samples=200, seed=trial).p_value < 0.05
        alarms[1] += mcnemar(np.ones(100, bool), first, second).p_value < 0.05
    assert 0.01 <= alarms[0] / 200 <= 0.11
    assert alarms[1] / 200 <= 0.08


@pytest.mark.parametrize(
    "first, second, settings, message",
    [
        ([1.0], [1.0, 2.0], {}, "numbers of rows differ: 1, 2"),
        ([], [], {}, "no rows"),
        ([np.nan], [1.0], {}, "one finite number for each row"),
        ([[1.0]], [[1.0]], {}, "one finite number for each row"),
        ([1.0], [1.0], {"samples": 0}, "At least one"),
        ([1.0], [1.0], {"confidence": 1.0}, "between 0 and 1"),
    ],
)
def test_what_does_not_fit_is_refused(first, second, settings, message):
    with pytest.raises(InputError, match=message):
        bootstrap_scores(first, second, **settings)


def test_labels_of_other_rows_are_refused():
    with pytest.raises(InputError, match="numbers of rows differ"):
        mcnemar([1, 1], [1, 1], [1])
    with pytest.raises(InputError, match="numbers of rows differ"):
        bootstrap_metric(metrics.accuracy, [1, 1], [1, 1], [1])


# -- the main metric of every task ------------------------------------------------------------------------------------


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
    from maskwright.text.words import Sentence

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
