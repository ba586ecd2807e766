"""FLOPs of training steps, and the utilization of a GPU's peak by them (Chowdhery et al. 2022, appendix B)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import torch
from torch import nn

from ..core.gpus import gpu_from_driver_name
from ..data.batch import Batch
from ..models import sizes as flops
from ..models.config import ModelConfig
from ..models.model import Model

WORD_PARTS = ("mlm", "clm")  # parts of the loss that score the vocabulary at each label


def batch_flops(network: nn.Module, batch: Batch, counts: Mapping[str, int]) -> float:
    """FLOPs of the forward and backward pass of a batch: matrix products of real tokens, at their mean length.

    counts: labels by part of the loss. 0 for networks whose products are not counted: recurrent ones and
    encoder-decoders.
    """
    parts = [part for part in network.modules() if isinstance(part, Model)]
    length = round(batch.num_tokens / max(batch.num_sequences, 1))
    total = sum(batch.num_tokens * _per_token(part.config, length) for part in parts)
    scored = sum(counts.get(name, 0) for name in WORD_PARTS)
    return flops.TRAINING_PASSES * (total + (scored * flops.word_head_flops(parts[0].config) if total else 0))


@lru_cache(maxsize=1024)
def _per_token(config: ModelConfig, length: int) -> float:
    if config.recurrent is not None or config.num_decoder_layers:
        return 0.0
    return flops.linear_flops(config) + flops.attention_flops(config, max(length, 1))


def peak_flops(network: nn.Module) -> float | None:
    """The published peak of this GPU in the precision of a network, in FLOP/s; None if it is unknown or a CPU."""
    device = next(network.parameters()).device
    gpu = gpu_from_driver_name(torch.cuda.get_device_name(device)) if device.type == "cuda" else None
    part = next((part for part in network.modules() if isinstance(part, Model)), None)
    if gpu is None or part is None:
        return None
    return gpu.peak("bf16" if part.compute_dtype == torch.bfloat16 else "fp32")
