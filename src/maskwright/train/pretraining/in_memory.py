"""Pre-training on a few texts in memory, in seconds and without a run folder: for lessons, notebooks and tests.

Objective, batches and loop are those of a full run; there are no files, held-out text or checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from ...core import registry
from ...core.config import check
from ...data.in_memory import TextsInMemory
from ...models.config import ModelConfig
from ...models.model import Model
from ...objectives.masking import MASK_RATE
from ...objectives.selection import make_recipe
from ..loop import LoopSettings, train
from .job import PretrainJob

if TYPE_CHECKING:
    from ...text.tokenizers.tokenizer import Tokenizer


def pretrain_small(
    documents: Sequence[Sequence[str]],
    tokenizer: Tokenizer,
    objective: str = "mlm",
    *,
    steps: int = 200,
    lr: float = 2e-3,
    batch_size: int = 16,
    max_length: int = 32,
    mask_rate: float = MASK_RATE,
    hidden_size: int = 64,
    num_layers: int = 2,
    seed: int = 0,
) -> Model:
    """Train a small network on these documents.

    documents: the sentences of each; tokenizer: with [CLS], [SEP] and [MASK]; objective: "mlm", "mlm+nsp" or "clm";
    max_length: in tokens, special tokens included. No dropout; attention heads of size 16. Raises ConfigError for
    another objective, InputError for text that is too short.
    """
    check(objective in ("mlm", "mlm+nsp", "clm"), f"objective is {objective!r}; here it is mlm, mlm+nsp or clm.")
    texts = TextsInMemory.encode(documents, tokenizer)
    kind = registry.resolve("objective", objective)
    task = kind(make_recipe(kind, tokenizer, max_length, mask_rate=mask_rate))
    task.check(len(texts))
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=hidden_size,
        num_hidden_layers=num_layers,
        num_attention_heads=max(hidden_size // 16, 1),
        intermediate_size=2 * hidden_size,
        max_position_embeddings=max_length,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        initializer_range=0.06,  # at a width of 64 the published 0.02 keeps scores flat for a thousand steps
        **kind.network_settings,
    )
    model = task.network(config, seed)
    job = PretrainJob(
        model,
        task,
        texts,  # type: ignore[arg-type]  # has the interface of shards
        np.arange(len(texts)),
        tokenizer=tokenizer,
        sequences=batch_size,
        accumulation=1,
        seed=seed,
        device=torch.device("cpu"),
    )
    settings = LoopSettings(
        steps, lr, 0.1, "linear", 0.01, 1.0, seed, log_every=steps, checkpoint_every=steps, evaluate_every=steps
    )
    train(job, settings, name="small pre-training")
    kept: Model = task.final_model(model)
    kept.tokenizer = tokenizer
    return kept.eval()
