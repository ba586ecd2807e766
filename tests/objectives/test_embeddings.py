"""Distillation of sentence embeddings: the loss by hand, masks, pairs, and batches of similar length."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from maskwright.core.randomness import generator
from maskwright.models.build import build
from maskwright.models.pooling import pool
from maskwright.objectives.distillation import EmbeddingDistillation, ProjectedStudent, hidden_cosine_loss
from maskwright.objectives.masked import MaskedRecipe, Masker
from objectives.packing import CLS, CONFIG, FIRST_WORD, MASK, SEP, VOCAB

FOLDER, SIZE, MAX_LENGTH = Path("shards"), 32, 20


class Texts:
    """Sixty documents: one of four is a pair, the others are one sentence each."""

    folder = FOLDER

    def __init__(self) -> None:
        rng = np.random.default_rng(2)
        self.sizes = [rng.integers(3, 15, size=2 if index % 4 == 0 else 1) for index in range(60)]
        self.tokens = [rng.integers(FIRST_WORD, VOCAB, size=sizes.sum()) for sizes in self.sizes]

    def document_tokens(self, document: int) -> np.ndarray:
        return self.tokens[document]

    def sentence_lengths_of(self, document: int) -> np.ndarray:
        return self.sizes[document]

    def document_lengths(self) -> np.ndarray:
        return np.array([len(tokens) for tokens in self.tokens])


class Drawn:
    """An embedding for each document."""

    def __init__(self, size: int = SIZE) -> None:
        self.table = np.random.default_rng(4).normal(size=(60, size)).astype(np.float32)

    def rows(self, documents) -> np.ndarray:
        return self.table[documents]


def objective(size: int = SIZE, mask_weight: float = 0.1, batch_tokens: int = 64) -> EmbeddingDistillation:
    masker = Masker(MASK, frozenset(range(FIRST_WORD)), VOCAB, 0.2)
    weights = {"embedding": 1.0, "mlm": mask_weight}
    recipe = MaskedRecipe.of(CLS, SEP, masker, MAX_LENGTH)
    return EmbeddingDistillation(
        recipe, {FOLDER: Drawn(size)}, size, weights, build(CONFIG, "mlm", seed=1), batch_tokens
    )


def test_the_loss_by_hand():
    student = torch.tensor([[2.0, 0.0], [0.0, 3.0], [1.0, 1.0]])
    teacher = torch.tensor([[1.0, 0.0], [0.0, -1.0], [1.0, 0.0]])
    assert float(hidden_cosine_loss(student, teacher)) == pytest.approx(0 + 2 + 1 - 0.5**0.5, rel=1e-6)


def test_half_of_the_rows_are_masked_and_each_row_keeps_its_embedding():
    made, texts, rows = objective(), Texts(), np.arange(60)
    batch = made.batch_of(texts, rows, generator(0, "masks"))
    owner = np.repeat(np.arange(60), batch.lengths)
    masked = set(owner[batch.labels["mlm_positions"].numpy()].tolist())
    assert len(masked) == 30
    tokens = sum(length for row, length in enumerate(batch.lengths) if row in masked)
    assert len(batch.labels["mlm"]) / tokens == pytest.approx(0.2, abs=0.06)
    whole = batch.input_ids.clone()
    whole[batch.labels["mlm_positions"]] = batch.labels["mlm"]
    first, vectors = 0, Drawn().table
    for length, vector in zip(batch.lengths, batch.labels["embedding"].numpy(), strict=True):
        document = int(np.flatnonzero((vectors == vector).all(axis=1))[0])
        words = [index for index in whole[first : first + length].tolist() if index not in (CLS, SEP)]
        kept = texts.tokens[document].tolist()
        if len(words) == len(kept):
            assert words == kept
        elif len(texts.sizes[document]) == 1:
            assert words == kept[: len(words)] and length == MAX_LENGTH
        first += length


def test_documents_of_two_sentences_are_pairs_truncated_to_the_length():
    made, texts = objective(mask_weight=0.0), Texts()
    for document in range(0, 60, 4):
        batch = made.batch_of(texts, np.array([document]), generator(0, "masks"))
        a, b = texts.sizes[document].tolist()
        ids, types = batch.input_ids.tolist(), batch.token_type_ids.tolist()
        assert ids[0] == CLS and ids.count(SEP) == 2 and ids[-1] == SEP
        assert len(ids) == min(a + b + 3, MAX_LENGTH)
        end = ids.index(SEP)
        assert types == [0] * (end + 1) + [1] * (len(ids) - end - 1)
        assert ids[1:end] == texts.tokens[document][: end - 1].tolist()
        assert ids[end + 1 : -1] == texts.tokens[document][a : a + len(ids) - end - 2].tolist()
        assert min(end - 1, len(ids) - end - 2) >= min(a, b, (MAX_LENGTH - 3) // 2)


def test_batches_see_every_document_once_in_an_epoch_and_are_functions_of_the_step():
    made, texts, chosen = objective(batch_tokens=48), Texts(), np.arange(5, 60)
    stream = made.batches(texts, chosen, seed=3, sequences=1, accumulation=2)
    count = len(stream.order)
    batches = [stream.batch(*divmod(index, 2)) for index in range(count)]
    assert sum(map(len, batches)) == len(chosen)
    assert all(batch.num_tokens <= 48 + len(batch) for batch in batches)
    seen = np.concatenate([batch.labels["embedding"].numpy() for batch in batches])
    assert {tuple(vector) for vector in seen} == {tuple(vector) for vector in Drawn().table[5:]}
    again = made.batches(texts, chosen, seed=3, sequences=1, accumulation=2)
    again.restore(stream.state())
    assert torch.equal(again.batch(2, 1).input_ids, batches[5].input_ids)


@pytest.mark.parametrize("size", [SIZE, 12])
def test_the_outcome_is_that_of_the_parts(size):
    made, texts = objective(size), Texts()
    model = made.network(CONFIG, seed=0).eval()
    assert isinstance(model, ProjectedStudent) == (size != SIZE)
    batch = made.batch_of(texts, np.arange(12), generator(1, "masks"))
    outcome = made.outcome(model, batch)
    hidden = made.final_model(model).encode(batch).hidden
    pooled = pool(hidden, batch, "mean")
    pooled = model.projection(pooled) if isinstance(model, ProjectedStudent) else pooled
    wanted = hidden_cosine_loss(pooled, batch.labels["embedding"]).item()
    assert outcome.losses["embedding"].item() == pytest.approx(wanted)
    logits = made.final_model(model).mlm_logits(hidden[batch.labels["mlm_positions"]])
    wanted = torch.nn.functional.cross_entropy(logits, batch.labels["mlm"], reduction="sum")
    assert outcome.losses["mlm"].item() == pytest.approx(wanted.item(), rel=1e-5)
    assert outcome.counts == {"embedding": 12, "mlm": len(batch.labels["mlm"])}
    assert outcome.weights == {"embedding": 1.0, "mlm": 0.1}
