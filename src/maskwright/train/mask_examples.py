"""Guesses for the report: whole words of the text, one hidden (or to come) in each sequence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..data.batch import Batch
from ..models.encoder_decoder import EncoderDecoder
from ..objectives.causal import guessed_inside
from ..objectives.denoising import restored
from .report import MaskExample

if TYPE_CHECKING:
    from .pretrain_job import PretrainJob

EXAMPLES = 8
GUESSES = 5
CONTEXT_TOKENS = 12


@dataclass(frozen=True)
class Place:
    """A token at `position` of a pack, and where the text around it (A or B) starts and stops."""

    position: int
    start: int
    stop: int


@torch.inference_mode()
def mask_examples(job: PretrainJob) -> list[MaskExample]:
    """Held-out text (or training text, where none is) with one word hidden in each sequence, as `fill-mask` does."""
    batch = job.held_out.batches[-1].to(job.device) if job.held_out is not None else job.micro_batches(0)[0]
    tokenizer, guesser = job.tokenizer, job.objective.guesser(job.model)
    written = batch.input_ids.clone()
    written[batch.labels["mlm_positions"]] = batch.labels["mlm"]
    ids = written.cpu().numpy()  # [tokens]
    places = whole_words(ids, batch, tokenizer)
    if not places:
        return []
    positions = torch.tensor([place.position for place in places], device=written.device)
    hidden_ids = written.index_fill(0, positions, tokenizer.mask_id)
    hidden = guesser.encode(replace(batch, input_ids=hidden_ids)).hidden[positions]  # [places, hidden]
    shares = guesser.mlm_logits(hidden).float().softmax(-1).cpu()  # [places, vocab]
    return [_example(place, ids, share, tokenizer) for place, share in zip(places, shares, strict=True)]


@torch.inference_mode()
def next_examples(job: PretrainJob) -> list[MaskExample]:
    """The same for a left-to-right model: a word in the second half of each sequence, guessed from what precedes it."""
    batch = job.held_out.batches[-1].to(job.device) if job.held_out is not None else job.micro_batches(0)[0]
    tokenizer, guesser = job.tokenizer, job.objective.guesser(job.model)
    ids = batch.input_ids.cpu().numpy()  # [tokens]
    guessed = (batch.labels["clm_positions"][guessed_inside(batch)] + 1).cpu()  # [labels]
    edges = batch.cu_seqlens.long()
    owner = torch.searchsorted(edges, guessed, right=True) - 1
    is_late = 2 * (guessed - edges[owner]) >= edges[owner + 1] - edges[owner]
    places = whole_words(ids, batch.with_labels(mlm_positions=guessed[is_late]), tokenizer)
    if not places:
        return []
    before = torch.tensor([place.position - 1 for place in places], device=batch.input_ids.device)
    vectors = guesser.encode(batch).hidden[before]
    if guesser.config.separate_directions:
        vectors = vectors[:, : guesser.config.direction_size]  # what was read from the left
    shares = guesser.mlm_logits(vectors).float().softmax(-1).cpu()  # [places, vocab]
    seen = [replace(place, stop=place.position + 1) for place in places]
    return [_example(place, ids, share, tokenizer) for place, share in zip(seen, shares, strict=True)]


@torch.inference_mode()
def hidden_examples(job: PretrainJob) -> list[MaskExample]:
    """The same for an encoder-decoder: one word hidden in what it reads, guessed as the first that it writes for it."""
    batch = job.held_out.batches[-1] if job.held_out is not None else job.micro_batches(0)[0].to(torch.device("cpu"))
    tokenizer, model = job.tokenizer, job.objective.kept(job.model)
    assert batch.target is not None and isinstance(model, EncoderDecoder)
    written = batch.labels["denoise"].split(batch.target.lengths)
    sources = zip(batch.input_ids.split(batch.lengths), written, strict=True)
    texts = [restored(ids.numpy(), own.numpy()[:-1], tokenizer.mask_id) for ids, own in sources]
    whole = Batch.from_sequences(texts)
    ids = whole.input_ids.numpy()
    places = whole_words(ids, whole.with_labels(mlm_positions=torch.arange(len(ids))), tokenizer)
    if not places:
        return []
    edges, rows = whole.cu_seqlens.numpy(), []
    for place in places:
        row = int(np.searchsorted(edges, place.position, side="right")) - 1
        rows.append(texts[row].copy())
        rows[-1][place.position - edges[row]] = tokenizer.mask_id
    source = Batch.from_sequences(rows).to(job.device)
    begun = [np.array([model.config.decoder_start_token_id, tokenizer.mask_id])] * len(places)
    target = Batch.from_sequences(begun).to(job.device)
    hidden = model.decode(target, model.encode(source).hidden, source).hidden[target.last_tokens]  # [places, hidden]
    shares = model.mlm_logits(hidden).float().softmax(-1).cpu()  # [places, vocab]
    return [_example(place, ids, share, tokenizer) for place, share in zip(places, shares, strict=True)]


def whole_words(ids: np.ndarray, batch: Batch, tokenizer: Any) -> list[Place]:
    """One selected token that is a word by itself in each of some sequences: those with the most text around it.

    ids: int64 [tokens], the pack without masks.
    """
    starts = np.append(tokenizer.word_starts(ids), True)  # [tokens + 1]
    special = [id for id in (tokenizer.cls_id, tokenizer.sep_id, tokenizer.eos_id) if id is not None]
    bounds = batch.cu_seqlens.numpy()
    edges = np.unique(np.concatenate([np.flatnonzero(np.isin(ids, special)), bounds[:-1] - 1, bounds[1:]]))
    found: dict[int, Place] = {}
    for position in batch.labels["mlm_positions"].tolist():
        after = int(np.searchsorted(edges, position))
        place = Place(position, int(edges[after - 1]) + 1, int(edges[after]))
        is_word = starts[position] and starts[position + 1] and tokenizer.decode([ids[position]]).strip().isalpha()
        sequence = int(np.searchsorted(batch.cu_seqlens.numpy(), position, side="right"))
        known = found.get(sequence)
        if is_word and (known is None or place.stop - place.start > known.stop - known.start):
            found[sequence] = place
    longest = sorted(found.values(), key=lambda place: place.start - place.stop)[:EXAMPLES]
    return sorted(longest, key=lambda place: place.position)


def _example(place: Place, ids: np.ndarray, share: torch.Tensor, tokenizer: Any) -> MaskExample:
    """share: float32 [vocab]."""
    position, answer = place.position, int(ids[place.position])
    best = share.topk(min(GUESSES, len(share)))
    before = tokenizer.decode(ids[max(place.start, position - CONTEXT_TOKENS) : position].tolist())
    after = tokenizer.decode(ids[position + 1 : min(place.stop, position + 1 + CONTEXT_TOKENS)].tolist())
    return MaskExample(
        before=f"{before.rstrip()} " if before else "",
        after=f" {after.lstrip()}" if after else "",
        guesses=[
            (tokenizer.id_to_token(index), value)
            for index, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ],
        answer=tokenizer.id_to_token(answer),
        rank=int((share > share[answer]).sum()) + 1,
        probability=float(share[answer]),
    )
