"""Trainers of tokenizer vocabularies: each kind is a function here and a line in `core.registry`, kind `tokenizer`.

All kinds share BERT's special tokens at IDs 0 to 4 and its template [CLS] A [SEP] B [SEP], so every kind can be used
with an encoder. A text is read once and only its distinct words are kept: beyond `MAX_DISTINCT` the rarest are dropped
(lossy counting), and trainers learn from the `MAX_LEARNED` most common, so memory is bounded: about 100 bytes per
distinct word, and 800 per word learned from. `wordpiece` and `byte-bpe` are trained by the library; `bpe` and
`wordpiece-score` are the algorithms as taught, whose ties have a rule and whose steps `explain` shows.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from ...core.errors import ConfigError, InputError
from ..readers.inputs import reject_non_texts
from .tokenizer_files import END_OF_WORD, bert_backend, set_special_tokens

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TOKEN_OF_ROLE = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
LIMIT_ALPHABET = 1000
MAX_DISTINCT, MAX_LEARNED = 2_000_000, 400_000
MAX_WORD_CHARACTERS = 100  # longer ones are [UNK] in BERT's WordPiece
PREFIX = "##"
_WORDS_PER_CHUNK = 10_000
# The library splits words into characters, so the end of a word is written as "<" after it, which the model
# completes to the symbol "</w>". A "<" in the text is never the last character, so the two stay distinct.
_END_MARK, _END_SUFFIX = END_OF_WORD[:1], END_OF_WORD[1:]
_AT_WORD_END = r"(?<=\S)(?=\s|\z)"
_PUNCTUATION = r"\p{P}$+<=>^`|~"  # BERT treats all ASCII symbols as punctuation
_AT_PIECE_END = rf"(?<=[^\s{_PUNCTUATION}])(?=[\s{_PUNCTUATION}]|\z)|(?<=[{_PUNCTUATION}])"
# Python splits at these characters, but the library's normalizer removes them.
_REMOVED = re.compile("[\x0b\x0c\x1c-\x1f\x85]")


class Trained(NamedTuple):
    """A trained library tokenizer, and its configuration with training metadata."""

    backend: Backend
    config: dict[str, Any]


# -- texts and their words -----------------------------------------------------------------------------------


def read_texts(
    source: str | Path | Iterable[str | Path],
    skip_bad_rows: bool = False,
    skipped: dict[str, int] | None = None,
) -> Iterator[str]:
    """Yields the sentences of corpus files, folders or patterns; `skipped`, if given, receives the skipped rows."""
    from ..readers.corpus import CorpusFacts, read_documents

    paths = source if isinstance(source, (str, Path)) else list(source)
    facts = CorpusFacts()
    for document in read_documents(paths, skip_bad_rows=skip_bad_rows, facts=facts):
        yield from document.sentences
    if skipped is not None and facts.skipped_rows:
        skipped["skipped_rows"] = facts.skipped_rows


@dataclass
class WordCounts:
    """Count of each word, in order of first occurrence."""

    counts: dict[str, int] = field(default_factory=dict)
    num_texts: int = 0
    num_characters: int = 0

    @property
    def num_words(self) -> int:
        """Total number of words, including repetitions."""
        return sum(self.counts.values())

    def facts(self, vocab_size: int) -> dict[str, Any]:
        """Returns training metadata for the tokenizer's configuration."""
        return {
            "vocab_size_wanted": vocab_size,
            "texts": self.num_texts,
            "characters": self.num_characters,
            "words": self.num_words,
            "distinct_words": len(self.counts),
        }


def _check_text(text: Any) -> None:
    try:
        text.encode("utf-8")
    except (AttributeError, UnicodeEncodeError):
        reject_non_texts([text])


def count_words(texts: Iterable[str], normalizer: Any, pre_tokenizer: Any | None) -> WordCounts:
    """Count the words of `texts` as split by the library.

    normalizer: of the library; pre_tokenizer: one that isolates single characters (punctuation), or None to split only
    at whitespace. Raises InputError if there are no words.
    """
    counts: Counter[str] = Counter()
    result = WordCounts()
    for text in texts:
        _check_text(text)
        counts.update(_REMOVED.sub("", text).split())
        result.num_texts += 1
        result.num_characters += len(text)
        if len(counts) > MAX_DISTINCT:
            counts = Counter(most_common(counts, MAX_DISTINCT // 2))
    split = _splitter(pre_tokenizer)
    for word in list(counts):
        count = counts.pop(word)  # avoids keeping a word twice
        for part in split(normalizer.normalize_str(word)):
            result.counts[part] = result.counts.get(part, 0) + count
    if not result.counts:
        raise InputError("There is no text to train on: the corpus has no words.")
    return result


def most_common(counts: Mapping[str, int], limit: int = MAX_LEARNED) -> dict[str, int]:
    """Returns the `limit` most common words in their original order; ties go to the first occurrence."""
    if len(counts) <= limit:
        return dict(counts)
    kept = set(sorted(counts, key=counts.__getitem__, reverse=True)[:limit])  # the sort is stable
    return {word: count for word, count in counts.items() if word in kept}


def _splitter(pre_tokenizer: Any | None) -> Callable[[str], Iterable[str]]:
    """Returns a function that splits a normalized word; isolated characters are determined once per character."""
    if pre_tokenizer is None:
        return str.split
    isolated: dict[str, bool] = {}

    def split(word: str) -> Iterator[str]:
        """Yields runs of characters, and each isolated character."""
        for part in word.split():
            if part.isalnum() and part.isascii():
                yield part
                continue
            start = 0
            for index, character in enumerate(part):
                if character not in isolated:
                    isolated[character] = is_isolated(character, pre_tokenizer)
                if isolated[character]:
                    yield from (piece for piece in (part[start:index], character) if piece)
                    start = index + 1
            if part[start:]:
                yield part[start:]

    return split


def is_isolated(character: str, pre_tokenizer: Any) -> bool:
    """Whether `character` is always a separate word."""
    return len(pre_tokenizer.pre_tokenize_str(f"a{character}a")) > 1


@dataclass
class Alphabet:
    """The characters of a vocabulary, and the words that consist of them."""

    characters: list[str]
    words: dict[str, int]
    num_left_out: int


def choose_alphabet(counts: dict[str, int], limit: int) -> Alphabet:
    """Returns the `limit` most frequent characters in code point order, and the words made only of them.

    Words with another character, or longer than `MAX_WORD_CHARACTERS`, are dropped and counted (by occurrences).
    """
    frequency: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            frequency[character] += count
    kept = set(sorted(frequency, key=lambda character: (-frequency[character], character))[:limit])
    is_whole = len(kept) == len(frequency)
    words = {
        word: count
        for word, count in counts.items()
        if len(word) <= MAX_WORD_CHARACTERS and (is_whole or kept.issuperset(word))
    }
    return Alphabet(sorted(kept), words, sum(counts.values()) - sum(words.values()))


# -- the library's pipelines for our vocabularies ------------------------------------------------------------


def normalizer(lowercase: bool, isolate_cjk: bool = True) -> Any:
    """BERT's normalizer: removes control characters, isolates CJK; with `lowercase` also strips accents."""
    from tokenizers import normalizers

    return normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=isolate_cjk, strip_accents=None, lowercase=lowercase
    )


def punctuation_splitter() -> Any:
    """BERT's pre-tokenizer: splits at whitespace, and makes every punctuation mark a separate word."""
    from tokenizers import pre_tokenizers

    return pre_tokenizers.BertPreTokenizer()


def require_vocab_size(vocab_size: int, needed: int, what: str) -> None:
    """Raise ConfigError if `vocab_size` is smaller than the tokens that every vocabulary of this kind needs."""
    if vocab_size < needed:
        raise ConfigError(f"vocab_size={vocab_size} is too small: {what} take {needed}. Use at least {needed}.")


def vocab_ids(vocab: list[str]) -> dict[str, int]:
    """Returns token -> ID."""
    return {token: id for id, token in enumerate(vocab)}


def wordpiece(vocab: list[str], kind: str, lowercase: bool, facts: dict[str, Any]) -> Trained:
    """Greedy longest-match-first tokenization with `vocab`."""
    bert = {"do_lower_case": lowercase, "strip_accents": None, "tokenize_chinese_chars": True}
    own = {"kind": kind, "lowercase": lowercase, **facts}
    return Trained(
        bert_backend(vocab_ids(vocab), bert), {"tokenizer_class": "BertTokenizer", **bert, "maskwright": own}
    )


def library_tokenizer(backend: Backend, kind: str, lowercase: bool, facts: dict[str, Any]) -> Trained:
    """Adds special tokens, their template and training metadata to the tokenizer of a kind."""
    set_special_tokens(backend, TOKEN_OF_ROLE, mask_takes_space=kind == "byte-bpe")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "maskwright": {"kind": kind, "lowercase": lowercase, **facts},
    }
    return Trained(backend, config)


def bpe(
    vocab: list[str], merges: list[tuple[str, str]], *, lowercase: bool, split_punctuation: bool, facts: dict[str, Any]
) -> Trained:
    """Applies learned merges in order, over characters and the end-of-word symbol."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    backend = Tokenizer(models.BPE(vocab_ids(vocab), merges, unk_token="[UNK]", end_of_word_suffix=_END_SUFFIX))
    # The mark is punctuation itself, so a space after it keeps words apart where punctuation marks are words.
    pattern, mark = (_AT_PIECE_END, f"{_END_MARK} ") if split_punctuation else (_AT_WORD_END, _END_MARK)
    backend.normalizer = normalizers.Sequence(
        [normalizer(lowercase, isolate_cjk=split_punctuation), normalizers.Replace(Regex(pattern), mark)]
    )
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.decoder = decoders.BPEDecoder(suffix=END_OF_WORD)
    return library_tokenizer(backend, "bpe", lowercase, facts)


# -- word and character vocabularies -------------------------------------------------------------------------


def train_word(texts: Iterable[str], vocab_size: int, *, lowercase: bool = True, min_frequency: int = 1) -> Trained:
    """Keep the most frequent words (ties: first occurrence); any other word is [UNK]."""
    from tokenizers import Tokenizer, models

    require_vocab_size(vocab_size, len(SPECIAL_TOKENS) + 1, "special tokens and one word")
    words = count_words(texts, normalizer(lowercase), punctuation_splitter())
    frequent = [word for word, count in words.counts.items() if count >= min_frequency]
    frequent.sort(key=words.counts.__getitem__, reverse=True)
    kept = frequent[: vocab_size - len(SPECIAL_TOKENS)]
    backend = Tokenizer(models.WordLevel(vocab_ids([*SPECIAL_TOKENS, *kept]), unk_token="[UNK]"))
    backend.normalizer = normalizer(lowercase)
    backend.pre_tokenizer = punctuation_splitter()
    left_out = words.num_words - sum(words.counts[word] for word in kept)
    return library_tokenizer(backend, "word", lowercase, words.facts(vocab_size) | {"words_left_out": left_out})


def train_char(texts: Iterable[str], vocab_size: int, *, lowercase: bool = True) -> Trained:
    """Keep the most frequent characters, and the space; any other character is [UNK]."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    require_vocab_size(vocab_size, len(SPECIAL_TOKENS) + 2, "special tokens, the space and one character")
    own = normalizer(lowercase, isolate_cjk=False)
    words = count_words(texts, own, None)
    alphabet = choose_alphabet(words.counts, vocab_size - len(SPECIAL_TOKENS) - 1)
    vocab = [*SPECIAL_TOKENS, " ", *alphabet.characters]
    backend = Tokenizer(models.WordLevel(vocab_ids(vocab), unk_token="[UNK]"))
    backend.normalizer = own
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    return library_tokenizer(backend, "char", lowercase, words.facts(vocab_size))


# -- byte-level BPE (Radford et al. 2019, GPT-2): the alphabet is the 256 bytes, so there are no unknown tokens --


def train_byte_bpe(
    texts: Iterable[str], vocab_size: int, *, lowercase: bool = False, min_frequency: int = 1
) -> Trained:
    """Learn merges over bytes until the vocabulary has `vocab_size` tokens, including 256 bytes and 5 special tokens.

    All bytes are numbered in advance and ties go to lower numbers, so runs are deterministic. min_frequency: pairs less
    frequent than this are not merged.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    bytes_as_characters = sorted(pre_tokenizers.ByteLevel.alphabet())
    require_vocab_size(vocab_size, len(SPECIAL_TOKENS) + len(bytes_as_characters), "special tokens and bytes")
    learner = Tokenizer(models.BPE())
    if lowercase:
        learner.normalizer = normalizers.Lowercase()
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=bytes_as_characters,
        show_progress=False,
    )
    facts: dict[str, Any] = {"vocab_size_wanted": vocab_size, "texts": 0, "characters": 0, "words": 0}

    def counted() -> Iterator[str]:
        for text in texts:
            _check_text(text)
            facts["texts"] += 1
            facts["characters"] += len(text)
            facts["words"] += len(text.split())
            yield text

    learner.train_from_iterator(counted(), trainer)
    if not facts["words"]:
        raise InputError("There is no text to train on: the corpus has no words.")
    backend = Tokenizer(learner.model)
    if lowercase:
        backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return library_tokenizer(backend, "byte-bpe", lowercase, facts)


# -- WordPiece by frequency, as BERT vocabularies are built in practice --------------------------------------


def train_wordpiece(
    texts: Iterable[str],
    vocab_size: int,
    *,
    lowercase: bool = True,
    limit_alphabet: int = LIMIT_ALPHABET,
    min_frequency: int = 1,
) -> Trained:
    """Merge the most frequent pair until the vocabulary has `vocab_size` tokens.

    The library's trainer does the merging; every character and its ## form is numbered in advance, because by default
    it numbers these in hash-table order, which differs between runs.

    limit_alphabet: number of most frequent characters to keep; a word with any other character is [UNK]. min_frequency:
    pairs less frequent are not merged. The vocabulary is smaller if no pair is left, as the training metadata shows.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    words, alphabet, start = count_and_start(texts, vocab_size, lowercase, limit_alphabet)
    learner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=start,
        initial_alphabet=alphabet.characters,
        limit_alphabet=len(alphabet.characters),
        show_progress=False,
    )
    facts = words.facts(vocab_size) | {"words_left_out": alphabet.num_left_out}
    learned = most_common(alphabet.words)
    del words, alphabet  # free memory for the library
    learner.train_from_iterator(repeated(learned), trainer)
    ids = learner.get_vocab()
    return wordpiece(sorted(ids, key=ids.__getitem__), "wordpiece", lowercase, facts)


def count_and_start(
    texts: Iterable[str], vocab_size: int, lowercase: bool, limit_alphabet: int
) -> tuple[WordCounts, Alphabet, list[str]]:
    """Returns the word counts, their alphabet and the first tokens; arguments as in `train_wordpiece`.

    The first tokens are the special ones, every character, and its ## form if it can occur inside a word: with these,
    no word of known characters is [UNK].
    """
    splitter = punctuation_splitter()
    words = count_words(texts, normalizer(lowercase), splitter)
    alphabet = choose_alphabet(words.counts, limit_alphabet)
    inside = [PREFIX + character for character in alphabet.characters if not is_isolated(character, splitter)]
    start = [*SPECIAL_TOKENS, *alphabet.characters, *inside]
    require_vocab_size(vocab_size, len(start), "special tokens and characters")
    return words, alphabet, start


def repeated(words: dict[str, int]) -> Iterator[str]:
    """Yields each word as often as it was counted, in chunks, because the library takes text, not counts."""
    chunk: list[str] = []
    for word, count in words.items():
        whole, rest = divmod(count, _WORDS_PER_CHUNK)
        for _ in range(whole):
            yield f"{word} " * _WORDS_PER_CHUNK
        chunk += [word] * rest
        if len(chunk) >= _WORDS_PER_CHUNK:
            yield " ".join(chunk)
            chunk = []
    yield " ".join(chunk)


# -- words segmented into symbols, with counts that are updated with each merge ------------------------------
#
# Shared by byte-pair encoding (Sennrich et al. 2016) and WordPiece by score. A merge updates only the words that
# contain the pair, so training costs about (distinct words) x (merges per word), not (words) x (merges).

Pair = tuple[int, int]
Position = tuple[int, int]  # index of the word, characters before the pair


class Changes(NamedTuple):
    """Effect of a merge on other pairs: `risen` ones became more frequent or occur earlier in some word, `fallen` ones
    less frequent or later in some word; a pair may be in both.
    """

    risen: set[Pair]
    fallen: set[Pair]


class Segmentation:
    """Distinct words as lists of symbol numbers.

    names: string of each symbol; words: symbols of each word; counts: occurrences of each word; symbol_counts:
    occurrences of each symbol; pair_counts: occurrences of each adjacent pair; pair_words: words that contain it.
    """

    def __init__(self, words: Iterable[tuple[list[str], int]]) -> None:
        self.names: list[str] = []
        self.numbers: dict[str, int] = {}
        self.words: list[list[int]] = []
        self.counts: list[int] = []
        self.symbol_counts: list[int] = []
        self.pair_counts: dict[Pair, int] = {}
        self.pair_words: dict[Pair, set[int]] = {}
        for symbols, count in words:
            index = len(self.words)
            row = [self.number(symbol) for symbol in symbols]
            self.words.append(row)
            self.counts.append(count)
            for symbol in row:
                self.symbol_counts[symbol] += count
            for pair in pairwise(row):
                self.pair_counts[pair] = self.pair_counts.get(pair, 0) + count
                self.pair_words.setdefault(pair, set()).add(index)

    def number(self, name: str) -> int:
        """Returns the number of a symbol, adding it if new."""
        if name not in self.numbers:
            self.numbers[name] = len(self.names)
            self.names.append(name)
            self.symbol_counts.append(0)
        return self.numbers[name]

    def first_position(self, pair: Pair) -> Position:
        """Returns the first occurrence of the pair, in word order."""
        index = min(self.pair_words[pair])
        return index, next(self._places(index, pair))

    def last_position(self, pair: Pair) -> Position:
        """Returns the last occurrence of the pair, in word order."""
        index = max(self.pair_words[pair])
        return index, max(self._places(index, pair))

    def merge(self, pair: Pair, merged: int, ranks: Mapping[Pair, tuple[int, int]] | None = None) -> Changes:
        """Replace the pair by symbol `merged` in every word.

        ranks: learned merges (pair to rank and result), to keep words as `apply_merges` would segment them: a merge
        whose result existed before can trigger older merges.
        """
        all_changes = Changes(set(), set())
        for index in self.pair_words.pop(pair, ()):
            old, count = self.words[index], self.counts[index]
            new = join(old, pair, merged) if ranks is None else apply_merges(old, ranks)
            self.words[index] = new
            changes: dict[Pair, int] = {}
            for row, sign in ((old, -count), (new, count)):
                for symbol in row:
                    self.symbol_counts[symbol] += sign
                for other in pairwise(row):
                    changes[other] = changes.get(other, 0) + sign
            changes.pop(pair, None)
            still_here = set(pairwise(new))
            for other, change in changes.items():
                if other in still_here:
                    self.pair_words.setdefault(other, set()).add(index)
                else:
                    self.pair_words[other].discard(index)
                if change:
                    self.pair_counts[other] = self.pair_counts.get(other, 0) + change
                if change > 0 or (ranks is not None and other in still_here):
                    all_changes.risen.add(other)
                    continue
                all_changes.fallen.add(other)
                if not self.pair_counts[other]:
                    del self.pair_counts[other], self.pair_words[other]
        self.pair_counts.pop(pair, None)
        return all_changes

    def _places(self, index: int, pair: Pair) -> Iterator[int]:
        """Yields the characters before each occurrence of the pair in a word, which other merges do not change."""
        offset = 0
        for here in pairwise(self.words[index]):
            if here == pair:
                yield offset
            offset += len(self.names[here[0]])


def join(row: list[int], pair: Pair, merged: int) -> list[int]:
    """Returns the row with every occurrence of the pair replaced, from left to right."""
    left, right = pair
    result = []
    position, last = 0, len(row) - 1
    while position <= last:
        symbol = row[position]
        position += 1
        if symbol == left and position <= last and row[position] == right:
            symbol = merged
            position += 1
        result.append(symbol)
    return result


def apply_merges(row: list[int], ranks: Mapping[Pair, tuple[int, int]]) -> list[int]:
    """Apply learned merges (pair to rank and result): always the earliest learned, leftmost first."""
    row = list(row)
    while found := [(ranks[pair][0], place) for place, pair in enumerate(pairwise(row)) if pair in ranks]:
        _, place = min(found)
        row[place : place + 2] = [ranks[row[place], row[place + 1]][1]]
    return row


# -- byte-pair encoding as taught (Sennrich et al. 2016, algorithm 1): the end of a word is a symbol too -----
#
# Start from characters, merge the most frequent adjacent pair, repeat. Several pairs are often equally frequent; other
# trainers choose among them silently. Here the rule is explicit (`tie_break`), and the default, the pair that occurs
# first in the corpus, gives the textbook's order. A heap of pairs has entries that are verified when popped, since a
# count can only decrease and a first position only move back unless the pair is pushed again:
# O((words touched + pairs changed) log pairs) in total.

TieBreak = Literal["first", "last", "lexicographic"]


@dataclass(frozen=True)
class Merge:
    """One learned merge: the pair, its count, and (by score) the counts of its parts when it was selected."""

    left: str
    right: str
    count: int
    left_count: int = 0
    right_count: int = 0

    @property
    def merged(self) -> str:
        """The merged symbol."""
        return self.left + (self.right.removeprefix(PREFIX) if self.left_count else self.right)

    @property
    def score(self) -> Fraction:
        """count(ab) / (count(a) * count(b)), exactly."""
        return Fraction(self.count, self.left_count * self.right_count)


def train_bpe(
    texts: Iterable[str],
    vocab_size: int,
    *,
    lowercase: bool = True,
    num_merges: int | None = None,
    tie_break: TieBreak = "first",
    limit_alphabet: int = LIMIT_ALPHABET,
    split_punctuation: bool = False,
) -> Trained:
    """Learn merges up to `vocab_size` tokens or `num_merges` merges, or until no pair is left.

    tie_break: among the most frequent pairs, select the one that occurs "first" or "last" in the corpus, or the first
    in "lexicographic" order. split_punctuation: make punctuation marks separate words; by default words are delimited
    by whitespace, so that decoding restores every space.
    """
    splitter = punctuation_splitter() if split_punctuation else None
    words = count_words(texts, normalizer(lowercase, isolate_cjk=split_punctuation), splitter)
    alphabet = choose_alphabet(words.counts, limit_alphabet)
    vocab = dict.fromkeys([*SPECIAL_TOKENS, *alphabet.characters, END_OF_WORD])
    require_vocab_size(vocab_size, len(vocab), "special tokens, characters and the end of a word")
    merges: list[tuple[str, str]] = []
    for merge in learn_merges(most_common(alphabet.words), tie_break):
        if len(vocab) >= vocab_size or len(merges) == num_merges:
            break
        merges.append((merge.left, merge.right))
        vocab[merge.merged] = None
    facts = words.facts(vocab_size) | {
        "merges": len(merges),
        "tie_break": tie_break,
        "split_punctuation": split_punctuation,
        "words_left_out": alphabet.num_left_out,
    }
    return bpe(list(vocab), merges, lowercase=lowercase, split_punctuation=split_punctuation, facts=facts)


def split_word(word: str) -> list[str]:
    """Returns the initial symbols of a word."""
    return [*word, END_OF_WORD]


def learn_merges(words: dict[str, int], tie_break: TieBreak = "first") -> Iterator[Merge]:
    """Yields merges learned from word counts, best first, until no pair is left."""
    yield from MergeLearner(Segmentation((split_word(word), count) for word, count in words.items()), tie_break)


class MergeLearner:
    """Iterates over the merges of a segmentation, whose state after each is available as `segmentation`."""

    def __init__(self, segmentation: Segmentation, tie_break: TieBreak = "first") -> None:
        if tie_break not in get_args(TieBreak):
            raise ConfigError(f"tie_break='{tie_break}' is not valid: use {', '.join(get_args(TieBreak))}.")
        self.segmentation = segmentation
        self.tie_break = tie_break
        self.ranks: dict[Pair, tuple[int, int]] = {}
        self._heap = [self._entry(pair) for pair in segmentation.pair_counts if self._is_allowed(pair)]
        heapq.heapify(self._heap)

    def __iter__(self) -> Iterator[Merge]:
        state = self.segmentation
        while (pair := self._pop()) is not None:
            merge = Merge(state.names[pair[0]], state.names[pair[1]], state.pair_counts[pair])
            is_known = merge.merged in state.numbers
            merged = state.number(merge.merged)
            self.ranks[pair] = (len(self.ranks), merged)
            # A symbol that could already be built in another way may trigger merges learned before it.
            for risen in state.merge(pair, merged, self.ranks if is_known else None).risen:
                if risen in state.pair_counts and self._is_allowed(risen):
                    heapq.heappush(self._heap, self._entry(risen))
            yield merge

    def _pop(self) -> Pair | None:
        """Returns the best pair. Heap entries are optimistic bounds; outdated ones are corrected and pushed again."""
        while self._heap:
            entry = heapq.heappop(self._heap)
            pair = entry[-1]
            count = self.segmentation.pair_counts.get(pair)
            if count is None:
                continue
            # The position is looked up only for a correct count, because it is more expensive.
            right = self._entry(pair) if -count == entry[0] else (-count, *entry[1:])
            if right == entry:
                return pair
            heapq.heappush(self._heap, right)
        return None

    def _entry(self, pair: Pair) -> tuple[Any, ...]:
        """Returns the heap key: most frequent first, then the tie rule."""
        state = self.segmentation
        count = state.pair_counts[pair]
        if self.tie_break == "first":
            return (-count, *state.first_position(pair), pair)
        if self.tie_break == "last":
            index, offset = state.last_position(pair)
            return (-count, -index, -offset, pair)
        return (-count, state.names[pair[0]], state.names[pair[1]], pair)

    def _is_allowed(self, pair: Pair) -> bool:
        """Reject merges of literal text that would look like the end-of-word symbol."""
        left, right = (self.segmentation.names[symbol] for symbol in pair)
        return END_OF_WORD not in left + right.removesuffix(END_OF_WORD)


# -- WordPiece by score: merge the pair that is most frequent relative to the frequencies of its parts -------
#
# Schuster and Nakajima 2012 select the merge that increases the likelihood of the text most; the common form is
# score(a, b) = count(ab) / (count(a) * count(b)). Ties go to the pair that occurs first in the corpus. The rule favors
# rare parts: on raw text a higher `min_frequency` avoids spending the vocabulary on pairs that occur once. Every step
# scores all P pairs in one vector operation, O(merges * P) in total.


def train_wordpiece_score(
    texts: Iterable[str],
    vocab_size: int,
    *,
    lowercase: bool = True,
    limit_alphabet: int = LIMIT_ALPHABET,
    min_frequency: int = 1,
) -> Trained:
    """Merge the pair with the highest score until the vocabulary has `vocab_size` tokens, or no pair is left.

    limit_alphabet: number of most frequent characters to keep. min_frequency: pairs less frequent are not merged.
    """
    words, alphabet, start = count_and_start(texts, vocab_size, lowercase, limit_alphabet)
    vocab = dict.fromkeys(start)
    merges = learn_scored_merges(most_common(alphabet.words), min_frequency)
    while len(vocab) < vocab_size and (merge := next(merges, None)) is not None:
        vocab[merge.merged] = None
    facts = words.facts(vocab_size) | {"min_frequency": min_frequency, "words_left_out": alphabet.num_left_out}
    return wordpiece(list(vocab), "wordpiece-score", lowercase, facts)


def prefixed(word: str) -> list[str]:
    """Returns the initial subwords of a word: its characters, with ## before all but the first."""
    return [word[0], *(PREFIX + character for character in word[1:])]


def learn_scored_merges(words: dict[str, int], min_frequency: int = 1) -> Iterator[Merge]:
    """Yields merges learned from word counts, highest score first, until no pair is left."""
    yield from ScoreLearner(Segmentation((prefixed(word), count) for word, count in words.items()), min_frequency)


class ScoreLearner:
    """Iterates over the merges of a segmentation, whose state after each is available as `segmentation`.

    Pairs are columns of an int64 table: left and right symbol, count (0 for removed pairs), and a lower bound of the
    first word with the pair, made exact when it decides.
    """

    def __init__(self, segmentation: Segmentation, min_frequency: int = 1) -> None:
        self.segmentation = segmentation
        self.min_frequency = max(1, min_frequency)
        self._pairs: list[Pair] = []
        self._rows: dict[Pair, int] = {}
        self._table = np.zeros((4, 1024), dtype=np.int64)
        self._symbol_counts = np.array(segmentation.symbol_counts, dtype=np.float64)
        for pair in segmentation.pair_counts:
            self._update(pair)

    def __iter__(self) -> Iterator[Merge]:
        state = self.segmentation
        while (pair := self.best()) is not None:
            left, right = pair
            counts = state.pair_counts[pair], state.symbol_counts[left], state.symbol_counts[right]
            merge = Merge(state.names[left], state.names[right], *counts)
            merged = state.number(merge.merged)
            risen, fallen = state.merge(pair, merged)
            for other in (pair, *(fallen - risen)):
                self._table[2, self._rows[other]] = state.pair_counts.get(other, 0)
            for other in risen:
                self._update(other)
            if len(state.names) > len(self._symbol_counts):
                self._symbol_counts = np.concatenate([self._symbol_counts, np.zeros(len(state.names))])
            for symbol in (left, right, merged):  # the only ones that a merge changes
                self._symbol_counts[symbol] = state.symbol_counts[symbol]
            yield merge

    def best(self) -> Pair | None:
        """Returns the pair with the highest score; ties go to the first occurrence."""
        left, right, count = self._table[:3, : len(self._pairs)]
        symbols = self._symbol_counts
        is_open = count >= self.min_frequency
        if not is_open.any():
            return None
        scores = np.divide(count, symbols[left] * symbols[right], out=np.zeros(len(count)), where=is_open)
        # Rounding is far smaller than the gap between different scores, but near-ties are compared exactly.
        near = np.flatnonzero(scores >= scores.max() * (1 - 1e-12)).tolist()
        exact = [self._score(self._pairs[row]) for row in near] if len(near) > 1 else [Fraction(1)]
        top = max(exact)
        return self._pairs[self._first_seen([row for row, score in zip(near, exact, strict=True) if score == top])]

    def _score(self, pair: Pair) -> Fraction:
        counts = self.segmentation.symbol_counts
        return Fraction(self.segmentation.pair_counts[pair], counts[pair[0]] * counts[pair[1]])

    def _first_seen(self, rows: list[int]) -> int:
        """Returns the row whose pair occurs first in the corpus."""
        first_word = self._table[3]
        while len(rows) > 1:
            bound = min(int(first_word[row]) for row in rows)
            leaders = [row for row in rows if first_word[row] == bound]
            positions = {row: self.segmentation.first_position(self._pairs[row]) for row in leaders}
            if exact := [row for row in leaders if positions[row][0] == bound]:
                return min(exact, key=positions.__getitem__)
            for row in leaders:
                first_word[row] = positions[row][0]
        return rows[0]

    def _update(self, pair: Pair) -> None:
        """Write the column of a pair that is new or more frequent."""
        row = self._rows.setdefault(pair, len(self._pairs))
        if row == len(self._pairs):
            self._pairs.append(pair)
            if row == self._table.shape[1]:
                self._table = np.concatenate([self._table, np.zeros_like(self._table)], axis=1)
        words = self.segmentation.pair_words.get(pair)
        count = self.segmentation.pair_counts.get(pair, 0)
        self._table[:, row] = (*pair, count, min(words) if words else 0)
