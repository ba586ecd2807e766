"""Distillation's losses: of answers, of hidden states, and of sentence embeddings."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.randomness import generator
from maskwright.models.build import build
from maskwright.models.pooling import pool
from maskwright.objectives.distillation import (
    DistillationWeights,
    EmbeddingDistillation,
    MaskedDistillation,
    ProjectedStudent,
    hidden_cosine_loss,
    soft_binary_loss,
    soft_target_loss,
)
from maskwright.objectives.masked import MaskedLanguageModeling, MaskedRecipe, Masker
from objectives.packing import CLS, CONFIG, FIRST_WORD, MASK, SEP, VOCAB, batch_of, lively, objective_of

LOGITS = st.lists(st.floats(-8, 8, width=32), min_size=4, max_size=4)


def test_soft_targets_by_hand():
    """T = 2: the teacher says (2/3, 1/3), the student (1/2, 1/2); T^2 KL = 4 (2/3 ln 4/3 + 1/3 ln 2/3)."""
    teacher, student = torch.tensor([[2 * math.log(2.0), 0.0]]), torch.zeros(1, 2)
    wanted = 4 * (2 / 3 * math.log(4 / 3) + 1 / 3 * math.log(2 / 3))
    assert float(soft_target_loss(student, teacher, 2.0)) == pytest.approx(wanted, rel=1e-6)
    assert float(soft_target_loss(student.repeat(3, 1), teacher.repeat(3, 1), 2.0)) == pytest.approx(3 * wanted)


@given(student=LOGITS, teacher=LOGITS, temperature=st.floats(0.5, 20))
def test_the_gradient_of_soft_targets_is_t_times_the_difference_of_the_answers(student, teacher, temperature):
    found, wanted = torch.tensor([student], requires_grad=True), torch.tensor([teacher])
    soft_target_loss(found, wanted, temperature).backward()
    difference = (found.detach() / temperature).softmax(-1) - (wanted / temperature).softmax(-1)
    assert found.grad is not None
    assert torch.allclose(found.grad, temperature * difference, atol=1e-4)


def test_true_or_false_labels_by_hand():
    """T = 1: KL of Bernoulli(3/4) from Bernoulli(1/2), over two labels of which one agrees."""
    teacher, student = torch.tensor([[math.log(3.0), 0.0]]), torch.zeros(1, 2)
    wanted = (3 / 4 * math.log(3 / 2) + 1 / 4 * math.log(1 / 2)) / 2
    assert float(soft_binary_loss(student, teacher, 1.0)) == pytest.approx(wanted, rel=1e-5)


def test_hidden_states_are_compared_by_direction():
    teacher = torch.tensor([[3.0, 4.0], [1.0, 0.0], [1.0, 0.0]])
    student = torch.tensor([[6.0, 8.0], [0.0, 5.0], [-2.0, 0.0]])
    assert float(hidden_cosine_loss(student, teacher)) == pytest.approx(0 + 1 + 2)


def distillation(mix, student_spread=0.2):
    task = objective_of("mlm")
    teacher, student = lively(task), lively(task, student_spread)
    return MaskedDistillation(task.recipe, teacher, mix, student), student  # type: ignore[arg-type]


def test_a_student_that_is_the_teacher_has_the_tasks_loss_alone():
    objective, student = distillation(DistillationWeights())
    batch = batch_of(objective)
    with torch.no_grad():
        found = objective.outcome(student, batch)
        task = MaskedLanguageModeling(objective.recipe).outcome(student, batch)
    assert float(found.losses["mlm"]) == pytest.approx(float(task.losses["mlm"]), rel=1e-6)
    assert float(found.losses["soft"]) == pytest.approx(0, abs=1e-4)
    assert float(found.losses["hidden"]) == pytest.approx(0, abs=1e-3)
    assert found.weights == {"mlm": 2.0, "soft": 5.0, "hidden": 1.0}
    assert int(found.scores["mlm"].correct) == int(task.scores["mlm"].correct)


def test_the_teacher_gets_no_gradient_and_the_student_all():
    objective, student = distillation(DistillationWeights(), 0.1)
    torch.stack(list(objective.outcome(student, batch_of(objective)).losses.values())).sum().backward()
    assert all(parameter.grad is None for parameter in objective.teacher.parameters())
    assert all(parameter.grad is not None and bool(parameter.grad.any()) for parameter in student.parameters())


# -- Distillation of sentence embeddings -----------------------------------------------------------------------------

FOLDER, SIZE, MAX_LENGTH = Path("shards"), 32, 20


class Texts:
    """Sixty documents: one of four is a pair, the others are one sentence each."""

    folder = FOLDER

    def __init__(self):
        rng = np.random.default_rng(2)
        self.sizes = [rng.integers(3, 15, size=2 if index % 4 == 0 else 1) for index in range(60)]
        self.tokens = [rng.integers(FIRST_WORD, VOCAB, size=sizes.sum()) for sizes in self.sizes]

    def document_tokens(self, document):
        return self.tokens[document]

    def sentence_lengths_of(self, document):
        return self.sizes[document]

    def document_lengths(self):
        return np.array([len(tokens) for tokens in self.tokens])


class Drawn:
    def __init__(self, size=SIZE):
        self.table = np.random.default_rng(4).normal(size=(60, size)).astype(np.float32)

    def rows(self, documents):
        return self.table[documents]


def objective(size=SIZE, mask_weight=0.1, batch_tokens=64):
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
