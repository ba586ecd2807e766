"""Where and in which number format to compute: the names of the command line resolved on this machine."""

from __future__ import annotations

import os

import torch

from ..core.errors import ConfigError

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# oneDNN makes code for every shape of a product and keeps it, half a megabyte each, and so does the layer through which
# torch calls it: 1,024 shapes unless these variables say otherwise when the first product is made. A pack asks for some
# dozens of shapes, and hardly two packs have as many tokens.
KEPT_SHAPES = 256
CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


def keep_few_shapes() -> None:
    """Let code be kept for KEPT_SHAPES shapes. A variable that is set stands; too late after the first product."""
    for name in CACHES:
        os.environ.setdefault(name, str(KEPT_SHAPES))


def resolve_device(name: str = "auto") -> torch.device:
    """The device for `auto`, `cpu`, `cuda` or `mps`. Raises ConfigError when this machine has no such device.

    Called before anything is computed, so what oneDNN keeps is bounded here.
    """
    keep_few_shapes()
    has = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device(next(device for device in ("cuda", "mps", "cpu") if has[device]))
    if name not in has:
        raise ConfigError(f"Unknown device '{name}': it is one of auto, cpu, cuda, mps.")
    if not has[name]:
        raise ConfigError(f"Device '{name}' is not available here: use --device cpu.")
    return torch.device(name)


def resolve_precision(name: str, device: torch.device, *, training: bool = False) -> str:
    """`fp32`, `bf16`, `fp16` or `int8` as named; for `auto` bf16 where the processor computes in it, else fp32.

    Raises ConfigError for fp16 in training (it would need loss scaling) and on a CPU (it is slower there than fp32),
    and for int8 in training.
    """
    if name == "auto":
        return "bf16" if has_fast_bf16(device) else "fp32"
    if name == "int8":
        if training:
            raise ConfigError("int8 serves inference only: train in bf16 or fp32.")
        return name
    if name not in DTYPES:
        raise ConfigError(f"Unknown precision '{name}': it is one of auto, {', '.join(DTYPES)}.")
    if name == "fp16" and (training or device.type == "cpu"):
        raise ConfigError("fp16 serves inference on a GPU only: use bf16 or fp32.")
    return name


def has_fast_bf16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 in hardware."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        ask = getattr(torch.cpu, "get_capabilities", None)  # older releases of torch cannot say
        flags = ask() if ask is not None else {}
        return bool(flags.get("avx512_bf16") or flags.get("amx_bf16") or flags.get("bf16"))
    return False
