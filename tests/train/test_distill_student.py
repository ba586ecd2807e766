"""The student's initial weights, and pruning."""

from __future__ import annotations

import copy

import pytest
import torch

from maskwright.core.errors import InputError
from maskwright.data.batch import Batch
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.models.model import Model
from maskwright.models.presets import preset
from maskwright.train.distillation.student import (
    chosen_layers,
    drop_top_layers,
    head_importance,
    least_important,
    make_student,
    prune_heads,
    student_config,
)

SMALL = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 24,
}
ROWS = [[5, 6, 7, 8, 9], [12, 13, 14], [15, 7], [16, 17, 18, 19, 20]]


def lively(config: ModelConfig, head: str | None, **options: object) -> Model:
    model = build(config, head, **options).eval()  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.2, generator=generator)
    return model


def batch(dtype: torch.dtype = torch.float32) -> Batch:
    targets = torch.tensor([0, 1, 1, 0])
    return Batch.from_sequences(ROWS).with_labels(sequence=targets)


@pytest.mark.parametrize(
    ("teacher", "student", "layers"),
    [
        (12, 6, (0, 2, 4, 6, 8, 10)),
        (6, 3, (0, 2, 4)),
        (6, 6, (0, 1, 2, 3, 4, 5)),
        (5, 2, (0, 2)),
        (12, 4, (0, 3, 6, 9)),
    ],
)
def test_a_student_begins_as_evenly_spread_layers(teacher: int, student: int, layers: tuple[int, ...]):
    assert chosen_layers(teacher, student) == layers


@pytest.mark.parametrize(
    ("family", "head"), [("bert-tiny", "pretraining"), ("roberta-base", "mlm"), ("albert-base", "mlm")]
)
def test_every_weight_of_the_student_is_the_teachers(family: str, head: str):
    sizes = SMALL | ({"embedding_size": 16} if family.startswith("albert") else {})
    teacher = lively(preset(family, **sizes), head)
    student = make_student(teacher, student_config(teacher.config), "mlm")
    assert student.layers == (0, 2) and not student.new
    theirs = dict(teacher.named_parameters())
    for name, parameter in student.model.named_parameters():
        source = name.replace("head.", "head.predictions.", 1) if head == "pretraining" else name
        if teacher.config.num_hidden_groups is None:
            source = source.replace("layers.1.", "layers.2.")
        assert torch.equal(parameter, theirs[source]), name


@pytest.mark.parametrize("name", ["half", "distilbert"])
def test_a_student_of_all_layers_answers_as_the_teacher(name: str):
    teacher = lively(preset("bert-tiny", **SMALL), "pretraining")
    student = make_student(teacher, student_config(teacher.config, name, 4), "mlm")
    with torch.no_grad():
        ours, theirs = (model.mlm_logits(model.encode(batch()).hidden) for model in (student.model.eval(), teacher))
    assert torch.allclose(ours, theirs, atol=1e-5)


def test_a_classifier_keeps_its_judge_labels_and_problem_type():
    teacher = lively(
        preset("bert-tiny", **SMALL),
        "classification",
        labels=["a", "b", "c"],
        problem_type="multi_label_classification",
    )
    student = make_student(teacher, student_config(teacher.config, layers := "half", 4))
    assert layers == "half" and student.model.labels == teacher.labels
    assert student.model.problem_type == teacher.problem_type
    with torch.no_grad():
        assert torch.allclose(student.model.eval().logits(batch()), teacher.logits(batch()), atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "name", "layers", "message"),
    [
        ({}, "half", 5, "has 4"),
        ({}, "bert-mini", None, "hidden_size 256 .teacher 32."),
        ({"positions": "offset", "pad_token_id": 1}, "distilbert", None, "positions absolute .teacher offset."),
        ({"num_hidden_groups": 2}, "half", None, "share 2 sets"),
        ({"num_hidden_groups": 1}, "distilbert", None, "num_hidden_groups None .teacher 1."),
    ],
)
def test_a_student_that_does_not_fit_is_refused(changes: dict, name: str, layers: int | None, message: str):
    with pytest.raises(InputError, match=message):
        student_config(preset("bert-tiny", **{**SMALL, **changes}), name, layers)


def test_dropping_the_highest_layers_gives_the_hidden_states_below():
    teacher = lively(preset("bert-tiny", **SMALL), "mlm")
    with torch.no_grad():
        states = teacher.encode(batch(), hidden_states=True).hidden_states
        assert states is not None
        for count in (1, 3):
            assert torch.allclose(drop_top_layers(teacher, count).encode(batch()).hidden, states[4 - count], atol=1e-6)
    with pytest.raises(InputError, match="4 layers"):
        drop_top_layers(teacher, 4)


def silence(model: Model, heads: dict[int, list[int]], factor: float = 0.0) -> Model:
    """The same model with these heads' parts of the output multiplied by `factor`."""
    changed, size = copy.deepcopy(model), model.config.head_dim
    with torch.no_grad():
        for layer, numbers in heads.items():
            for head in numbers:
                changed.encoder.layers[layer].attention.out.weight[:, head * size : (head + 1) * size] *= factor
    return changed


def test_a_pruned_head_is_one_that_says_nothing():
    model, heads = lively(preset("bert-tiny", **SMALL), "classification", labels=2), {0: [1, 3], 2: [0], 3: [0, 1, 2]}
    pruned = prune_heads(model, heads)
    with torch.no_grad():
        assert torch.allclose(pruned.logits(batch()), silence(model, heads).logits(batch()), atol=1e-5)
        assert not torch.allclose(pruned.logits(batch()), model.logits(batch()), atol=1e-3)
    assert pruned.num_parameters == model.num_parameters - 6 * (3 * 8 * 33 + 8 * 32)
    assert [layer.attention.num_heads for layer in model.encoder.in_order] == [4, 4, 4, 4], "the original changed"
    with pytest.raises(InputError, match="no attention head left"):
        prune_heads(model, {0: [0, 1, 2, 3]})


def test_importance_is_the_derivative_of_each_texts_loss_at_the_mask():
    model = lively(preset("bert-tiny", **SMALL), "classification", labels=2).double()

    def loss(network: Model, one: Batch) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(network.logits(one), one.labels["sequence"], reduction="sum")

    found = head_importance(model, [batch()], loss)
    by_hand, step = torch.zeros(4, 4, dtype=torch.float64), 1e-5
    for layer in range(4):
        for head in range(4):
            up, down = (silence(model, {layer: [head]}, 1 + sign * step) for sign in (1, -1))
            for row, label in zip(ROWS, [0, 1, 1, 0], strict=True):
                one = Batch.from_sequences([row]).with_labels(sequence=torch.tensor([label]))
                with torch.no_grad():
                    by_hand[layer, head] += abs(float(loss(up, one) - loss(down, one)) / (2 * step))
    assert torch.allclose(found.double(), by_hand / by_hand.norm(dim=1, keepdim=True), atol=1e-4)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_least_important_heads_go_and_every_layer_keeps_one():
    importance = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.9, 0.8, 0.7, 0.05]])
    assert least_important(importance, 0.25) == {0: [0], 1: [3]}
    most = least_important(importance, 0.99)
    assert {layer: len(heads) for layer, heads in most.items()} == {0: 3, 1: 3}
    assert 3 not in most[0] and 0 not in most[1]
    assert least_important(importance, 0.1) == {}
