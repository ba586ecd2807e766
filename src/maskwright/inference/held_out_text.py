"""Evaluates a pre-trained language model on held-out text, with the masking of pre-training."""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from ..core.errors import InputError
from ..core.plural import plural
from ..core.progress import track, warn
from ..data.prepare import prepare
from ..models.model import Model, tokenizer_of
from ..objectives.scores import mean_scores
from ..objectives.selection import make_recipe, objective_of
from .ready import room_of

MAX_LENGTH = 128
SEQUENCES = 32  # per batch


@dataclass(frozen=True)
class TextScore:
    """Scores of a language model on a text.

    examples: scored sequences; tokens: predicted tokens; metrics: perplexity; mlm_accuracy or clm_accuracy; nsp_, sop_
    or rtd_accuracy if the model has that head; and for each accuracy the majority-class baseline over the same labels,
    such as mlm_baseline.
    """

    examples: int
    tokens: int
    metrics: dict[str, float]


def score_text(
    model: Model,
    sources: str | Path,
    *,
    generator: Model | None = None,
    max_length: int | None = None,
    seed: int = 0,
    skip_bad_rows: bool = False,
    carries: bool = True,
) -> TextScore:
    """Score a masked (with or without sentence pairs) or causal language model on held-out text.

    Args:
        sources: as for pre-training.
        generator: required for a replaced-token discriminator; mlm_accuracy and perplexity are then the generator's.
        max_length: maximum tokens per example, pairs included.
        seed: random seed of examples and masks.
        carries: carry the hidden state of a recurrent causal model across the whole text.

    `perplexity` is exp of the mean cross-entropy at the selected positions: 15% of the tokens, or all for a causal
    language model. Raises InputError for text that is too short, and the errors of reading it.
    """
    tokenizer = tokenizer_of(model)
    usual = model.trained_length or min(MAX_LENGTH, room_of(model))
    kind = objective_of(model, carries=carries)
    objective = kind(make_recipe(kind, tokenizer, room_of(model, max_length or usual)))
    trained = objective.trained(model, generator)
    device = model.word_embeddings.device
    sums: defaultdict[str, float] = defaultdict(float)
    scored: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    examples = 0
    with tempfile.TemporaryDirectory() as scratch:
        shards = prepare(
            sources,
            tokenizer,
            Path(scratch) / "text",
            skip_bad_rows=skip_bad_rows,
            joint=objective.line_separator(tokenizer),
        )
        if skipped := shards.counts["skipped_rows"]:
            warn(f"Skipped {plural(skipped, 'invalid row', 'invalid rows')}.")
        documents = np.arange(len(shards))
        objective = objective.for_documents(len(documents))
        objective.check(len(documents))
        objective = type(objective)(replace(objective.recipe, token_counts=shards.unigram_counts()))
        found = objective.whole_text(shards, documents, seed=seed, sequences=SEQUENCES)
        with torch.inference_mode(), track("evaluating", 100, "percent") as progress:
            for batch, share in found:
                outcome = objective.outcome(trained, batch.to(device))
                for name, count in outcome.counts.items():
                    sums[f"{name} labels"] += count
                    sums[f"{name} loss"] += float(outcome.losses[name])
                    for key, value in outcome.scores[name].sums().items():
                        scored[name][key] += value
                examples += len(batch)
                progress.update(int(100 * share))
    return TextScore(examples, int(sums[f"{objective.words} labels"]), _metrics(objective.words, sums, scored))


def _metrics(words: str, sums: Mapping[str, float], scored: Mapping[str, dict[str, float]]) -> dict[str, float]:
    """words: the part that predicts tokens."""
    if not sums.get(f"{words} labels"):
        raise InputError("The text has no token to predict: pass text with at least one known token.")
    metrics = {"perplexity": math.exp(min(sums[f"{words} loss"] / sums[f"{words} labels"], 700.0))}
    for part, values in scored.items():
        means = mean_scores(values)
        metrics |= {f"{part}_{name}": means[name] for name in ("accuracy", "baseline")}
    return metrics
