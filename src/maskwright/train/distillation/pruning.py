"""Pruning of attention heads by importance, and of layers from the top.

Michel et al. 2019, equation 2: with a mask of ones on the heads, the importance of a head is the mean over texts of
|d loss / d mask|, the derivative of each text's loss at the mask. Sajjad et al. 2023: dropping the top layers first
hurts least.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ...core.errors import InputError
from ...data.batch import Batch
from ...models.model import Model
from ...models.transformer import Layer
from ...nn.attention import SelfAttention
from ...nn.linear import Linear
from .student import cut

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
    if has_learned_distances(model):
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


def has_learned_distances(model: Model) -> bool:
    """Whether heads have learned relative positions, in addition to their projections."""
    return model.encoder.relative is not None or model.config.positions.startswith("relative")


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
