"""Answers from logits: what trying every pair of tokens gives, as whole words of the original context."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maskwright.tasks.qa.windows import Windows, find_answers, make_windows, span_scores
from maskwright.text.words import word_edges
from tasks.questions import EVERY_KIND, WORDS, ask, cuts_a_word, tokenizer
from text.tokenizer_samples import any_text


def random_logits(windows: Windows, seed: int, coarse: bool = False) -> list[np.ndarray]:
    """coarse: whole numbers, so that scores tie."""
    generator = np.random.default_rng(seed)
    values = [generator.normal(scale=3, size=(len(ids), 2)) for ids in windows.input_ids]
    return [np.round(value) if coarse else value.astype(np.float32) for value in values]


def brute_force(windows: Windows, logits: list[np.ndarray], question: int, max_answer_tokens: int):
    """Every valid pair of tokens of every window as the words it touches, and the smallest score of the first token."""
    context, scores, nulls = windows.questions[question].context, {}, []
    edges = word_edges(context).tolist()
    for window in np.flatnonzero(windows.question == question):
        values, first = logits[window].astype(np.float64), int(windows.first[window])
        nulls.append(values[0, 0] + values[0, 1])
        for i, (start, width) in enumerate(windows.spans[window].tolist()):
            for j in range(i, min(i + max_answer_tokens, len(windows.spans[window]))):
                end_start, end = windows.spans[window][j].tolist()
                if width <= start or end <= end_start or not context[start:end].strip():
                    continue
                a, b = edges[start][0], edges[end - 1][1]
                score = values[first + i, 0] + values[first + j, 1]
                scores[a, b] = max(score, scores.get((a, b), -np.inf))
    return sorted(scores.items(), key=lambda item: (-item[1], item[0])), min(nulls)


@settings(max_examples=60)
@given(
    words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=30),
    kind=st.sampled_from(EVERY_KIND),
    seed=st.integers(0, 10**6),
    coarse=st.booleans(),
    best=st.integers(1, 25),
    max_answer_tokens=st.integers(1, 12),
)
def test_the_best_spans_are_those_of_trying_every_pair(words, kind, seed, coarse, best, max_answer_tokens):
    questions = [ask(" ".join(words), question="old?"), ask(" ".join(reversed(words)), question="man?")]
    windows = make_windows(questions, tokenizer(kind), 26, stride=4)
    logits = random_logits(windows, seed, coarse)
    for question, found in enumerate(find_answers(windows, logits, best=best, max_answer_tokens=max_answer_tokens)):
        expected, null = brute_force(windows, logits, question, max_answer_tokens)
        assert [(span.start, span.end) for span in found.spans] == [place for place, _ in expected[:best]]
        np.testing.assert_allclose([span.score for span in found.spans], [score for _, score in expected[:best]])
        np.testing.assert_allclose(found.no_answer_margin, null - expected[0][1])
        scores = np.array([null, *(score for _, score in expected[:best])])
        shares = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        np.testing.assert_allclose([found.no_answer_probability, *(s.probability for s in found.spans)], shares)


@settings(max_examples=100)
@given(context=any_text, seed=st.integers(0, 10**6), kind=st.sampled_from(EVERY_KIND))
def test_answers_are_whole_words_of_the_original_context(context, seed, kind):
    windows = make_windows([ask(context, question="old?")], tokenizer(kind), 24, stride=2)
    (found,) = find_answers(windows, random_logits(windows, seed))
    texts = [(span.start, span.end) for span in found.spans]
    assert len(set(texts)) == len(texts)
    for span in found.spans:
        assert span.text == context[span.start : span.end] == span.text.strip() != ""
        assert not cuts_a_word(context, span.start) and not cuts_a_word(context, span.end)
    assert found.no_answer_probability + sum(span.probability for span in found.spans) == pytest.approx(1)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_model_that_points_into_a_word_answers_with_the_word(kind):
    context = "She lives near Central Park, 3.5 km from Newton's house."
    windows = make_windows([ask(context, question="old?")], tokenizer(kind), 200)
    spans, first = windows.spans[0].tolist(), int(windows.first[0])
    for letters, word in (("l Park", "Central Park"), ("entr", "Central"), ("ewt", "Newton"), (".5 k", "3.5 km")):
        begin = context.index(letters)
        touched = [place for place, (a, b) in enumerate(spans) if a < begin + len(letters) and b > begin]
        (found,) = find_answers(windows, [sharp(windows, 0, first + touched[0], first + touched[-1])])
        best = found.spans[0]
        assert (best.text, best.start) == (word, context.index(word)) and best.score == 18


@given(
    words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=20), kind=st.sampled_from(EVERY_KIND), data=st.data()
)
def test_the_training_target_is_decoded_to_the_whole_words_of_the_answer(words, kind, data):
    """Tokens of several words (byte-level ones, and characters that are unknown) answer with all of them."""
    context = " ".join(words)
    start = data.draw(st.integers(0, len(context) - 1))
    end = data.draw(st.integers(start + 1, len(context)))
    windows = make_windows([ask(context, (start, end), question="old?")], tokenizer(kind), 300)
    if not context[start:end].strip() or list(windows.unreachable):
        return
    assert windows.targets is not None
    target = windows.targets[0].tolist()
    (found,) = find_answers(windows, [sharp(windows, 0, *target)], max_answer_tokens=300)
    edges = word_edges(context).tolist()
    spans = windows.spans[0][np.array(target) - windows.first[0]]
    best = found.spans[0]
    assert (best.start, best.end) == (edges[spans[0, 0]][0], edges[spans[1, 1] - 1][1])
    assert best.start <= edges[start][0] and edges[end - 1][1] <= best.end


@given(tokens=st.integers(1, 20), longest=st.integers(1, 25), seed=st.integers(0, 10**6))
def test_scores_of_spans_are_sums_and_others_are_ruled_out(tokens, longest, seed):
    generator = np.random.default_rng(seed)
    start, end, allowed = generator.normal(size=tokens), generator.normal(size=tokens), generator.random(tokens) < 0.7
    scores = span_scores(start, end, allowed, longest)
    assert scores.shape == (tokens, min(longest, tokens))
    for i in range(tokens):
        for length in range(scores.shape[1]):
            j = i + length
            valid = j < tokens and allowed[i] and allowed[j]
            assert scores[i, length] == (start[i] + end[j] if valid else -np.inf)


def sharp(windows: Windows, window: int, start: int, end: int, height: float = 9.0) -> np.ndarray:
    values = np.zeros((len(windows.input_ids[window]), 2))
    values[start, 0] = values[end, 1] = height
    return values


def test_the_question_and_special_tokens_never_answer():
    windows = make_windows([ask("old man", question="the finest old road")], tokenizer(), 40)
    values = np.zeros((len(windows.input_ids[0]), 2))
    values[: windows.first[0]] = values[-1] = 50.0
    (found,) = find_answers(windows, [values])
    assert found.spans and all(span.text in "old man" for span in found.spans)
    assert all(span.score == 0 for span in found.spans)
    assert found.no_answer_margin == 100.0


def test_an_end_before_its_start_is_no_answer():
    windows = make_windows([ask("the old man told a story")], tokenizer(), 60)
    first = int(windows.first[0])
    (found,) = find_answers(windows, [sharp(windows, 0, first + 3, first + 1)])
    assert all(span.score <= 9 for span in found.spans)


def test_one_window_with_an_answer_is_enough():
    """The smallest score of "no answer" counts: windows without the answer are sure that they have none."""
    context = "the old man told an older story " * 12
    windows = make_windows([ask(context)], tokenizer(), 30, stride=3)
    assert len(windows) > 2
    logits = [sharp(windows, window, 0, 0, 8.0) for window in range(len(windows))]
    first = int(windows.first[1])
    logits[1] = sharp(windows, 1, first + 1, first + 2, 6.0)
    (found,) = find_answers(windows, logits)
    assert found.no_answer_margin == -12.0
    start, end = windows.spans[1][1][0], windows.spans[1][2][1]
    assert (found.spans[0].start, found.spans[0].end) == (start, end)
    assert found.best(0.0) == found.spans[0]


def test_a_question_is_refused_above_the_threshold_only():
    windows = make_windows([ask("the old man")], tokenizer(), 40)
    (found,) = find_answers(windows, [sharp(windows, 0, 0, 0, 1.0)])
    assert found.no_answer_margin == 2.0
    assert found.best() == found.best(2.0) == found.best(3.0) == found.spans[0]
    assert found.best(1.9) is None


def test_a_context_without_text_has_no_answer():
    windows = make_windows([ask("\u200b\u200b")], tokenizer(), 40)
    (found,) = find_answers(windows, [np.zeros((len(ids), 2)) for ids in windows.input_ids])
    assert found.best() is None or found.best().text.strip()
    empty = make_windows([ask(" ")], tokenizer(), 40)
    (found,) = find_answers(empty, [np.zeros((len(ids), 2)) for ids in empty.input_ids])
    assert found.spans == () and found.best() is None
    assert found.no_answer_margin == float("inf") and found.no_answer_probability == 1.0
