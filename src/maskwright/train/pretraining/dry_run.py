"""The dry run of a pre-training: its plan, without training or writing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ...core import registry
from ...core.object_store import is_remote
from ...models.device import resolve_device, resolve_precision
from ...models.presets import preset
from ...objectives.replaced_pair import GENERATOR_SHARE
from ...text.formats.files import expand
from ...text.readers.corpus import FOLDER_FORMATS
from .config import PretrainConfig
from .from_model import StartModel
from .pretrain import check_preset


def pretraining_plan(config: PretrainConfig) -> dict[str, Any]:
    """Network, exact parameter count, steps, tokens and corpus size of a recipe; reads no text and writes nothing."""
    device = resolve_device(config.device)
    check_preset(config)
    start = None if config.start is None else StartModel(config)
    if start is not None:
        vocab_size = start.tokenizer.vocab_size
    elif config.tokenizer is not None:
        from ...text.tokenizers.tokenizer import Tokenizer

        vocab_size = Tokenizer.load(config.tokenizer).vocab_size
    else:
        vocab_size = config.vocab_size
    objective = registry.resolve("objective", config.objective)
    changes = {**objective.network_settings, **config.model}
    network = preset(str(config.preset), vocab_size=vocab_size, **changes) if start is None else start.network
    with torch.device("meta"):
        trained = objective.make(network, config.generator_share or GENERATOR_SHARE)
    local = [name for name in config.corpus if not is_remote(name)]
    files = [Path(name) for name in expand(local, FOLDER_FORMATS)] if local else []
    return {
        "preset": config.start or config.preset,
        "parameters": trained.num_parameters,
        "vocab_size": vocab_size,
        "objective": config.objective,
        "device": str(device),
        "precision": resolve_precision(config.precision, device, training=True),
        "steps": config.steps,
        "sequences_per_step": config.sequences * config.accumulation,
        "tokens_at_most": config.steps * config.sequences * config.accumulation * config.max_length,
        "corpus_files": len(files),
        "corpus_bytes": sum(path.stat().st_size for path in files if path.is_file()),
        "output": str(config.output),
    }
