"""How well a pre-trained model knows a text: it is masked as in pre-training, and every label is scored once."""

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
from ..objectives.carried import CarriedTokenPrediction, Carrier
from ..objectives.causal import NextTokenPrediction, joint_of
from ..objectives.lanes import LaneBatches, Lanes
from ..objectives.masking import Masker
from ..objectives.pretraining import (
    MaskedLanguageModelling,
    MaskedLanguageModellingAndNextSentence,
    MaskedLanguageModellingAndSentenceOrder,
    Recipe,
)
from ..objectives.replaced import ReplacedTokenDetection
from ..objectives.replaced_pair import ReplacedTokenPair
from ..objectives.stream import ExampleStream
from .ready import room_of, tokenizer_of

MAX_LENGTH = 128
SEQUENCES = 32  # of one batch
STRETCH = 1024  # tokens that a recurrent network reads at once; how many changes no number


@dataclass(frozen=True)
class TextScore:
    """examples: sequences scored; tokens: guessed in them; metrics: mlm_accuracy (clm_accuracy of a left-to-right
    model), perplexity, and of a model with such a head nsp_accuracy, sop_accuracy, or rtd_accuracy with rtd_baseline,
    what calling every token original gets.
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
    """Score a language model, masked (with or without pairs) or left-to-right, on text that it has not seen.

    A detector of replaced tokens needs the `generator` that replaces them; mlm_accuracy and perplexity are then the
    generator's.
    sources: as for pre-training; max_length: tokens of an example, pairs included; seed: names examples and masks;
    carries: whether a recurrent left-to-right model reads the whole text as one, remembering all of it.
    `perplexity` is exp of the mean cross-entropy at the selected positions, 15 % of the tokens (all of a left-to-right
    model). Raises InputError for
    text that is too short, and what reading it raises.
    """
    tokenizer = tokenizer_of(model)
    trained = _with_generator(model, generator)
    usual = model.trained_length or min(MAX_LENGTH, room_of(model))
    objective = _objective(model, room_of(model, max_length or usual), carries)
    device = model.word_embeddings.device
    sums: defaultdict[str, float] = defaultdict(float)
    examples = 0
    with tempfile.TemporaryDirectory() as scratch:
        joint = joint_of(tokenizer) if model.head_name in ("clm", "bilm") else ""
        shards = prepare(sources, tokenizer, Path(scratch) / "text", skip_bad_rows=skip_bad_rows, joint=joint)
        if left_out := shards.counts["skipped_rows"]:
            warn(f"{plural(left_out, 'bad row is', 'bad rows are')} left out.")
        documents = np.arange(len(shards))
        if len(documents) == 1 and isinstance(objective, MaskedLanguageModellingAndNextSentence):
            note("The text is one document, so next sentences are not scored: a blank line ends a document.")
            objective = MaskedLanguageModelling(objective.recipe)
        objective.check(len(documents))
        if isinstance(objective, CarriedTokenPrediction):
            trained, found = Carrier(model).eval(), _stretches(objective, shards, documents)
        else:
            found = _sections(objective, shards, documents, seed)
        with torch.inference_mode(), track("evaluating", 100, "per cent") as progress:
            for batch, share in found:
                outcome = objective.outcome(trained, batch.to(device))
                for name, count in outcome.counts.items():
                    sums[f"{name} labels"] += count
                    sums[f"{name} loss"] += float(outcome.losses[name])
                    sums[f"{name} correct"] += float(outcome.correct[name])
                    if name in outcome.baseline:
                        sums[f"{name} baseline"] += float(outcome.baseline[name])
                examples += len(batch)
                progress.update(int(100 * share))
    return TextScore(examples, int(sums["clm labels"] or sums["mlm labels"]), _metrics(sums))


def _sections(
    objective: MaskedLanguageModelling, shards: TokenShards, documents: np.ndarray, seed: int
) -> Iterator[tuple[Batch, float]]:
    """Every example once, in batches, and the share of the text that is done with each."""
    stream = ExampleStream(shards, documents, objective.plan, seed)
    count = len(stream.sections(0))
    for section in range(count):
        planned = stream.section(0, section)
        for start in range(0, len(planned), SEQUENCES):
            part = planned[start : start + SEQUENCES]
            rng = draws_of(seed, "held-out masks", section, start)
            yield objective.batch(shards, part, rng), (section + (start + len(part)) / len(planned)) / count


def _stretches(
    objective: CarriedTokenPrediction, shards: TokenShards, documents: np.ndarray
) -> Iterator[tuple[Batch, float]]:
    """The text as one lane, stretch after stretch, each going on from the one before."""
    lanes = Lanes(shards, documents, replace(objective.recipe, max_length=STRETCH), 1, None)
    batches = LaneBatches(lanes)
    for number in range(lanes.stretches):
        yield batches.batch(number, 0), (number + 1) / lanes.stretches


def _with_generator(model: Model, generator: Model | None) -> nn.Module:
    if model.head_name != "rtd":
        return model
    if generator is None:
        raise InputError(
            "A detector of replaced tokens is scored on what a generator replaces, and this folder has none: "
            "pretrain --objective rtd writes it as generator/ in the model folder."
        )
    if generator.config.vocab_size != model.config.vocab_size:
        raise InputError("The generator has another vocabulary than the model: they do not belong together.")
    return ReplacedTokenPair.apart(model, generator)


def _objective(model: Model, max_length: int, carries: bool) -> MaskedLanguageModelling:
    """The objective of the model's head, for examples of `max_length` tokens. carries: as `score_text` takes it."""
    tokenizer = tokenizer_of(model)
    if model.head_name in ("clm", "bilm"):
        if tokenizer.bos_id is None or tokenizer.eos_id is None:
            raise InputError("The model's tokenizer has no token that begins or ends a text, so text cannot be scored.")
        masker = Masker(tokenizer.eos_id, tokenizer.special_ids, tokenizer.vocab_size)
        frames = bool(tokenizer.opening_ids)
        recipe = Recipe(tokenizer.bos_id, tokenizer.eos_id, masker, max_length, short_share=0.0, frames=frames)
        if model.head_name == "bilm":
            return BidirectionalTokenPrediction(recipe)
        return NextTokenPrediction.suited(model.config, carries=carries)(recipe)
    if tokenizer.mask_id is None or tokenizer.cls_id is None or tokenizer.sep_id is None:
        raise InputError("The model's tokenizer has no [CLS], [SEP] or [MASK], so text cannot be masked.")
    masker = Masker(tokenizer.mask_id, tokenizer.special_ids, tokenizer.vocab_size)
    recipe = Recipe(tokenizer.cls_id, tokenizer.sep_id, masker, max_length, short_share=0.0)
    if model.head_name == "rtd":
        return ReplacedTokenDetection(recipe)
    if model.head_name == "pretraining" and model.config.pair_objective == "sop":
        return MaskedLanguageModellingAndSentenceOrder(recipe)
    if model.head_name == "pretraining":
        return MaskedLanguageModellingAndNextSentence(recipe)
    return MaskedLanguageModelling(recipe)


def _metrics(sums: Mapping[str, float]) -> dict[str, float]:
    words = "clm" if sums.get("clm labels") else "mlm"
    if not sums.get(f"{words} labels"):
        raise InputError("The text holds nothing to guess: give text with at least one word that the tokenizer knows.")
    metrics = {
        f"{words}_accuracy": sums[f"{words} correct"] / sums[f"{words} labels"],
        "perplexity": math.exp(min(sums[f"{words} loss"] / sums[f"{words} labels"], 700.0)),
    }
    for part in ("nsp", "sop", "rtd", "backward"):
        if sums.get(f"{part} labels"):
            metrics[f"{part}_accuracy"] = sums[f"{part} correct"] / sums[f"{part} labels"]
        if f"{part} baseline" in sums:
            metrics[f"{part}_baseline"] = sums[f"{part} baseline"] / sums[f"{part} labels"]
    return metrics
