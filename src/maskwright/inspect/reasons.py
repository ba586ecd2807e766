"""Why a model gives an answer: the words that it depends on, with a check, and what it would say at each layer.

Two attributions are computed for each word: integrated gradients (`attribution`), and occlusion, the decrease of the
score if the word is replaced by the baseline (Zeiler and Fergus 2014). An attribution is only trustworthy if removing
the words it names changes the answer more than removing as many random words: this is measured (comprehensiveness;
DeYoung et al. 2020, section 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ..core.errors import InputError
from ..core.randomness import generator
from ..inference.fill_mask import Candidate, MaskFiller
from ..models.model import Model
from ..text.readers.inputs import Text
from .attribution import Attribution, attribute_output, baseline_of, embeddings_of, logits_of
from .outputs import MASKED_LM_HEADS, Output, SpanOutput, predict
from .reading import read

MAX_TOKENS = 160  # of an explained text
DRAWS = 20  # random sets of words for each number of removed words
LEVELS = 4  # maximum numbers of removed words
SHARE = 0.2  # of the words that the check removes, at most CHECKED
CHECKED = 5
LIKELY = 0.9  # fraction of random sets that the named words must exceed
ROUNDING = 1e-6  # the same words in another batch are no smaller change
SAME_NAME = 4  # spans that may have the same words
SHOWN_ANSWERS = 3


@dataclass(frozen=True)
class Word:
    """A word. text: 0, or 1 for the second of a pair; start, end: characters; tokens: its token indices."""

    word: str
    text: int
    start: int
    end: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Removal:
    """Scores of the answer without the most important words, and without random ones.

    counts: numbers of removed words, from 0; scores: by method, float64 [counts]; random: float64 [draws, counts];
    checked: position in `counts` of the number that the check uses.
    """

    counts: tuple[int, ...]
    scores: dict[str, np.ndarray]
    random: np.ndarray
    checked: int

    def effect(self, method: str) -> float:
        """Change of the score without the checked number of the most important words."""
        return float(abs(self.scores[method][0] - self.scores[method][self.checked]))

    def beats(self, method: str) -> float:
        """Fraction of the random sets whose removal changes the score less."""
        random = np.abs(self.random[:, 0] - self.random[:, self.checked])
        return float((random < self.effect(method) - ROUNDING).mean())

    def to_json(self) -> dict[str, Any]:
        """Return {"counts", "checked", "scores", "random": {"mean", "low", "high"}, "beats", "holds"}."""
        random = {"mean": self.random.mean(axis=0), "low": self.random.min(axis=0), "high": self.random.max(axis=0)}
        return {
            "counts": list(self.counts),
            "checked": self.checked,
            "draws": len(self.random),
            "scores": {name: values.tolist() for name, values in self.scores.items()},
            "random": {name: values.tolist() for name, values in random.items()},
            "beats": {name: self.beats(name) for name in self.scores},
            "holds": {name: self.beats(name) >= LIKELY for name in self.scores},
        }


@dataclass(frozen=True, eq=False)
class Reasons:
    """Why an output has its answer.

    answer, score: the explained answer, and its probability or number; scores: of all answers, float64 [answers];
    answers: the most probable ones with their scores; words: of the text; attributions: float64 [words] by method,
    "gradients" in logits and "occlusion" in score; attribution: by token; attention: mean over heads of the attention
    of the answering tokens, float64 [layers, tokens], None without attention; layers: the most probable answers and the
    score of `answer` in each layer, the embeddings first.
    """

    output: Output
    answer: str
    score: float
    scores: np.ndarray
    answers: tuple[tuple[str, float], ...]
    words: tuple[Word, ...]
    attributions: dict[str, np.ndarray]
    attribution: Attribution
    removal: Removal | None
    attention: np.ndarray | None
    layers: tuple[tuple[tuple[tuple[str, float], ...], float], ...]

    def score_of(self, name: str) -> float | None:
        """Return the score of an answer by name; None for one that the model does not know."""
        known = dict(self.answers).get(name)
        return float(self.scores[self.output.index(name)]) if known is None and self.output.knows(name) else known

    def to_json(self) -> dict[str, Any]:
        """Return everything except tensors, with words and tokens by name."""
        words = [
            {"word": one.word, "text": one.text, "start": one.start, "end": one.end}
            | {name: float(values[index]) for name, values in self.attributions.items()}
            for index, one in enumerate(self.words)
        ]
        return {
            "answer": self.answer,
            "score": self.score,
            "is_number": self.output.is_number,
            "answers": [{"answer": name, "score": score} for name, score in self.answers],
            "span": self.output.span,
            "words": words,
            "complete": self.attribution.is_complete,
            "removal": None if self.removal is None else self.removal.to_json(),
            "tokens": list(self.attribution.tokens.labels),
            "places": list(self.output.places),
            "attention": None if self.attention is None else self.attention.tolist(),
            "layers": [
                {"answers": [{"answer": name, "score": share} for name, share in best], "score": own}
                for best, own in self.layers
            ],
        }


def explain(output: Output, *, answer: str | None = None, shown: int = 12, seed: int = 0) -> Reasons:
    """Explain one answer of an output: `answer`, or the predicted one.

    shown: number of answers to list; seed: of the random sets of words. Raises InputError for a text of more than
    MAX_TOKENS tokens, and for an unknown answer.
    """
    source = output.reading.source
    if len(source) > MAX_TOKENS:
        raise InputError(f"The text has more than {MAX_TOKENS} tokens: reasons are computed for shorter texts.")
    vectors = embeddings_of(output.reading)
    logits = logits_of(output, vectors[None])[0]
    index = int(logits.argmax()) if answer is None else output.index(answer)
    if isinstance(output, SpanOutput):
        output = output.at(index)
    words = words_of(output)
    attribution = attribute_output(output, index, baseline=neutral_for(output))
    scores = output.scores(logits)
    score = float(scores[index])
    attributions = {
        "gradients": np.array([attribution.attributions[list(one.tokens)].sum() for one in words]),
        "occlusion": occlusion(output, index, words),
    }
    removal = _removal(output, index, words, attributions, seed) if len(words) > 1 else None
    attention, layers = _inside(output, index)
    return Reasons(
        output,
        output.name(index),
        score,
        scores.cpu().numpy(),
        _best(output, logits, shown),
        words,
        attributions,
        attribution,
        removal,
        attention,
        layers,
    )


def neutral_for(output: Output) -> str:
    """Return the baseline of `attribution`: for a masked language model not another mask."""
    return "pad" if output.reading.model.head_name in MASKED_LM_HEADS else "mask"


def scores_without(output: Output, index: int, removed: Sequence[Sequence[Word]]) -> np.ndarray:
    """Return the scores of an answer without the words of each set: float64 [sets]."""
    vectors = embeddings_of(output.reading)
    neutral = baseline_of(output, neutral_for(output), vectors)
    texts = vectors.repeat(len(removed), 1, 1)
    for text, own in zip(texts, removed, strict=True):
        tokens = [token for word in own for token in word.tokens]
        text[tokens] = neutral[tokens]
    found: np.ndarray = output.scores(logits_of(output, texts))[:, index].cpu().numpy()
    return found


def occlusion(output: Output, index: int, words: Sequence[Word]) -> np.ndarray:
    """Return the decrease of the score of an answer without each word: float64 [words]."""
    scores = scores_without(output, index, [(), *((word,) for word in words)])
    decrease: np.ndarray = scores[0] - scores[1:]
    return decrease


def words_of(output: Output) -> tuple[Word, ...]:
    """Return the words of a text that can be removed: not special tokens, and not the mask that is predicted."""
    source, vectors = output.reading.source, embeddings_of(output.reading)
    is_removable = baseline_of(output, neutral_for(output), vectors).ne(vectors).any(dim=-1).tolist()
    found = []
    for number, text in enumerate((source.text, source.text_pair or "")):
        for start, end in output.segment(text):
            tokens = tuple(
                index
                for index, (first, last) in enumerate(source.offsets)
                if source.texts[index] == number and start <= first < end and last > first and is_removable[index]
            )
            if tokens:
                found.append(Word(text[start:end], number, start, end, tokens))
    return tuple(found)


def _removal(
    output: Output, index: int, words: Sequence[Word], attributions: dict[str, np.ndarray], seed: int
) -> Removal:
    count = len(words)
    checked = max(1, min(CHECKED, round(SHARE * count)))
    evenly = np.linspace(1, count, min(count, LEVELS)).round().astype(int).tolist()
    counts = sorted({0, checked, *evenly})
    draw = generator(seed, "removed words")
    orders = [draw.permutation(count) for _ in range(DRAWS)]
    named = {
        name: np.argsort(-(np.abs(values) if output.is_number else values), kind="stable")
        for name, values in attributions.items()
    }
    every = [*named.values(), *orders]
    sets = [frozenset(order[:removed].tolist()) for order in every for removed in counts]
    known = list(dict.fromkeys(sets))  # without any word and without all words, the orders agree
    scored = scores_without(output, index, [[words[place] for place in one] for one in known])
    number = {one: place for place, one in enumerate(known)}
    rows = scored[[number[one] for one in sets]].reshape(len(every), -1)  # [orders, counts]
    scores = {name: rows[index] for index, name in enumerate(named)}
    return Removal(tuple(counts), scores, rows[len(named) :], counts.index(checked))


def _inside(output: Output, index: int) -> tuple[np.ndarray | None, Any]:
    """Return the attention of the answering tokens, and the answers of every layer."""
    reading = output.reading
    model = reading.model
    with torch.inference_mode():
        encoded, _ = reading.run()
        *below, last = encoded.hidden_states or ()
        pack = output.pack()
        # A layer that the head was not trained on: only the last one gives the model's own answer.
        states = [model.encoder.finish(layer) for layer in below] if model.config.recurrent is None else []
        top = encoded.hidden if model.top is not None else last
        layers = tuple(
            (_best(output, logits, SHOWN_ANSWERS), float(output.scores(logits)[index]))
            for logits in (output.logits(hidden, pack)[0] for hidden in (*states, top))
        )
    if not encoded.attentions:
        return None, layers
    rows = [layer[0].float().mean(dim=0)[list(output.places)].mean(dim=0) for layer in encoded.attentions]
    attention: np.ndarray = torch.stack(rows).double().cpu().numpy()  # [layers, tokens]
    return attention, layers


def _best(output: Output, logits: torch.Tensor, count: int) -> tuple[tuple[str, float], ...]:
    scores = output.scores(logits)
    order = scores.argsort(descending=True, stable=True)
    found: dict[str, float] = {}
    valid = int(logits.isfinite().sum())
    for index in order[: min(SAME_NAME * count, valid)].tolist():  # spans over the same words are one answer
        found.setdefault(output.name(index), float(scores[index]))
    return tuple(found.items())[:count]


# -- Changes of one word that change the prediction of a model, the nearest first ------------------------------------
#
# Candidates come from a masked language model, which predicts each word from the others, so that the changed texts stay
# plausible (as in Ross et al. 2021, "Explaining NLP Models via Minimal Contrastive Editing"). Near is a word whose
# embedding in that model's table has a high cosine similarity to the original word.


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
