"""Evaluates a pre-trained language model on held-out text, with the masking of pre-training."""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from ..core.errors import InputError
from ..core.plural import plural
from ..core.progress import note, track, warn
from ..core.randomness import generator as draws_of
from ..data.batch import Batch
from ..data.prepare import prepare
from ..data.shards import TokenShards
from ..models.model import Model
from ..objectives.bidirectional import BidirectionalTokenPrediction
from ..objectives.causal import NextTokenPrediction, line_separator
from ..objectives.contiguous_streams import ContiguousStreams, StreamBatches
from ..objectives.masking import Masker
from ..objectives.pretraining import (
    MaskedLanguageModeling,
    MaskedLanguageModelingAndNextSentence,
    MaskedLanguageModelingAndSentenceOrder,
    Recipe,
)
from ..objectives.replaced import ReplacedTokenDetection
from ..objectives.replaced_pair import ReplacedTokenPair
from ..objectives.scores import mean_scores
from ..objectives.selection import objective_for
from ..objectives.stateful_causal import StatefulCausalLM, StatefulLanguageModel
from ..objectives.stream import ExampleStream
from .ready import room_of, tokenizer_of

MAX_LENGTH = 128
SEQUENCES = 32  # per batch
SEGMENT = 1024  # tokens per segment of a recurrent network; does not affect the results


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
    trained = _with_generator(model, generator)
    usual = model.trained_length or min(MAX_LENGTH, room_of(model))
    objective = _objective(model, room_of(model, max_length or usual), carries)
    device = model.word_embeddings.device
    sums: defaultdict[str, float] = defaultdict(float)
    scored: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    examples = 0
    with tempfile.TemporaryDirectory() as scratch:
        joint = line_separator(tokenizer) if model.head_name in ("clm", "bilm") else ""
        shards = prepare(sources, tokenizer, Path(scratch) / "text", skip_bad_rows=skip_bad_rows, joint=joint)
        if skipped := shards.counts["skipped_rows"]:
            warn(f"Skipped {plural(skipped, 'invalid row', 'invalid rows')}.")
        documents = np.arange(len(shards))
        if len(documents) == 1 and isinstance(objective, MaskedLanguageModelingAndNextSentence):
            note("The text is one document, so next sentences are not scored. Separate documents with blank lines.")
            objective = MaskedLanguageModeling(objective.recipe)
        objective.check(len(documents))
        objective = type(objective)(replace(objective.recipe, token_counts=shards.unigram_counts()))
        if isinstance(objective, StatefulCausalLM):
            trained, found = StatefulLanguageModel(model).eval(), _segments(objective, shards, documents)
        else:
            found = _sections(objective, shards, documents, seed)
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
    return TextScore(examples, int(sums["clm labels"] or sums["mlm labels"]), _metrics(sums, scored))


def _sections(
    objective: MaskedLanguageModeling, shards: TokenShards, documents: np.ndarray, seed: int
) -> Iterator[tuple[Batch, float]]:
    """Yield every example once, in batches, with the completed fraction of the text."""
    stream = ExampleStream(shards, documents, objective.plan, seed)
    count = len(stream.sections(0))
    for section in range(count):
        planned = stream.section(0, section)
        for start in range(0, len(planned), SEQUENCES):
            part = planned[start : start + SEQUENCES]
            rng = draws_of(seed, "held-out masks", section, start)
            yield objective.batch(shards, part, rng), (section + (start + len(part)) / len(planned)) / count


def _segments(objective: StatefulCausalLM, shards: TokenShards, documents: np.ndarray) -> Iterator[tuple[Batch, float]]:
    """Yield the text as one stream of consecutive segments."""
    streams = ContiguousStreams(shards, documents, replace(objective.recipe, max_length=SEGMENT), 1, None)
    batches = StreamBatches(streams)
    for number in range(streams.num_segments):
        yield batches.batch(number, 0), (number + 1) / streams.num_segments


def _with_generator(model: Model, generator: Model | None) -> nn.Module:
    if model.head_name != "rtd":
        return model
    if generator is None:
        raise InputError(
            "Scoring a replaced-token discriminator requires its generator, and this folder has none: "
            "pretrain --objective rtd writes it as generator/ in the model folder."
        )
    if generator.config.vocab_size != model.config.vocab_size:
        raise InputError("The generator and the model have different vocabularies: use the generator of this model.")
    return ReplacedTokenPair.from_separate_networks(model, generator)


def _objective(model: Model, max_length: int, carries: bool) -> MaskedLanguageModeling:
    """Return the objective of the model's head for examples of `max_length` tokens. carries: as in `score_text`."""
    tokenizer = tokenizer_of(model)
    if model.head_name in ("clm", "bilm"):
        if tokenizer.bos_id is None or tokenizer.eos_id is None:
            raise InputError("The model's tokenizer has no start or end token, so text cannot be scored.")
        masker = Masker(tokenizer.eos_id, tokenizer.special_ids, tokenizer.vocab_size)
        frames = bool(tokenizer.opening_ids)
        recipe = Recipe(tokenizer.bos_id, tokenizer.eos_id, masker, max_length, short_share=0.0, frames=frames)
        if model.head_name == "bilm":
            return BidirectionalTokenPrediction(recipe)
        return objective_for(NextTokenPrediction, model.config, carries=carries)(recipe)
    if tokenizer.mask_id is None or tokenizer.cls_id is None or tokenizer.sep_id is None:
        raise InputError("The model's tokenizer has no [CLS], [SEP] or [MASK], so text cannot be masked.")
    masker = Masker(tokenizer.mask_id, tokenizer.special_ids, tokenizer.vocab_size)
    recipe = Recipe(tokenizer.cls_id, tokenizer.sep_id, masker, max_length, short_share=0.0)
    if model.head_name == "rtd":
        return ReplacedTokenDetection(recipe)
    if model.head_name == "pretraining" and model.config.pair_objective == "sop":
        return MaskedLanguageModelingAndSentenceOrder(recipe)
    if model.head_name == "pretraining":
        return MaskedLanguageModelingAndNextSentence(recipe)
    return MaskedLanguageModeling(recipe)


def _metrics(sums: Mapping[str, float], scored: Mapping[str, dict[str, float]]) -> dict[str, float]:
    words = "clm" if sums.get("clm labels") else "mlm"
    if not sums.get(f"{words} labels"):
        raise InputError("The text has no token to predict: pass text with at least one known token.")
    metrics = {"perplexity": math.exp(min(sums[f"{words} loss"] / sums[f"{words} labels"], 700.0))}
    for part, values in scored.items():
        means = mean_scores(values)
        metrics |= {f"{part}_{name}": means[name] for name in ("accuracy", "baseline")}
    return metrics
