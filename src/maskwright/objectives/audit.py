"""Human-readable batches: what was masked or replaced, and which pairs are real."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ..data.batch import Batch
from ..models.encoder_decoder import EncoderDecoder
from ..models.model import Model
from ..report import MaskExample
from ..text.tokenizers.tokenizer import Tokenizer

# -- Predictions of whole words, for the report of a run: one masked, or next, word in each of some sequences --------

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
def masked_word_examples(model: Model, batch: Batch, tokenizer: Tokenizer, mask_id: int) -> list[MaskExample]:
    """Predicts one masked word per sequence of a batch with the labels "mlm_positions" and "mlm"."""
    written = batch.input_ids.clone()
    written[batch.labels["mlm_positions"]] = batch.labels["mlm"]
    ids = written.cpu().numpy()  # [tokens]
    candidates = whole_words(ids, batch, batch.labels["mlm_positions"], tokenizer)
    if not candidates:
        return []
    positions = torch.tensor([candidate.position for candidate in candidates], device=written.device)
    hidden_ids = written.index_fill(0, positions, mask_id)
    hidden = model.encode(replace(batch, input_ids=hidden_ids)).hidden[positions]  # [candidates, hidden]
    return _examples(candidates, ids, model.mlm_logits(hidden), tokenizer)


@torch.inference_mode()
def next_word_examples(model: Model, batch: Batch, targets: Tensor, tokenizer: Tokenizer) -> list[MaskExample]:
    """Predicts a word in the second half of each sequence from its left context. targets: int64 [labels], predicted
    tokens.
    """
    ids = batch.input_ids.cpu().numpy()  # [tokens]
    labeled, edges = targets.cpu(), batch.cu_seqlens.long()
    owner = torch.searchsorted(edges, labeled, right=True) - 1
    is_late = 2 * (labeled - edges[owner]) >= edges[owner + 1] - edges[owner]
    candidates = whole_words(ids, batch, labeled[is_late], tokenizer)
    if not candidates:
        return []
    before = torch.tensor([candidate.position - 1 for candidate in candidates], device=batch.input_ids.device)
    vectors = model.encode(batch).hidden[before]  # [candidates, hidden]
    if model.config.separate_directions:
        vectors = vectors[:, : model.config.direction_size]  # the forward direction
    seen = [replace(candidate, stop=candidate.position + 1) for candidate in candidates]
    return _examples(seen, ids, model.mlm_logits(vectors), tokenizer)


@torch.inference_mode()
def restored_word_examples(
    model: EncoderDecoder, texts: Sequence[np.ndarray], tokenizer: Tokenizer, mask_id: int
) -> list[MaskExample]:
    """Predicts one masked word per text as the first generated token. texts: int64 [tokens] each."""
    whole = Batch.from_sequences(texts)
    ids = whole.input_ids.numpy()
    candidates = whole_words(ids, whole, torch.arange(len(ids)), tokenizer)
    if not candidates:
        return []
    edges, rows, device = whole.cu_seqlens.numpy(), [], model.word_embeddings.device
    for candidate in candidates:
        row = int(np.searchsorted(edges, candidate.position, side="right")) - 1
        rows.append(texts[row].copy())
        rows[-1][candidate.position - edges[row]] = mask_id
    source = Batch.from_sequences(rows).to(device)
    begun = [np.array([model.config.decoder_start_token_id, mask_id])] * len(candidates)
    target = Batch.from_sequences(begun).to(device)
    written = model.decode(target, model.encode(source).hidden, source).hidden  # [target tokens, hidden]
    return _examples(candidates, ids, model.mlm_logits(written[target.last_tokens]), tokenizer)


def whole_words(ids: np.ndarray, batch: Batch, labeled: Tensor, tokenizer: Tokenizer) -> list[Candidate]:
    """One labeled token that is a whole word in each of some sequences: those with the longest segments.

    ids: int64 [tokens], the pack without masks; labeled: int64 [labels], positions.
    """
    starts = np.append(tokenizer.word_starts(ids), True)  # [tokens + 1]
    special = [id for id in (tokenizer.cls_id, tokenizer.sep_id, tokenizer.eos_id) if id is not None]
    bounds = batch.cu_seqlens.numpy()
    edges = np.unique(np.concatenate([np.flatnonzero(np.isin(ids, special)), bounds[:-1] - 1, bounds[1:]]))
    found: dict[int, Candidate] = {}
    for position in labeled.tolist():
        after = int(np.searchsorted(edges, position))
        candidate = Candidate(position, int(edges[after - 1]) + 1, int(edges[after]))
        is_word = starts[position] and starts[position + 1] and tokenizer.decode([ids[position]]).strip().isalpha()
        sequence = int(np.searchsorted(bounds, position, side="right"))
        known = found.get(sequence)
        if is_word and (known is None or candidate.stop - candidate.start > known.stop - known.start):
            found[sequence] = candidate
    longest = sorted(found.values(), key=lambda candidate: candidate.start - candidate.stop)[:EXAMPLES]
    return sorted(longest, key=lambda candidate: candidate.position)


def _examples(
    candidates: Sequence[Candidate], ids: np.ndarray, logits: Tensor, tokenizer: Tokenizer
) -> list[MaskExample]:
    """logits: float [candidates, vocab]."""
    found = []
    for candidate, probability in zip(candidates, logits.float().softmax(-1).cpu(), strict=True):
        position, answer = candidate.position, int(ids[candidate.position])
        best = probability.topk(min(PREDICTIONS, len(probability)))
        before = tokenizer.decode(ids[max(candidate.start, position - CONTEXT_TOKENS) : position].tolist())
        after = tokenizer.decode(ids[position + 1 : min(candidate.stop, position + 1 + CONTEXT_TOKENS)].tolist())
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        found.append(
            MaskExample(
                before=f"{before.rstrip()} " if before else "",
                after=f" {after.lstrip()}" if after else "",
                predictions=[(tokenizer.id_to_token(index) or "", value) for index, value in pairs],
                answer=tokenizer.id_to_token(answer),
                rank=int((probability > probability[answer]).sum()) + 1,
                probability=float(probability[answer]),
            )
        )
    return found


Fate = Literal["masked", "random", "replaced", "kept", "next", ""]


@dataclass(frozen=True)
class AuditedToken:
    """One position: the input token, the original token, and the change.

    fate: "masked"; "random" (replaced by a random token); "replaced" (replaced by a generator's token); "kept"
    (selected but unchanged); "next" (target of next-token prediction); "" (not selected).
    """

    shown: str
    original: str
    fate: Fate
    segment: int


@dataclass(frozen=True)
class AuditedSequence:
    """One example. follows: whether B follows A; in_order: whether A and B are in order; None: not in the objective."""

    tokens: tuple[AuditedToken, ...]
    follows: bool | None
    in_order: bool | None = None


def audit(
    batch: Batch,
    token_of: Callable[[int], str],
    mask_id: int | None,
    changed: Fate = "random",
    unchanged: Fate = "kept",
) -> list[AuditedSequence]:
    """Reverses the masking of a batch: returns every sequence with the change of each token.

    mask_id: None if there is no [MASK]; changed, unchanged: fate of a selected token that is not masked and differs
    from, or equals, the original.
    """
    right = dict(zip(batch.labels["mlm_positions"].tolist(), batch.labels["mlm"].tolist(), strict=True))
    ids = batch.input_ids.tolist()
    types = batch.token_type_ids.tolist() if batch.token_type_ids is not None else [0] * len(ids)
    answers = {
        name: [label == 0 for label in batch.labels[name].tolist()] for name in ("nsp", "sop") if name in batch.labels
    }
    unknown = [None] * len(batch)
    follows, in_order = answers.get("nsp", unknown), answers.get("sop", unknown)
    sequences, start = [], 0

    def fate(place: int) -> Fate:
        if place not in right:
            return ""
        if ids[place] == mask_id:
            return "masked"
        return unchanged if ids[place] == right[place] else changed

    for number, length in enumerate(batch.lengths):
        tokens = tuple(
            AuditedToken(
                token_of(ids[place]),
                token_of(right.get(place, ids[place])),
                fate(place),
                types[place],
            )
            for place in range(start, start + length)
        )
        sequences.append(AuditedSequence(tokens, follows[number], in_order[number]))
        start += length
    return sequences
