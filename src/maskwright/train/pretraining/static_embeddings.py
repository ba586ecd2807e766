"""Static word embeddings from raw text: one vector per word, independent of context (Mikolov et al. 2013).

Gensim trains them. They are saved as the embedding table of a network without layers, so `embed`,
`search` and `finetune` accept them like any encoder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...core import storage
from ...core.errors import InputError, MissingExtraError
from ...core.progress import track
from ...hub.folders import save_model
from ...hub.static_vectors import bag_of_vectors
from ...text.readers.corpus import read_documents
from ...text.tokenizers.tokenizer import Tokenizer
from ..against_baseline import Compared
from .config import StaticConfig

# -- How well static word embeddings predict the words of their corpus -----------------------------------------------


MAX_WORDS = 20_000  # words scored
METRIC = "accuracy at choosing the word of the corpus"
BASELINE = "choosing between it and a random word by chance"


def static_score(trained: Any, sentences: Iterable[list[str]], seed: int) -> Compared:
    """How often a word of the corpus scores above a random word, given the words around it.

    The score is the network's own: the mean of the input embeddings of the context, times the output embedding of the
    word. The random word is drawn with the frequency of the corpus, so word frequency alone gives 0.5.

    trained: a `gensim.models.Word2Vec`, trained with negative sampling.
    """
    rng = np.random.default_rng(seed)
    vectors, outputs, window = trained.wv.vectors, trained.syn1neg, trained.window  # both [words, size]
    counts = np.array([trained.wv.get_vecattr(word, "count") for word in trained.wv.index_to_key], dtype=np.float64)
    correct, total = 0.0, 0
    for sentence in sentences:
        rows = [trained.wv.key_to_index[word] for word in sentence]
        if len(rows) < 2:
            continue
        others = rng.choice(len(counts), size=len(rows), p=counts / counts.sum())
        for place, (row, other) in enumerate(zip(rows, others, strict=True)):
            around = rows[max(0, place - window) : place] + rows[place + 1 : place + 1 + window]
            margin = float(vectors[around].mean(axis=0) @ (outputs[row] - outputs[other]))
            correct += 1.0 if margin > 0 else 0.5 * (margin == 0)
        total += len(rows)
        if total >= MAX_WORDS:
            break
    return Compared(METRIC, correct / max(total, 1), 0.5, BASELINE)


BLOCK = 1_000  # sentences per tokenizer call
NEGATIVE = 5  # negative samples per word


@dataclass(frozen=True)
class StaticResult:
    """model: the model folder; words: number of embedded words; tokens: words of the corpus; unknown: the fraction of
    them without an embedding; verdict: how well the embeddings predict words of the corpus.
    """

    model: Path
    words: int
    tokens: int
    unknown: float
    verdict: Compared

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "model": str(self.model), "verdict": self.verdict.to_json()}


def train_static_vectors(config: StaticConfig, *, replace_folder: bool = False) -> StaticResult:
    """Train static word embeddings on a corpus and write their model folder.

    Raises MissingExtraError without gensim, RunError if the folder exists, InputError for a text without words.
    """
    try:
        from gensim.models import Word2Vec
    except ImportError:
        raise MissingExtraError("Training static word embeddings", "vectors") from None

    storage.refuse_existing(config.output, replace=replace_folder)  # before the work, not after it
    tokenizer = Tokenizer.train(
        list(config.corpus),
        kind="word",
        vocab_size=config.vocab_size,
        lowercase=config.lowercase,
        skip_bad_rows=config.skip_bad_rows,
        min_frequency=config.min_count,
    )
    sentences = _Sentences(config, tokenizer)
    if not any(sentences):
        raise InputError("No word of the corpus is frequent enough: lower --min-count, or pass more text.")

    with track("training vectors", None, "epochs"):
        trained = Word2Vec(
            sentences,
            vector_size=config.size,
            window=config.window,
            min_count=1,  # rare words are already removed
            sg=int(config.method == "skip-gram"),
            negative=NEGATIVE,
            seed=config.seed,
            workers=1,
            epochs=config.epochs,
        )
    table = np.zeros((tokenizer.vocab_size, config.size), dtype=np.float32)
    for word, row in trained.wv.key_to_index.items():
        table[int(word)] = trained.wv.vectors[row]
    model = bag_of_vectors(torch.from_numpy(table), tokenizer)
    unknown = sentences.unknown / max(sentences.tokens, 1)
    verdict = static_score(trained, sentences, config.seed)
    result = StaticResult(config.output, len(trained.wv), sentences.tokens, unknown, verdict)
    recipe = {**asdict(config), "output": str(config.output)}
    facts = {
        "task": "static vectors",  # terms: ok
        "training": {**recipe, "words": result.words, "tokens": result.tokens},
        "scores": {verdict.metric: verdict.score},
    }
    save_model(model, config.output, facts=facts, replace=replace_folder)
    return result


class _Sentences:
    """The corpus as sentences of word ids; read again in every epoch."""

    def __init__(self, config: StaticConfig, tokenizer: Tokenizer) -> None:
        self.config, self.tokenizer = config, tokenizer
        self.tokens = self.unknown = 0  # of the last pass over the corpus

    def __iter__(self) -> Iterator[list[str]]:
        self.tokens = self.unknown = 0
        block: list[str] = []
        for document in read_documents(list(self.config.corpus), skip_bad_rows=self.config.skip_bad_rows):
            block += document.sentences
            if len(block) >= BLOCK:
                yield from self._words(block)
                block = []
        yield from self._words(block)

    def _words(self, block: Sequence[str]) -> Iterator[list[str]]:
        for ids in self.tokenizer.encode_plain(list(block)):
            known = [str(id) for id in ids if id != self.tokenizer.unk_id]
            self.tokens += len(ids)
            self.unknown += len(ids) - len(known)
            if known:
                yield known
