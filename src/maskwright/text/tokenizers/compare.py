"""Compares tokenizer kinds on one corpus: unknown tokens, sequence length, subwords shared between words.

Every kind is trained on nine tenths of the corpus and measured on the rest: every tenth document, or every tenth
sentence if there are fewer than ten documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from ...core import registry
from ...core.errors import ConfigError, InputError
from .explain import bare
from .tokenizer import Tokenizer
from .trainers.pipelines import normalizer, punctuation_splitter
from .trainers.words import count_words

HELD_OUT = 10  # one in ten
_TEXTS_PER_CHUNK = 2000
_NUM_EXAMPLES = 5
_MIN_EXAMPLE_LENGTH = 2


@dataclass(frozen=True)
class TokenizerMetrics:
    """Statistics of one tokenizer on the held-out texts; all rates are fractions.

    unk_rate: tokens that are UNK; unk_words: words with an UNK; tokens_per_word; vocab_used: vocabulary entries that
    occur; affix_pieces: distinct subwords that are part of a word; affixes_shared: fraction of these used by at least
    two words (None if there are none); examples: shared subwords of at least two letters, with words that use them.
    """

    name: str
    vocab_size: int
    unk_rate: float
    unk_words: float
    tokens_per_word: float
    vocab_used: float
    affix_pieces: int  # terms: ok (JSON key)
    affixes_shared: float | None
    examples: dict[str, list[str]]


@dataclass(frozen=True)
class Comparison:
    """Measurements of all kinds, the data they were taken on, and why kinds were skipped."""

    unit: str
    train_texts: int
    held_out_texts: int
    held_out_words: int
    measures: tuple[TokenizerMetrics, ...]
    left_out: dict[str, str]

    def as_dict(self) -> dict[str, object]:
        """Returns a JSON-serializable dict."""
        return asdict(self)


def compare(
    source: str | Path | Sequence[str | Path],
    vocab_size: int,
    kinds: Sequence[str] | None = None,
    *,
    tokenizers: Sequence[Tokenizer] = (),
    skip_bad_rows: bool = False,
    on_kind: Callable[[str], None] = lambda kind: None,
) -> Comparison:
    """Train `kinds` (None: all) on one corpus, and measure them and any existing `tokenizers` on the held-out part.

    A kind that was not requested explicitly and cannot have so small a vocabulary is skipped, with the reason. Raises
    ConfigError for an unknown kind, InputError for a corpus with fewer than ten sentences.
    """
    for kind in kinds or registry.names("tokenizer"):
        registry.resolve("tokenizer", kind)
    corpus = _Corpus(source, skip_bad_rows)
    words = count_words(corpus.texts(held_out=True), normalizer(lowercase=False), punctuation_splitter())
    measures = []
    left_out = {}
    for kind in kinds or registry.names("tokenizer"):
        on_kind(kind)
        try:
            trained = Tokenizer.train_from_iterator(corpus.texts(held_out=False), kind, vocab_size)
        except ConfigError as error:
            if kinds:
                raise
            left_out[kind] = str(error)
            continue
        measures.append(measure(trained, kind, corpus.texts(held_out=True), words.counts))
    for tokenizer in tokenizers:
        measures.append(measure(tokenizer, tokenizer.kind, corpus.texts(held_out=True), words.counts))
    return Comparison(corpus.unit, corpus.num_train, words.num_texts, words.num_words, tuple(measures), left_out)


def measure(tokenizer: Tokenizer, name: str, texts: Iterable[str], words: dict[str, int]) -> TokenizerMetrics:
    """Measure one tokenizer on `texts`, whose words (split as in BERT, case-sensitive) are counted in `words`."""
    unknown, tokens = 0, 0
    seen: set[int] = set()
    for chunk in _chunks(texts):
        for ids in tokenizer.encode_plain(chunk):
            tokens += len(ids)
            unknown += ids.count(tokenizer.unk_id) if tokenizer.unk_id is not None else 0
            seen.update(ids)
    users, unknown_words = _users_of_parts(tokenizer, words)
    num_words = sum(words.values())
    shared = [piece for piece, of in users.items() if len(of) > 1]
    usable = tokenizer.vocab_size - len(tokenizer.special_ids)
    return TokenizerMetrics(
        name=name,
        vocab_size=tokenizer.vocab_size,
        unk_rate=unknown / max(1, tokens),
        unk_words=unknown_words / num_words,
        tokens_per_word=tokens / num_words,
        vocab_used=len(seen - tokenizer.special_ids) / max(1, usable),
        affix_pieces=len(users),
        affixes_shared=len(shared) / len(users) if users else None,
        examples=_examples(tokenizer, users),
    )


def _users_of_parts(tokenizer: Tokenizer, words: dict[str, int]) -> tuple[dict[int, list[str]], int]:
    """Returns the distinct words that use each within-word subword, and the number of words with an UNK."""
    users: dict[int, list[str]] = {}
    unknown_words = 0
    # Byte-level subwords at the start of a word include the preceding space.
    lead = " " if tokenizer.word_markers.words == "bytes" else ""
    for chunk in _chunks(words):
        for word, ids in zip(chunk, tokenizer.encode_plain([lead + word for word in chunk]), strict=True):
            pieces = [id for id in ids if bare(tokenizer, id) and id not in tokenizer.special_ids]
            if tokenizer.unk_id in ids:
                unknown_words += words[word]
            if len(pieces) < 2:
                continue
            for id in dict.fromkeys(pieces):
                users.setdefault(id, []).append(word)
    return users, unknown_words


def _examples(tokenizer: Tokenizer, users: dict[int, list[str]]) -> dict[str, list[str]]:
    """Returns the subwords that most words share, as in the vocabulary, with the first words that use them."""
    pieces = [id for id, of in users.items() if len(of) > 1 and len(bare(tokenizer, id)) >= _MIN_EXAMPLE_LENGTH]
    pieces.sort(key=lambda id: (-len(users[id]), id))
    return {tokenizer.tokens[id]: users[id][:3] for id in pieces[:_NUM_EXAMPLES]}


class _Corpus:
    """A corpus read once per use, with its documents (or sentences) split into training and held-out parts."""

    def __init__(self, source: str | Path | Sequence[str | Path], skip_bad_rows: bool) -> None:
        from ..readers.corpus import CorpusFacts, read_documents

        if source == "-" or (not isinstance(source, (str, Path)) and "-" in source):
            raise InputError("A comparison reads the corpus several times: pass files, not standard input.")
        self._read = lambda: read_documents(source, skip_bad_rows=skip_bad_rows)
        facts = CorpusFacts()
        held_out = {"document": 0, "sentence": 0}
        for number, document in enumerate(read_documents(source, skip_bad_rows=skip_bad_rows, facts=facts), start=1):
            held_out["document"] += len(document.sentences) * (number % HELD_OUT == 0)
        held_out["sentence"] = facts.sentences // HELD_OUT
        self.unit = "document" if facts.documents >= HELD_OUT else "sentence"
        if facts.sentences < HELD_OUT:
            raise InputError(f"A comparison needs at least {HELD_OUT} sentences; the corpus has {facts.sentences}.")
        self.num_train = facts.sentences - held_out[self.unit]

    def texts(self, held_out: bool) -> Iterator[str]:
        """Yields the sentences of one part."""
        number = 0
        for document in self._read():
            number += self.unit == "document"
            for sentence in document.sentences:
                number += self.unit == "sentence"
                if (number % HELD_OUT == 0) == held_out:
                    yield sentence


def _chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    iterator = iter(texts)
    while chunk := list(islice(iterator, _TEXTS_PER_CHUNK)):
        yield chunk
