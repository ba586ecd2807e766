"""How much each token of a text counts for an answer: integrated gradients (Sundararajan et al. 2017, equation 1).

The word vectors go in a straight line from those of a neutral text to those of the text; a token's attribution is the
integral of the gradient along the way, times how far its vector went. Their sum is the difference of the answers at
both ends ("completeness", proposition 1): it is computed, and steps are added until it holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.config import check
from ..core.errors import InputError
from ..data.batch import Batch
from ..models.model import Model
from ..text.inputs import Text
from .reading import Reading, read
from .tokens import Tokens

STEPS = 16  # points of the first rule; doubled until completeness holds
MOST_STEPS = 512
TOLERANCE = 0.01  # of the difference of both answers, plus the same of 1 logit in 10
BATCH_TOKENS = 4096  # tokens whose gradients are computed at once
CLASSES = ("classification", "regression")
GUESSES = ("mlm", "pretraining")


@dataclass(frozen=True, eq=False)
class Attribution:
    """What each token adds to one answer.

    tokens; answer: the name of what is explained ("positive", "mat at 5"); attributions: float64 [tokens], in logits;
    at_text, at_baseline: the answer's logit at the text, and at the neutral text; gap: sum of the attributions less the
    difference of the two, which completeness wants to be 0; steps: points at which gradients were taken.
    """

    tokens: Tokens
    answer: str
    attributions: np.ndarray
    at_text: float
    at_baseline: float
    gap: float
    steps: int

    @property
    def is_complete(self) -> bool:
        """Whether the sum is the difference, to a hundredth of it."""
        return abs(self.gap) <= TOLERANCE * (abs(self.at_text - self.at_baseline) + 0.1)

    def to_json(self) -> dict[str, Any]:
        """{"answer", "at_text", "at_baseline", "gap", "steps", "tokens": [{"token", "attribution"}]}."""
        rows = zip(self.tokens.labels, self.attributions.tolist(), strict=True)
        tokens = [{"token": label, "attribution": value} for label, value in rows]
        own = {"answer": self.answer, "at_text": self.at_text, "at_baseline": self.at_baseline, "gap": self.gap}
        return {**own, "steps": self.steps, "tokens": tokens}


def attribute(
    model: Model,
    text: Text,
    answer: str | None = None,
    *,
    place: int = 0,
    baseline: str = "mask",
    max_length: int | None = None,
) -> Attribution:
    """What each token of a text adds to an answer of the model.

    answer: a label of a classifier, or a token for a mask; None for the one the model gives. place: which mask, from 0.
    baseline: what stands for every token of the neutral text, "mask", "pad", or "zero" for no word vector at all;
    special tokens stay. Raises InputError for a model whose answer is neither a class, a number nor a masked word, and
    for an answer that it does not know.
    """
    return attribute_of(read(model, text, max_length=max_length), answer, place=place, baseline=baseline)


def attribute_of(
    reading: Reading, answer: str | None = None, *, place: int = 0, baseline: str = "mask", steps: int = STEPS
) -> Attribution:
    """The same for a text that was read. steps: points to begin with."""
    model = reading.model
    check(baseline in ("mask", "pad", "zero"), f"The baseline is '{baseline}'; it takes mask, pad or zero.")
    check(1 <= steps <= MOST_STEPS, f"steps is {steps}; it takes 1 to {MOST_STEPS}.")
    table = model.encoder.embeddings.word
    vectors = table(reading.batch().input_ids).detach()  # [tokens, size]
    start = _baseline(reading, baseline, vectors)
    position = _position(reading, place)
    with torch.no_grad():
        ends = _answers(model, reading, torch.stack([start, vectors]), position).double()  # [2, answers]
    index, name = _answer(reading, answer, ends[1], position)
    at_baseline, at_text = ends[:, index].tolist()
    while True:
        gradient = _mean_gradient(model, reading, start, vectors, position, index, steps)
        found = (gradient * (vectors - start).double()).sum(dim=-1).cpu().numpy()  # [tokens]
        made = Attribution(
            reading.source, name, found, at_text, at_baseline, float(found.sum() - (at_text - at_baseline)), steps
        )
        if made.is_complete or steps >= MOST_STEPS:
            return made
        steps *= 2


def _baseline(reading: Reading, baseline: str, vectors: Tensor) -> Tensor:
    """The word vectors of the neutral text: float [tokens, size]."""
    model, tokenizer = reading.model, reading.model.tokenizer
    id = {"mask": tokenizer.mask_id, "pad": model.config.pad_token_id, "zero": None}[baseline]
    neutral = torch.zeros_like(vectors[0]) if id is None else model.encoder.embeddings.word.weight[id].detach()
    stays = torch.tensor(reading.source.is_special, device=vectors.device)[:, None]  # [tokens, 1]
    if model.head_name in GUESSES and tokenizer.mask_id is not None:
        stays = stays | torch.tensor([[id == tokenizer.mask_id] for id in reading.source.ids], device=vectors.device)
    return torch.where(stays, vectors, neutral)


def _position(reading: Reading, place: int) -> int | None:
    """Index of the mask that is asked; None for a model that judges the whole text."""
    model = reading.model
    if model.head_name in CLASSES:
        return None
    if model.head_name not in GUESSES:
        raise InputError("Attributions explain a class, a number or a masked word; this model answers with neither.")
    masks = [index for index, id in enumerate(reading.source.ids) if id == model.tokenizer.mask_id]
    if not 0 <= place < len(masks):
        raise InputError(f"The text has {len(masks)} masks, and number {place} (from 0) is asked: put a mask there.")
    return masks[place]


def _answers(model: Model, reading: Reading, vectors: Tensor, position: int | None) -> Tensor:
    """Logits for texts whose word vectors are given. vectors: float [texts, tokens, size]. Returns [texts, answers]."""
    count, length = vectors.shape[:2]
    ids, types = list(reading.source.ids), list(reading.source.types)
    pack = Batch.from_sequences([ids] * count, [types] * count if any(types) else None).to(vectors.device)
    flat = vectors.reshape(count * length, -1)
    handle = model.encoder.embeddings.word.register_forward_hook(lambda module, inputs, output: flat)
    engine, model.engine = model.engine, None  # it has packed the tables, and knows no gradient
    try:
        if position is None:
            return model.logits(pack).float()
        hidden = model.encode(pack).hidden.view(count, length, -1)[:, position]  # [texts, hidden]
        return model.mlm_logits(hidden).float()
    finally:
        handle.remove()
        model.engine = engine


def _answer(reading: Reading, answer: str | None, logits: Tensor, position: int | None) -> tuple[int, str]:
    """Index and name of the answer that is explained. logits: float [answers], at the text."""
    model = reading.model
    if position is None:
        labels = list(model.labels) or ["the number"]
        if answer is not None and answer not in labels:
            raise InputError(f"'{answer}' is no answer of this model; it gives {', '.join(labels[:12])}.")
        index = int(logits.argmax()) if answer is None else labels.index(answer)
        return index, labels[index]
    tokenizer = model.tokenizer
    if answer is None:
        index = int(logits.argmax())
    else:
        direct = tokenizer.token_to_id(answer)
        ids = tokenizer.encode_plain([answer])[0] if direct is None else [direct]
        if len(ids) != 1 or ids[0] == tokenizer.unk_id:
            raise InputError(f"'{answer}' is not one token of this model: only single tokens can fill a mask.")
        index = int(ids[0])
    return index, tokenizer.id_to_token(index) or str(index)


def _mean_gradient(
    model: Model, reading: Reading, start: Tensor, end: Tensor, position: int | None, index: int, steps: int
) -> Tensor:
    """The integral over the way by the rule of Gauss and Legendre: float64 [tokens, size]."""
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    parts = torch.from_numpy((nodes + 1) / 2).to(end)  # of the way, from 0 to 1
    total = torch.zeros_like(end, dtype=torch.float64)
    at_once = max(1, BATCH_TOKENS // len(end))
    for first in range(0, steps, at_once):
        own = parts[first : first + at_once, None, None]
        vectors = (start + own * (end - start)).detach().requires_grad_()  # [points, tokens, size]
        with torch.enable_grad():
            answers = _answers(model, reading, vectors, position)[:, index].sum()
            (gradients,) = torch.autograd.grad(answers, vectors)
        shares = torch.from_numpy(weights[first : first + at_once] / 2).to(total)
        total += torch.einsum("p,pts->ts", shares, gradients.double())
    return total
