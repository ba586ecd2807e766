"""Reads and writes PEFT's adapter_config.json, as far as LoRA on linear layers goes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core import storage
from ..core.errors import ModelFolderError
from ..core.sealed import ADAPTER_CONFIG as CONFIG
from ..models.lora_config import LoraConfig

_LIMIT_BYTES = 1 << 20
TASK_TYPES: dict[str | None, str] = {  # by our head; PEFT has none for the others
    "classification": "SEQ_CLS",
    "regression": "SEQ_CLS",
    "tagging": "TOKEN_CLS",
    "tagging-crf": "TOKEN_CLS",
    "qa": "QUESTION_ANS",
    "clm": "CAUSAL_LM",
    "seq2seq": "SEQ_2_SEQ_LM",
    None: "FEATURE_EXTRACTION",
}
# Settings that do not change what a stored adapter computes. Which layers it changes is read from its tensors.
_HARMLESS = {
    "auto_mapping", "base_model_name_or_path", "bias", "corda_config", "ensure_weight_tying", "eva_config",
    "exclude_modules", "fan_in_fan_out", "inference_mode", "init_lora_weights", "layers_pattern", "layers_to_transform",
    "lora_alpha", "lora_dropout", "lora_ga_config", "megatron_core", "modules_to_save", "peft_type", "peft_version",
    "qalora_group_size", "r", "revision", "runtime_config", "target_modules", "task_type", "use_rslora",
}  # fmt: skip
_PLAIN_STARTS = (True, False, "gaussian", "eva", "orthogonal")  # the others also change the base's weights


def read_adapter_config(folder: Path) -> tuple[LoraConfig, dict[str, Any]]:
    """Returns the settings of an adapter folder (without targets), and the whole adapter_config.json.

    Raises ModelFolderError for other kinds of adapters, and for options that are not supported.
    """
    path = folder / CONFIG
    values = storage.read_json(path, _LIMIT_BYTES)
    if not isinstance(values, dict):
        raise ModelFolderError(f"{path} is not a JSON object, so this is not an adapter folder.")
    kind = values.get("peft_type")
    if kind != "LORA":
        raise ModelFolderError(f"{path}: peft_type is {kind!r}; only LORA is supported.")
    others = sorted(name for name, value in values.items() if value and name not in _HARMLESS)
    if values.get("bias", "none") != "none":
        others.append("bias")
    if values.get("init_lora_weights", True) not in _PLAIN_STARTS:
        others.append("init_lora_weights")
    if others:
        raise ModelFolderError(f"{path}: {others[0]} is {values[others[0]]!r}, which is not supported.")
    rank, alpha, rate = (values.get(name) for name in ("r", "lora_alpha", "lora_dropout"))
    rate = 0.0 if rate is None else rate
    is_right = isinstance(rank, int) and rank >= 1 and isinstance(alpha, int | float) and isinstance(rate, int | float)
    if not is_right or not 0 <= rate < 1:
        raise ModelFolderError(
            f"{path}: r is {rank!r}, lora_alpha {alpha!r} and lora_dropout {rate!r}; they must be a rank of 1 or more, "
            "a number and a probability."
        )
    assert isinstance(rank, int) and isinstance(alpha, int | float)
    scale = rank**0.5 if values.get("use_rslora") else 1.0  # rank-stabilized: alpha / sqrt(rank)
    return LoraConfig(rank, float(alpha) * scale, (), float(rate)), values


def write_adapter_config(
    config: LoraConfig,
    *,
    base: str,
    head: str | None,
    targets: Sequence[str],
    saved: Sequence[str],
    is_transposed: bool,
) -> dict[str, Any]:
    """Returns the content of adapter_config.json.

    Args:
        base: Hub model ID or folder of the base model.
        targets: Names of linear layers in transformers' model, or suffixes of them.
        saved: Names of trained modules.
        is_transposed: Whether transformers stores the layers as [in, out].
    """
    return {
        "peft_type": "LORA",
        "task_type": TASK_TYPES.get(head),
        "base_model_name_or_path": base,
        "r": config.rank,
        "lora_alpha": int(config.alpha) if config.alpha == int(config.alpha) else config.alpha,
        "lora_dropout": config.dropout,
        "target_modules": list(targets),
        "modules_to_save": list(saved) or None,
        "bias": "none",
        "fan_in_fan_out": is_transposed,
        "init_lora_weights": True,
        "inference_mode": True,
        "use_rslora": False,
        "use_dora": False,
    }
