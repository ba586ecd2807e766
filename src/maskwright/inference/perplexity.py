"""Sliding-window perplexity of a causal language model.

Windows of `max_length` move over the concatenated text in steps of `stride`. Each token is predicted once, with at
least max_length - stride preceding tokens as context (except at the start). A smaller stride gives more context and
takes longer; a stride of max_length means windows without overlap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from ..core.errors import InputError
from ..core.progress import track
from ..data.batch import Batch
from ..models.model import Model, tokenizer_of
from ..text.readers.corpus import read_whole
from .ready import usual_length

BATCH_TOKENS = 4096
BETWEEN_DOCUMENTS = "\n\n"


@dataclass(frozen=True)
class Perplexity:
    """Perplexity of a text.

    tokens: predicted tokens; windows: number of windows; metrics: perplexity per token, clm_accuracy, and two that do
    not depend on the tokenizer: word_perplexity (whitespace-separated words) and bits_per_byte (UTF-8).
    """

    tokens: int
    windows: int
    metrics: dict[str, float]


def text_perplexity(
    model: Model, sources: str | Path, *, stride: int, max_length: int | None = None, skip_bad_rows: bool = False
) -> Perplexity:
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
    return Perplexity(
        tokens,
        windows,
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
