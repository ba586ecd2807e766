"""Windows on contexts equal those of transformers' fast tokenizers, and so do the answers' tokens."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maskwright.tasks.qa.windows import make_windows
from maskwright.text.readers.squad import read_questions
from maskwright.text.tokenizers.tokenizer import Tokenizer
from minilm import minilm_folder
from tasks.questions import WORDS, ask
from text.tokenizer_samples import CORPUS, any_text

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module", params=["minilm", "wordpiece", "byte-bpe"])
def both(request, tmp_path_factory):
    if request.param == "minilm":
        folder = minilm_folder()
    else:
        folder = tmp_path_factory.mktemp("tokenizer") / "tok"
        Tokenizer.train_from_iterator(CORPUS, request.param, 400).save(folder)
    return Tokenizer.load(folder), transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)


def theirs_windows(theirs, question, max_length, stride):
    fields = ("return_overflowing_tokens", "return_offsets_mapping", "return_token_type_ids")
    cut = {"truncation": "only_second", "max_length": max_length, "stride": stride}
    return theirs([question.question], [question.context], **cut, **dict.fromkeys(fields, True))


def their_target(encoded, window, start, end):
    """Where a window's answer is by the rule of the published fine-tuning scripts: 0 0 where it is not whole."""
    places = [place for place, text in enumerate(encoded.sequence_ids(window)) if text == 1]
    offsets = encoded["offset_mapping"][window]
    if not places or offsets[places[0]][0] > start or offsets[places[-1]][1] < end:
        return [0, 0]
    first = max(place for place in places if offsets[place][0] <= start)
    last = min(place for place in places if offsets[place][1] >= end)
    return [first, last]


def check(ours, theirs, question, max_length, stride):
    windows = make_windows([question], ours, max_length, stride=stride)
    encoded = theirs_windows(theirs, question, max_length, stride)
    assert [ids.tolist() for ids in windows.input_ids] == encoded["input_ids"]
    if windows.token_types is not None:
        assert [types.tolist() for types in windows.token_types] == encoded["token_type_ids"]
    for window, spans in enumerate(windows.spans):
        places = [place for place, text in enumerate(encoded.sequence_ids(window)) if text == 1]
        assert spans.tolist() == [list(encoded["offset_mapping"][window][place]) for place in places]
        assert not places or windows.first[window] == places[0]
        if windows.targets is not None and question.answers:
            gold = question.answers[0]
            target, other = windows.targets[window].tolist(), their_target(encoded, window, gold.start, gold.end)
            # A character may be several tokens: we take all of them, they begin at its last and end at its first.
            assert target[0] <= other[0] and target[1] >= other[1]
            offsets = encoded["offset_mapping"][window]
            assert offsets[target[0]][0] == offsets[other[0]][0] and offsets[target[1]][1] == offsets[other[1]][1]


@settings(max_examples=60)
@given(words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=80), stride=st.integers(0, 8), data=st.data())
def test_windows_and_answers_are_theirs(both, words, stride, data):
    context = " ".join(words)
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, min(len(words) - 1, first + 5)))
    start = len(" ".join(words[:first])) + (first > 0)
    end = len(" ".join(words[: last + 1]))
    check(*both, ask(context, (start, end), question="old?"), 32, stride)


@settings(max_examples=60)
@given(context=any_text, question=any_text, stride=st.integers(0, 3))
def test_windows_of_any_text_are_theirs(both, context, question, stride):
    ours, theirs = both
    if 0 < len(ours(question, add_special_tokens=False)) <= 12:
        check(ours, theirs, ask(context, question=question), 28, stride)


def test_windows_and_answers_of_real_questions_are_theirs(both, data_folder):
    ours, theirs = both
    for question in read_questions(data_folder / "squad2/dev.json.xz").rows[::40]:
        if len(ours(question.question, add_special_tokens=False)) <= 64:
            check(ours, theirs, question, 160, 48)
