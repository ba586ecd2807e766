"""The student of a distillation: its configuration, and its initialization from the teacher (Sanh et al. 2019, part 3).

Layer i of the student is initialized from layer floor(i * teacher's layers / student's layers) of the teacher.
"""

from __future__ import annotations

import copy
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from ...core.errors import InputError, MaskwrightError, RunError
from ...core.progress import note
from ...core.util import plural
from ...data.batch import Batch
from ...inference.engine.choice import require_int8
from ...inference.engine.engine import Engine
from ...models.build import build
from ...models.config import ModelConfig
from ...models.heads import REGRESSION, SequenceClassificationHead
from ...models.model import Model
from ...models.presets import preset
from ...models.transformer import Layer
from ...nn.attention import SelfAttention
from ...nn.layers import Linear
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


# -- Compression of a trained model without training: int8, factorized word embeddings, shared layers ----------------


def factorize_words(model: Model, rank: int) -> Model:
    """Returns a copy with the best rank-`rank` approximation of its word embeddings (Lan et al. 2020, section 3.1).

    The table keeps its form and has the product of the two matrices. Raises InputError for a rank
    that is not below the hidden size, and for a model whose word embeddings are already factorized.
    """
    if model.config.embedding_size:
        raise InputError("The word embeddings of this model are already factorized.")
    smaller = copy.deepcopy(model)
    weight = smaller.word_embeddings
    if not 0 < rank < weight.shape[1]:
        raise InputError(f"A rank of {rank} does not factorize word embeddings of size {weight.shape[1]}.")
    with torch.no_grad():
        _, vectors = torch.linalg.eigh(weight.float().T @ weight.float())  # ascending eigenvalues
        basis = vectors[:, -rank:]  # [hidden, rank]
        weight.copy_(weight.float() @ basis @ basis.T)
    return smaller


def share_layers(model: Model) -> Model:
    """Returns a copy in which all layers share the mean of their weights.

    It cannot be saved. Raises InputError for a model with one layer or with shared layers.
    """
    layers = list(model.encoder.layers)
    if len(layers) < 2 or model.config.num_hidden_groups is not None:
        raise InputError("Sharing needs a model with two layers or more, each with its own weights.")
    shared = copy.deepcopy(model)
    first = shared.encoder.layers[0]
    with torch.no_grad():
        for name, parameter in first.named_parameters():
            parameter.copy_(torch.stack([layer.get_parameter(name) for layer in layers]).mean(dim=0))
    shared.encoder.layers = nn.ModuleList([first])
    shared.encoder.layer_groups = (0,) * len(layers)
    return shared


# -- Pruning of attention heads by importance, and of layers from the top --------------------------------------------
#
# Michel et al. 2019, equation 2: with a mask of ones on the heads, the importance of a head is the mean over texts of
# |d loss / d mask|, the derivative of each text's loss at the mask. Sajjad et al. 2023: dropping the top layers first
# hurts least.


LossOf = Callable[[Model, Batch], Tensor]


def head_importance(model: Model, batches: Iterable[Batch], loss_of: LossOf) -> Tensor:
    """The importance of every head: float32 [sets of layer weights, heads], rows of unit length as published.

    loss_of: the loss of a batch, a scalar summed over its texts. Parameters get no gradient.
    """
    was_training = model.training
    model.eval()
    blocks = [layer.attention for layer in model.encoder.layers if isinstance(layer, Layer)]
    total = torch.zeros(len(blocks), model.config.num_attention_heads)
    for batch in batches:
        with torch.enable_grad(), _contexts(blocks) as contexts:
            gradients = torch.autograd.grad(loss_of(model, batch), [context for _, context in contexts])
        owner = torch.repeat_interleave(torch.tensor(batch.lengths))
        for (number, context), gradient in zip(contexts, gradients, strict=True):
            # d loss / d mask = sum over the head's part of context * d loss / d context
            product = (context.detach() * gradient).float().cpu()  # [tokens, hidden]
            by_token = product.view(len(product), blocks[number].num_heads, -1).sum(dim=-1)  # [tokens, heads]
            by_text = torch.zeros(len(batch), by_token.shape[1]).index_add_(0, owner, by_token)
            total[number] += by_text.abs().sum(dim=0)
    model.train(was_training)
    return total / total.norm(dim=1, keepdim=True).clamp_min(1e-12)


def least_important(importance: Tensor, share: float) -> dict[int, list[int]]:
    """The heads to remove: a fraction `share` of all, the least important first; every layer keeps at least one.

    importance: float [layers, heads]. Returns heads by layer.
    """
    wanted = int(importance.numel() * share)
    kept = [importance.shape[1]] * importance.shape[0]
    removed: dict[int, list[int]] = {}
    for place in importance.flatten().argsort(stable=True).tolist():
        layer, head = divmod(place, importance.shape[1])
        if wanted and kept[layer] > 1:
            removed.setdefault(layer, []).append(head)
            kept[layer] -= 1
            wanted -= 1
    return {layer: sorted(heads) for layer, heads in sorted(removed.items())}


def prune_heads(model: Model, heads: dict[int, list[int]]) -> Model:
    """A smaller, faster copy of `model` without these heads (by layer).

    Its layers differ in width, which config.json cannot express, so it cannot be saved. Raises InputError for a network
    with learned relative positions, global tokens or shared keys and values, and when a layer would have no head left.
    """
    if model.config.has_relative_positions:
        raise InputError("Heads of a network with learned relative positions cannot be pruned separately.")
    if model.config.global_attention:
        raise InputError("Heads of a network with global tokens (global_attention) cannot be pruned separately.")
    if model.config.num_key_value_heads not in (None, model.config.num_attention_heads):
        raise InputError("Heads that share keys and values (num_key_value_heads) cannot be pruned separately.")
    pruned = copy.deepcopy(model)
    for number, removed in heads.items():
        layer = pruned.encoder.layers[number]
        assert isinstance(layer, Layer)
        attention = layer.attention
        size, count = attention.out.weight.shape[1] // attention.num_heads, attention.num_heads
        left = [head for head in range(count) if head not in removed]
        if not left:
            raise InputError(f"Layer {number} would have no attention head left: keep one.")
        columns = torch.cat([torch.arange(head * size, (head + 1) * size) for head in left])  # [kept]
        rows = torch.cat([part * count * size + columns for part in range(3)])  # of queries, keys and values
        attention.qkv = _part_of(attention.qkv, rows=rows)
        attention.out = _part_of(attention.out, columns=columns)
        attention.num_heads = attention.key_heads = len(left)
    return pruned


def drop_top_layers(model: Model, count: int) -> Model:
    """A copy of `model` without its top `count` layers; it can be saved. Raises InputError when none would remain."""
    layers = model.config.num_hidden_layers - count
    if layers < 1:
        raise InputError(f"The model has {model.config.num_hidden_layers} layers: at least one must remain.")
    config = replace(model.config, num_hidden_layers=layers)
    return cut(model, config, range(layers), model.head_name).train(model.training)


@contextmanager
def _contexts(blocks: list[SelfAttention]) -> Iterator[list[tuple[int, Tensor]]]:
    """Collects the inputs of the output projections: (number of the block, [tokens, hidden])."""
    found: list[tuple[int, Tensor]] = []

    def keep(number: int) -> Callable[[nn.Module, Any], tuple[Tensor]]:
        def hook(module: nn.Module, inputs: Any) -> tuple[Tensor]:
            context = inputs[0] if inputs[0].requires_grad else inputs[0].detach().requires_grad_(True)
            found.append((number, context))
            return (context,)

        return hook

    handles = [block.out.register_forward_pre_hook(keep(number)) for number, block in enumerate(blocks)]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def _part_of(layer: Linear, rows: Tensor | None = None, columns: Tensor | None = None) -> Linear:
    """A copy of a linear layer with only these outputs, rows int64 [kept], or inputs, columns int64 [kept]."""
    part = copy.deepcopy(layer)
    weight = layer.weight.detach()
    weight = weight if rows is None else weight[rows]
    part.weight = nn.Parameter(weight if columns is None else weight[:, columns].contiguous())
    if layer.bias is not None and rows is not None:
        part.bias = nn.Parameter(layer.bias.detach()[rows])
    return part


# -- Size, speed and score of a network, and of its teacher compressed ------------------------------------------------


REPEATS = 3  # passes over the timed batches; the median counts
TIMED_BATCHES = 32
RANK_DIVISOR = 4  # the rank of the factorized word table is the width divided by this


@dataclass(frozen=True)
class StudentEvaluation:
    """The evaluation that compares the networks of a run.

    metric: the main metric (higher is better); batches: held-out batches, on the device; run: the forward pass; score:
    returns all scores of a model on held-out data; baseline: the metric of a trivial predictor, and its description;
    practice: training batches, for calibration and head importance; loss: their summed loss, None to prune nothing.
    """

    metric: str
    batches: Sequence[Batch]
    run: Callable[[Model, Batch], Any]
    score: Callable[[Model], dict[str, float]]
    baseline: tuple[float, str]
    practice: Sequence[Batch] = ()
    loss: Callable[[Model, Batch], Tensor] | None = None


@dataclass(frozen=True)
class Measured:
    """One row of the report. size_bytes: of the weights in memory; texts_per_second: throughput of forward passes."""

    name: str
    layers: int
    heads: int
    parameters: int
    size_bytes: int
    texts_per_second: float
    scores: dict[str, float]


def measure(name: str, model: Model, evaluation: StudentEvaluation) -> Measured:
    """Score a model and time its forward pass, in evaluation mode."""
    model.eval()
    parameters = list(model.parameters())
    return Measured(
        name,
        model.config.num_hidden_layers,
        sum(layer.attention.num_heads for layer in model.encoder.in_order),
        model.num_parameters,
        sum(parameter.numel() * parameter.element_size() for parameter in parameters),
        texts_per_second(model, evaluation),
        evaluation.score(model),
    )


@torch.inference_mode()
def texts_per_second(model: Model, evaluation: StudentEvaluation) -> float:
    """Median throughput of several passes over the evaluation's batches, after a warmup pass."""
    batches = evaluation.batches[:TIMED_BATCHES]
    on_gpu = model.word_embeddings.device.type == "cuda"
    times = []
    for repeat in range(REPEATS + 1):
        start = time.perf_counter()
        for batch in batches:
            evaluation.run(model, batch)
        if on_gpu:
            torch.cuda.synchronize()
        if repeat:
            times.append(time.perf_counter() - start)
    return sum(len(batch) for batch in batches) / max(median(times), 1e-9)


def compressed_rows(teacher: Model, evaluation: StudentEvaluation, share: float, num_layers: int) -> list[Measured]:
    """The teacher compressed in several ways; none is trained again.

    share: fraction of its attention heads that are pruned; num_layers: of its top layers that are removed; 0 for no
    such row. A method that the network or the device does not support is skipped with a note.
    """
    rank = teacher.config.hidden_size // RANK_DIVISOR
    methods: dict[str, Callable[[], Measured]] = {}
    if evaluation.loss is not None and share:
        methods["teacher, least important heads pruned"] = lambda: _without_heads(teacher, evaluation, share)
    if evaluation.loss is not None and num_layers:
        name = f"teacher, top {plural(num_layers, 'layer')} removed"
        methods[name] = lambda: measure(name, drop_top_layers(teacher, num_layers), evaluation)
    methods |= {
        "teacher in int8": lambda: _in_int8(teacher, evaluation),
        f"teacher, word table of rank {rank}": lambda: _factorized(teacher, evaluation, rank),
        "teacher, layers share their mean weights": lambda: measure("", share_layers(teacher), evaluation),
    }
    rows = []
    for name, method in methods.items():
        try:
            row = method()
            rows.append(replace(row, name=row.name or name))
        except MaskwrightError as error:
            note(f"No row '{name}': {error}")
    return rows


def _without_heads(teacher: Model, evaluation: StudentEvaluation, share: float) -> Measured:
    if teacher.config.num_hidden_groups is not None:
        raise InputError("The teacher's layers share their heads.")
    assert evaluation.loss is not None
    teacher.requires_grad_(True)  # importance is a derivative
    removed = least_important(head_importance(teacher, evaluation.practice, evaluation.loss), share)
    teacher.requires_grad_(False)
    count = sum(map(len, removed.values()))
    if not count:
        raise InputError(f"A fraction of {share} is less than one head.")
    name = f"teacher, {count} least important heads pruned"
    return measure(name, prune_heads(teacher, removed), evaluation)


def _in_int8(teacher: Model, evaluation: StudentEvaluation) -> Measured:
    """A copy that runs in int8, calibrated on the training batches. Only the layers' matrices are in int8."""
    require_int8(teacher.word_embeddings.device)
    rounded = copy.deepcopy(teacher).eval()
    rounded.compute_dtype, rounded.engine = torch.float32, Engine(int8=True)
    rounded.engine.calibrate(rounded, evaluation.practice)
    row = measure("", rounded, evaluation)
    matrices = sum(part.weight.numel() for part in teacher.encoder.layers.modules() if isinstance(part, Linear))
    return replace(row, size_bytes=row.size_bytes - matrices * (teacher.word_embeddings.element_size() - 1))


def _factorized(teacher: Model, evaluation: StudentEvaluation, rank: int) -> Measured:
    row, words = measure("", factorize_words(teacher, rank), evaluation), teacher.word_embeddings
    saved = words.numel() - rank * sum(words.shape)
    size = row.size_bytes - saved * words.element_size()
    return replace(row, parameters=row.parameters - saved, size_bytes=size)
