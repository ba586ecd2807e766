"""The student of a distillation: its sizes, and its first weights, which are the teacher's (Sanh et al. 2019, part 3).

Layer i of the student begins as layer floor(i * teacher's layers / student's layers): every other one for half as many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from ..core.errors import InputError
from ..inference.engine.engine import Engine
from ..models.config import ModelConfig
from ..models.model import Model, build
from ..models.presets import preset

HALF, DISTILBERT = "half", "distilbert"
# What may differ between teacher and student though the teacher's layers mean the same in both. All else must be equal.
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
    """A student at its first step. layers: which layer of the teacher each of its layers is; copied, new: names of
    its parameters that the teacher gave, and that are drawn.
    """

    model: Model
    layers: tuple[int, ...]
    copied: tuple[str, ...]
    new: tuple[str, ...]


def student_config(teacher: ModelConfig, name: str = HALF, num_layers: int | None = None) -> ModelConfig:
    """The student's network. name, num_layers: as in DistillConfig.

    Raises InputError when the teacher's weights do not fit it, or it would have more layers.
    """
    half = max(teacher.num_hidden_layers // 2, 1)
    if teacher.recurrent is not None or (name not in (HALF, DISTILBERT) and preset(name).recurrent is not None):
        raise InputError(
            "Layers of a teacher begin a student's, and a recurrent network has none that fit: take Transformers."
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
            f"The student would have {layers} layers and the teacher has {teacher.num_hidden_layers}: ask for fewer "
            "with --layers."
        )
    config = replace(config, num_hidden_layers=layers)
    if teacher.num_hidden_groups not in (None, 1):
        raise InputError(
            f"The teacher's layers share {teacher.num_hidden_groups} sets of weights; only teachers whose layers share "
            "one set, or none, can be halved."
        )
    different = [
        f"{setting.name} {getattr(config, setting.name)} (teacher {getattr(teacher, setting.name)})"
        for setting in fields(ModelConfig)
        if setting.name not in MAY_DIFFER and getattr(config, setting.name) != getattr(teacher, setting.name)
    ]
    if different:
        raise InputError(
            f"The student '{name}' does not fit the teacher, whose layers it begins with: {', '.join(different)}. "
            "Use --preset half."
        )
    return config


def chosen_layers(teacher_layers: int, student_layers: int) -> tuple[int, ...]:
    """Which layer of the teacher each layer of the student begins as: every other one for half as many."""
    return tuple(index * teacher_layers // student_layers for index in range(student_layers))


def make_student(teacher: Model, config: ModelConfig, head: str | None = None, seed: int = 0) -> Student:
    """A student with the teacher's weights, as far as it has places for them; the others are drawn from `seed`.

    head: None for the teacher's; "mlm" takes that half of a head for pre-training. A student without segments adds the
    first segment's vector to each position, so that its input is the teacher's for single texts.
    """
    layers = chosen_layers(teacher.config.num_hidden_layers, config.num_hidden_layers)
    model = cut(teacher, config, layers, head or teacher.head_name, seed)
    given = _given(teacher, layers, model)
    names = [name for name, _ in model.named_parameters()]
    return Student(model, layers, tuple(n for n in names if n in given), tuple(n for n in names if n not in given))


def cut(teacher: Model, config: ModelConfig, layers: Sequence[int], head: str | None, seed: int = 0) -> Model:
    """A model of `config` that has these layers of the teacher, in this order, and all else that fits."""
    same_head = head == teacher.head_name
    model = build(
        config,
        head,
        labels=teacher.labels or None if same_head else None,
        problem_type=teacher.problem_type if same_head and head != "regression" else None,
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
    """The teacher's tensors by the student's names, those of equal shape that mean the same."""
    tensors = dict(teacher.named_parameters())
    found: dict[str, Tensor] = {}
    shared = teacher.config.num_hidden_groups is not None
    same_judge = model.config.classifier_act == teacher.config.classifier_act
    for name, parameter in model.named_parameters():
        source = name
        if name.startswith("encoder.layers.") and not shared:
            index, _, rest = name.removeprefix("encoder.layers.").partition(".")
            source = f"encoder.layers.{layers[int(index)]}.{rest}"
        elif name.startswith("head.") and teacher.head_name == "pretraining" and model.head_name == "mlm":
            source = name.replace("head.", "head.predictions.", 1)
        elif name.startswith("head.") and teacher.head_name in ("classification", "regression") and not same_judge:
            continue  # a head that judges another vector
        if source in tensors and tensors[source].shape == parameter.shape:
            found[name] = tensors[source].detach()
    first = tensors.get("encoder.embeddings.token_type.weight")
    if first is not None and model.encoder.embeddings.token_type is None:
        name = "encoder.embeddings.position.weight"
        found[name] = found[name] + first[0].detach()
    return found


def _like(config: ModelConfig, teacher: ModelConfig, *sizes: str) -> ModelConfig:
    """`config` for the teacher's vocabulary and room, with these further sizes of it."""
    names = ("vocab_size", "max_position_embeddings", "pad_token_id", "initializer_range", *sizes)
    return replace(config, **{name: getattr(teacher, name) for name in names})
