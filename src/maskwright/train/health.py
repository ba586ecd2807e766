"""Is a pre-training run healthy? Its scores beside what needs no network: the unigram baseline and a coin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

WORDS = {"mlm": "masked tokens", "clm": "next tokens", "denoise": "hidden tokens"}  # what is guessed, by part
PAIRS = {"nsp_accuracy": "sentence pairs", "sop_accuracy": "sentence orders"}


@dataclass(frozen=True)
class Baseline:
    """What counting words achieves on the same positions, masked or next: accuracy of always the commonest,
    cross-entropy.
    """

    mlm_accuracy: float
    mlm_loss: float
    nsp_accuracy: float = 0.5


@dataclass(frozen=True)
class Verdict:
    """`level` is good, watch or bad; `reasons` are sentences, the most important first."""

    level: str
    reasons: tuple[str, ...]


def unigram_baseline(counts: np.ndarray, labels: np.ndarray, special_ids: frozenset[int]) -> Baseline:
    """Score the unigram model of the corpus, counts int64 [vocab] (plus one each), on labels int64 [labels]."""
    smoothed = counts.astype(np.float64) + 1
    smoothed[[index for index in special_ids if index < len(counts)]] = 0
    share = smoothed / smoothed.sum()
    accuracy = float((labels == int(share.argmax())).mean())
    return Baseline(accuracy, float(-np.log(np.maximum(share[labels], 1e-12)).mean()))


def words_part(scores: dict[str, float]) -> str:
    """Which part of WORDS the scores have."""
    return next(part for part in WORDS if f"{part}_accuracy" in scores)


def judge(scores: dict[str, float], baseline: Baseline, losses: list[float]) -> Verdict:
    """Compare the final held-out scores with the baseline, and the last losses with those before.

    scores: `mlm_accuracy`, `mlm_loss` (or those of another part of WORDS), with pairs `nsp_accuracy` or `sop_accuracy`,
    with replaced tokens `rtd_accuracy` and `rtd_baseline`; losses: the logged losses in order.
    """
    bad, watch, good = [], [], []
    part = words_part(scores)
    accuracy, gain = scores[f"{part}_accuracy"], baseline.mlm_loss - scores[f"{part}_loss"]
    compared = (
        f"{100 * accuracy:.1f} % of the {WORDS[part]} right, "
        f"{100 * baseline.mlm_accuracy:.1f} % by always the commonest token"
    )
    if gain < 0.1:
        bad.append(f"It has learnt no more than how common each token is: {compared}. Train longer or raise --lr.")
    elif gain < 1.0:
        watch.append(f"It is past counting words but early: {compared}. More steps will help.")
    else:
        good.append(f"It uses context: {compared}.")
    for name, what in PAIRS.items():
        if name in scores:
            (good if scores[name] > 0.6 else watch).append(
                f"{100 * scores[name]:.1f} % of the {what} right, a coin gets 50 %."
            )
    if "rtd_accuracy" in scores:
        (good if scores["rtd_accuracy"] > scores["rtd_baseline"] + 0.005 else watch).append(
            f"{100 * scores['rtd_accuracy']:.1f} % of the tokens judged right, original or replaced; calling all of "
            f"them original gets {100 * scores['rtd_baseline']:.1f} %."
        )
    tail = losses[-max(len(losses) // 5, 1) :]
    if len(losses) >= 20 and np.mean(tail) > 1.1 * min(np.convolve(losses, np.ones(5) / 5, mode="valid")):
        watch.append("The loss rose again towards the end: lower --lr or use more --warmup.")
    level = "bad" if bad else "watch" if watch else "good"
    return Verdict(level, (*bad, *watch, *good))
