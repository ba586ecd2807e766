"""Feature attribution by integrated gradients (Sundararajan et al. 2017, equation 1).

The gradient is integrated along the straight line from the baseline embeddings to those of the text; a token's
attribution is the integral times the difference of its embeddings. The attributions sum to the difference of the logits
("completeness", proposition 1); steps are doubled until this holds.
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
from ..models.heads import SequenceClassificationHead
from ..models.model import Model, tokenizer_of
from ..text.readers.inputs import Text
from .reading import TokenizedText, read
from .tokens import Tokens

STEPS = 16  # initial integration points; doubled until completeness holds
MAX_STEPS = 512
TOLERANCE = 0.01  # relative to the difference of the logits plus 0.1
BATCH_TOKENS = 4096  # tokens whose gradients are computed at once
PREDICTIONS = ("mlm", "pretraining")


@dataclass(frozen=True, eq=False)
class Attribution:
    """Attributions of the tokens for one prediction.

    answer: the explained prediction; attributions: in logits, float64 [tokens]; at_text, at_baseline: logits
    for text and baseline; gap: completeness error; steps: integration points.
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
        """Whether completeness holds within TOLERANCE."""
        return abs(self.gap) <= TOLERANCE * (abs(self.at_text - self.at_baseline) + 0.1)

    def to_json(self) -> dict[str, Any]:
        """Return {"answer", "at_text", "at_baseline", "gap", "steps", "tokens": [{"token", "attribution"}]}."""
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
    """Attribute a prediction of the model to the tokens of a text.

    answer: a label of a classifier, or a token for a mask; None for the model's prediction. place: mask index from 0.
    baseline: replacement of all tokens except special ones: "mask", "pad" or "zero" (zero embeddings). Raises
    InputError for a model that predicts neither a class, a number nor a masked token, and for an unknown answer.
    """
    return attribute_of(read(model, text, max_length=max_length), answer, place=place, baseline=baseline)


def attribute_of(
    reading: TokenizedText, answer: str | None = None, *, place: int = 0, baseline: str = "mask", steps: int = STEPS
) -> Attribution:
    """Attribute a prediction for a text that was read. steps: initial integration points."""
    model = reading.model
    check(baseline in ("mask", "pad", "zero"), f"baseline is '{baseline}'; it must be mask, pad or zero.")
    check(1 <= steps <= MAX_STEPS, f"steps is {steps}; it must be 1 to {MAX_STEPS}.")
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
        if made.is_complete or steps >= MAX_STEPS:
            return made
        steps *= 2


def _baseline(reading: TokenizedText, baseline: str, vectors: Tensor) -> Tensor:
    """Return the token embeddings of the baseline: float [tokens, size]."""
    model, tokenizer = reading.model, tokenizer_of(reading.model)
    id = {"mask": tokenizer.mask_id, "pad": model.config.pad_token_id, "zero": None}[baseline]
    neutral = torch.zeros_like(vectors[0]) if id is None else model.encoder.embeddings.word.weight[id].detach()
    stays = torch.tensor(reading.source.is_special, device=vectors.device)[:, None]  # [tokens, 1]
    if model.head_name in PREDICTIONS and tokenizer.mask_id is not None:
        stays = stays | torch.tensor([[id == tokenizer.mask_id] for id in reading.source.ids], device=vectors.device)
    return torch.where(stays, vectors, neutral)


def _position(reading: TokenizedText, place: int) -> int | None:
    """Return the token index of the mask; None for a model that classifies the whole text."""
    model = reading.model
    if isinstance(model.head, SequenceClassificationHead):
        return None
    if model.head_name not in PREDICTIONS:
        raise InputError("Attributions require a model that predicts a class, a number or a masked token.")
    mask_id = tokenizer_of(model).mask_id
    masks = [index for index, id in enumerate(reading.source.ids) if id == mask_id]
    if not 0 <= place < len(masks):
        raise InputError(f"The text has {len(masks)} masks, so there is no mask {place} (counted from 0).")
    return masks[place]


def _answers(model: Model, reading: TokenizedText, vectors: Tensor, position: int | None) -> Tensor:
    """Return logits, [texts, answers], for token embeddings, float [texts, tokens, size]."""
    count, length = vectors.shape[:2]
    ids, types = list(reading.source.ids), list(reading.source.types)
    pack = Batch.from_sequences([ids] * count, [types] * count if any(types) else None).to(vectors.device)
    flat = vectors.reshape(count * length, -1)
    handle = model.encoder.embeddings.word.register_forward_hook(lambda module, inputs, output: flat)
    engine, model.engine = model.engine, None  # the engine has no gradients
    try:
        if position is None:
            return model.logits(pack).float()
        hidden = model.encode(pack).hidden.view(count, length, -1)[:, position]  # [texts, hidden]
        return model.mlm_logits(hidden).float()
    finally:
        handle.remove()
        model.engine = engine


def _answer(reading: TokenizedText, answer: str | None, logits: Tensor, position: int | None) -> tuple[int, str]:
    """Return index and name of the explained prediction. logits: float [answers], for the text."""
    model = reading.model
    if position is None:
        labels = list(model.labels) or ["the number"]
        if answer is not None and answer not in labels:
            raise InputError(f"'{answer}' is not a label of this model; its labels are {', '.join(labels[:12])}.")
        index = int(logits.argmax()) if answer is None else labels.index(answer)
        return index, labels[index]
    tokenizer = tokenizer_of(model)
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
    model: Model, reading: TokenizedText, start: Tensor, end: Tensor, position: int | None, index: int, steps: int
) -> Tensor:
    """Return the mean gradient along the path by Gauss-Legendre quadrature: float64 [tokens, size]."""
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    parts = torch.from_numpy((nodes + 1) / 2).to(end)  # positions on the path, 0 to 1
    total = torch.zeros_like(end, dtype=torch.float64)
    at_once = max(1, BATCH_TOKENS // len(end))
    for first in range(0, steps, at_once):
        part = parts[first : first + at_once, None, None]
        vectors = (start + part * (end - start)).detach().requires_grad_()  # [points, tokens, size]
        with torch.enable_grad():
            answers = _answers(model, reading, vectors, position)[:, index].sum()
            (gradients,) = torch.autograd.grad(answers, vectors)
        shares = torch.from_numpy(weights[first : first + at_once] / 2).to(total)
        total += torch.einsum("p,pts->ts", shares, gradients.double())
    return total
