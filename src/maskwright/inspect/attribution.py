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
from ..models.model import Model, tokenizer_of
from ..text.readers.inputs import Text
from .outputs import MASKED_LM_HEADS, Output, output_of
from .reading import TokenizedText, read
from .tokens import Tokens

STEPS = 16  # initial integration points; doubled until completeness holds
MAX_STEPS = 512
TOLERANCE = 0.01  # relative to the difference of the logits plus 0.1
BATCH_TOKENS = 4096  # tokens whose gradients are computed at once


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
    start: int = 0,
    baseline: str = "mask",
    max_length: int | None = None,
) -> Attribution:
    """Attribute a prediction of the model to the tokens of a text.

    answer: a label of a classifier or tagger, or a token for a mask; None for the model's prediction. place: mask index
    from 0; start: for a tagger, a character of the word. baseline: replacement of all tokens except special ones:
    "mask", "pad" or "zero" (zero embeddings). Raises InputError for a model without an output to explain, and for an
    unknown answer.
    """
    reading = read(model, text, max_length=max_length)
    return attribute_of(reading, answer, place=place, start=start, baseline=baseline)


def attribute_of(
    reading: TokenizedText,
    answer: str | None = None,
    *,
    place: int = 0,
    start: int = 0,
    baseline: str = "mask",
    steps: int = STEPS,
) -> Attribution:
    """Attribute a prediction for a text that was read. steps: initial integration points."""
    output = output_of(reading, place, start)
    return attribute_output(output, None if answer is None else output.index(answer), baseline=baseline, steps=steps)


def attribute_output(
    output: Output, index: int | None = None, *, baseline: str = "mask", steps: int = STEPS, most: int = MAX_STEPS
) -> Attribution:
    """Attribute one answer of an output: `index`, or the predicted one. most: maximum integration points."""
    check(1 <= steps <= most, f"steps is {steps}; it must be 1 to {most}.")
    reading = output.reading
    vectors = embeddings_of(reading)
    neutral = baseline_of(output, baseline, vectors)
    ends = logits_of(output, torch.stack([neutral, vectors])).double()  # [2, answers]
    index = int(ends[1].argmax()) if index is None else index
    at_baseline, at_text = ends[:, index].tolist()
    while True:
        gradient = _mean_gradient(output, neutral, vectors, index, steps)
        found = (gradient * (vectors - neutral).double()).sum(dim=-1).cpu().numpy()  # [tokens]
        gap = float(found.sum() - (at_text - at_baseline))
        made = Attribution(reading.source, output.name(index), found, at_text, at_baseline, gap, steps)
        if made.is_complete or 2 * steps > most:
            return made
        steps *= 2


def embeddings_of(reading: TokenizedText) -> Tensor:
    """Return the token embeddings of a text: float [tokens, size]."""
    found: Tensor = reading.model.encoder.embeddings.word(reading.batch().input_ids).detach()
    return found


def baseline_of(output: Output, baseline: str, vectors: Tensor) -> Tensor:
    """Return the token embeddings of the baseline: float [tokens, size].

    Special tokens stay, and so do masks where they are predicted. baseline: see `attribute`.
    """
    check(baseline in ("mask", "pad", "zero"), f"baseline is '{baseline}'; it must be mask, pad or zero.")
    reading, model = output.reading, output.reading.model
    mask_id = tokenizer_of(model).mask_id
    id = {"mask": mask_id, "pad": model.config.pad_token_id, "zero": None}[baseline]
    neutral = torch.zeros_like(vectors[0]) if id is None else model.encoder.embeddings.word.weight[id].detach()
    stays = torch.tensor(reading.source.is_special, device=vectors.device)[:, None]  # [tokens, 1]
    if model.head_name in MASKED_LM_HEADS and mask_id is not None:
        stays = stays | torch.tensor([[id == mask_id] for id in reading.source.ids], device=vectors.device)
    return torch.where(stays, vectors, neutral)


@torch.no_grad()
def logits_of(output: Output, vectors: Tensor) -> Tensor:
    """Compute logits, float [texts, answers], for token embeddings, float [texts, tokens, size]."""
    at_once = max(1, BATCH_TOKENS // vectors.shape[1])
    return torch.cat([_logits(output, part) for part in vectors.split(at_once)])


def _logits(output: Output, vectors: Tensor) -> Tensor:
    """As `logits_of`, with gradients, in one pass."""
    model = output.reading.model
    pack = output.pack(len(vectors))
    flat = vectors.reshape(-1, vectors.shape[-1])
    handle = model.encoder.embeddings.word.register_forward_hook(lambda module, inputs, made: flat)
    engine, model.engine = model.engine, None  # the engine has no gradients
    try:
        return output.logits(model.hidden_for_head(pack), pack)
    finally:
        handle.remove()
        model.engine = engine


def _mean_gradient(output: Output, start: Tensor, end: Tensor, index: int, steps: int) -> Tensor:
    """Return the mean gradient along the path by Gauss-Legendre quadrature: float64 [tokens, size]."""
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    parts = torch.from_numpy((nodes + 1) / 2).to(end)  # positions on the path, 0 to 1
    total = torch.zeros_like(end, dtype=torch.float64)
    at_once = max(1, BATCH_TOKENS // len(end))
    for first in range(0, steps, at_once):
        part = parts[first : first + at_once, None, None]
        vectors = (start + part * (end - start)).detach().requires_grad_()  # [points, tokens, size]
        with torch.enable_grad():
            answers = _logits(output, vectors)[:, index].sum()
            (gradients,) = torch.autograd.grad(answers, vectors)
        shares = torch.from_numpy(weights[first : first + at_once] / 2).to(total)
        total += torch.einsum("p,pts->ts", shares, gradients.double())
    return total
