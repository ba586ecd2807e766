"""WordPiece by frequency, as BERT's vocabulary is built in practice: merge the most frequent pair, ## inside
words.

The library's trainer does the merging. Left to itself it numbers the ##-characters in the order of a hash
table, so equal runs differ; here every character is numbered before, which makes two runs equal byte for
byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from . import pipelines
from .pipelines import SPECIAL_TOKENS, Trained
from .words import choose_alphabet, count_words, is_isolated

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

    limit_alphabet: characters kept, the most frequent ones; a word with another one is [UNK]. min_frequency:
    a pair seen less often is not merged. Fewer tokens come out when no pair is left; the facts then show it.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    splitter = pipelines.punctuation_splitter()
    words = count_words(texts, pipelines.normalizer(lowercase), splitter)
    alphabet = choose_alphabet(words.counts, limit_alphabet)
    start = spell_with(alphabet.characters, splitter)
    pipelines.require_room(vocab_size, len(start), "special tokens and characters")
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
    learner.train_from_iterator(repeated(alphabet.words), trainer)
    ids = learner.get_vocab()
    facts: dict[str, Any] = {
        "vocab_size_wanted": vocab_size,
        **words.facts(),
        "words_left_out": alphabet.num_left_out,
    }
    return pipelines.wordpiece(sorted(ids, key=ids.__getitem__), "wordpiece", lowercase, facts)


def spell_with(characters: list[str], splitter: Any) -> list[str]:
    """Special tokens, every character, and its ## form where it can stand inside a word.

    With these, no word of known characters is [UNK].
    """
    inside = [character for character in characters if not is_isolated(character, splitter)]
    return [*SPECIAL_TOKENS, *characters, *(PREFIX + character for character in inside)]


def repeated(words: dict[str, int]) -> Iterator[str]:
    """Each word as often as it was counted, in chunks: the library takes text, not counts."""
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
