"""Batches of texts on which a graph and its model are compared: alone and side by side, short and long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.randomness import generator
from ..models.decoding.beam import Beams
from ..models.decoding.steps import start_token
from ..models.decoding.translation import translate_ids
from ..models.encoder_decoder import EncoderDecoder
from ..models.heads import ChoiceHead
from ..models.model import Model, tokenizer_of
from ..text.readers.inputs import Text
from .cached import Network
from .padding import TYPES

NUM_TEXTS = 72
LONGEST = 1024  # tokens of the longest drawn text: attention over more would take minutes
CHOICES = 3
TARGET_TOKENS = 24
MOST_WORDS = 128
_SHORT = (1, 2, 3, 5)
_WORDS = (*_SHORT, 32, *_SHORT, 64, *_SHORT, MOST_WORDS)  # of cut and of joined texts, by turns
_BATCHES = (1, 1, 7, 16, 31)  # rows of the batches, repeated


@dataclass(frozen=True)
class Trial:
    """One batch: texts, or token IDs and types of each row.

    choices: rows of one question, 0 for other models; targets: token IDs of the target of each row, for a decoder.
    """

    texts: Sequence[Text] = ()
    ids: Sequence[Sequence[int]] = ()
    types: Sequence[Sequence[int]] | None = None
    choices: int = 0
    targets: Sequence[Sequence[int]] = ()

    def shaped(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns inputs [rows, seq] as the graph takes them: [questions, choices, seq] for multiple choice."""
        if not self.choices:
            return inputs
        return {name: one.reshape(-1, self.choices, one.shape[1]) for name, one in inputs.items()}

    def to_json(self) -> dict[str, Any]:
        """The form that `reader` reads."""
        found: dict[str, Any] = {"texts": list(self.texts)} if self.texts else {"ids": self.ids, "types": self.types}
        if self.targets:
            found["targets"] = self.targets
        return found | ({"choices": self.choices} if self.choices else {})


def drawn_trials(network: Network, longest: int) -> list[Trial]:
    """Trials of token IDs from the vocabulary, 1 to `longest` tokens; the shortest share a batch with the longest.

    The lengths are beyond every distance at which positions or windows change, as far as `LONGEST`.
    """
    model = network.model
    draw = generator(0, "export trials")
    count = NUM_TEXTS * (CHOICES if isinstance(model.head, ChoiceHead) else 1)
    lengths = np.geomspace(1, min(longest, 128), count).round().astype(int)
    draw.shuffle(lengths)
    most = min(longest, LONGEST)
    # Single texts, the longest with one token, and texts with a first pair of tokens at each power of two.
    lengths[:11] = (1, most, 1, most, *(min(most, 2**power + 1) for power in range(3, 10)))
    known = _ordinary_ids(model)
    ids = [draw.choice(known, length).tolist() for length in lengths]
    types = None
    if TYPES in network.inputs:
        types = [[int(place >= length // 2) for place in range(length)] for length in lengths]
    return _with_targets(model, _batches(ids, types, CHOICES if isinstance(model.head, ChoiceHead) else 0))


def text_trials(texts: Sequence[Text]) -> list[Trial]:
    """Trials of texts."""
    trials: list[Trial] = []
    start = 0
    while start < len(texts):
        size = _BATCHES[len(trials) % len(_BATCHES)]
        trials.append(Trial(texts=texts[start : start + size]))
        start += size
    return trials


def drawn_texts(model: Model, longest: int) -> list[str]:
    """Texts of tokens drawn from the vocabulary, of about 1 to `longest` tokens."""
    assert model.tokenizer is not None
    draw = generator(0, "export texts")
    known = _ordinary_ids(model)
    lengths = [*np.geomspace(1, min(longest, LONGEST), 24).round().astype(int), 1, 1, 2, 3, 5, 8, 13, 40]
    draw.shuffle(lengths)
    return [model.tokenizer.decode(draw.choice(known, length).tolist()) for length in lengths]


def typical_texts(texts: Sequence[Text]) -> list[Text]:
    """Texts of 1 to 128 words: each text, and by turns its first few words, or it and its neighbors as one text."""
    found: list[Text] = []
    for index, text in enumerate(texts):
        found.append(_first_words(text, MOST_WORDS))
        size = _WORDS[index % len(_WORDS)]
        if size <= max(_SHORT) or not isinstance(text, str):
            found.append(_first_words(text, size if size <= max(_SHORT) else MOST_WORDS // 2))
            continue
        around = (one if isinstance(one, str) else " ".join(one) for one in texts[index : index + size])
        found.append(_first_words(" ".join(around), size))
    return found


def token_trials(
    network: Network, texts: Sequence[Text], max_length: int, sizes: Sequence[int] = _BATCHES
) -> list[Trial]:
    """Trials of the tokens of texts. sizes: rows of the batches, or questions of multiple choice, by turns."""
    tokenizer = tokenizer_of(network.model)
    choices = CHOICES if isinstance(network.model.head, ChoiceHead) else 0
    ids, types = tokenizer.encode_ids(list(texts), max_length)
    count = len(ids) // max(choices, 1) * max(choices, 1)
    trials = _batches(ids[:count], types[:count] if TYPES in network.inputs else None, choices, sizes)
    return _with_targets(network.model, trials)


def _with_targets(model: Model, trials: list[Trial]) -> list[Trial]:
    """Adds to each text of an encoder-decoder its greedy translation by the library, up to a few tokens."""
    if not isinstance(model, EncoderDecoder):
        return trials
    start, most = start_token(model), min(TARGET_TOKENS, model.config.max_position_embeddings)
    found = []
    for trial in trials:
        sources = [np.asarray(row) for row in trial.ids]
        texts = translate_ids(model, sources, Beams(1), end_ids=(), max_new_tokens=most)
        found.append(replace(trial, targets=[[start, *text[0].ids[:-1]] for text in texts]))
    return found


def _first_words(text: Text, count: int) -> Text:
    if isinstance(text, str):
        return " ".join(text.split()[:count])
    first, second = (" ".join(one.split()[:count]) for one in text)
    return first, second


def _ordinary_ids(model: Model) -> np.ndarray:
    """IDs of the vocabulary without special tokens: int64 [ids]."""
    special = set() if model.tokenizer is None else set(model.tokenizer.special_ids)
    if model.config.pad_token_id is not None:
        special.add(model.config.pad_token_id)
    size = model.config.vocab_size if model.tokenizer is None else model.tokenizer.vocab_size
    return np.array([one for one in range(size) if one not in special] or [0], dtype=np.int64)


def _batches(
    ids: list[list[int]], types: list[list[int]] | None, choices: int, sizes: Sequence[int] = _BATCHES
) -> list[Trial]:
    trials: list[Trial] = []
    start = 0
    while start < len(ids):
        size = sizes[len(trials) % len(sizes)] * max(choices, 1)
        part = slice(start, start + size)
        trials.append(Trial(ids=ids[part], types=None if types is None else types[part], choices=choices))
        start += size
    return trials
