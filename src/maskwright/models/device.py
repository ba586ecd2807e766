"""Resolves device and precision names for this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from time import perf_counter

import torch
from torch import Tensor

from ..core.errors import ConfigError
from ..nn.native.library import cpu_has

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# oneDNN compiles and caches code for every matrix shape, half a megabyte each, and so does the layer through which
# torch calls it: 1,024 shapes by default, unless these variables are set before the first product. A pack uses dozens
# of shapes, and packs rarely have equal numbers of tokens.
KEPT_SHAPES = 128
CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


@cache
def keep_few_shapes() -> None:
    """Limits oneDNN's caches to KEPT_SHAPES shapes, unless the environment sets another limit.

    The variables are set only during the first products, which read them, so the caller's environment stays unchanged.
    No effect if the process has already computed such products.
    """
    absent = [name for name in CACHES if name not in os.environ]
    os.environ.update(dict.fromkeys(absent, str(KEPT_SHAPES)))
    try:
        _make_first_products()
    finally:
        for name in absent:
            del os.environ[name]


def _make_first_products() -> None:
    """Computes one product of each cached kind, if this build of torch has it."""
    ones = torch.ones(16, 16)
    with torch.inference_mode():
        for dtype in (torch.float32, torch.bfloat16):
            one = ones.to(dtype)
            with suppress(RuntimeError, AttributeError, TypeError):  # raised by torch if unsupported
                torch.nn.functional.linear(one, one)
                packed = torch.ops.mkldnn._reorder_linear_weight(one, len(one))
                torch.ops.mkldnn._linear_pointwise(one, packed, None, "none", [], "")


@contextmanager
def one_thread() -> Iterator[None]:
    """Computes with one thread of torch, for a short time: a thread that starts within it may keep that number.

    After an operation on several threads, those of torch stay busy for milliseconds waiting for the next one, on cores
    that another runtime needs: pooling 128 tokens made a text take 13% longer with OpenVINO, 19% with ONNX Runtime.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def resolve_device(name: str = "auto") -> torch.device:
    """Returns the device for `auto`, `cpu`, `cuda` or `mps`. Raises ConfigError if it is not available.

    Called before any computation, so it also limits oneDNN's caches.
    """
    keep_few_shapes()
    has = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device(next(device for device in ("cuda", "mps", "cpu") if has[device]))
    if name not in has:
        raise ConfigError(f"Unknown device '{name}': use auto, cpu, cuda or mps.")
    if not has[name]:
        raise ConfigError(f"Device '{name}' is not available here: use --device cpu.")
    return torch.device(name)


def resolve_precision(name: str, device: torch.device, *, training: bool = False) -> str:
    """Returns `fp32`, `bf16`, `fp16` or `int8`; `auto` is bf16 if the hardware is faster in it, else fp32.

    Raises ConfigError for fp16 in training (it would need loss scaling) and on a CPU (slower than fp32), and for int8
    in training.
    """
    if name == "auto":
        return "bf16" if has_fast_bf16(device) else "fp32"
    if name == "int8":
        if training:
            raise ConfigError("int8 is for inference only: train in bf16 or fp32.")
        return name
    if name not in DTYPES:
        raise ConfigError(f"Unknown precision '{name}': use auto, {', '.join(DTYPES)}.")
    if name == "fp16" and (training or device.type == "cpu"):
        raise ConfigError("fp16 is for inference on a GPU only: use bf16 or fp32.")
    return name


def has_fast_bf16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 in hardware, and on a CPU faster than float32."""
    if device.type == "cuda":
        found: bool = torch.cuda.is_bf16_supported(including_emulation=False)
        return found
    return device.type == "cpu" and (time := bf16_time()) is not None and time < 1


@cache
def bf16_time() -> float | None:
    """Returns the time of a matrix product in bfloat16 relative to float32 on this CPU; None without bfloat16.

    Measured once, on one thread, in about 15 ms: AVX512_BF16 halves the time on AMD, and doubles it on Intel where AMX
    is hidden.
    """
    if not any(map(cpu_has, ("avx512_bf16", "amx_bf16", "bf16"))):
        return None
    keep_few_shapes()
    with torch.inference_mode(), one_thread():
        times: dict[torch.dtype, list[float]] = {torch.bfloat16: [], torch.float32: []}
        weights = {dtype: torch.ones(512, 512, dtype=dtype) for dtype in times}
        for _ in range(9):  # in turn; the first generates the code
            for dtype, weight in weights.items():
                start = perf_counter()
                torch.nn.functional.linear(weight[:128], weight)
                times[dtype].append(perf_counter() - start)
    return min(times[torch.bfloat16][1:]) / min(times[torch.float32][1:])


def to_cpu_later(values: Tensor) -> Callable[[], Tensor]:
    """Starts to copy values to the CPU. Returns a function that waits for them, and for nothing launched later.

    `Tensor.cpu` waits for all that is launched, so a GPU has no work while the host prepares more.
    """
    if not values.is_cuda:
        return values.cpu
    with torch.cuda.device(values.device):
        copy = torch.empty(values.shape, dtype=values.dtype, pin_memory=True).copy_(values, non_blocking=True)
        is_copied = torch.cuda.Event()
        is_copied.record()

    def wait() -> Tensor:
        is_copied.synchronize()
        return copy

    return wait
