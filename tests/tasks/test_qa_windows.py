"""Windows on contexts: every token in some window, characters kept, targets that point at the answer."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import InputError
from maskwright.tasks.qa.windows import Windows, make_windows
from maskwright.text.tokenizers.encoding import TextCounts
from maskwright.text.words import word_edges
from tasks.questions import WORDS, answer_tokens, ask, tokenizer
from text.tokenizer_samples import any_text

CONTEXT = "The old man told an older story. She walked along the lowest road, and the oldest of them was the finest."
KINDS = ["wordpiece", "byte-bpe", "word", "char"]


def context_ids(windows: Windows, index: int) -> np.ndarray:
    first = windows.first[index]
    return windows.input_ids[index][first : first + len(windows.spans[index])]


@pytest.mark.parametrize("kind", KINDS)
def test_one_window_is_the_tokenizers_own_pair(kind):
    question = ask(CONTEXT)
    windows = make_windows([question], tokenizer(kind), 400)
    pair = tokenizer(kind)(question.question, CONTEXT)
    assert len(windows) == 1 and windows.input_ids[0].tolist() == pair.ids
    types = windows.token_types[0].tolist() if windows.token_types else [0] * len(pair.ids)
    assert types == pair.type_ids
    own = [place for place, text in enumerate(pair.sequence_ids) if text == 1]
    assert answer_tokens(windows, 0) == own
    assert windows.spans[0].tolist() == [list(pair.offsets[place]) for place in own]


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


@given(
    words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=50),
    data=st.data(),
    kind=st.sampled_from(KINDS),
)
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


@given(context=any_text, question=any_text)
def test_any_text_gives_windows(context, question):
    windows = make_windows([ask(context, question=question)], tokenizer("byte-bpe"), 24, stride=3)
    assert len(windows) >= 1
    for spans in windows.spans:
        assert ((spans >= 0) & (spans <= len(context))).all()


def test_settings_that_leave_no_room_are_refused():
    for options in ({"max_length": 4}, {"max_question_tokens": 0}, {"stride": -1}):
        with pytest.raises(InputError, match="no room"):
            make_windows([ask(CONTEXT)], tokenizer(), **{"max_length": 40, **options})
    with pytest.raises(InputError, match="stride=30 must be smaller than the"):
        make_windows([ask(CONTEXT)], tokenizer(), 30, stride=30)


def test_a_very_long_context_takes_time_in_proportion():
    """100,000 characters, ten questions; and ten times as much takes no more than about ten times as long."""
    sentence = "The old man told an older story; she walked along the lowest road. "

    def seconds(characters: int) -> float:
        context = sentence * (characters // len(sentence) + 1)
        questions = [ask(context, (len(context) - 30, len(context) - 20), name=str(n)) for n in range(10)]
        begin = time.perf_counter()
        windows = make_windows(questions, tokenizer(), 384)
        assert len(windows) > 10 * characters / (4 * 384) and not list(windows.unreachable)
        return time.perf_counter() - begin

    seconds(10_000)
    assert seconds(100_000) < 10
    assert seconds(400_000) < 12 * max(0.05, seconds(100_000))
