"""Tokenizers: what holds for every kind, the trainers, and what is explained of them."""

import json
import lzma
import resource
import subprocess
import sys
import time
from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import islice, pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from maskwright.core import registry
from maskwright.core.errors import ConfigError, InputError
from maskwright.text.tokenizers import trainers
from maskwright.text.tokenizers.encoding import TextCounts
from maskwright.text.tokenizers.explain import SegmentationTracer, compare, explain, measure, parse_words
from maskwright.text.tokenizers.tokenizer import Tokenizer
from text.tokenizer_samples import CORPUS, KINDS, LECTURE, any_text, trained

every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
@given(text=any_text, pair=st.none() | any_text)
@settings(max_examples=40)
def test_any_text_is_encoded_and_every_token_points_into_it(kind, text, pair):
    encoding = trained(kind)(text, pair)
    lists = (encoding.tokens, encoding.offsets, encoding.type_ids, encoding.special_tokens_mask, encoding.word_ids)
    assert all(len(entries) == len(encoding.ids) == len(encoding) for entries in lists)
    assert all(0 <= id < trained(kind).vocab_size for id in encoding.ids)
    for (start, end), which in zip(encoding.offsets, encoding.sequence_ids, strict=True):
        if which is not None:
            assert 0 <= start <= end <= len((text, pair)[which])


@every_kind
def test_the_frame_is_cls_a_sep_b_sep_with_types_0_and_1(kind):
    tokenizer = trained(kind)
    assert [tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id] == [
        0,
        1,
        2,
        3,
        4,
    ]
    assert tokenizer.special_ids == {0, 1, 2, 3, 4}
    encoding = tokenizer("old man", "the road")
    seps = [index for index, token in enumerate(encoding.tokens) if token == "[SEP]"]
    assert encoding.tokens[0] == "[CLS]" and len(seps) == 2 and seps[1] == len(encoding) - 1
    assert encoding.type_ids == [0] * (seps[0] + 1) + [1] * (len(encoding) - seps[0] - 1)
    assert encoding.sequence_ids == [None] + [0] * (seps[0] - 1) + [None] + [1] * (seps[1] - seps[0] - 1) + [None]


@every_kind
@given(
    texts=st.lists(st.one_of(any_text, st.tuples(any_text, any_text)), max_size=5),
    max_length=st.none() | st.integers(3, 20),
)
@settings(max_examples=40)
def test_the_fast_path_gives_the_ids_of_the_full_one(kind, texts, max_length):
    tokenizer = trained(kind)
    encodings = tokenizer.encode_batch(texts, max_length)
    counts = TextCounts()
    ids, types = tokenizer.encode_ids(texts, max_length, counts=counts)
    assert ids == [encoding.ids for encoding in encodings]
    assert types == [encoding.type_ids for encoding in encodings]
    assert counts.cut_tokens == sum(encoding.num_truncated for encoding in encodings)
    assert counts.unknown_tokens == sum(encoding.num_unknown for encoding in encodings)
    assert counts.tokens == sum(map(len, encodings)) and counts.texts == len(texts)


def test_a_fresh_process_trains_the_same_files_and_encodes_the_same_ids(tmp_path):
    for kind in KINDS:
        trained(kind).save(tmp_path / kind)
    code = (
        "import sys, json; sys.path.insert(0, 'tests'); from text.tokenizer_samples import CORPUS, KINDS, trained\n"
        "from maskwright.text.tokenizers.tokenizer import Tokenizer\n"
        "for kind in KINDS:\n"
        f"    loaded, again = Tokenizer.load({str(tmp_path)!r} + '/' + kind), trained(kind)\n"
        "    print(json.dumps([loaded.files() == again.files(), [e.ids for e in loaded.encode_batch(CORPUS)]]))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for kind, line in zip(KINDS, out.splitlines(), strict=True):
        same_files, ids = json.loads(line)
        assert same_files, kind
        assert ids == [encoding.ids for encoding in trained(kind).encode_batch(CORPUS)]


@pytest.mark.parametrize("text", ["\ud800", "fine \udfff", "a\udc80b"])
def test_a_lone_surrogate_is_refused_in_words(text):
    tokenizer = trained("wordpiece")
    for call in (
        lambda: tokenizer(text),
        lambda: tokenizer("first", text),
        lambda: tokenizer.encode_plain(["ok", text]),
        lambda: tokenizer.batch(["ok", text]),
        lambda: Tokenizer.train_from_iterator(["ok", text], "word", 100),
        lambda: Tokenizer.train_from_iterator(["ok", text], "byte-bpe", 300),
    ):
        with pytest.raises(InputError, match="lone surrogate"):
            call()


@pytest.mark.parametrize("texts", [[None], [3], [float("nan")], [("a", None)], [("a", "b", "c")], [b"bytes"], "one"])
def test_what_is_not_text_is_refused_in_words(texts):
    for call in (trained("wordpiece").encode_batch, trained("wordpiece").batch):
        with pytest.raises(InputError):
            call(texts)


def test_texts_may_come_in_any_container():
    tokenizer, texts = trained("wordpiece"), ["the old man", "a story"]
    expected = tokenizer.encode_ids(texts)
    for container in (np.array(texts), pd.Series(texts, index=[7, 9]), tuple(texts), iter(texts)):
        assert tokenizer.encode_ids(container) == expected
    pairs = [("the old", "man"), ("a", "story")]
    expected = tokenizer.encode_ids(pairs)
    assert tokenizer.encode_ids(pd.DataFrame(pairs, columns=["text", "text_pair"])) == expected
    assert tokenizer.encode_ids(np.array(texts)[:, None]) == tokenizer.encode_ids(texts)
    for table in (np.array(pairs), pd.DataFrame(pairs, columns=["a", "b"])):  # which text is the first is not said
        with pytest.raises(InputError, match="neither texts nor text pairs. Rename the columns to 'text'"):
            tokenizer.encode_ids(table)


def test_cut_and_unknown_tokens_are_counted_and_said():
    tokenizer = trained("word")
    encoding = tokenizer("the old man zzz yyy", max_length=5)
    assert (encoding.num_truncated, encoding.num_unknown, len(encoding)) == (2, 0, 5)
    assert tokenizer("the zzz yyy").num_unknown == 2
    counts = TextCounts()
    tokenizer.batch(["the old man zzz yyy", "zzz"], max_length=5, counts=counts)
    assert counts == TextCounts(texts=2, tokens=8, cut_texts=1, cut_tokens=2, unknown_tokens=1, special_tokens=4)
    assert "1 of 2 texts was truncated (2 tokens removed)" in counts.note() and "1 of 8 tokens" in counts.note()
    assert TextCounts(texts=3, tokens=9).note() == ""


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"max_length": 2}, "is too small"),
        ({"max_length": 4, "truncation": "middle"}, "not valid"),
        ({"max_length": 8, "truncation": "only_first"}, "second text by itself"),
        ({"max_length": 8, "stride": 3}, "stride"),
        ({"padding": "max_length"}, "needs max_length"),
        ({"padding": "yes"}, "not valid"),
        ({"padding_side": "top"}, "not valid"),
    ],
)
def test_impossible_wishes_are_refused_in_words(options, error):
    with pytest.raises(InputError, match=error):
        trained("word")("the old man", "she walked along the lowest road slowly", **options)
    with pytest.raises(InputError, match="needs a second text"):
        trained("word")("the old man walked", max_length=4, truncation="only_second")


def test_padding_fills_a_rectangle_at_either_side():
    tokenizer = trained("word")
    right = tokenizer.encode_batch(["the old man", "the"], padding="longest")
    left = tokenizer.encode_batch(["the old man", "the"], padding=True, padding_side="left")
    assert [len(encoding) for encoding in right] == [5, 5]
    assert right[1].tokens == ["[CLS]", "the", "[SEP]", "[PAD]", "[PAD]"]
    assert left[1].tokens == ["[PAD]", "[PAD]", "[CLS]", "the", "[SEP]"]
    assert left[1].attention_mask == [0, 0, 1, 1, 1] and right[1].special_tokens_mask == [1, 0, 1, 1, 1]


def test_a_foreign_folder_gives_its_special_tokens_and_loses_what_would_run_code(tmp_path):
    vocab = ["<pad>", "<unk>", "<s>", "</s>", "<mask>", "hello", "##s"]
    (tmp_path / "vocab.txt").write_text("\n".join(vocab), encoding="utf-8")
    config = {"cls_token": {"content": "<s>"}, "sep_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps(config | {"mask_token": "<mask>", "auto_map": {"AutoTokenizer": "evil.py"}}), encoding="utf-8"
    )
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer("hellos <mask> what").tokens == ["<s>", "hello", "##s", "<mask>", "<unk>", "</s>"]
    assert (tokenizer.cls_id, tokenizer.mask_id, tokenizer.kind) == (2, 4, "wordpiece")
    assert b"auto_map" not in b"".join(tokenizer.files().values())
    assert Tokenizer.load(tmp_path / "vocab.txt")("hellos").ids == tokenizer("hellos").ids


@pytest.mark.parametrize("tokens, found", [(["A", "C"], ["A", "C"]), (["A", "C", "a"], ["a", "[UNK]"])])
def test_a_vocabulary_without_lower_case_is_not_lower_cased(tokens, found, tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *tokens]))
    assert Tokenizer.load(tmp_path)("A C").tokens == ["[CLS]", *found, "[SEP]"]


@pytest.mark.parametrize("kind", ["wordpiece", "byte-bpe", "bpe", "char"])
def test_word_starts_find_the_words_of_a_text(kind):
    tokenizer = trained(kind)
    text = "the oldest learners unlearned slowly"
    ids = tokenizer(text).ids
    starts = tokenizer.word_starts(ids)
    words = np.split(np.array(ids), np.flatnonzero(starts)[1:])
    found = [tokenizer.decode(word.tolist()).strip() for word in words[1:-1]]
    assert [word for word in found if word] == text.split()
    assert len(words) < len(ids)


def test_continuing_pieces_are_those_with_the_prefix():
    tokenizer = trained("wordpiece")
    expected = [token.startswith("##") for token in tokenizer.tokens]
    assert tokenizer.continues_word().tolist() == expected and any(expected)
    assert not trained("word").continues_word().any()
    for kind in ("bpe", "char"):
        with pytest.raises(InputError, match="does not show"):
            trained(kind).continues_word()


# -- Trainers against the algorithms written out plainly, the lecture's worked numbers, and --------------------------

few_letters = st.text(st.sampled_from("abc"), min_size=1, max_size=9)
counted_words = st.dictionaries(few_letters, st.integers(1, 5), min_size=1, max_size=10)


# -- BPE -----------------------------------------------------------------------------------------------------------


def plain_bpe(counted, num_merges, tie_break):
    """The textbook's loop: count every pair, merge the best, repeat; a word is always cut as the merges cut it."""
    merges: list[tuple[str, str]] = []
    for _ in range(num_merges):
        counts: Counter[tuple[str, str]] = Counter()
        last_seen: dict[tuple[str, str], int] = {}
        place = 0
        for word, count in counted.items():
            for pair in pairwise(plain_encode(word, merges)):
                counts[pair] += count
                last_seen[pair] = place = place + 1
        if not counts:
            break
        best = max(counts.values())
        tied = [pair for pair, count in counts.items() if count == best]  # in the order first seen
        merges.append({"first": tied[0], "last": max(tied, key=last_seen.get), "lexicographic": min(tied)}[tie_break])
    return merges


def plain_encode(word, merges):
    """Apply the oldest merge that fits, leftmost first, until none does."""
    symbols = [*word, "</w>"]
    ranks = {pair: rank for rank, pair in reversed(list(enumerate(merges)))}
    while True:
        found = [(ranks[pair], place) for place, pair in enumerate(pairwise(symbols)) if pair in ranks]
        if not found:
            return symbols
        _, place = min(found)
        symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]


@given(counted=counted_words, tie_break=st.sampled_from(["first", "last", "lexicographic"]))
@settings(max_examples=60)
def test_bpe_learns_the_merges_of_the_plain_loop_under_every_tie_rule(counted, tie_break):
    learned = [(merge.left, merge.right) for merge in islice(trainers.learn_merges(counted, tie_break), 25)]
    assert learned == plain_bpe(counted, 25, tie_break)


@given(counted=counted_words, text=st.lists(st.text(st.sampled_from("abc"), min_size=1, max_size=12), max_size=4))
@settings(max_examples=40)
def test_the_saved_tokenizer_encodes_as_the_plain_loop_and_decodes_to_the_same_text(counted, text):
    assume(set("".join(text)) <= set("".join(counted)))
    merges = [(merge.left, merge.right) for merge in islice(trainers.learn_merges(counted), 20)]
    corpus = [" ".join([word] * count) for word, count in counted.items()]
    tokenizer = Tokenizer.train_from_iterator(corpus, "bpe", 1000, num_merges=20)
    expected = [token for word in text for token in plain_encode(word, merges)]
    encoding = tokenizer(" ".join(text))
    assert encoding.tokens[1:-1] == expected
    assert tokenizer.decode(encoding.ids) == " ".join(text)


def test_text_that_spells_the_end_of_a_word_is_no_end_of_a_word():
    corpus = ["x</w> x</w> x</w> y</w>y </w> </w></w> x x x"]
    tokenizer = Tokenizer.train_from_iterator(corpus, "bpe", 60)
    for text in (corpus[0], "x </w> x</w>", "y</w>y<", "<", "</w"):
        encoding = tokenizer(text)
        assert tokenizer.decode(encoding.ids) == text
        ends = [token for token in encoding.tokens if token.endswith("</w>")]
        assert len(ends) == len(text.split())


def test_punctuation_can_be_split_off_with_an_end_of_word_of_its_own():
    tokenizer = Tokenizer.train_from_iterator(["old, older, oldest. old!"] * 5, "bpe", 60, split_punctuation=True)
    tokens = tokenizer("oldest, (old).").tokens[1:-1]
    assert [token for token in tokens if not token[0].isalnum()] == [",</w>", "[UNK]", "</w>", "[UNK]", "</w>", ".</w>"]
    assert tokens[0].startswith("old") and sum(token.endswith("</w>") for token in tokens) == 6


# -- WordPiece -----------------------------------------------------------------------------------------------------


def plain_scores(counted, num_merges):
    """Count pieces and pairs afresh at every step and take the pair with the highest score, first seen of equals."""
    rows = [(trainers.prefixed(word), count) for word, count in counted.items()]
    merges = []
    for _ in range(num_merges):
        pieces: Counter[str] = Counter()
        pairs: Counter[tuple[str, str]] = Counter()
        for row, count in rows:
            for piece in row:
                pieces[piece] += count
            for pair in pairwise(row):
                pairs[pair] += count
        if not pairs:
            break
        best = max(pairs, key=lambda pair: Fraction(pairs[pair], pieces[pair[0]] * pieces[pair[1]]))
        merges.append(best)
        for row, _ in rows:
            place = 0
            while place + 1 < len(row):
                if (row[place], row[place + 1]) == best:
                    row[place : place + 2] = [row[place] + row[place + 1].removeprefix("##")]
                place += 1
    return merges


@given(counted=counted_words)
@settings(max_examples=100)
def test_wordpiece_by_score_learns_the_merges_of_the_plain_loop(counted):
    learned = [(merge.left, merge.right) for merge in islice(trainers.learn_scored_merges(counted), 25)]
    assert learned == plain_scores(counted, 25)


def longest_match(word, vocab):
    """WordPiece encoding as published: the longest piece that fits, else the whole word is unknown."""
    pieces, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = word[start:end] if start == 0 else f"##{word[start:end]}"
            if piece in vocab:
                break
        else:
            return ["[UNK]"]
        pieces.append(piece)
        start = end
    return pieces


@pytest.mark.parametrize("kind", ["wordpiece", "wordpiece-score"])
@given(word=st.text(st.sampled_from("aeldrnoistuwβ"), min_size=1, max_size=15))
def test_wordpiece_takes_the_longest_match_and_knows_every_word_of_its_alphabet(kind, word):
    tokenizer = trained(kind)
    vocab = set(tokenizer.tokens)
    assert tokenizer(word).tokens[1:-1] == longest_match(word, vocab)
    assert tokenizer(word).num_unknown == ("β" in word)


@pytest.mark.parametrize("kind", ["wordpiece", "wordpiece-score", "byte-bpe", "bpe", "word", "char"])
def test_the_vocabulary_has_exactly_the_requested_size(kind):
    size = {"char": 30, "byte-bpe": 300, "word": 40, "bpe": 130, "wordpiece": 200, "wordpiece-score": 200}[kind]
    tokenizer = Tokenizer.train_from_iterator(CORPUS * 3, kind, size)
    assert tokenizer.vocab_size == len(set(tokenizer.tokens)) == size
    assert tokenizer.tokens[:5] == trainers.SPECIAL_TOKENS


@pytest.mark.parametrize("kind", ["wordpiece", "wordpiece-score", "bpe", "byte-bpe", "word", "char"])
def test_an_empty_corpus_and_a_hopeless_size_are_refused(kind):
    for nothing in ([], [" \n\t"]):
        with pytest.raises(InputError, match="no text"):
            Tokenizer.train_from_iterator(nothing, kind, 8000)
    with pytest.raises(ConfigError, match="too small"):
        Tokenizer.train_from_iterator(CORPUS, kind, 5)


# -- words, characters, bytes --------------------------------------------------------------------------------------


def test_a_word_vocabulary_knows_its_words_and_nothing_else():
    tokenizer = Tokenizer.train_from_iterator(["hat learn", "learn hat"], "word", 100)
    assert tokenizer("hat taaaaasty learn laern").tokens[1:-1] == ["hat", "[UNK]", "learn", "[UNK]"]
    kept = Tokenizer.train_from_iterator(["b c a c d a a"], "word", 8)  # of equals the one seen first
    assert kept.tokens[5:] == ["a", "c", "b"]


@given(text=any_text)
@settings(max_examples=100)
def test_bytes_bring_every_text_back_without_an_unknown(text):
    tokenizer = trained("byte-bpe")
    ids = tokenizer.encode_plain([text])[0]
    assert tokenizer.unk_id not in ids
    if not any(token in text for token in trainers.SPECIAL_TOKENS):
        assert tokenizer.decode(ids) == tokenizer.decode(tokenizer(text).ids) == text


# -- counting words ------------------------------------------------------------------------------------------------


def test_the_table_of_words_stays_bounded(monkeypatch):
    monkeypatch.setattr(trainers, "MAX_DISTINCT", 100)
    texts = (f"often{number % 7} rare{number}" for number in range(5000))
    counted = trainers.count_words(texts, trainers.normalizer(True), None)
    assert len(counted.counts) <= 101
    assert all(counted.counts[f"often{number}"] > 700 for number in range(7))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wordpiece", "byte-bpe", "bpe"])
def test_thirty_thousand_tokens_from_fifty_megabytes_in_two_minutes_and_two_gigabytes(kind, data_folder, tmp_path):
    path = tmp_path / "corpus.txt"
    with lzma.open(data_folder / "pretraining_text/wikipedia.txt.xz", "rb") as handle:
        path.write_bytes(handle.read(50_000_000))
    code = (
        "import re, resource, pathlib\nfrom maskwright.text.tokenizers.tokenizer import Tokenizer\n"
        f"lines = open({str(path)!r}, encoding='utf-8', errors='ignore')\n"
        f"print(Tokenizer.train_from_iterator(lines, {kind!r}, 30_000).vocab_size)\n"
        # ru_maxrss begins at the size of the process that started this one; VmHWM, where there is one, does not.
        "status = pathlib.Path('/proc/self/status')\n"
        "own = re.search(r'VmHWM:\\s+(\\d+)', status.read_text()) if status.exists() else None\n"
        "print(own[1] if own else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    size, kilobytes = map(int, result.stdout.split())
    assert size == 30_000
    assert kilobytes < 2_000_000
    # On a shared machine, the CPU time is the time of training.
    assert min(seconds, processor_seconds) < 120


# -- What is explained of tokenizers ---------------------------------------------------------------------------------


def test_every_step_changes_the_counts_that_the_lecture_changes():
    steps = explain(LECTURE, num_merges=5).steps
    assert [(step.merged, step.winner.count, step.changes) for step in steps] == [
        ("es", 13, (("e", 16, 3), ("s", 13, 0), ("es", 0, 13))),
        ("est", 13, (("es", 13, 0), ("t", 13, 0), ("est", 0, 13))),
        ("est</w>", 13, (("est", 13, 0), ("</w>", 23, 10), ("est</w>", 0, 13))),
        ("ol", 10, (("o", 14, 4), ("l", 14, 4), ("ol", 0, 10))),
        ("old", 10, (("ol", 10, 0), ("d", 10, 0), ("old", 0, 10))),
    ]
    tied = [[f"{item.left} {item.right}" for item in step.tied] for step in steps]
    assert tied == [["s t", "t </w>"], ["t </w>"], [], ["l d"], []]


def test_wordpiece_shows_the_score_of_every_pair():
    step = explain(LECTURE, "wordpiece-score", num_merges=1).steps[0]
    assert (step.merged, step.winner.score) == ("lo", Fraction(1, 4))
    assert [(item.left, item.right) for item in step.tied] == [("##o", "##w")]
    scores = {(item.left, item.right): item.score for item in step.candidates}
    assert scores["##e", "##s"] == Fraction(13, 16 * 13) and scores["o", "##l"] == Fraction(10, 100)
    assert [item.score for item in step.candidates] == sorted(scores.values(), reverse=True)


@given(
    words=st.dictionaries(st.text(st.sampled_from("abc"), min_size=1, max_size=6), st.integers(1, 4), min_size=1),
    tie_break=st.sampled_from(["first", "last", "lexicographic"]),
)
def test_the_explanation_is_what_the_trainer_does(words, tie_break):
    explanation = explain(words, tie_break=tie_break, num_merges=8)
    learned = list(islice(trainers.learn_merges(words, tie_break), 8))
    assert explanation.merges == [(merge.left, merge.right) for merge in learned]
    best = [max(item.count for item in step.candidates) for step in explanation.steps]
    assert best == [merge.count for merge in learned]


@pytest.mark.parametrize("text", ["", "old", "old:", ":3", "old:x", "old:0", "old:-1", "o ld:3", "old:3,,new:1"])
def test_words_that_cannot_be_read_are_refused(text):
    with pytest.raises(InputError):
        parse_words(text)
    assert parse_words("a:b:3, c:1,c:2") == {"a:b": 3, "c": 3}


def test_what_cannot_be_explained_is_refused():
    with pytest.raises(ConfigError, match="can be explained"):
        explain(LECTURE, "word")
    with pytest.raises(ConfigError, match="tie_break"):
        explain(LECTURE, "wordpiece-score", tie_break="last")
    with pytest.raises(ConfigError, match="not valid"):
        explain(LECTURE, tie_break="random")


# -- the steps of a word --------------------------------------------------------------------------------

TEXTS = [
    "the taaaasty lantern is transformerified and the older lanterns are transformed",
    "lower lowest newest widest estimate old older oldest finest",
    "naïve café, 東京 – un-believable! aaaa aaa aa",
] * 3
CUT_KINDS = ["wordpiece", "wordpiece-score", "bpe", "byte-bpe"]


@cache
def cutter(kind):
    return SegmentationTracer(
        Tokenizer.train_from_iterator(iter(TEXTS), kind=kind, vocab_size=320 if kind == "byte-bpe" else 110)
    )


@pytest.mark.parametrize("kind", CUT_KINDS)
@given(text=st.text(st.sampled_from("aestlonwdr tf-é東!ÅA"), max_size=30))
def test_the_last_step_is_what_the_library_gives(kind, text):
    own = cutter(kind)
    cut = own.cut(text)
    tokens = own.tokenizer(text)
    inside = [token for token, source in zip(tokens.tokens, tokens.sequence_ids, strict=True) if source is not None]
    assert [token for word in cut.words for token in word.tokens] == inside
    for word in cut.words:
        unknown = own.tokenizer.special_tokens.get("unk")
        if unknown not in word.tokens:
            assert word.steps[-1].pieces == word.tokens


def test_merges_apply_in_the_order_in_which_they_were_learned():
    tokenizer = Tokenizer.train_from_iterator(
        iter(["old " * 7 + "older " * 3 + "finest " * 9 + "lowest " * 4]), kind="bpe", vocab_size=200, num_merges=5
    )
    word = SegmentationTracer(tokenizer).cut("oldest").words[0]
    assert [step.taken for step in word.steps] == [None, "es", "est", "est</w>", "ol", "old"]
    assert [step.rank for step in word.steps] == [None, 1, 2, 3, 4, 5]
    assert word.steps[-1].pieces == ["old", "est</w>"]


# -- comparison of kinds ---------------------------------------------------------------------------------


def write_corpus(folder, documents):
    path = folder / "corpus.txt"
    path.write_text("\n\n".join("\n".join(document) for document in documents), encoding="utf-8")
    return path


def test_a_new_word_is_unknown_to_words_and_spelled_by_pieces(tmp_path):
    """The affixes of old/older/oldest are learned in training and serve smart/smarter/smartest, never seen whole."""
    seen = ["old older oldest", "low lower lowest", "fine finer finest", "smart", "rest smar t a b"]
    documents = [[sentence for _ in range(3) for sentence in seen] for _ in range(9)] + [["smarter smartest older"]]
    comparison = compare(write_corpus(tmp_path, documents), 300)
    assert (comparison.unit, comparison.held_out_texts, comparison.held_out_words) == ("document", 1, 3)
    by_kind = {measures.name: measures for measures in comparison.measures}
    assert list(by_kind) == list(registry.names("tokenizer")) and not comparison.left_out
    assert by_kind["word"].unk_rate == pytest.approx(2 / 3) == by_kind["word"].unk_words
    assert by_kind["word"].tokens_per_word == 1 and by_kind["word"].affixes_shared is None
    for kind in ("char", "bpe", "byte-bpe", "wordpiece", "wordpiece-score"):
        assert by_kind[kind].unk_rate == 0
        assert by_kind[kind].affix_pieces > 0
        assert 1 < by_kind[kind].tokens_per_word <= by_kind["char"].tokens_per_word
    assert by_kind["wordpiece"].examples == {"smart": ["smarter", "smartest"]}


def test_the_measures_of_a_worked_text():
    tokenizer = Tokenizer.train_from_iterator(["ab ab ab abc c"], "wordpiece", 13)
    assert set(tokenizer.tokens[5:]) == {"a", "b", "c", "##a", "##b", "##c", "ab", "abc"}
    words = {"ab": 2, "ba": 1, "cab": 1, "x": 1}
    found = measure(tokenizer, "mine", ["ab ba", "ab cab x"], words)
    # ab | b ##a | ab | c ##a ##b | [UNK]
    assert found.tokens_per_word == pytest.approx(8 / 5)
    assert (found.unk_rate, found.unk_words) == (pytest.approx(1 / 8), pytest.approx(1 / 5))
    assert found.vocab_used == pytest.approx(5 / 8)  # ab b c ##a ##b
    assert (found.affix_pieces, found.affixes_shared) == (4, pytest.approx(1 / 4))  # only ##a serves two words


def test_what_cannot_be_compared_is_said(tmp_path):
    path = write_corpus(tmp_path, [[sentence] for sentence in CORPUS * 3])
    assert set(compare(path, 60).left_out) >= {"byte-bpe", "wordpiece"}
    with pytest.raises(ConfigError, match="too small"):
        compare(path, 60, ["byte-bpe"])
    with pytest.raises(ConfigError, match="Unknown tokenizer"):
        compare(path, 60, ["bytes"])
    with pytest.raises(InputError, match="at least 10 sentences"):
        compare(write_corpus(tmp_path, [["one"]]), 60)
    with pytest.raises(InputError, match="standard input"):
        compare("-", 60)
