"""Trainers against the algorithms written out plainly, the lecture's worked numbers, and their promises on size."""

from __future__ import annotations

import lzma
import resource
import subprocess
import sys
import time
from collections import Counter
from fractions import Fraction
from itertools import islice, pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from maskwright.core.errors import ConfigError, InputError
from maskwright.text.tokenizers import trainers
from maskwright.text.tokenizers.tokenizer import Tokenizer
from text.tokenizer_samples import CORPUS, any_text, trained

few_letters = st.text(st.sampled_from("abc"), min_size=1, max_size=9)
counted_words = st.dictionaries(few_letters, st.integers(1, 5), min_size=1, max_size=10)


# -- BPE -----------------------------------------------------------------------------------------------------------


def plain_bpe(counted: dict[str, int], num_merges: int, tie_break: str) -> list[tuple[str, str]]:
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


def plain_encode(word: str, merges: list[tuple[str, str]]) -> list[str]:
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


def plain_scores(counted: dict[str, int], num_merges: int) -> list[tuple[str, str]]:
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


def longest_match(word: str, vocab: set[str]) -> list[str]:
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


@pytest.mark.parametrize("kind", ["char", "bpe"])
@given(data=st.data())
def test_decoding_brings_back_text_of_the_training_alphabet(kind, data):
    tokenizer = trained(kind)
    alphabet = sorted({token for token in tokenizer.tokens if len(token) == 1 and token != " "})
    spelled = data.draw(st.lists(st.text(st.sampled_from(alphabet), min_size=1, max_size=10), max_size=6))
    text = " ".join(spelled)
    assert tokenizer.decode(tokenizer(text).ids) == text


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
