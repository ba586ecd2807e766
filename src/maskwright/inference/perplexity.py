"""Perplexity of a text with overlapping windows, as it is usually reported for left-to-right models.

The whole text is one row of tokens, and windows of `max_length` go over it in steps of `stride`: each token is guessed
once, from at least max_length - stride tokens before it (but at the beginning). The smaller the stride, the more each
token sees, and the longer it takes; a stride of max_length is windows side by side.
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
from ..models.model import Model
from ..text.corpus import read_whole
from .ready import tokenizer_of, usual_length

BATCH_TOKENS = 4096
BETWEEN_DOCUMENTS = "\n\n"


@dataclass(frozen=True)
class Perplexity:
    """tokens: guessed; windows: read; metrics: perplexity by token, clm_accuracy, and two that do not depend on the
    tokenizer: word_perplexity (words are what white space parts) and bits_per_byte (of UTF-8).
    """

    tokens: int
    windows: int
    metrics: dict[str, float]


def text_perplexity(
    model: Model, sources: str | Path, *, stride: int, max_length: int | None = None, skip_bad_rows: bool = False
) -> Perplexity:
    """Score a left-to-right model on the documents of a corpus, joined by empty lines.

    max_length: of a window, None as in training. Raises InputError for a stride that leaves tokens out,
    a text of fewer than two tokens, and another kind of model.
    """
    if model.head_name != "clm":
        raise InputError("Perplexity with a stride is for left-to-right models: leave --stride out.")
    if model.config.recurrent is not None:
        raise InputError("A recurrent model needs no windows, it remembers the whole text: leave --stride out.")
    room = usual_length(model, max_length)
    if not 1 <= stride <= room:
        raise InputError(f"stride is {stride}; it must be 1 to {room:,}, the length of a window.")
    documents = read_whole(sources, skip_bad_rows=skip_bad_rows)
    text = BETWEEN_DOCUMENTS.join("\n".join(document.sentences) for document in documents)
    tokenizer = tokenizer_of(model)
    ids = [*tokenizer.opening_ids, *tokenizer.encode_plain([text])[0]]
    loss, correct, tokens, windows = ids_loss(model, ids, room, stride)
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
    """Summed cross-entropy in nats, right guesses, tokens guessed and windows of one row of tokens.

    Raises InputError for fewer than two tokens.
    """
    if len(ids) < 2:
        raise InputError("The text holds nothing to guess: give at least two tokens.")
    planned = list(plan_windows(len(ids), max_length, stride))
    size = max(BATCH_TOKENS // max_length, 1)
    loss, correct, tokens = 0.0, 0, 0
    with track("evaluating", len(planned), "windows") as progress:
        for start in range(0, len(planned), size):
            block = planned[start : start + size]
            batch = Batch.from_sequences([ids[first:stop] for first, _, stop in block])
            guessed = torch.cat(
                [
                    torch.arange(begin - first, stop - first) + int(offset)
                    for (first, begin, stop), offset in zip(block, batch.cu_seqlens[:-1], strict=True)
                ]
            )
            right = batch.input_ids[guessed]
            moved = batch.to(model.word_embeddings.device)
            vectors = model.encode(moved).hidden[(guessed - 1).to(moved.input_ids.device)]  # [guessed, hidden]
            own_loss, own_correct = model.mlm_loss(vectors, right.to(vectors.device))
            loss, correct = loss + float(own_loss), correct + int(own_correct)
            tokens += len(guessed)
            progress.update(start + len(block))
    return loss, correct, tokens, len(planned)


def plan_windows(num_tokens: int, max_length: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """Where each window begins, the first token that it is the first to guess, and where it ends."""
    guessed = 1  # nothing stands before the first token
    for first in range(0, num_tokens, stride):
        stop = min(first + max_length, num_tokens)
        begin = max(guessed, first + 1)
        if begin < stop:
            yield first, begin, stop
        guessed = stop
        if stop == num_tokens:
            return


def _exp(nats: float) -> float:
    return math.exp(min(nats, 700.0))
