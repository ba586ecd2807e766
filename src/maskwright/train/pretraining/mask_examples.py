"""Predictions for the report: one masked, or next, word in each of some sequences."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ...data.batch import Batch
from ...models.encoder_decoder import EncoderDecoder
from ...objectives.causal import predicted_tokens
from ...objectives.denoising import restore_spans
from ...report import MaskExample

if TYPE_CHECKING:
    from .job import PretrainJob

EXAMPLES = 8
PREDICTIONS = 5
CONTEXT_TOKENS = 12


@dataclass(frozen=True)
class Candidate:
    """A token at `position` of a pack, and start and stop of its segment (A or B)."""

    position: int
    start: int
    stop: int


@torch.inference_mode()
def mask_examples(job: PretrainJob) -> list[MaskExample]:
    """Predicts one masked word per sequence of held-out text (of training text if none is held out)."""
    batch = job.held_out.batches[-1].to(job.device) if job.held_out is not None else job.micro_batches(0)[0]
    tokenizer, guesser = job.tokenizer, job.objective.token_predictor(job.model)
    written = batch.input_ids.clone()
    written[batch.labels["mlm_positions"]] = batch.labels["mlm"]
    ids = written.cpu().numpy()  # [tokens]
    candidates = whole_words(ids, batch, tokenizer)
    if not candidates:
        return []
    positions = torch.tensor([candidate.position for candidate in candidates], device=written.device)
    hidden_ids = written.index_fill(0, positions, tokenizer.mask_id)
    hidden = guesser.encode(replace(batch, input_ids=hidden_ids)).hidden[positions]  # [candidates, hidden]
    probabilities = guesser.mlm_logits(hidden).float().softmax(-1).cpu()  # [candidates, vocab]
    return [
        _example(candidate, ids, probability, tokenizer)
        for candidate, probability in zip(candidates, probabilities, strict=True)
    ]


@torch.inference_mode()
def next_examples(job: PretrainJob) -> list[MaskExample]:
    """The same for a causal language model: a word in the second half of each sequence, from its left context."""
    batch = job.held_out.batches[-1].to(job.device) if job.held_out is not None else job.micro_batches(0)[0]
    tokenizer, guesser = job.tokenizer, job.objective.token_predictor(job.model)
    ids = batch.input_ids.cpu().numpy()  # [tokens]
    labeled = (batch.labels["clm_positions"][predicted_tokens(batch)] + 1).cpu()  # [labels]
    edges = batch.cu_seqlens.long()
    owner = torch.searchsorted(edges, labeled, right=True) - 1
    is_late = 2 * (labeled - edges[owner]) >= edges[owner + 1] - edges[owner]
    candidates = whole_words(ids, batch.with_labels(mlm_positions=labeled[is_late]), tokenizer)
    if not candidates:
        return []
    before = torch.tensor([candidate.position - 1 for candidate in candidates], device=batch.input_ids.device)
    vectors = guesser.encode(batch).hidden[before]
    if guesser.config.separate_directions:
        vectors = vectors[:, : guesser.config.direction_size]  # the forward direction
    probabilities = guesser.mlm_logits(vectors).float().softmax(-1).cpu()  # [candidates, vocab]
    seen = [replace(candidate, stop=candidate.position + 1) for candidate in candidates]
    return [
        _example(candidate, ids, probability, tokenizer)
        for candidate, probability in zip(seen, probabilities, strict=True)
    ]


@torch.inference_mode()
def hidden_examples(job: PretrainJob) -> list[MaskExample]:
    """The same for an encoder-decoder: one masked source word, predicted as the first generated token."""
    batch = job.held_out.batches[-1] if job.held_out is not None else job.micro_batches(0)[0].to(torch.device("cpu"))
    tokenizer, model = job.tokenizer, job.objective.final_model(job.model)
    assert batch.target is not None and isinstance(model, EncoderDecoder)
    written = batch.labels["denoise"].split(batch.target.lengths)
    sources = zip(batch.input_ids.split(batch.lengths), written, strict=True)
    texts = [restore_spans(ids.numpy(), own.numpy()[:-1], tokenizer.mask_id) for ids, own in sources]
    whole = Batch.from_sequences(texts)
    ids = whole.input_ids.numpy()
    candidates = whole_words(ids, whole.with_labels(mlm_positions=torch.arange(len(ids))), tokenizer)
    if not candidates:
        return []
    edges, rows = whole.cu_seqlens.numpy(), []
    for candidate in candidates:
        row = int(np.searchsorted(edges, candidate.position, side="right")) - 1
        rows.append(texts[row].copy())
        rows[-1][candidate.position - edges[row]] = tokenizer.mask_id
    source = Batch.from_sequences(rows).to(job.device)
    begun = [np.array([model.config.decoder_start_token_id, tokenizer.mask_id])] * len(candidates)
    target = Batch.from_sequences(begun).to(job.device)
    hidden = model.decode(target, model.encode(source).hidden, source).hidden[
        target.last_tokens
    ]  # [candidates, hidden]
    probabilities = model.mlm_logits(hidden).float().softmax(-1).cpu()  # [candidates, vocab]
    return [
        _example(candidate, ids, probability, tokenizer)
        for candidate, probability in zip(candidates, probabilities, strict=True)
    ]


def whole_words(ids: np.ndarray, batch: Batch, tokenizer: Any) -> list[Candidate]:
    """One labeled token that is a whole word in each of some sequences: those with the longest segments.

    ids: int64 [tokens], the pack without masks.
    """
    starts = np.append(tokenizer.word_starts(ids), True)  # [tokens + 1]
    special = [id for id in (tokenizer.cls_id, tokenizer.sep_id, tokenizer.eos_id) if id is not None]
    bounds = batch.cu_seqlens.numpy()
    edges = np.unique(np.concatenate([np.flatnonzero(np.isin(ids, special)), bounds[:-1] - 1, bounds[1:]]))
    found: dict[int, Candidate] = {}
    for position in batch.labels["mlm_positions"].tolist():
        after = int(np.searchsorted(edges, position))
        candidate = Candidate(position, int(edges[after - 1]) + 1, int(edges[after]))
        is_word = starts[position] and starts[position + 1] and tokenizer.decode([ids[position]]).strip().isalpha()
        sequence = int(np.searchsorted(batch.cu_seqlens.numpy(), position, side="right"))
        known = found.get(sequence)
        if is_word and (known is None or candidate.stop - candidate.start > known.stop - known.start):
            found[sequence] = candidate
    longest = sorted(found.values(), key=lambda candidate: candidate.start - candidate.stop)[:EXAMPLES]
    return sorted(longest, key=lambda candidate: candidate.position)


def _example(candidate: Candidate, ids: np.ndarray, probability: torch.Tensor, tokenizer: Any) -> MaskExample:
    """probability: float32 [vocab]."""
    position, answer = candidate.position, int(ids[candidate.position])
    best = probability.topk(min(PREDICTIONS, len(probability)))
    before = tokenizer.decode(ids[max(candidate.start, position - CONTEXT_TOKENS) : position].tolist())
    after = tokenizer.decode(ids[position + 1 : min(candidate.stop, position + 1 + CONTEXT_TOKENS)].tolist())
    return MaskExample(
        before=f"{before.rstrip()} " if before else "",
        after=f" {after.lstrip()}" if after else "",
        predictions=[
            (tokenizer.id_to_token(index), value)
            for index, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ],
        answer=tokenizer.id_to_token(answer),
        rank=int((probability > probability[answer]).sum()) + 1,
        probability=float(probability[answer]),
    )
