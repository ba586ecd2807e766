"""Why a model gives an answer: the words that it depends on, with a check, and what it would say at each layer.

Two attributions are computed for each word: integrated gradients (`attribution`), and occlusion, the decrease of the
score if the word is replaced by the baseline (Zeiler and Fergus 2014). An attribution is only trustworthy if removing
the words it names changes the answer more than removing as many random words: this is measured (comprehensiveness;
DeYoung et al. 2020, section 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..core.errors import InputError
from ..core.randomness import generator
from .attribution import Attribution, attribute_output, baseline_of, embeddings_of, logits_of
from .outputs import MASKED_LM_HEADS, Output, SpanOutput

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
