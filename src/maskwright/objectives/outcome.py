"""What a loss gives the training loop: summed losses, scores compared with those of trivial baselines; further losses.

Both are computed together from the same labels, so a score is comparable with its baseline. Special tokens (end of
text, sentinels) are trained but not scored: their positions follow from the example format, so predicting them does not
show an understanding of the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..models.model import Model


@dataclass(frozen=True)
class Score:
    """Sums over the scored labels of one part of a batch, so that batches of unequal size add up exactly.

    labels: int64 [], number of scored labels; correct: int64 [], number of correct predictions; constant: int64
    [answers], number of labels equal to each constant prediction (the maximum is the majority-class baseline); loss,
    unigram_loss: float [], summed cross-entropy of the model and of the unigram model, for token labels. None: unknown.
    """

    labels: Tensor
    correct: Tensor
    constant: Tensor | None = None
    loss: Tensor | None = None
    unigram_loss: Tensor | None = None

    def sums(self) -> dict[str, Tensor]:
        """Returns the known sums, scalars: "scored", "correct", "constant 0", "constant 1", ..., "scored_loss" and
        "unigram_loss".
        """
        found: dict[str, Tensor | None] = {"scored": self.labels, "correct": self.correct}
        found |= {"scored_loss": self.loss, "unigram_loss": self.unigram_loss}
        if self.constant is not None:
            found |= {f"constant {answer}": count for answer, count in enumerate(self.constant)}
        return {name: value for name, value in found.items() if value is not None}


def mean_scores(sums: dict[str, float]) -> dict[str, float]:
    """Returns means of added `Score.sums`: "accuracy"; "baseline", the accuracy of the best constant prediction; for
    tokens also "scored_loss" and "baseline_loss", the cross-entropy of the unigram model.
    """
    count = max(sums["scored"], 1)
    means = {"accuracy": sums["correct"] / count}
    constants = [value for name, value in sums.items() if name.startswith("constant ")]
    if constants:
        means["baseline"] = max(constants) / count
    for name, key in (("scored_loss", "scored_loss"), ("unigram_loss", "baseline_loss")):
        if name in sums:
            means[key] = sums[name] / count
    return means


class TokenScorer:
    """Scores predicted tokens, and the unigram model of the training text on the same labels.

    is_special: bool [vocab]; counts: int64 [vocab], token counts in the training text (the unigram model has add-one
    smoothing and predicts no special tokens), None for no baseline; predicts_special: whether special tokens are among
    the labels; they are not scored.
    """

    def __init__(self, is_special: np.ndarray, counts: np.ndarray | None, predicts_special: bool) -> None:
        self._is_special = torch.from_numpy(is_special) if predicts_special else None
        self.most_common = -1
        self._unigram_losses: Tensor | None = None  # float64 [vocab]
        if counts is not None:
            smoothed = np.where(is_special[: len(counts)], 0.0, counts + 1.0)
            fraction = smoothed / smoothed.sum()
            self.most_common = int(fraction.argmax())
            self._unigram_losses = torch.from_numpy(-np.log(np.maximum(fraction, 1e-12)))

    def loss(self, network: Model, vectors: Tensor, labels: Tensor) -> tuple[Tensor, Score]:
        """Summed cross-entropy over all labels, int64 [labels], with gradient; and the score. vectors: float [labels,
        hidden].
        """
        loss, correct, scored_loss = network.predictions.loss(
            vectors, network.scored_words, labels, is_scored=self._is_scored(labels)
        )
        return loss, self._score(labels, correct, scored_loss)

    def score(self, logits: Tensor, labels: Tensor) -> Score:
        """The score of existing predictions. logits: float [labels, vocab]; labels: int64 [labels]."""
        is_scored = self._is_scored(labels)
        is_right = logits.argmax(dim=-1) == labels
        losses = F.cross_entropy(logits.float(), labels, reduction="none")  # [labels]
        return self._score(labels, _sum(is_right, is_scored), _sum(losses, is_scored))

    def _score(self, labels: Tensor, correct: Tensor, loss: Tensor) -> Score:
        is_scored = self._is_scored(labels)
        count = torch.tensor(len(labels)) if is_scored is None else is_scored.sum()
        if self._unigram_losses is None:
            return Score(count, correct, loss=loss)
        self._unigram_losses = self._unigram_losses.to(labels.device)
        constant = _sum(labels == self.most_common, is_scored)[None]
        return Score(count, correct, constant, loss, _sum(self._unigram_losses[labels], is_scored))

    def _is_scored(self, labels: Tensor) -> Tensor | None:
        if self._is_special is None:
            return None
        self._is_special = self._is_special.to(labels.device)
        return ~self._is_special[labels]


def _sum(values: Tensor, is_scored: Tensor | None) -> Tensor:
    return values.sum() if is_scored is None else (values * is_scored).sum()


def score_classes(predicted: Tensor, labels: Tensor, num_classes: int = 2) -> Score:
    """The score of predictions of a few classes. predicted, labels: int64 or bool [labels]."""
    # without `bincount`, for which the host waits for a GPU
    constant = torch.stack([(labels == number).sum() for number in range(num_classes)])
    return Score(torch.tensor(len(labels)), (predicted == labels).sum(), constant)


@dataclass
class LossSums:
    """Sums over one batch, by part ("mlm", "nsp", ...), so that batches of unequal size add up exactly.

    losses: scalar tensors with gradient, the summed loss of each part; counts: number of labels of each part; correct:
    scalar tensors, number of correct predictions, for parts without a score; weights: factor of a part's mean loss in
    the total, default 1; scores: correct predictions and their baseline, by part.
    """

    losses: dict[str, Tensor]
    counts: dict[str, int]
    correct: dict[str, Tensor] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    scores: dict[str, Score] = field(default_factory=dict)


# -- Losses for sentence embeddings: similar meanings should be close, different ones far apart ----------------------
#
# in_batch_loss   positive pairs with in-batch negatives (multiple negatives ranking loss; van den Oord et al. 2018,
#                 equation 4; Henderson et al. 2017, section 4.4); with two dropout masks of one text as the pair it is
#                 SimCSE (Gao et al. 2021, equation 4)
# flops           regularizer of sparse embeddings (Paria et al. 2020, equation 4; Formal et al. 2021, equation 5)

TEMPERATURE = 0.05


def in_batch_logits(
    first: Tensor, second: Tensor, twins: Tensor | None = None, temperature: float = TEMPERATURE
) -> Tensor:
    """Logits of each first text against all second ones: float [pairs, pairs]. first, second: float [pairs, size],
    normalized.

    twins: int64 [pairs], equal for identical second texts; duplicates of the positive are excluded from the negatives.
    """
    logits = first @ second.T / temperature
    if twins is None:
        return logits
    same = twins[:, None] == twins[None, :]
    return logits.masked_fill(same.fill_diagonal_(False), float("-inf"))


def in_batch_loss(logits: Tensor, is_positive: Tensor) -> Tensor:
    """Summed cross-entropy of finding the positive, over the positive pairs: a scalar.

    logits: float [pairs, pairs] of `in_batch_logits`; is_positive: bool [pairs]. The second text of a negative pair is
    an additional negative for the others.
    """
    rows = is_positive.nonzero().flatten()  # [positives]
    return F.cross_entropy(logits[rows], rows, reduction="sum")


def flops(vectors: Tensor) -> Tensor:
    """Sum over the terms of the squared mean weight, a scalar. vectors: float [texts, terms], not negative."""
    return vectors.mean(dim=0).square().sum()


# -- Focal loss: down-weights well-classified examples, so that many easy ones do not dominate few hard ones ---------
#
# Lin et al. 2017, "Focal Loss for Dense Object Detection": FL(p_t) = -(1 - p_t)^gamma log(p_t) (equation 4), times a
# class weight (equation 5); p_t is the probability of the correct class. With gamma 0 it is the cross-entropy.


def focal_cross_entropy(logits: Tensor, targets: Tensor, gamma: float) -> Tensor:
    """Equation 4 for single-label classification, p_t from the softmax.

    logits: float [rows, classes]; targets: int [rows]. Returns float [rows], without the weight of equation 5.
    """
    log_right = logits.log_softmax(dim=-1).gather(1, targets[:, None]).squeeze(1)  # [rows]
    return _focus(log_right, gamma) * -log_right


def focal_binary(logits: Tensor, targets: Tensor, gamma: float, pos_weight: Tensor | None = None) -> Tensor:
    """Equation 4 for multi-label classification, p_t from the sigmoid.

    logits: float [rows, labels]; targets: 0.0 or 1.0 [rows, labels]; pos_weight: float [labels], the weight of equation
    5 for positive labels (1 for negative ones). Returns float [rows, labels].
    """
    log_right = torch.where(targets > 0.5, F.logsigmoid(logits), F.logsigmoid(-logits))
    losses = _focus(log_right, gamma) * -log_right
    return losses if pos_weight is None else torch.where(targets > 0.5, losses * pos_weight, losses)


def _focus(log_right: Tensor, gamma: float) -> Tensor:
    """(1 - p_t)^gamma from log(p_t). Its slope at p_t = 1 is infinite for gamma < 1, so 1 - p_t is clamped above 0."""
    if gamma == 0:
        return torch.ones_like(log_right)
    wrong = -torch.expm1(log_right)
    focus: Tensor = wrong.clamp_min(torch.finfo(wrong.dtype).tiny ** 0.5) ** gamma
    return focus
