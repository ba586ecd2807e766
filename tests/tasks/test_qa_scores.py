"""Scores by the official definition: equal to one written here without any of the product's means, case by case."""

from __future__ import annotations

import random
import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import InputError, ModelFolderError
from maskwright.core.randomness import generator
from maskwright.tasks.evaluation.rare import two_halves
from maskwright.tasks.qa.task import (
    Scored,
    Threshold,
    out_of_fold_outcome,
    score_all,
    score_answer,
    summarize,
    tune_threshold,
)
from maskwright.tasks.qa.windows import AnswerCandidates, Span
from maskwright.text.readers.squad import Question, ReferenceAnswer

# -- the definition, character by character ----------------------------------------------------------------


def words_of(text: str) -> list[str]:
    kept = [character for character in text.lower() if character not in string.punctuation]
    runs: list[str] = []  # of letters and digits, and the text between them
    for character in kept:
        if runs and runs[-1][-1].isalnum() == character.isalnum():
            runs[-1] += character
        else:
            runs.append(character)
    return "".join(" " if run in ("a", "an", "the") else run for run in runs).split()


def f1_of(given: list[str], wanted: list[str]) -> float:
    if not given and not wanted:
        return 1.0
    left, same = list(wanted), 0
    for word in given:
        if word in left:
            left.remove(word)
            same += 1
    if same == 0:
        return 0.0
    precision, recall = same / len(given), same / len(wanted)
    return 2 * precision * recall / (precision + recall)


def by_definition(answer: str, golds: list[str]) -> tuple[float, float]:
    wanted = [words_of(gold) for gold in golds if words_of(gold)] or [[]]
    given = words_of(answer)
    return max(float(given == gold) for gold in wanted), max(f1_of(given, gold) for gold in wanted)


PIECES = [
    *("a", "an", "the", "The", "A", "AN", "the.", "(the)", "the-", "a_b", "theatre", "an'", "a\u0301", "thé", "Denver"),
    *("Broncos", "denver", "Carolina Panthers", "340M", "1.34GB", "$3.5", "24.9 %", "U.S.", "it's", "well-known"),
    *(
        "Ωμέγα",
        "東京",
        "naïve",
        "café",
        "İstanbul",
        "ﬁne",
        "ß",
        "¿qué?",
        "—",
        "«",
        "…",
        "👩\u200d🚀",
        "\u00a0",
        "\u200b",
    ),
    *("\t", "\n", "", "!", "...", ",", "''", '"quoted"', "_", "[", "1999", "two  spaces"),
]


def generated_cases(count: int) -> list[tuple[str, list[str]]]:
    """Answers that are often near a gold one: a piece more or less, other case, other punctuation, or none."""
    draw = random.Random(0)

    def phrase() -> str:
        return " ".join(draw.choice(PIECES) for _ in range(draw.randint(0, 5)))

    cases = []
    for _ in range(count):
        golds = [phrase() for _ in range(draw.choice([0, 1, 1, 1, 2, 3, 4]))]
        answer = phrase()
        if golds and draw.random() < 0.7:
            answer = draw.choice(golds)
            answer = draw.choice(
                [answer, answer.upper(), f"the {answer}.", answer[: len(answer) // 2], answer + phrase()]
            )
        cases.append((draw.choice([answer, answer, answer, answer, ""]), golds))
    return cases


CASES = generated_cases(1000)


def test_a_thousand_cases_score_as_the_definition_says():
    expected = [by_definition(answer, golds) for answer, golds in CASES]
    scores = [score_answer(answer, golds) for answer, golds in CASES]
    np.testing.assert_allclose(np.array(scores), np.array(expected), rtol=0, atol=1e-12)
    # The cases are worth something: right, wrong and partly right answers, empty ones, none and several golds.
    exact, f1 = np.array(expected).T
    assert min((exact == 1).sum(), ((f1 > 0) & (f1 < 1)).sum(), (f1 == 0).sum()) >= 100
    assert sum(not answer for answer, _ in CASES) > 50 and sum(len(golds) > 1 for _, golds in CASES) > 200
    assert sum(not golds for _, golds in CASES) > 50
    assert sum(not text.isascii() for answer, golds in CASES for text in (answer, *golds)) > 300


@pytest.mark.parametrize(
    ("answer", "golds", "exact", "f1"),
    [
        ("The Denver Broncos!", ["Denver Broncos", "Carolina"], 1, 1),
        ("Broncos", ["Denver Broncos"], 0, 2 / 3),
        ("Broncos of Denver", ["Carolina", "Denver Broncos"], 0, 0.8),
        ("", [], 1, 1),
        ("the", [], 1, 1),
        ("Denver", [], 0, 0),
        ("", ["Denver"], 0, 0),
        ("", ["the", "Denver"], 0, 0),
        ("", ["the"], 1, 1),
        ("to be to be", ["to be or not to be"], 0, 0.8),
        ("1990s", ["1990's"], 1, 1),
    ],
)
def test_known_cases(answer, golds, exact, f1):
    assert score_answer(answer, golds) == pytest.approx((exact, f1))


# -- whole files -------------------------------------------------------------------------------------------


def question(name: str, golds: list[str]) -> Question:
    return Question(name, f"Q{name}?", "context", tuple(ReferenceAnswer(text, 0) for text in golds), 1, "the tests")


def found(answer: str, no_answer: float) -> AnswerCandidates:
    return AnswerCandidates((Span(answer, 0, len(answer), 0.0, 0.5),) if answer else (), no_answer, 0.5)


def scored_cases(count: int, seed: int = 0) -> tuple[Scored, list[str], list[list[str]], np.ndarray]:
    """The cases as a scored file, with no-answer scores that know something and often tie."""
    draw = np.random.default_rng(seed)
    cases = [CASES[place] for place in draw.permutation(len(CASES))[:count]]
    signal = np.array([0.0 if golds else 1.0 for _, golds in cases])
    scores = np.round(draw.normal(size=count) + signal, 1)
    questions = [question(str(n), golds) for n, (_, golds) in enumerate(cases)]
    scored = score_all(questions, [found(answer, score) for (answer, _), score in zip(cases, scores, strict=True)])
    return scored, [answer for answer, _ in cases], [golds for _, golds in cases], scores


def by_definition_all(answers: list[str], golds: list[list[str]]) -> dict[str, float]:
    rows = [by_definition(answer, wanted) for answer, wanted in zip(answers, golds, strict=True)]
    parts = {
        ("exact_match", "f1"): rows,
        ("has_answer_exact", "has_answer_f1"): [row for row, wanted in zip(rows, golds, strict=True) if wanted],
        ("no_answer_exact", "no_answer_f1"): [row for row, wanted in zip(rows, golds, strict=True) if not wanted],
    }
    return {
        name: sum(row[place] for row in part) / len(part)
        for names, part in parts.items()
        for place, name in enumerate(names)
        if part
    }


@pytest.mark.parametrize("threshold", [None, -5.0, 0.0, 0.5, 5.0])
def test_a_file_scores_as_the_definition_says(threshold):
    scored, answers, golds, scores = scored_cases(1000)
    if threshold is not None:
        answers = ["" if score > threshold else answer for answer, score in zip(answers, scores, strict=True)]
    metrics = report(scored, None if threshold is None else Threshold(threshold))
    assert metrics == pytest.approx(by_definition_all(answers, golds))
    assert set(metrics) >= {"exact_match", "f1", "has_answer_f1", "no_answer_f1"}


def report(scored: Scored, threshold: Threshold | None = None) -> dict[str, float]:
    return summarize(scored.answered if threshold is None else scored.outcome(threshold.value), scored.has_answer)


def halves(scored: Scored, seed: int = 0) -> tuple[Scored, Scored]:
    one, other = two_halves(scored.keys, scored.has_answer, generator(seed, "qa-halves"))
    return scored.take(one), scored.take(other)


# -- the threshold -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["f1", "exact_match"])
@pytest.mark.parametrize("seed", range(12))
def test_no_threshold_does_better_than_the_tuned_one(metric, seed):
    scored, answers, golds, scores = scored_cases(5 + 25 * seed, seed)
    tuned = tune_threshold(scored, metric)
    column = ("exact_match", "f1").index(metric)
    given, refused = (
        np.array([by_definition(text, wanted)[column] for text, wanted in zip(texts, golds, strict=True)])
        for texts in (answers, [""] * len(answers))
    )
    best = max(np.where(scores > cut, refused, given).mean() for cut in [scores.min() - 1, *scores, scores.max() + 1])
    assert np.where(scores > tuned.value, refused, given).mean() == pytest.approx(best)
    assert np.isfinite(tuned.value)


def test_questions_without_any_span_do_not_hinder_tuning():
    questions = [question("1", []), question("2", ["Denver"])]
    scored = score_all(questions, [found("", float("inf")), found("Denver", 3.0)])
    tuned = tune_threshold(scored)
    assert np.isfinite(tuned.value)
    assert scored.outcome(tuned.value).tolist() == [[1, 1], [1, 1]]


@given(has_answer=st.lists(st.booleans(), min_size=2, max_size=60), seed=st.integers(0, 99), repeats=st.integers(0, 5))
def test_halves_share_no_question_and_split_both_kinds_evenly(has_answer, seed, repeats):
    questions = [question(str(n), ["Denver"] if has else []) for n, has in enumerate(has_answer)]
    questions += questions[:repeats]
    scored = score_all(questions, [found("Denver", 0.0)] * len(questions))
    first, second = halves(scored, seed)
    assert not set(first.keys) & set(second.keys)
    assert sorted(first.keys + second.keys) == sorted(scored.keys)
    if not repeats:
        for kind in (True, False):
            assert abs((first.has_answer == kind).sum() - (second.has_answer == kind).sum()) <= 1
    assert halves(scored, seed)[0].keys == first.keys


def test_no_row_is_scored_by_a_threshold_that_it_chose():
    scored, *_ = scored_cases(200)
    first, second = halves(scored)
    by_the_other = [first.outcome(tune_threshold(second).value), second.outcome(tune_threshold(first).value)]
    crossed = summarize(np.concatenate(by_the_other), np.concatenate([first.has_answer, second.has_answer]))
    own, other = tune_threshold(scored), Threshold(0.3, frozenset({"another"}))
    for threshold in (own, None):
        fair = summarize(out_of_fold_outcome(scored, threshold, True), scored.has_answer)
        assert fair == pytest.approx(crossed)
    assert (out_of_fold_outcome(scored, other, True) == scored.outcome(0.3)).all()
    assert (out_of_fold_outcome(scored, own, False) == scored.answered).all()
    answered = scored.take(scored.has_answer)
    assert (out_of_fold_outcome(answered, None, None) == answered.answered).all()
    assert (
        out_of_fold_outcome(scored.take(np.array([0])), None, True) == scored.take(np.array([0])).outcome(0.0)
    ).all()


def test_thresholds_that_are_none_are_refused():
    scored, *_ = scored_cases(10)
    with pytest.raises(InputError, match="f1 or exact_match"):
        tune_threshold(scored, "accuracy")
    with pytest.raises(InputError, match="needs rows"):
        tune_threshold(scored.take(np.zeros(10, dtype=bool)))
    for facts in ({}, {"value": "1"}, {"value": float("nan")}, {"value": 1.0, "tuned_on": "x"}, {"value": True}):
        with pytest.raises(ModelFolderError, match="threshold"):
            Threshold.from_json(facts)
