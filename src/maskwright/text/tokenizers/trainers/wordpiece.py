"""WordPiece by frequency, as BERT vocabularies are built in practice: merge the most frequent pair, ## inside words.

The library's trainer does the merging. By default it numbers the ##-characters in hash-table order, which differs
between runs; here every character is numbered in advance, which makes results reproducible byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from . import pipelines
from .pipelines import SPECIAL_TOKENS, Trained
from .words import Alphabet, WordCounts, choose_alphabet, count_words, is_isolated, most_common

PREFIX = "##"
_WORDS_PER_CHUNK = 10_000


def train_wordpiece(
    texts: Iterable[str],
    vocab_size: int,
    *,
    lowercase: bool = True,
    limit_alphabet: int = pipelines.LIMIT_ALPHABET,
    min_frequency: int = 1,
) -> Trained:
    """Merge the most frequent pair until the vocabulary has `vocab_size` tokens.

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
    facts: dict[str, Any] = {
        "vocab_size_wanted": vocab_size,
        **words.facts(),
        "words_left_out": alphabet.num_left_out,
    }
    learned = most_common(alphabet.words)
    del words, alphabet  # free memory for the library
    learner.train_from_iterator(repeated(learned), trainer)
    ids = learner.get_vocab()
    return pipelines.wordpiece(sorted(ids, key=ids.__getitem__), "wordpiece", lowercase, facts)


def count_and_start(
    texts: Iterable[str], vocab_size: int, lowercase: bool, limit_alphabet: int
) -> tuple[WordCounts, Alphabet, list[str]]:
    """Returns the word counts, their alphabet and `base_vocabulary`; arguments as in `train_wordpiece`."""
    splitter = pipelines.punctuation_splitter()
    words = count_words(texts, pipelines.normalizer(lowercase), splitter)
    alphabet = choose_alphabet(words.counts, limit_alphabet)
    start = base_vocabulary(alphabet.characters, splitter)
    pipelines.require_vocab_size(vocab_size, len(start), "special tokens and characters")
    return words, alphabet, start


def base_vocabulary(characters: list[str], splitter: Any) -> list[str]:
    """Returns special tokens, every character, and its ## form if it can occur inside a word.

    With these, no word of known characters is [UNK].
    """
    inside = [character for character in characters if not is_isolated(character, splitter)]
    return [*SPECIAL_TOKENS, *characters, *(PREFIX + character for character in inside)]


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
