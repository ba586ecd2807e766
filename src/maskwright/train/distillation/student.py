"""The student of a distillation: its configuration, and its initialization from the teacher (Sanh et al. 2019, part 3).

Layer i of the student is initialized from layer floor(i * teacher's layers / student's layers) of the teacher.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from ...core.errors import InputError, RunError
from ...data.batch import Batch
from ...inference.engine.engine import Engine
from ...models.build import build
from ...models.config import ModelConfig
from ...models.heads import REGRESSION, SequenceClassificationHead
from ...models.model import Model
from ...models.presets import preset
from ...objectives.distillation import DistillationWeights, hidden_cosine_loss, soft_binary_loss, soft_target_loss
from ...objectives.outcome import LossSums
from ...tasks.sequence import SequenceTask
from ..finetuning.job import FinetuneJob
from ..pretraining.job import PretrainJob
from .config import DISTILBERT, HALF

# Settings that may differ between teacher and student although the student has layers of the teacher.
MAY_DIFFER = frozenset(
    (
        *("family", "num_hidden_layers", "type_vocab_size", "pooler", "pair_objective"),
        *(setting.name for setting in fields(ModelConfig) if setting.name.startswith(("classifier_", "choice_"))),
        *(setting.name for setting in fields(ModelConfig) if setting.name.endswith("_dropout")),
    )
)
DISTILBERT_KEEPS = (
    *("num_attention_heads", "hidden_size", "intermediate_size", "hidden_act", "mlm_act", "layer_norm_eps"),
    "tie_word_embeddings",
)


@dataclass(frozen=True)
class Student:
    """An untrained student. layers: the teacher's layer that initializes each of its layers; copied, new: names of its
    parameters that come from the teacher, and that are randomly initialized.
    """

    model: Model
    layers: tuple[int, ...]
    copied: tuple[str, ...]
    new: tuple[str, ...]
    start: str | None = None  # the earlier student that initializes it


def student_config(teacher: ModelConfig, name: str = HALF, num_layers: int | None = None) -> ModelConfig:
    """The student's network. name, num_layers: as in DistillConfig.

    Raises InputError when the teacher's weights do not fit it, or it would have more layers.
    """
    half = max(teacher.num_hidden_layers // 2, 1)
    if teacher.recurrent is not None or (name not in (HALF, DISTILBERT) and preset(name).recurrent is not None):
        raise InputError(
            "The student is initialized from the teacher's layers, which a recurrent network does not have: use "
            "Transformers."
        )
    if name == HALF:
        config = teacher
    elif name == DISTILBERT:
        config = _like(preset("distilbert-base"), teacher, *DISTILBERT_KEEPS)
    else:
        config = _like(preset(name), teacher)
        half = config.num_hidden_layers
    layers = num_layers or half
    if layers > teacher.num_hidden_layers:
        raise InputError(
            f"The student would have {layers} layers and the teacher has {teacher.num_hidden_layers}: use fewer "
            "with --layers."
        )
    config = replace(config, num_hidden_layers=layers)
    if teacher.num_hidden_groups is not None and teacher.num_layer_sets > 1:
        raise InputError(
            f"The teacher's layers share {teacher.num_layer_sets} sets of weights; only teachers with one shared set, "
            "or without shared layers, are supported."
        )
    different = [
        f"{setting.name} {getattr(config, setting.name)} (teacher {getattr(teacher, setting.name)})"
        for setting in fields(ModelConfig)
        if setting.name not in MAY_DIFFER and getattr(config, setting.name) != getattr(teacher, setting.name)
    ]
    if different:
        raise InputError(
            f"The student '{name}' does not fit the teacher, whose layers initialize it: {', '.join(different)}. "
            "Use --preset half."
        )
    return config


def chosen_layers(teacher_layers: int, student_layers: int) -> tuple[int, ...]:
    """The teacher's layer that initializes each layer of the student: every other one for half as many."""
    return tuple(index * teacher_layers // student_layers for index in range(student_layers))


def make_student(teacher: Model, config: ModelConfig, head: str | None = None, seed: int = 0) -> Student:
    """A student with the teacher's weights where shapes match; the others are initialized from `seed`.

    head: None for the teacher's; "mlm" for that part of a pre-training head. A student without token types adds the
    first token type embedding to each position embedding, which gives the teacher's input for single texts.
    """
    layers = chosen_layers(teacher.config.num_hidden_layers, config.num_hidden_layers)
    model = cut(teacher, config, layers, head or teacher.head_name, seed)
    given = _given(teacher, layers, model)
    names = [name for name, _ in model.named_parameters()]
    return Student(model, layers, tuple(n for n in names if n in given), tuple(n for n in names if n not in given))


def cut(teacher: Model, config: ModelConfig, layers: Sequence[int], head: str | None, seed: int = 0) -> Model:
    """A model of `config` with these layers of the teacher, in this order, and all other matching weights."""
    same_head = head == teacher.head_name
    model = build(
        config,
        head,
        labels=teacher.labels or None if same_head else None,
        problem_type=teacher.problem_type if same_head else None,
        seed=seed,
    )
    given = _given(teacher, layers, model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in given:
                parameter.copy_(given[name])
    model.tokenizer = teacher.tokenizer
    device = teacher.word_embeddings.device
    model.compute_dtype, model.engine = teacher.compute_dtype, Engine()
    return model.to(device)


def _given(teacher: Model, layers: Sequence[int], model: Model) -> dict[str, Tensor]:
    """The teacher's tensors of the same role and shape, by the student's names."""
    tensors = dict(teacher.named_parameters())
    found: dict[str, Tensor] = {}
    shared = teacher.config.num_hidden_groups is not None
    same_head_input = model.config.classifier_act == teacher.config.classifier_act
    for name, parameter in model.named_parameters():
        source = name
        if name.startswith("encoder.layers.") and not shared:
            index, _, rest = name.removeprefix("encoder.layers.").partition(".")
            source = f"encoder.layers.{layers[int(index)]}.{rest}"
        elif name.startswith("head.") and teacher.head_name == "pretraining" and model.head_name == "mlm":
            source = name.replace("head.", "head.predictions.", 1)
        elif name.startswith("head.") and isinstance(teacher.head, SequenceClassificationHead) and not same_head_input:
            continue  # a head with another input
        if source in tensors and tensors[source].shape == parameter.shape:
            found[name] = tensors[source].detach()
    first = tensors.get("encoder.embeddings.token_type.weight")
    if first is not None and model.encoder.embeddings.token_type is None:
        name = "encoder.embeddings.position.weight"
        found[name] = found[name] + first[0].detach()
    return found


def _like(config: ModelConfig, teacher: ModelConfig, *sizes: str) -> ModelConfig:
    """`config` with the teacher's vocabulary, number of positions, and these sizes."""
    names = ("vocab_size", "max_position_embeddings", "pad_token_id", "initializer_range", *sizes)
    return replace(config, **{name: getattr(teacher, name) for name in names})


# -- Distillation as a job of the training loop: on masked text, and on labeled rows ---------------------------------


def weights_digest(model: Model) -> str:
    """The SHA-256 of a model's weights, which identifies a teacher."""
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()


class KnowsItsTeacher:
    """A job whose checkpoints have the digest of its teacher. Raises RunError when the teacher has changed."""

    teacher_digest = ""

    def state(self) -> dict[str, Any]:
        return {**super().state(), "teacher": self.teacher_digest}  # type: ignore[misc]  # of the job

    def restore(self, state: dict[str, Any]) -> None:
        if state["teacher"] != self.teacher_digest:
            raise RunError(
                "The teacher's weights have changed since this run began: restore them, or restart from scratch with "
                "--restart."
            )
        super().restore(state)  # type: ignore[misc]  # of the job


class TextDistillation(KnowsItsTeacher, PretrainJob):
    """A pre-training whose objective has a teacher."""


class RowsDistillation(KnowsItsTeacher, FinetuneJob):
    """A fine-tuning that also learns the teacher's predictions and hidden states; dev scores are only the task's."""

    task: SequenceTask

    def __init__(
        self, *args: Any, teacher: Model, teacher_digest: str, mix: DistillationWeights, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.teacher, self.teacher_digest, self.mix = teacher.eval().requires_grad_(False), teacher_digest, mix

    def counts(self, batch: Batch) -> dict[str, int]:
        rows = self.task.counts(batch)
        counts = {**rows, "soft": rows[self.task.name]}
        return counts | {"hidden": batch.num_tokens} if self.mix.hidden_weight else counts

    def outcome(self, batch: Batch) -> LossSums:
        with torch.no_grad():
            wanted_hidden = self.teacher.encode(batch).hidden  # [tokens, hidden]
            wanted = self.task.pooled(answers(self.teacher, wanted_hidden, batch), batch)  # [rows, labels]
        hidden = self.model.encode(batch).hidden  # [tokens, hidden]
        logits = self.task.pooled(answers(self.model, hidden, batch), batch)  # [rows, labels]
        targets = batch.labels["sequence"]
        losses = {
            self.task.name: self.task.loss_of(logits, targets) * len(targets),
            "soft": soft_loss(self.task.problem_type, logits, wanted, self.mix.temperature),
        }
        if self.mix.hidden_weight:
            losses["hidden"] = hidden_cosine_loss(hidden, wanted_hidden)
        right = self.task.num_correct(logits.detach(), targets)
        correct = {} if right is None else {self.task.name: right}
        return LossSums(losses, self.counts(batch), correct, self.mix.weights(self.task.name))


def answers(model: Model, hidden: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Logits of a sequence head: float32 [sequences, labels]. hidden: [tokens, hidden] of `encode`."""
    logits: torch.Tensor = model.head(model.first(hidden, batch))  # type: ignore[misc]  # of a sequence head
    return logits.float()


def soft_loss(
    problem_type: str | None, student: torch.Tensor, teacher: torch.Tensor, temperature: float
) -> torch.Tensor:
    """The distance of the student's predictions from the teacher's, summed over rows, a scalar.

    student, teacher: float [rows, labels], logits; a regression uses the squared difference, without a temperature.
    """
    if problem_type == REGRESSION:
        return (student - teacher).square().mean(dim=-1).sum()
    compare = soft_binary_loss if problem_type == "multi_label_classification" else soft_target_loss
    return compare(student, teacher, temperature)
