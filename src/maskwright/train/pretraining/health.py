"""The health of a pre-training run: its scores compared with the unigram baseline and the majority class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ...core import registry
from ...core.randomness import generator
from ...data.batch import Batch
from ...inference.probing import TEST_SHARE, fit_and_score
from ...models.model import Model
from ...report import Command, Level
from ...tasks.classification import Classification
from ...tasks.examples import map_batches
from ...tasks.specs import readers_of, task_after
from ...text.formats.files import file_format
from ...text.readers.tables import read_table
from ...text.tokenizers.tokenizer import Tokenizer
from ..against_baseline import Compared

# -- A linear probe: logistic regression on frozen features of a model in training -----------------------------------


MAX_ROWS = 2000


def is_labeled(source: str) -> bool:
    """Whether an --eval source is a labeled table (.csv, .tsv) rather than text."""
    return source != "-" and Path(source).is_file() and file_format(source, default="txt") in ("csv", "tsv")


def linear_probe(
    source: str, tokenizer: Tokenizer, max_length: int, seed: int, device: torch.device
) -> Callable[[Model], dict[str, float]]:
    """Returns a function that scores a model: `probe_accuracy` of logistic regression on mean-pooled hidden states.

    It uses at most 2,000 rows of `source`, sampled with `seed`; a quarter of them are test rows.
    """
    rows = read_table(source).rows
    order = generator(seed, "probe").permutation(len(rows))[:MAX_ROWS].tolist()
    chosen = [rows[index] for index in order]
    task = Classification.from_rows(chosen, multi_label=False)
    examples = task.examples(chosen, tokenizer, max_length, file=source)
    labels = np.array([task.target(row.label) for row in chosen])
    cut = len(chosen) - max(round(len(chosen) * TEST_SHARE), 1)

    def score(model: Model) -> dict[str, float]:
        def mean_vectors(batch: Batch) -> Tensor:
            """Mean-pooled hidden states: float32 [sequences, hidden]."""
            hidden = model.encode(batch).hidden.float()  # [tokens, hidden]
            owner = torch.repeat_interleave(torch.tensor(batch.lengths, device=hidden.device))
            sums = hidden.new_zeros(len(batch), hidden.shape[1]).index_add_(0, owner, hidden)
            return sums / torch.bincount(owner, minlength=len(batch)).unsqueeze(1)  # [sequences, hidden]

        features = map_batches(examples, mean_vectors, device=device).numpy()
        accuracy, _ = fit_and_score(features[:cut], labels[:cut].tolist(), features[cut:], labels[cut:].tolist())
        return {"probe_accuracy": accuracy}

    return score


# -- Suggested commands after pre-training ---------------------------------------------------------------------------


def next_steps(objective: str, model: Path) -> list[Command]:
    """Returns commands that use a model pre-trained with an objective, then one that fine-tunes it."""
    task = task_after(objective)
    test = readers_of(task)[0].example_file
    files = {part: test.replace("test", part) for part in ("train", "dev")}
    finetune = Command.suggest(
        f"fine-tune it for {task}", "finetune", task=task, model=model, output="runs/task", **files
    )
    return [*registry.resolve("objective", objective).uses(model), finetune]


WORDS = {"mlm": "masked tokens", "clm": "next tokens", "denoise": "hidden tokens"}  # what is predicted, by part
BACKWARD = "backward"  # the second part of a bidirectional language model
# Of each part: the trivial predictor, and the field of Baseline with its accuracy if the scores have none.
PARTS = {
    "mlm": ("always the most common token", "mlm_accuracy"),
    "clm": ("always the most common token", "mlm_accuracy"),
    "backward": ("always the most common token", "mlm_accuracy"),
    "denoise": ("always the most common token", "mlm_accuracy"),
    "nsp": ("the majority class", "nsp_accuracy"),
    "sop": ("the majority class", "nsp_accuracy"),
    "rtd": ("always original", ""),
}
PAIRS = {"nsp_accuracy": "sentence pairs", "sop_accuracy": "sentence orders"}


@dataclass(frozen=True)
class Baseline:
    """Trivial baselines on the same labels as the scores: the accuracy of the most common token, the cross-entropy of
    the unigram model, and for sentence pairs the accuracy of the majority class.
    """

    mlm_accuracy: float
    mlm_loss: float
    nsp_accuracy: float = 0.5


@dataclass(frozen=True)
class RunHealth:
    """level: good, watch or bad; reasons: sentences, the most important first."""

    level: Level
    reasons: tuple[str, ...]


def baseline_of(scores: dict[str, float]) -> Baseline:
    """The baselines among the scores of an objective (`objectives.outcome.mean_scores`, by part)."""
    part = words_part(scores)
    pairs = next((scores[f"{name}_baseline"] for name in ("nsp", "sop") if f"{name}_baseline" in scores), 0.5)
    return Baseline(scores[f"{part}_baseline"], scores[f"{part}_baseline_loss"], pairs)


def words_part(scores: dict[str, float]) -> str:
    """Which part of WORDS the scores have."""
    return next(part for part in WORDS if f"{part}_accuracy" in scores)


def judge(scores: dict[str, float], baseline: Baseline, losses: list[float]) -> RunHealth:
    """Compare the final held-out scores with the baseline, and the last losses with the earlier ones.

    scores: `mlm_accuracy`, `mlm_scored_loss` (or those of another part of WORDS), with pairs `nsp_accuracy` or
    `sop_accuracy`, with replaced tokens `rtd_accuracy` and `rtd_baseline`; losses: the logged losses in order.
    """
    bad, watch, good = [], [], []
    part = words_part(scores)
    accuracy, gain = scores[f"{part}_accuracy"], baseline.mlm_loss - scores[f"{part}_scored_loss"]
    if f"{BACKWARD}_scored_loss" in scores:  # both directions must learn
        gain = min(gain, scores[f"{BACKWARD}_baseline_loss"] - scores[f"{BACKWARD}_scored_loss"])
    compared = (
        f"{100 * accuracy:.1f}% of the {WORDS[part]} correct, "
        f"{100 * baseline.mlm_accuracy:.1f}% by always the most common token"
    )
    if f"{BACKWARD}_accuracy" in scores:
        compared += f"; of the previous tokens {100 * scores[f'{BACKWARD}_accuracy']:.1f}%"
    if gain < 0.1:
        bad.append(f"The model has learned only token frequencies: {compared}. Train longer or raise --lr.")
    elif gain < 1.0:
        watch.append(f"The model is better than the unigram baseline, but undertrained: {compared}. Train longer.")
    else:
        good.append(f"The model uses context: {compared}.")
    for name, what in PAIRS.items():
        if name in scores:
            (good if scores[name] > baseline.nsp_accuracy + 0.1 else watch).append(
                f"{100 * scores[name]:.1f}% of the {what} correct, "
                f"{100 * baseline.nsp_accuracy:.1f}% by always the majority class."
            )
    if "rtd_accuracy" in scores:
        (good if scores["rtd_accuracy"] > scores["rtd_baseline"] + 0.005 else watch).append(
            f"{100 * scores['rtd_accuracy']:.1f}% of the tokens classified correctly as original or replaced, "
            f"{100 * scores['rtd_baseline']:.1f}% by always original."
        )
    tail = losses[-max(len(losses) // 5, 1) :]
    if len(losses) >= 20 and np.mean(tail) > 1.1 * min(np.convolve(losses, np.ones(5) / 5, mode="valid")):
        watch.append("The loss increased toward the end: lower --lr or use more --warmup.")
    level: Level = "bad" if bad else "watch" if watch else "good"
    return RunHealth(level, (*bad, *watch, *good))


def compare_pretraining(scores: Mapping[str, float], baseline: Mapping[str, float]) -> list[Compared]:
    """Compare each part of a pre-training. baseline: the fields of `Baseline`, for scores without a baseline."""
    found = []
    for part, (predictor, usual) in PARTS.items():
        if f"{part}_accuracy" in scores:
            trivial = scores.get(f"{part}_baseline", baseline.get(usual, 0.5))
            found.append(Compared(f"{part}_accuracy", scores[f"{part}_accuracy"], trivial, predictor))
    return found


def named_baseline(scores: Mapping[str, float], baseline: Mapping[str, float]) -> dict[str, float]:
    """Baselines by the names of their scores, only for the parts of the run. Arguments as in `compare_pretraining`."""
    named = {one.metric: one.baseline for one in compare_pretraining(scores, baseline)}
    losses = {f"{part}_loss": baseline["mlm_loss"] for part in ("mlm", "clm", "denoise") if f"{part}_loss" in scores}
    return named | losses
