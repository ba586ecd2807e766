"""Compression of a trained model without training: int8, factorized word embeddings, shared layers."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...core.errors import InputError
from ...models.model import Model
from ...nn.linear import Linear


class FactorizedTable(nn.Module):
    """Word embeddings as a product of matrices, vocab x rank and rank x hidden (Lan et al. 2020, section 3.1).

    weight: the product, float [vocab, hidden], a buffer and not a parameter.
    """

    weight: Tensor

    def __init__(self, weight: Tensor, rank: int, padding_id: int | None) -> None:
        super().__init__()
        weight = weight.detach().float()
        _, vectors = torch.linalg.eigh(weight.T @ weight)  # ascending eigenvalues
        basis = vectors[:, -rank:]  # [hidden, rank]
        self.table = nn.Parameter(weight @ basis, requires_grad=False)
        self.project = nn.Parameter(basis.T.contiguous(), requires_grad=False)
        self.padding_id = padding_id
        self.register_buffer("weight", self.table @ self.project, persistent=False)  # for tied decoders

    def forward(self, ids: Tensor) -> Tensor:
        """ids: int64 [tokens]. Returns float [tokens, hidden]."""
        return F.embedding(ids, self.table, self.padding_id) @ self.project


def factorize_words(model: Model, rank: int) -> Model:
    """Returns a copy with the best rank-`rank` approximation of its word embeddings.

    rank: at least 1 and below the hidden size. The copy cannot be saved. Raises InputError for another rank, and for a
    model whose word embeddings are already factorized.
    """
    words = model.encoder.embeddings.word
    if model.config.embedding_size:
        raise InputError("The word embeddings of this model are already factorized.")
    if not 0 < rank < words.weight.shape[1]:
        raise InputError(f"A rank of {rank} does not factorize word embeddings of size {words.weight.shape[1]}.")
    smaller = copy.deepcopy(model)
    table = FactorizedTable(words.weight, rank, words.padding_id)
    smaller.encoder.embeddings.word = table  # type: ignore[assignment]  # same interface
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


def int8_bytes(model: Model) -> int:
    """Size of the weights in bytes with the linear layers of the encoder in int8."""
    rounded = sum(part.weight.numel() for part in model.encoder.layers.modules() if isinstance(part, Linear))
    sizes = [parameter.numel() * parameter.element_size() for parameter in model.parameters()]
    return sum(sizes) - rounded * (model.word_embeddings.element_size() - 1)
