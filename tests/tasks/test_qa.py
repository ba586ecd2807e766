"""Question answering: training, windows, answers with offsets, scores by the official definition, thresholds."""

import json
import math
import random
import string
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maskwright.core.errors import InputError, ModelFolderError, RowErrors
from maskwright.core.randomness import generator
from maskwright.inference.answer import Answerer
from maskwright.inference.predict import Predictor
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.tasks.evaluation.rare import two_halves
from maskwright.tasks.examples import rows_of
from maskwright.tasks.qa.task import (
    QuestionAnswering,
    Threshold,
    out_of_fold_outcome,
    score_all,
    score_answer,
    summarize,
    tune_threshold,
)
from maskwright.tasks.qa.windows import AnswerCandidates, Span, find_answers, make_windows, trace_answer
from maskwright.text.readers.squad import Question, ReferenceAnswer
from maskwright.text.tokenizers.encoding import TextCounts
from maskwright.text.words import word_edges
from maskwright.train.finetuning.finetune import fit
from tasks.questions import EVERY_KIND, WORDS, answer_tokens, ask, cuts_a_word, tokenizer
from text.tokenizer_samples import any_text

CONTEXT = "The old man told an older story. She walked along the lowest road, and the oldest of them was the finest."


def model(seed=0, **changes):
    sizes = {"vocab_size": tokenizer().vocab_size, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = ModelConfig(**{**sizes, "intermediate_size": 64, "max_position_embeddings": 128, **changes})
    made = build(config, "qa", seed=seed)
    made.tokenizer = tokenizer()
    return made.eval()


def rows():
    return [
        ask(CONTEXT, "old man", question="Who told it?", name="a"),
        ask(CONTEXT, "lowest road", question="Where did she walk?", name="b"),
        ask("The finest story.", "story", question="What is the finest?", name="c"),
        ask("She told the story.", question="Who walked?", name="d"),
    ]


def test_the_loss_is_the_mean_of_the_cross_entropies_of_start_and_end():
    task, network = QuestionAnswering(), model()
    windows = task.examples(rows(), tokenizer(), 40)
    batch = windows.batch(range(len(windows)))
    expected = 0.0
    for logits, target in zip(network.logits(batch).split(batch.lengths), batch.labels["sequence"], strict=True):
        shares = logits.log_softmax(dim=0)
        expected -= float(shares[target[0], 0] + shares[target[1], 1]) / 2
    outcome = task.outcome(network, batch)
    assert float(outcome.losses["qa"]) == pytest.approx(expected, rel=1e-5)
    assert outcome.counts == {"qa": len(windows)}
    per_row = task.losses(task.logits(network, windows), windows)
    assert per_row.shape == (4,)
    sums = per_row * torch.bincount(torch.from_numpy(windows.question))
    assert float(sums.sum()) == pytest.approx(expected, rel=1e-5)


@pytest.fixture(scope="module")
def trained():
    task, network = QuestionAnswering.from_rows(rows()), model(hidden_dropout=0.0, attention_dropout=0.0)
    fit(network, task, task.examples(rows(), tokenizer(), 64), epochs=90, lr=4e-3, batch_size=4, seed=0)
    return task, network.eval()


def test_it_learns_answers_and_when_there_is_none(trained):
    task, network = trained
    windows = task.examples(rows(), tokenizer(), 64)
    logits = task.logits(network, windows)
    answers = task.answers(logits, windows)
    assert [answer["answer"] for answer in answers] == ["old man", "lowest road", "story", ""]
    assert answers[3]["start"] is None and answers[3]["score"] == answers[3]["no_answer_score"] > 0.5
    assert all(answer["score"] > 0.5 > answer["no_answer_score"] for answer in answers[:3])
    assert all(task.is_right(windows, row, answer) for row, answer in enumerate(answers))


def test_the_threshold_is_chosen_after_training_and_travels(trained):
    task, network = trained
    own = QuestionAnswering(task.may_refuse)
    windows = own.examples(rows(), tokenizer(), 64)
    logits = own.logits(network, windows)
    before = own.score(logits, windows).metrics
    own.tune_threshold(logits, windows)
    assert own.threshold is not None and len(own.threshold.seen) == 4
    again = QuestionAnswering.from_json(json.loads(json.dumps(own.to_json())))
    assert again.to_json() == own.to_json() and again.answers(logits, windows) == own.answers(logits, windows)
    # The rows that chose it are scored by halves, before and after.
    assert again.score(logits, windows).metrics == before
    other = [ask("An older man told it.", "older man", name="z"), ask("She walked.", question="Why?", name="y")]
    fresh = own.examples(other, tokenizer(), 64)
    metrics = own.score(own.logits(network, fresh), fresh).metrics
    assert set(metrics) >= {"exact_match", "f1", "has_answer_f1", "no_answer_f1"}
    assert all(math.isfinite(value) for value in metrics.values())


def test_without_unanswerable_training_rows_every_question_is_answered():
    task, network = QuestionAnswering.from_rows(rows()[:3]), model()
    assert task.may_refuse is False
    windows = task.examples(rows(), tokenizer(), 64)
    logits = task.logits(network, windows)
    assert all(answer["answer"] for answer in task.answers(logits, windows))
    task.tune_threshold(logits, windows)
    assert task.threshold is None


def test_a_threshold_of_ones_own_decides(trained):
    predictor = Predictor(trained[1], trained[0], 64)
    asked = [("Who told it?", CONTEXT)]
    assert Answerer(predictor, 1e6).answer(asked)[0].answer["answer"] == "old man"
    assert Answerer(predictor, -1e6).answer(asked)[0].answer["answer"] == ""
    with pytest.raises(InputError, match="finite"):
        Answerer(predictor, math.nan)


def test_pairs_of_texts_are_questions_too(trained):
    predictor = Predictor(trained[1], trained[0], 64)
    assert predictor.predict([("Who told it?", CONTEXT)])[0]["answer"] == "old man"
    with pytest.raises(InputError, match="needs its context"):
        list(predictor.stream(rows_of(["Who told it?"])))


def test_what_cannot_be_used_is_refused_in_words(tmp_path):
    with pytest.raises(InputError, match="no question with an answer"):
        QuestionAnswering.from_rows([ask(CONTEXT)], train_file="train.json")
    with pytest.raises(RowErrors, match="answers are missing"):
        QuestionAnswering().examples([ask(CONTEXT, known=False)], tokenizer(), 64, file="dev.json")
    with pytest.raises(InputError, match="no usable row"):
        QuestionAnswering().examples([ask(CONTEXT, known=False)], tokenizer(), 64, skip_bad_rows=True)
    with pytest.raises(InputError, match="Unknown column role 'text' of questions"):
        QuestionAnswering.read(tmp_path / "q.json", columns={"text": "body"})
    (tmp_path / "q.json").write_text('{"data": []}')
    with pytest.raises(InputError, match="no columns to map"):
        QuestionAnswering.read(tmp_path / "q.json", columns={"question": "body"})
    for facts in ({"may_refuse": "yes"}, {"threshold": 3}):
        with pytest.raises(ModelFolderError):
            QuestionAnswering.from_json({"task": "qa", **facts})


# -- The trace of an answer ------------------------------------------------------------------------------------------

QUESTION = "What is the fashion capital of China?"
CAPITALS = (
    "Shanghai is the largest city of China, and many people there call it the fashion capital of China."  # 18 words
)


def test_the_answer_is_the_tenth_of_27_tokens_and_of_28_with_the_closing_one():
    trace = trace_answer(QUESTION, CAPITALS, (0, len("Shanghai")))
    assert (trace.splitter, trace.num_tokens_without_end, len(trace.tokens)) == ("whitespace", 27, 28)
    assert trace.tokens[-1].text == "[SEP]"
    assert (trace.start, trace.end, trace.answer) == ("TK10", "TK10", "Shanghai")
    assert [token.text for token in trace.tokens[:10]] == ["[CLS]", *QUESTION.split(), "[SEP]", "Shanghai"]
    assert (
        str(trace).splitlines()[0]
        == "28 tokens (whitespace), 27 without the final one; start=TK10 end=TK10 answer: Shanghai"
    )
    assert [line for line in str(trace).splitlines() if line.startswith(">")] == ["> TK10  Shanghai"]


@pytest.mark.parametrize("span", [(-1, 3), (5, 5), (9, 4), (0, 1000), (8, 9)])
def test_what_is_no_answer_is_refused(span):
    with pytest.raises(InputError, match=r"not in its context|No token"):
        trace_answer(QUESTION, CAPITALS, span)


# -- Windows on contexts ---------------------------------------------------------------------------------------------

KINDS = ["wordpiece", "byte-bpe", "word", "char"]


def context_ids(windows, index):
    first = windows.first[index]
    return windows.input_ids[index][first : first + len(windows.spans[index])]


@given(
    words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=60),
    room=st.integers(16, 40),
    stride=st.integers(0, 5),
    kind=st.sampled_from(KINDS[:2]),
)
def test_windows_overlap_by_the_stride_and_cover_the_context(words, room, stride, kind):
    question = ask(" ".join(words), question="old?")
    windows = make_windows([question], tokenizer(kind), room, stride=stride)
    whole = tokenizer(kind)(question.context, add_special_tokens=False)
    parts = [context_ids(windows, index).tolist() for index in range(len(windows))]
    joined = list(parts[0])
    for before, part in zip(parts, parts[1:], strict=False):
        assert stride == 0 or before[-stride:] == part[:stride]
        joined += part[stride:]
    assert joined == whole.ids
    assert all(len(ids) <= room for ids in windows.input_ids)
    assert all(len(ids) == room for ids in windows.input_ids[:-1])
    # The frame of every window is the same: [CLS] question [SEP] ... [SEP].
    assert len({tuple(ids[:first]) for ids, first in zip(windows.input_ids, windows.first, strict=True)}) == 1
    assert len({ids[-1] for ids in windows.input_ids}) == 1


@given(words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=50), data=st.data(), kind=st.sampled_from(KINDS))
def test_a_window_points_at_the_answer_or_at_its_first_token(words, data, kind):
    context = " ".join(words)
    start = data.draw(st.integers(0, len(context) - 1))
    end = data.draw(st.integers(start + 1, min(len(context), start + 30)))
    question = ask(context, (start, end), question="old?")
    windows = make_windows([question], tokenizer(kind), 40, stride=5)
    assert windows.targets is not None
    text = context[start:end]
    edges = word_edges(context)
    first_char, last_char = edges[start, 0], edges[end - 1, 1]  # the whole words of the answer
    found = 0
    for index, (begin, last) in enumerate(windows.targets.tolist()):
        spans = windows.spans[index]
        touched = [place for place, (a, b) in enumerate(spans.tolist()) if a < last_char and b > first_char]
        if (begin, last) == (0, 0):
            is_whole = touched and spans[touched[0]][0] <= first_char and spans[touched[-1]][1] >= last_char
            assert not (is_whole and text.strip()) or len(windows) > 1
            continue
        found += 1
        first = windows.first[index]
        assert [begin - first, last - first] == [touched[0], touched[-1]]
        assert {begin, last} <= set(answer_tokens(windows, index))
    assert (found == 0) == (list(windows.unreachable) == [0])


def test_there_are_no_targets_where_answers_are_not_known():
    windows = make_windows([ask(CONTEXT, known=False), ask(CONTEXT, "old man")], tokenizer(), 200)
    assert windows.targets is None and "sequence" not in windows.batch([0, 1]).labels


def test_an_answer_longer_than_every_window_is_named():
    windows = make_windows([ask(CONTEXT, CONTEXT), ask(CONTEXT, "old")], tokenizer(), 24, stride=4)
    assert windows.targets is not None and list(windows.unreachable) == [0]
    assert bool((windows.targets[torch.from_numpy(windows.question == 0)] == 0).all())


def test_packs_are_sorted_by_length_and_say_which_window_each_is():
    questions = [ask(CONTEXT, "old man"), ask("An old man.", "old"), ask(CONTEXT[:40])]
    windows = make_windows(questions, tokenizer(), 30, stride=4)
    batch = windows.batch(range(len(windows)))
    assert batch.lengths == sorted(batch.lengths)
    assert windows.targets is not None
    for place, index in enumerate(batch.labels["example"].tolist()):
        begin, end = batch.cu_seqlens[place], batch.cu_seqlens[place + 1]
        assert batch.input_ids[begin:end].tolist() == windows.input_ids[index].tolist()
        assert batch.labels["sequence"][place].tolist() == windows.targets[index].tolist()
    assert batch.token_type_ids is not None and set(batch.token_type_ids.tolist()) == {0, 1}


def test_questions_on_one_context_are_as_if_alone():
    questions = [ask(CONTEXT, question=text) for text in ("Who?", "Which old road?", "the " * 60)]
    questions.insert(1, ask("Another old story."))
    together = make_windows(questions, tokenizer(), 40, stride=4)
    alone = [make_windows([question], tokenizer(), 40, stride=4) for question in questions]
    assert [ids.tolist() for ids in together.input_ids] == [ids.tolist() for one in alone for ids in one.input_ids]
    assert together.question.tolist() == [index for index, one in enumerate(alone) for _ in range(len(one))]


def test_long_questions_lose_their_end_and_are_counted():
    counts = TextCounts()
    question = ask(CONTEXT, question="old " * 100)
    windows = make_windows([question], tokenizer(), 200, max_question_tokens=10, counts=counts)
    whole = tokenizer()(question.question, add_special_tokens=False).ids
    assert windows.input_ids[0][1:11].tolist() == whole[:10]
    assert (counts.texts, counts.cut_texts, counts.cut_tokens) == (1, 1, len(whole) - 10)
    half = make_windows([question], tokenizer(), 43, stride=3)
    assert half.first.tolist() == [1 + 20 + 1] * len(half)  # 40 tokens plus the three special ones


def test_settings_that_leave_no_room_are_refused():
    for options in ({"max_length": 4}, {"max_question_tokens": 0}, {"stride": -1}):
        with pytest.raises(InputError, match="no room"):
            make_windows([ask(CONTEXT)], tokenizer(), **{"max_length": 40, **options})
    with pytest.raises(InputError, match="stride=30 must be smaller than the"):
        make_windows([ask(CONTEXT)], tokenizer(), 30, stride=30)


def test_a_very_long_context_takes_time_in_proportion():
    """Ten questions on 50,000 characters; four times as much takes no more than about four times as long."""
    sentence = "The old man told an older story; she walked along the lowest road. "

    def seconds(characters):
        context = sentence * (characters // len(sentence) + 1)
        questions = [ask(context, (len(context) - 30, len(context) - 20), name=str(n)) for n in range(10)]
        begin = time.thread_time()
        windows = make_windows(questions, tokenizer(), 384)
        assert len(windows) > 10 * characters / (4 * 384) and not list(windows.unreachable)
        return time.thread_time() - begin

    seconds(10_000)
    assert seconds(200_000) < 12 * max(0.05, seconds(50_000))


# -- Answers from logits ---------------------------------------------------------------------------------------------


def random_logits(windows, seed, coarse=False):
    generator = np.random.default_rng(seed)
    values = [generator.normal(scale=3, size=(len(ids), 2)) for ids in windows.input_ids]
    return [np.round(value) if coarse else value.astype(np.float32) for value in values]


def brute_force(windows, logits, question, max_answer_tokens):
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


def sharp(windows, window, start, end, height=9.0):
    values = np.zeros((len(windows.input_ids[window]), 2))
    values[start, 0] = values[end, 1] = height
    return values


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


# -- Scores by the official definition -------------------------------------------------------------------------------


def words_of(text):
    kept = [character for character in text.lower() if character not in string.punctuation]
    runs: list[str] = []  # of letters and digits, and the text between them
    for character in kept:
        if runs and runs[-1][-1].isalnum() == character.isalnum():
            runs[-1] += character
        else:
            runs.append(character)
    return "".join(" " if run in ("a", "an", "the") else run for run in runs).split()


def f1_of(given, wanted):
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


def by_definition(answer, golds):
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


def generated_cases(count):
    """Answers that are often near a gold one: a piece more or less, other case, other punctuation, or none."""
    draw = random.Random(0)

    def phrase():
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


def question(name, golds):
    return Question(name, f"Q{name}?", "context", tuple(ReferenceAnswer(text, 0) for text in golds), 1, "the tests")


def found(answer, no_answer):
    return AnswerCandidates((Span(answer, 0, len(answer), 0.0, 0.5),) if answer else (), no_answer, 0.5)


def scored_cases(count, seed=0):
    """The cases as a scored file, with no-answer scores that know something and often tie."""
    draw = np.random.default_rng(seed)
    cases = [CASES[place] for place in draw.permutation(len(CASES))[:count]]
    signal = np.array([0.0 if golds else 1.0 for _, golds in cases])
    scores = np.round(draw.normal(size=count) + signal, 1)
    questions = [question(str(n), golds) for n, (_, golds) in enumerate(cases)]
    scored = score_all(questions, [found(answer, score) for (answer, _), score in zip(cases, scores, strict=True)])
    return scored, [answer for answer, _ in cases], [golds for _, golds in cases], scores


def by_definition_all(answers, golds):
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


def report(scored, threshold=None):
    return summarize(scored.answered if threshold is None else scored.outcome(threshold.value), scored.has_answer)


def halves(scored, seed=0):
    one, other = two_halves(scored.keys, scored.has_answer, generator(seed, "qa-halves"))
    return scored.take(one), scored.take(other)


@pytest.mark.parametrize("seed", range(12))
def test_no_threshold_does_better_than_the_tuned_one(seed):
    scored, answers, golds, scores = scored_cases(5 + 25 * seed, seed)
    tuned = tune_threshold(scored)
    given, refused = (
        np.array([by_definition(text, wanted)[1] for text, wanted in zip(texts, golds, strict=True)])
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
    with pytest.raises(InputError, match="needs rows"):
        tune_threshold(scored.take(np.zeros(10, dtype=bool)))
    for facts in ({}, {"value": "1"}, {"value": float("nan")}, {"value": 1.0, "tuned_on": "x"}, {"value": True}):
        with pytest.raises(ModelFolderError, match="threshold"):
            Threshold.from_json(facts)
