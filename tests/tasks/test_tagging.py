"""Tagging: words, windows, tags and their schemes, scores and answers."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.samples import TEXTS, tiny, tokenizer
from maskwright.core.errors import InputError, ModelFolderError, RowErrors
from maskwright.hub.folders import load_model
from maskwright.tasks.base import task_from_json
from maskwright.tasks.evaluation.scoring import worst_errors
from maskwright.tasks.examples import rows_of
from maskwright.tasks.tagging.examples import window_sentences
from maskwright.tasks.tagging.schemes import (
    SCHEMES,
    Entity,
    agreement,
    encode_tags,
    find_notation,
    repair,
    scheme_tags,
    spans,
    split_tag,
    strict_spans,
)
from maskwright.tasks.tagging.task import Tagging
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.text.words import Sentence

WORDS = sorted({word for text in TEXTS for word in text.split()})


def sentence(words, tags=None, line=1):
    return Sentence.of_words(words.split(), None if tags is None else tags.split(), line, "rows.conll")


def test_a_word_of_which_nothing_is_left_becomes_the_unknown_token():
    tok = tokenizer()
    examples = window_sentences([sentence("cat \u200d dog")], tok, 16)
    assert examples.places[0].tolist() == [1, 2, 3]
    assert examples.input_ids[0][2] == tok.unk_id


@pytest.mark.parametrize("kind", ["byte-bpe", "bpe", "char", "word"])
def test_other_tokenizers_find_the_first_piece_too(kind):
    tok = Tokenizer.train_from_iterator(iter(TEXTS * 3), kind=kind, vocab_size=300)
    words = [word for text in TEXTS for word in text.split()][:12]
    examples = window_sentences([Sentence.of_words(words, None, 1, "x")], tok, None)
    encoding = tok(" ".join(words))
    start = 0
    for word, place in zip(words, examples.places[0], strict=True):
        assert encoding.offsets[place][0] in (start, start - 1), f"{word} is scored at another position"
        start += len(word) + 1


def test_a_batch_says_where_words_and_chains_are():
    task = Tagging.from_rows([sentence("cat dog", "B-X O"), sentence("dog", "O")])
    examples = task.examples([sentence("cat dog", "B-X O"), sentence("dog", "O")], tokenizer(), 16)
    batch = examples.batch([0, 1])  # the shorter one first
    assert batch.labels["words"].tolist() == [2, 0, 1]
    assert batch.labels["chain"].tolist() == [1, 2]
    assert [task.labels[number] for number in batch.labels["tags"]] == ["O", "B-X", "O"]
    assert batch.labels["is_first"].all() and batch.labels["is_last"].all()
    long = task.examples([sentence("cat " * 30, "O " * 30)], tokenizer(), 10)
    ends = long.batch(range(len(long)))
    order = ends.labels["example"].tolist()
    assert [order[place] for place in ends.labels["is_first"].nonzero().flatten().tolist()] == [0]
    assert [order[place] for place in ends.labels["is_last"].nonzero().flatten().tolist()] == [len(long) - 1]


def test_tags_are_repaired_and_counted():
    rows = [sentence("a b c", "O B-X I-X"), sentence("a b", "I-X O")]
    task = Tagging.from_rows(rows)
    examples = task.examples(rows, tokenizer())
    assert task.gold_of(examples) == [["O", "B-X", "I-X"], ["B-X", "O"]]
    assert examples.num_repaired == 1
    assert "1 of 5 train tags invalid in BIO" in task.notes(examples, "train", 16)[0]


def test_unknown_dev_tags_are_all_named_with_their_lines():
    dev = Sentence.of_words(["a", "b", "c"], ["B-ORG", "I-X", "PERSON"], 7, "dev.conll", [7, 8, 9])
    with pytest.raises(RowErrors) as caught:
        Tagging.from_rows([sentence("a b", "B-X O")]).read_labels([dev])
    assert [row.line for row in caught.value.rows] == [7, 9]
    task = Tagging.from_rows([sentence("a b", "B-X O")])
    examples = task.examples([dev, sentence("a", "O")], tokenizer(), skip_bad_rows=True)
    assert (examples.num_rows, examples.num_skipped) == (1, 1)


def test_the_task_travels_as_json():
    task = Tagging.from_rows([sentence("a b", "B-X O")], crf=True)
    again = task_from_json(json.loads(json.dumps(task.to_json())))
    assert again.to_json() == task.to_json()
    assert again.head == "tagging-crf"
    with pytest.raises(ModelFolderError, match="two tags"):
        task_from_json({"task": "tagging"})
    with pytest.raises(ModelFolderError, match="tagging scheme"):
        task_from_json({"task": "tagging", "labels": ["O", "B-X"], "scheme": "BIX"})


def logits_for(task, tags):
    """Logits that say these tags with a margin of 4: float [words, labels]."""
    numbers = torch.tensor([task.labels.index(tag) for tag in tags.split()])
    return torch.nn.functional.one_hot(numbers, task.num_labels).float() * 4


def test_entities_are_cut_from_the_text_as_given():
    task = Tagging(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
    text = "Albert is going to  United States\tof America."
    examples = task.unlabeled([Sentence.of_text(text, 1, "x")], tokenizer(), 16, counts=window_counts())
    tags = "B-PER O O O B-LOC I-LOC I-LOC I-LOC O"
    answer = task.answers(logits_for(task, tags), examples)[0]
    found = [(entity["type"], entity["text"]) for entity in answer["entities"]]
    assert found == [("PER", "Albert"), ("LOC", "United States\tof America")]
    assert all(text[entity["start"] : entity["end"]] == entity["text"] for entity in answer["entities"])
    assert answer["entities"][0]["score"] == pytest.approx(torch.tensor([4.0, 0, 0, 0, 0]).softmax(0).max().item())
    assert answer["tags"] == tags.split()


def window_counts():
    from maskwright.text.tokenizers.encoding import TextCounts

    return TextCounts()


def test_scores_are_over_entities_and_over_words():
    rows = [sentence("a b c", "B-X I-X O"), sentence("a", "B-X")]
    task = Tagging.from_rows(rows)
    examples = task.examples(rows, tokenizer())
    found = task.score(logits_for(task, "O I-X O B-X"), examples).metrics
    assert found["accuracy"] == 0.75
    assert (found["entity_precision"], found["entity_recall"], found["entity_f1"]) == (0.5, 0.5, 0.5)
    assert (found["strict_entity_precision"], found["strict_entity_recall"]) == (1.0, 0.5)
    worst = worst_errors(task, examples, logits_for(task, "O I-X O B-X"))
    assert [(error["line"], error["tags"]) for error in worst] == [(1, ["O", "I-X", "O"])]


def test_a_pair_of_texts_is_refused():
    task = Tagging(["O", "B-X"])
    with pytest.raises(InputError, match="a text pair cannot be tagged"):
        task.unlabeled(rows_of([("a", "b")]), tokenizer(), 16, counts=window_counts())


def test_a_crf_loaded_with_its_labels_in_another_order_scores_the_same(tmp_path):
    labels, other = ["O", "B-X", "I-X"], ["I-X", "O", "B-X"]
    model = tiny("tagging-crf", labels=labels)
    with torch.no_grad():
        for parameter in model.head.crf.parameters():
            parameter.normal_()
    model.save(tmp_path / "m", facts=Tagging(labels, crf=True).to_json())
    loaded, report = load_model(tmp_path / "m", "tagging-crf", labels=other)
    assert not report.new
    rows = [sentence("the cat sat on the mat", "O B-X O O O O")]
    first, second = (
        task.logits(network, task.examples(rows, tokenizer()))
        for task, network in ((Tagging(labels, crf=True), model), (Tagging(other, crf=True), loaded))
    )
    torch.testing.assert_close(first[:, [labels.index(label) for label in other]], second)


@settings(max_examples=40, deadline=None)
@given(
    row=st.lists(st.sampled_from([*WORDS, "unbelievably" * 4]), min_size=1, max_size=60), max_length=st.integers(3, 20)
)
def test_every_word_is_scored_by_the_window_with_the_most_context(row, max_length):
    tok = tokenizer()
    examples = window_sentences([Sentence.of_words(row, None, 1, "x")], tok, max_length)
    pieces = tok(" ".join(row), add_special_tokens=False)
    whole, starts = len(pieces.ids), [start for start, _ in pieces.offsets]
    begin = 0
    bounds = []
    for number, ids in enumerate(examples.input_ids):
        bounds.append((begin, begin + len(ids) - 2))
        assert list(ids[1:-1]) == pieces.ids[slice(*bounds[-1])], f"window {number} is another piece of the sentence"
        begin += max(len(ids) - 2 - (max_length - 2) // 4, 1)

    def around(piece, bound):
        start, end = bound
        if not start <= piece < end:
            return -1
        return min(whole if start == 0 else piece - start, whole if end == whole else end - 1 - piece)

    judge = {word: window for window, own in enumerate(examples.words) for word in own.tolist()}
    place = 0
    assert sorted(judge) == list(range(len(row)))
    for word, text in enumerate(row):
        seen = [around(starts.index(place), bound) for bound in bounds]
        assert judge[word] == int(np.argmax(seen))
        place += len(text) + 1


def test_a_sentence_of_many_thousand_words_takes_memory_in_proportion():
    row = Sentence.of_words([WORDS[n % len(WORDS)] for n in range(40_000)], None, 1, "x")
    tracemalloc.start()
    examples = window_sentences([row], tokenizer(), 64)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(map(len, examples.words)) == 40_000
    assert peak < 300e6  # windows by pieces would be a table of a billion bytes


def rows_of_tags(*tags):
    return [
        Sentence.of_words([WORDS[(3 * number + place) % len(WORDS)] for place in range(len(row.split()))], row.split(),
                          number + 1, "rows.conll")
        for number, row in enumerate(tags)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("train", "labels", "scheme"),
    [
        (["B I O", "B O O"], ["O", "B", "I"], "BIO"),
        (["b-per i-per o", "b-loc o o"], ["o", "b-loc", "i-loc", "b-per", "i-per"], "BIO"),
        (["PER_B PER_I O", "LOC_B O O"], ["O", "LOC_B", "LOC_I", "PER_B", "PER_I"], "BIO"),
        (["PER PER O O", "LOC O O"], ["O", "LOC", "PER"], "IO"),
        (["B-X L-X O", "U-X O O"], ["O", "B-X", "I-X", "L-X", "U-X"], "BILOU"),
        (["B-X E-X O", "W-X O O"], ["O", "B-X", "M-X", "E-X", "W-X"], "BMEWO"),
        (["I-X I-X O", "I-X B-X O"], ["O", "B-X", "I-X"], "BIO"),
    ],
)
def test_predictions_are_written_as_the_training_data_write_tags(train, labels, scheme):
    rows = rows_of_tags(*train)
    task = Tagging.from_rows(rows)
    assert (task.labels, task.scheme, task.main_metric) == (labels, scheme, "entity_f1")
    examples = task.examples(rows, tokenizer())
    right = torch.nn.functional.one_hot(examples.targets, task.num_labels).float() * 4
    assert task.score(right, examples).metrics["entity_f1"] == 1.0
    first = task.answers(right, examples)[0]
    assert all(tag in labels for tag in first["tags"]) and len(first["entities"]) == 1
    again = task_from_json(json.loads(json.dumps(task.to_json())))
    assert (again.labels, again.tags, again.scheme) == (task.labels, task.tags, task.scheme)
    assert Tagging(labels).tags == task.tags, "labels of a model without facts are read alike"


@pytest.mark.parametrize(
    ("train", "dev", "gold"),
    [
        (["B-X L-X O", "U-X O"], "B-X I-X O B-X", ["B-X", "L-X", "O", "U-X"]),
        (["B-X I-X O"], "X_B X_L O X_U", ["B-X", "I-X", "O", "B-X"]),
        (["B-X I-X O"], "I-X I-X O I-X B-X", ["B-X", "I-X", "O", "B-X", "B-X"]),
        (["B-X I-X O", "B-X O O"], "b-x i-x o", ["B-X", "I-X", "O"]),
        (["PER PER O O", "O O"], "B-PER I-PER O", ["I-PER", "I-PER", "O"]),
    ],
)
def test_dev_data_in_another_scheme_or_spelling_have_the_same_entities(train, dev, gold):
    task = Tagging.from_rows(rows_of_tags(*train), rows_of_tags(dev))
    examples = task.examples(rows_of_tags(dev), tokenizer())
    assert task.gold_of(examples) == [gold]
    assert examples.num_repaired == 0
    assert len(task.facts(examples, "dev")) == (examples.gold.notation != task.notation)


def test_entities_that_the_scheme_cannot_tell_apart_are_counted():
    task = Tagging.from_rows(rows_of_tags("I-X I-X O"))
    examples = task.examples(rows_of_tags("B-X B-X O"), tokenizer())
    assert examples.gold.num_merged == 1
    assert any("IO cannot tell apart" in note for note in task.notes(examples, "dev", 16))


def test_tags_that_fit_nothing_are_named_with_their_lines_and_the_scheme():
    with pytest.raises(RowErrors, match="(?s)'Q-PER'.*'PERSON'") as caught:
        rows = rows_of_tags("B-PER I-PER O Q-PER PERSON", "B-PER O X Y Z")
        Tagging.from_rows(rows).read_labels(rows)
    assert len(caught.value.rows) == 5
    assert all("tags are BIO" in fault.reason for fault in caught.value.rows)


@pytest.mark.parametrize("crf", [False, True])
def test_words_without_a_tag_are_context_only(crf):
    rows = rows_of_tags("B-X I-X - - O B-X", "- - -", "O B-X")
    task = Tagging.from_rows(rows, crf=crf)
    assert task.labels == ["O", "B-X", "I-X"]
    examples = task.examples(rows, tokenizer(), 16)
    assert (examples.num_rows, examples.num_skipped) == (2, 1)
    note = next(note for note in task.notes(examples, "train", 16) if "no tag" in note)
    assert "5 train words have no tag ('-')" in note
    batch = examples.batch([0, 1])
    assert batch.labels["words"].tolist() == [6, 7, 0, 1, 4, 5]
    assert batch.labels["chain"].tolist() == [2, 2, 2]
    assert batch.labels["is_first"].tolist() == [True, True, False]
    assert batch.labels["is_last"].tolist() == [True, False, True]
    model = tiny(task.head, labels=task.labels)
    task.init_from_counts(model, examples)
    assert task.outcome(model, batch).counts == {"tagging": 6}
    tags = ["B-X", "I-X", "I-X", "B-X", "O", "B-X", "O", "B-X"]
    guess = logits_for(task, " ".join(tags))
    found = task.score(guess, examples).metrics
    assert (found["accuracy"], found["entity_f1"]) == (1.0, 1.0)
    assert task.is_right(examples, 0, task.answers(guess, examples)[0])
    assert len(task.decisions(guess, examples).gold) == 6


def test_texts_are_split_as_the_model_declares():
    def unlabeled(task, text):
        return task.unlabeled(rows_of([text]), tokenizer(), 16, counts=window_counts()).rows[0].words

    characters = Tagging.from_rows(rows_of_words("我 在 2 0 1 8", "他 在 上 海"))
    assert characters.segmenter == "characters"
    assert unlabeled(characters, "在 2018") == ("在", "2", "0", "1", "8")
    given = Tagging.from_rows(rows_of_words("สวัสดี ครับ ผม"))
    assert task_from_json(given.to_json()).segmenter is None
    with pytest.raises(InputError, match="pass words"):
        unlabeled(given, "สวัสดีครับ")
    examples = given.examples(rows_of_words("สวัสดี ครับ ผม"), tokenizer(), 16)
    assert any("predictions need words" in note for note in given.notes(examples, "train", 16))
    with pytest.raises(ModelFolderError, match="segmenter"):
        task_from_json({**given.to_json(), "segmenter": "scissors"})


def rows_of_words(*texts):
    return [Sentence.of_words(text.split(), ["B-X", *["O"] * text.count(" ")], 1, "x") for text in texts]


def test_what_has_no_shape_is_no_word_and_no_entity():
    task = Tagging(["O", "B-X", "I-X"])
    examples = task.unlabeled(rows_of(["I \u2764\ufe0f NY"]), tokenizer(), 16, counts=window_counts())
    assert examples.rows[0].words == ("I", "\u2764\ufe0f", "NY")
    given = task.unlabeled([sentence("NY \ufe0f")], tokenizer(), 16, counts=window_counts())
    assert [one["text"] for one in task.answers(logits_for(task, "B-X B-X"), given)[0]["entities"]] == ["NY"]


# -- Tags and entities against a table of rules that is written another way, as conlleval and ------------------------

# conlleval: between which prefixes (before, now) of one type an entity ends, or begins.
ENDS = {("E", any_) for any_ in "BIESO"} | {("S", any_) for any_ in "BIESO"}
ENDS |= {(one, other) for one in "BI" for other in "BSO"}
BEGINS = {(any_, "B") for any_ in "BIESO"} | {(any_, "S") for any_ in "BIESO"}
BEGINS |= {(one, other) for one in "ESO" for other in "EI"}


def conlleval(tags):
    """Entities by the two tables of conlleval, with types minded apart."""
    found, start, before, type_before = [], 0, "O", ""
    for place, tag in enumerate([*tags, "O"]):
        now, type_now = split_tag(tag)
        if (before, now) in ENDS or (before != "O" and type_before != type_now):
            found.append(Entity(type_before, start, place))
        if (before, now) in BEGINS or (now != "O" and type_before != type_now):
            start = place
        before, type_before = now, type_now
    return found


def well_formed(tags, scheme):
    """Entities of the strict mode, found by asking of every stretch whether it is spelled as the scheme has it."""
    found = []
    for start in range(len(tags)):
        for end in range(start + 1, len(tags) + 1):
            type = split_tag(tags[start])[1]
            wanted = encode_tags([Entity(type, 0, end - start)], end - start, scheme) if type else None
            goes_on = end < len(tags) and tags[end] == f"I-{type}"
            if list(tags[start:end]) == wanted and not (scheme == "BIO" and goes_on):
                found.append(Entity(type, start, end))
    return found


def tags_of(scheme):
    return st.lists(st.sampled_from(scheme_tags(scheme, ["PER", "a-b"])), max_size=7)


@given(st.one_of(map(tags_of, SCHEMES)))
def test_entities_are_those_of_conlleval(tags):
    assert spans(tags) == conlleval(tags)


@pytest.mark.parametrize("scheme", ["BIO", "BIOES", "BILOU"])
@given(data=st.data())
def test_strict_entities_are_those_spelt_as_the_scheme_says(scheme, data):
    tags = data.draw(tags_of(scheme))
    assert strict_spans(tags, scheme) == well_formed(tags, scheme)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(data=st.data())
def test_repair_keeps_the_entities_and_is_done_once(scheme, data):
    tags = data.draw(st.one_of(map(tags_of, SCHEMES)))
    mended, changed = repair(tags, scheme)
    if scheme != "IO":  # in which neighbors of one type are one
        assert spans(mended) == spans(tags)
        assert strict_spans(mended, scheme) == spans(tags)
    assert repair(mended, scheme) == (mended, 0)
    assert changed == sum(one != other for one, other in zip(tags, mended, strict=True))


# Scheme, how a file writes entities of two and one words, and how schemes and reports have them.
WRITTEN = [
    ("BIO", "B-PER I-PER O B-LOC", "B-PER I-PER O B-LOC"),
    ("BIO", "b-per i-per o b-loc", "B-per I-per O B-loc"),
    ("BIO", "B_PER I_PER O B_LOC", "B-PER I-PER O B-LOC"),
    ("BIO", "PER-B PER-I O LOC-B", "B-PER I-PER O B-LOC"),
    ("BIO", "PER_B PER_I O LOC_B", "B-PER I-PER O B-LOC"),
    ("BIO", "per:b per:i o loc:b", "B-per I-per O B-loc"),
    ("BIO", "B I O B", "B-ENT I-ENT O B-ENT"),
    ("BIO", "b i o b", "B-ENT I-ENT O B-ENT"),
    ("BIO", "B-O I-O O B-B", "B-O I-O O B-B"),
    ("BIO", "B-a-b I-a-b O B-a_b", "B-a-b I-a-b O B-a_b"),
    ("IO", "I-PER I-PER O I-LOC", "I-PER I-PER O I-LOC"),
    ("IO", "PER PER O LOC O O", "I-PER I-PER O I-LOC O O"),
    ("IO", "I I O I", "I-ENT I-ENT O I-ENT"),
    ("IOB1", "I-PER I-PER O I-LOC B-LOC", "I-PER I-PER O I-LOC B-LOC"),
    ("IOB1", "PER_I PER_I O LOC_I LOC_B", "I-PER I-PER O I-LOC B-LOC"),
    ("BIOES", "B-PER E-PER O S-LOC", "B-PER E-PER O S-LOC"),
    ("BIOES", "B E O S I", "B-ENT E-ENT O S-ENT I-ENT"),
    ("BILOU", "B-PER L-PER O U-LOC", "B-PER L-PER O U-LOC"),
    ("BILOU", "per-b per-l o loc-u", "B-per L-per O U-loc"),
    ("BMEWO", "B-PER E-PER O W-LOC", "B-PER E-PER O W-LOC"),
    ("BMES", "B-PER M-PER E-PER O S-LOC", "B-PER M-PER E-PER O S-LOC"),
    ("BMES", "B E S B M E", "B-ENT E-ENT S-ENT B-ENT M-ENT E-ENT"),
    ("BIO", "B-PER I-PER O - O _", "B-PER I-PER O  O "),
]


@pytest.mark.compatibility(
    "seqeval 1.2.2",
    theirs="the first letter is the prefix of any tag: ORG is outside, PER is the type ER, b-per begins no entity",
    ours="all of these spellings are recognized in the file, and predictions are written as the file writes tags",
)
@pytest.mark.parametrize(("scheme", "written", "read"), WRITTEN)
def test_every_scheme_is_read_and_written_in_every_spelling(scheme, written, read):
    tags = written.split()
    notation = find_notation(tags, [tags])
    assert (notation.scheme, [notation.read(tag) for tag in tags]) == (scheme, read.split(" "))
    assert [notation.write(tag) for tag in read.split()] == [tag for tag in tags if notation.read(tag)]


@pytest.mark.parametrize(
    "tags",
    [
        "NOUN VERB X ADJ",
        "N V O ^ O ! D P O S E L N N V V",  # O is a pronoun in the tags of tweets
        "S-x NOUN VERB ADJ",
        "O O",
        "N-S---MN1- V3SPIA--- U--------",
    ],
)
def test_plain_tags_have_no_scheme(tags):
    assert find_notation(tags.split(), [tags.split()]) is None


def test_tags_that_fit_nothing_do_not_hide_the_scheme():
    notation = find_notation(["B-PER", "I-PER", "O", "-", "Q", "X", "PER"])
    assert (notation.scheme, [notation.read(tag) for tag in ("-", "Q", "PER")]) == ("BIO", ["", None, None])


def test_scores_are_counted_by_type_and_over_all():
    gold = [["B-PER", "I-PER", "O", "B-LOC"], ["O"]]
    found = [["B-PER", "O", "O", "B-LOC"], ["B-LOC"]]
    score = agreement(gold, found, spans)
    assert (score[""].precision, score[""].recall, score[""].f1) == (pytest.approx(1 / 3), 0.5, pytest.approx(0.4))
    assert (score["PER"].f1, score["LOC"].recall) == (0.0, 1.0)
    assert agreement([["O"]], [["O"]], spans)[""].f1 == 0.0


@pytest.mark.compatibility(
    "seqeval 1.2.2",
    theirs="a word whose tag is - (no annotation) is an entity of the type _",
    ours="words tagged - or _ are context: not learned, not scored, and counted",
)
def test_words_without_a_tag_are_not_scored():
    score = agreement([["B-PER", "I-PER", "", "O"]], [["B-PER", "I-PER", "I-PER", "O"]], spans)[""]
    assert (score.gold, score.found, score.both) == (1, 1, 1)
    assert repair(["O", "I-PER", ""], "BIO") == (["O", "B-PER", ""], 1)
