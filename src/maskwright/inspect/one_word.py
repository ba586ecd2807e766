"""Changes of one word that change the prediction of a model, the nearest first.

Candidates come from a masked language model, which predicts each word from the others, so that the changed texts stay
plausible (as in Ross et al. 2021, "Explaining NLP Models via Minimal Contrastive Editing"). Near is a word whose
embedding in that model's table has a high cosine similarity to the original word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ..inference.fill_mask import Candidate, MaskFiller
from ..models.model import Model
from ..text.readers.inputs import Text
from .outputs import Output, SpanOutput, predict
from .reading import read
from .reasons import Word, occlusion, words_of

CANDIDATES = 12  # of each word
MAX_WORDS = 24  # words that are changed, the most important first
BATCH_TEXTS = 128


@dataclass(frozen=True)
class WordChange:
    """A text with one other word.

    word, text, start, end: the original word and where it is; replacement: the other word; changed: the changed text of
    its side; similarity: cosine similarity of the two words; answer, score: the new answer; before: the new score of
    the old answer.
    """

    word: str
    text: int
    start: int
    end: int
    replacement: str
    changed: str
    similarity: float
    answer: str
    score: float
    before: float

    def to_json(self) -> dict[str, Any]:
        """Return all fields by name."""
        return dict(vars(self))


@dataclass(frozen=True)
class WordChanges:
    """Result of `one_word_changes`. flips: changes of the answer, nearest first; closest: the change that lowers the
    score of the answer most; num_tried: number of changed texts.
    """

    flips: tuple[WordChange, ...]
    closest: WordChange | None
    num_tried: int

    def to_json(self, count: int = 8) -> dict[str, Any]:
        """Return {"tried", "num_flips", "flips", "closest"} with the `count` nearest flips."""
        return {
            "tried": self.num_tried,
            "num_flips": len(self.flips),
            "flips": [one.to_json() for one in self.flips[:count]],
            "closest": None if self.closest is None else self.closest.to_json(),
        }


def one_word_changes(output: Output, proposer: Model) -> WordChanges:
    """Change each word to the candidates of a masked language model, and predict again.

    The labeled word itself stays. proposer: a masked language model.
    """
    filler = MaskFiller(proposer)
    index = int(predict([output])[0].argmax())
    if isinstance(output, SpanOutput):
        output = output.at(index)
    words = [one for one in words_of(output) if _is_changeable(one, output)]
    if len(words) > MAX_WORDS:
        order = np.argsort(-np.abs(occlusion(output, index, words)), kind="stable")
        words = [words[place] for place in order[:MAX_WORDS]]
    edits = [(word, token) for word in words for token in _candidates(word, output, filler)]
    changes = []
    for first in range(0, len(edits), BATCH_TEXTS):
        changes += _predicted(output, index, filler, edits[first : first + BATCH_TEXTS])
    old = output.name(index)
    flips = sorted((one for one in changes if one.answer != old), key=lambda one: -one.similarity)
    closest = None if output.is_number else min(changes, key=lambda one: one.before, default=None)
    return WordChanges(tuple(flips), closest, len(changes))


def _is_changeable(word: Word, output: Output) -> bool:
    if not any(letter.isalnum() for letter in word.word):
        return False
    span = output.span
    return span is None or word.text != span[0] or word.end <= span[1] or word.start >= span[2]


def _candidates(word: Word, output: Output, filler: MaskFiller) -> list[Candidate]:
    """Return the whole words that the language model expects in this place."""
    text = _side(output, word.text)
    found = filler.fill([f"{text[: word.start]}{filler.mask_token}{text[word.end :]}"], 4 * CANDIDATES)[0]
    mask = next(one for one in found.masks if one.start == word.start)
    words = [replace(one, token_str=one.token_str.strip()) for one in mask.candidates]
    kept = [one for one in words if one.token_str.isalpha() and one.token_str.lower() != word.word.lower()]
    return kept[:CANDIDATES]


def _predicted(
    output: Output, index: int, filler: MaskFiller, edits: Sequence[tuple[Word, Candidate]]
) -> list[WordChange]:
    """Predict the texts with these edits in one pass."""
    span, old = output.span, output.name(index)
    most = len(output.reading.source) + 8  # a word may have more tokens than the one that it replaces
    made, others = [], []
    for word, candidate in edits:
        new = candidate.token_str.capitalize() if word.word[:1].isupper() else candidate.token_str
        side = _side(output, word.text)
        changed = f"{side[: word.start]}{new}{side[word.end :]}"
        is_before = span is not None and word.text == span[0] and word.end <= span[1]
        reading = read(output.reading.model, _with_side(output, word.text, changed), max_length=most)
        others.append(output.again(reading, len(changed) - len(side) if is_before else 0))
        made.append((word, new, changed, _similarity(filler, word.word, candidate.token)))
    found = []
    for (word, new, changed, similarity), other, logits in zip(made, others, predict(others), strict=True):
        scores, best = other.scores(logits), int(logits.argmax())
        name, score = other.name(best), float(scores[best])
        before = float(scores[other.index(old)]) if other.knows(old) else 0.0
        found.append(
            WordChange(word.word, word.text, word.start, word.end, new, changed, similarity, name, score, before)
        )
    return found


def _similarity(filler: MaskFiller, word: str, token: int) -> float:
    table = filler.model.word_embeddings.detach()
    own = table[torch.tensor(filler.tokenizer.encode_plain([word])[0], device=table.device)].float().mean(dim=0)
    return float(torch.cosine_similarity(own, table[token].float(), dim=0))


def _side(output: Output, number: int) -> str:
    source = output.reading.source
    return source.text if number == 0 else source.text_pair or ""


def _with_side(output: Output, number: int, changed: str) -> Text:
    source = output.reading.source
    if source.text_pair is None:
        return changed
    return (changed, source.text_pair) if number == 0 else (source.text, changed)
