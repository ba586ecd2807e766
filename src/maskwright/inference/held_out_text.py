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

from ..core.errors import InputError
from ..core.progress import track, warn
from ..core.util import plural
from ..data.batch import Batch
from ..data.prepare import prepare
from ..models.model import Model, tokenizer_of
from ..objectives.outcome import mean_scores
from ..objectives.selection import make_recipe, objective_of
from ..text.readers.corpus import read_whole
from .ready import room_of, usual_length

# -- Sliding-window perplexity of a causal language model ------------------------------------------------------------
#
# Windows of `max_length` move over the concatenated text in steps of `stride`. Each token is predicted once, with at
# least max_length - stride preceding tokens as context (except at the start). A smaller stride gives more context and
# takes longer; a stride of max_length means windows without overlap.


BATCH_TOKENS = 4096
BETWEEN_DOCUMENTS = "\n\n"


@dataclass(frozen=True)
class TextScore:
    """Scores of a language model on a text.

    examples: scored sequences or windows; tokens: predicted tokens; metrics: perplexity; mlm_accuracy or clm_accuracy;
    nsp_, sop_ or rtd_accuracy if the model has that head; for each accuracy the majority-class baseline over the same
    labels, such as mlm_baseline; and of windows two that do not depend on the tokenizer: word_perplexity
    (whitespace-separated words) and bits_per_byte (UTF-8).
    """

    examples: int
    tokens: int
    metrics: dict[str, float]


def text_perplexity(
    model: Model, sources: str | Path, *, stride: int, max_length: int | None = None, skip_bad_rows: bool = False
) -> TextScore:
    """Score a causal language model on the documents of a corpus, joined by blank lines.

    max_length: window length in tokens, None for that of training. Raises InputError for a stride out of range, a text
    of fewer than two tokens, and other models.
    """
    if model.head_name != "clm":
        raise InputError("Perplexity with a stride requires a causal language model: remove --stride.")
    if model.config.recurrent is not None:
        raise InputError("A recurrent model reads the whole text without windows: remove --stride.")
    window = usual_length(model, max_length)
    if not 1 <= stride <= window:
        raise InputError(f"stride is {stride}; it must be 1 to {window:,}, the window length.")
    documents = read_whole(sources, skip_bad_rows=skip_bad_rows)
    text = BETWEEN_DOCUMENTS.join("\n".join(document.sentences) for document in documents)
    tokenizer = tokenizer_of(model)
    ids = [*tokenizer.opening_ids, *tokenizer.encode_plain([text])[0]]
    loss, correct, tokens, windows = ids_loss(model, ids, window, stride)
    words, size = len(text.split()), len(text.encode())
    return TextScore(
        windows,
        tokens,
        {
            "perplexity": _exp(loss / tokens),
            "clm_accuracy": correct / tokens,
            "word_perplexity": _exp(loss / max(words, 1)),
            "bits_per_byte": loss / math.log(2) / max(size, 1),
        },
    )


@torch.inference_mode()
def ids_loss(model: Model, ids: list[int], max_length: int, stride: int) -> tuple[float, int, int, int]:
    """Return summed cross-entropy in nats, correct predictions, predicted tokens and windows of a token sequence.

    Raises InputError for fewer than two tokens.
    """
    if len(ids) < 2:
        raise InputError("The text has no token to predict: pass at least two tokens.")
    planned = list(plan_windows(len(ids), max_length, stride))
    size = max(BATCH_TOKENS // max_length, 1)
    loss, correct, tokens = 0.0, 0, 0
    with track("evaluating", len(planned), "windows") as progress:
        for start in range(0, len(planned), size):
            block = planned[start : start + size]
            batch = Batch.from_sequences([ids[first:stop] for first, _, stop in block])
            predicted = torch.cat(
                [
                    torch.arange(begin - first, stop - first) + int(offset)
                    for (first, begin, stop), offset in zip(block, batch.cu_seqlens[:-1], strict=True)
                ]
            )
            right = batch.input_ids[predicted]
            moved = batch.to(model.word_embeddings.device)
            vectors = model.encode(moved).hidden[(predicted - 1).to(moved.input_ids.device)]  # [predicted, hidden]
            batch_loss, batch_correct = model.mlm_loss(vectors, right.to(vectors.device))
            loss, correct = loss + float(batch_loss), correct + int(batch_correct)
            tokens += len(predicted)
            progress.update(start + len(block))
    return loss, correct, tokens, len(planned)


def plan_windows(num_tokens: int, max_length: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """Yield the start of each window, the first token that only it predicts, and its end."""
    predicted = 1  # the first token has no context
    for first in range(0, num_tokens, stride):
        stop = min(first + max_length, num_tokens)
        begin = max(predicted, first + 1)
        if begin < stop:
            yield first, begin, stop
        predicted = stop
        if stop == num_tokens:
            return


def _exp(nats: float) -> float:
    return math.exp(min(nats, 700.0))


MAX_LENGTH = 128
SEQUENCES = 32  # per batch


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
                        scored[name][key] += float(value)
                examples += len(batch)
                progress.update(int(100 * share))
    return TextScore(examples, int(sums[f"{objective.words} labels"]), _metrics(objective.words, sums, scored))


def _metrics(words: str, sums: Mapping[str, float], scored: Mapping[str, dict[str, float]]) -> dict[str, float]:
    """words: the part that predicts tokens."""
    if not sums.get(f"{words} labels"):
        raise InputError("The text has no token to predict: pass text with at least one known token.")
    metrics = {"perplexity": _exp(sums[f"{words} loss"] / sums[f"{words} labels"])}
    for part, values in scored.items():
        means = mean_scores(values)
        metrics |= {f"{part}_{name}": means[name] for name in ("accuracy", "baseline")}
    return metrics
