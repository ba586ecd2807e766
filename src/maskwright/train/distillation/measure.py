"""Size, speed and score of a network, and of its teacher pruned, in int8, factorized and with shared layers."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from ...core.errors import InputError, MaskwrightError
from ...core.progress import note
from ...core.util import plural
from ...data.batch import Batch
from ...inference.engine.choice import require_int8
from ...inference.engine.engine import Engine
from ...models.model import Model
from ...models.transformer import Layer
from ...nn.attention import SelfAttention
from ...nn.layers import Linear
from .student import cut

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
    with learned relative positions, and when a layer would have no head left.
    """
    if model.encoder.relative is not None or model.config.positions.startswith("relative"):
        raise InputError("Heads of a network with learned relative positions cannot be pruned separately.")
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
        attention.num_heads = len(left)
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
