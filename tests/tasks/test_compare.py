"""Two models on the same rows, calibrated probabilities, and the mean over models."""

import math
from math import comb

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from maskwright.core.errors import InputError, ModelFolderError
from maskwright.tasks.base import task_from_json
from maskwright.tasks.choice import Choice
from maskwright.tasks.classification import Classification
from maskwright.tasks.evaluation import compare as comparison
from maskwright.tasks.evaluation.calibration import (
    LEAST,
    MOST,
    Decisions,
    Temperature,
    abstain,
    cross_entropy,
    cross_probabilities,
    fit_temperature,
    out_of_fold_probabilities,
    probabilities,
    risk_coverage,
)
from maskwright.tasks.evaluation.compare import bootstrap_metric, bootstrap_scores, compare, mcnemar, permutation_test
from maskwright.tasks.evaluation.metrics import ece, ece_equal_mass, mean_probabilities, mean_scores
from maskwright.tasks.examples import Examples
from maskwright.tasks.regression import Regression
from maskwright.tasks.similarity import Similarity
from maskwright.tasks.tagging.task import Tagging
from tasks.standins import row


def answers(only_first, only_second, both, neither=0):
    """(gold, first, second) with these numbers of right rows."""
    first = np.repeat([1, 0, 1, 0], [only_first, only_second, both, neither])
    second = np.repeat([0, 1, 1, 0], [only_first, only_second, both, neither])
    return np.ones_like(first), first, second


@pytest.mark.parametrize("a, b", [(0, 1), (1, 5), (10, 2), (7, 7), (0, 10), (30, 12)])
def test_mcnemar_is_the_two_sided_toss_of_a_coin(a, b):
    gold, first, second = answers(a, b, both=20, neither=3)
    result = mcnemar(first == gold, second == gold)
    tail = sum(comb(a + b, k) for k in range(min(a, b) + 1)) / 2 ** (a + b)
    assert (result.only_first, result.only_second) == (a, b)
    assert result.p_value == pytest.approx(min(1.0, 2 * tail))


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
        bootstrap_metric(np.mean, np.ones((2, 1)), np.ones((1, 1)))


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
    assert found.mcnemar == mcnemar(np.array(first), np.array(second))
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
    p_value = permutation_test(np.mean, ones, zeros, samples=4000)
    assert p_value == pytest.approx(0.25, abs=0.03)


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


# -- Temperature and calibration error, risk and coverage ------------------------------------------------------------


def overconfident(num=600, classes=3, factor=4.0, seed=0):
    """Decisions whose gold class is drawn from softmax(logits), told with logits that are `factor` times as large."""
    draw = np.random.Generator(np.random.PCG64(seed))
    logits = draw.normal(size=(num, classes)) * 1.5
    shares = probabilities(logits)
    gold = np.array([draw.choice(classes, p=share) for share in shares])
    return Decisions(logits * factor, gold, [f"row {place}" for place in range(num)])


def test_the_temperature_is_the_one_that_a_fine_grid_finds():
    decisions = overconfident()
    grid = np.exp(np.linspace(np.log(LEAST), np.log(MOST), 4001))
    best = grid[int(np.argmin([cross_entropy(decisions, value) for value in grid]))]
    assert fit_temperature(decisions).value == pytest.approx(best, rel=2e-3)


def test_a_temperature_by_hand():
    """Three of four right at a margin of m: the best probability of the right class is 3/4, so T = m / ln 3."""
    decisions = Decisions(np.array([[0.0, 5.0]] * 4), np.array([1, 1, 1, 0]), list("abcd"))
    assert fit_temperature(decisions).value == pytest.approx(5 / math.log(3), rel=1e-9)
    assert cross_entropy(decisions, 5 / math.log(3)) == pytest.approx(-(3 * math.log(0.75) + math.log(0.25)) / 4)


@pytest.mark.compatibility(
    "scikit-learn 1.9.1",
    theirs="log_loss clips by the type of the probabilities: a certain mistake costs 16 in float32 and 36 in float64",
    ours="Cross-entropy from logits in float64, without a limit",
)
def test_a_certain_mistake_costs_its_margin():
    decisions = Decisions(np.array([[60.0, 0.0]]), np.array([1]), ["a"])
    assert cross_entropy(decisions) == pytest.approx(60.0)


@pytest.mark.compatibility(
    "scikit-learn 1.9.1",
    theirs="With all rows right, the temperature is where a bounded search stops, and probabilities are exactly 1",
    ours="A fixed limit of 0.05, and a warning that the rows do not determine a temperature",
)
def test_rows_that_are_all_right_or_all_chance_do_not_determine_it():
    right = fit_temperature(Decisions(np.array([[0.0, 1.0]] * 3), np.array([1, 1, 1]), list("abc")))
    chance = fit_temperature(Decisions(np.array([[0.0, 1.0]] * 2), np.array([1, 0]), list("ab")))
    assert right.value == pytest.approx(LEAST) and right.is_at_limit
    assert chance.value == pytest.approx(MOST) and chance.is_at_limit
    assert not fit_temperature(overconfident()).is_at_limit
    with pytest.raises(InputError, match="labeled rows"):
        fit_temperature(Decisions(np.zeros((0, 2)), np.zeros(0, dtype=int), []))


@given(st.integers(0, 10_000), st.floats(LEAST, MOST))
def test_a_temperature_changes_no_answer(seed, value):
    logits = torch.randn(20, 4, generator=torch.Generator().manual_seed(seed)) * 5
    plain, warm = Classification(list("abcd")), Classification(list("abcd"))
    warm.temperature = Temperature(value)
    for one, other in zip(plain.decode(logits), warm.decode(logits), strict=True):
        assert one["label"] == other["label"]
        assert sum(other["probabilities"].values()) == pytest.approx(1.0)
    several, cool = Classification(list("abcd"), True), Classification(list("abcd"), True)
    cool.temperature = Temperature(value)
    answers = zip(several.decode(logits), cool.decode(logits), strict=True)
    assert all(one["labels"] == other["labels"] for one, other in answers)


def test_calibration_errors_by_hand():
    """Confidences 0.9, 0.9 (one right) and 0.6, 0.6 (both right): gaps 0.4 and 0.4, whatever the bins."""
    shares, gold = np.array([[0.1, 0.9], [0.1, 0.9], [0.4, 0.6], [0.4, 0.6]]), np.array([1, 0, 1, 1])
    assert ece(gold, shares) == pytest.approx(0.4)
    assert ece_equal_mass(gold, shares, bins=2) == pytest.approx(0.4)
    # One bin: mean confidence 0.75, accuracy 0.75.
    assert ece_equal_mass(gold, shares, bins=1) == pytest.approx(0.0, abs=1e-12)


@given(st.permutations(range(12)))
def test_the_order_of_rows_changes_no_error(order):
    draw = np.random.Generator(np.random.PCG64(5))
    shares = np.round(probabilities(draw.normal(size=(12, 2))), 1)  # rounded, so that some are equal
    gold = draw.integers(0, 2, 12)
    for error in (ece, ece_equal_mass):
        assert error(gold[list(order)], shares[list(order)]) == pytest.approx(error(gold, shares))


def test_rows_that_fitted_the_temperature_are_scored_by_that_of_the_other_half():
    decisions = overconfident(num=60)
    own = fit_temperature(decisions)
    crossed = out_of_fold_probabilities(decisions, own)
    assert np.array_equal(crossed, cross_probabilities(decisions))
    assert not np.allclose(crossed, probabilities(decisions.logits, own.value))
    foreign = Temperature(own.value, frozenset({"another row"}))
    assert np.array_equal(out_of_fold_probabilities(decisions, foreign), probabilities(decisions.logits, own.value))
    assert np.array_equal(out_of_fold_probabilities(decisions, None), probabilities(decisions.logits))


def test_rows_of_one_text_are_in_one_half():
    decisions = overconfident(num=40)
    twice = Decisions(np.tile(decisions.logits, (2, 1)), np.tile(decisions.gold, 2), list(decisions.keys) * 2)
    crossed = cross_probabilities(twice)
    assert np.allclose(crossed[:40], crossed[40:])
    alone = Decisions(decisions.logits[:2], decisions.gold[:2], ["same", "same"])
    assert np.array_equal(cross_probabilities(alone), probabilities(alone.logits))


def examples_of(decisions):
    rows = [row(f"text {place}", str(label)) for place, label in enumerate(decisions.gold)]
    return Examples([np.zeros(1)] * len(rows), None, torch.from_numpy(decisions.gold), rows)


def test_a_task_keeps_its_temperature_and_reports_less_error():
    decisions = overconfident()
    task, logits, examples = Classification(list("012")), torch.from_numpy(decisions.logits), examples_of(decisions)
    before = task.score(logits, examples).metrics
    task.calibrate(logits, examples)
    after = task.score(logits, examples).metrics
    assert after["ece"] < before["ece"] / 2
    assert {name: after[name] for name in ("accuracy", "macro_f1")} == {
        name: before[name] for name in ("accuracy", "macro_f1")
    }
    again = task_from_json(task.to_json())
    assert again.temperature == task.temperature and len(again.temperature.seen) == 600
    assert again.score(logits, examples).metrics == after


def test_a_model_without_classes_is_not_calibrated():
    from maskwright.tasks.regression import Regression

    with pytest.raises(InputError, match="no class probabilities"):
        Regression().calibrate(torch.zeros(1, 1), examples_of(overconfident(num=1)))


@pytest.mark.parametrize(
    "facts", [{"value": 0}, {"value": "2"}, {"value": float("inf")}, {"value": 1, "fitted_on": 3}, 7]
)
@pytest.mark.parametrize("task", [Classification(["a", "b"]), Tagging(["A", "B"])])
def test_a_temperature_that_is_none_is_refused(facts, task):
    with pytest.raises(ModelFolderError, match="temperature"):
        task_from_json({**task.to_json(), "temperature": facts})


def test_a_curve_by_hand():
    """Right, wrong, right, wrong from the surest down: risks 0, 1/2, 1/3, 1/2."""
    curve = risk_coverage([0.9, 0.8, 0.7, 0.6], [True, False, True, False])
    assert curve.coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert curve.risk == pytest.approx([0, 1 / 2, 1 / 3, 1 / 2])
    assert curve.aurc == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    assert curve.best_aurc == pytest.approx((0 + 0 + 1 / 3 + 2 / 4) / 4)
    assert curve.at_risk(0.34) == {"risk": 0.34, "coverage": 0.75, "min_confidence": 0.7}
    assert curve.at_risk(0.0) == {"risk": 0.0, "coverage": 0.25, "min_confidence": 0.9}


def test_rows_of_one_confidence_are_answered_together_and_their_order_is_nothing():
    one = risk_coverage([0.5, 0.5, 0.5, 0.5], [True, False, False, True])
    other = risk_coverage([0.5, 0.5, 0.5, 0.5], [False, False, True, True])
    assert one.coverage.tolist() == [1.0] and one.aurc == other.aurc == pytest.approx(0.5)


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=40))
def test_the_last_risk_is_the_error_rate_and_no_order_beats_the_best(rows):
    sure, right = [level / 9 for level, _ in rows], [is_right for _, is_right in rows]
    curve = risk_coverage(sure, right)
    assert curve.risk[-1] == pytest.approx(1 - np.mean(right))
    assert curve.best_aurc - 1e-12 <= curve.aurc <= 1
    found = curve.at_risk(float(curve.risk[-1]))
    assert found["coverage"] == 1.0
    for wanted in (0.0, 0.1, 0.5):
        least = curve.at_risk(wanted)["min_confidence"]
        if least is not None:
            kept = [is_right for level, is_right in zip(sure, right, strict=True) if level >= least]
            assert 1 - np.mean(kept) <= wanted + 1e-9


def test_what_cannot_be_a_curve_or_a_risk():
    with pytest.raises(InputError, match="one confidence"):
        risk_coverage([], [])
    with pytest.raises(InputError, match="one confidence"):
        risk_coverage([0.5], [True, False])
    with pytest.raises(InputError, match="from 0 to 1"):
        risk_coverage([0.5], [True]).at_risk(2)


def test_an_answer_below_the_least_confidence_is_none():
    answer = {"label": "a", "score": 0.6, "probabilities": {"a": 0.6, "b": 0.4}}
    assert abstain(answer, 0.7) == {**answer, "label": None, "abstained": True}
    assert abstain(answer, 0.6) == {**answer, "abstained": False}
    several = {"labels": ["a"], "probabilities": {"a": 0.95, "b": 0.3}}
    assert abstain(several, 0.8)["labels"] is None  # b is not there with 0.7 alone
    assert abstain(several, 0.7)["labels"] == ["a"]


# -- Ensembles -------------------------------------------------------------------------------------------------------

logits = arrays.arrays(np.float64, (3, 4, 5), elements=st.floats(-20, 20))


def softmax(values):
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def test_the_mean_by_hand():
    one, two = [[0.9, 0.1], [0.4, 0.6]], [[0.5, 0.5], [0.2, 0.8]]
    assert mean_probabilities([one, two]) == pytest.approx(np.array([[0.7, 0.3], [0.3, 0.7]]))
    assert mean_scores([[1.0, 2.0], [3.0, 5.0]]) == pytest.approx(np.array([2.0, 3.5]))


@given(logits)
def test_a_mean_of_probabilities_is_one_and_lies_between_its_members(values):
    members = softmax(values)
    mean = mean_probabilities(list(members))
    assert mean.sum(axis=1) == pytest.approx(1)
    assert (mean >= members.min(axis=0) - 1e-9).all() and (mean <= members.max(axis=0) + 1e-9).all()
    assert mean == pytest.approx(mean_probabilities(list(members[::-1])))


@pytest.mark.parametrize(
    "members, message",
    [
        ([], "at least one"),
        ([[[0.5, 0.5]], [[0.5, 0.5], [1.0, 0.0]]], "model 1 have the shape"),
        ([[[np.nan, 0.5]]], "model 0 contain a number that is not finite"),
    ],
)
def test_members_that_do_not_fit_are_refused(members, message):
    with pytest.raises(InputError, match=message):
        mean_probabilities(members)
