"""Layers of encoders in C++ (nn/native/layers.cpp), compiled once per machine by the C++ compiler found there.

Used for post-norm layers with full attention on x86 CPUs with AVX-512; in bfloat16 and int8 only without AMX, whose
products torch computes faster. Without a compiler, or if a layer differs from torch's or is slower, `missing` returns
the reason and the layers use the products of layers.py.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from time import perf_counter
from typing import TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...models.config import ModelConfig
from ...models.transformer import Layer, Transformer
from ...nn.attention import Run
from ...nn.layers import LayerNorm, Linear, gelu, gelu_new, linear
from ...nn.native.library import LOCK, address, cpu_has, library, numbers_of_runs, unsuitable
from .int8 import ActivationRange, Int8Kernels, WeightKey, quantize, quantize_activated, weight_key
from .layers import NAMES, Activation, FloatKernels, KernelSet, PackedProduct
from .operators import FUSED_INT8

# Instruction sets, as torch names them, that one precision needs.
FOR_PRECISION = {torch.bfloat16: "avx512_bf16", torch.int8: "avx512_vnni"}
PRECISIONS = {torch.float32: 0, torch.bfloat16: 1, torch.int8: 2}
ACTIVATIONS: dict[Activation, int] = {linear: 0, gelu: 1, gelu_new: 2, F.relu: 3}
PANEL, HEAD_SIZES = 32, (16, 32, 48, 64)  # sizes that layers.cpp computes: multiples of PANEL; of a head
# Maximum difference of a small network from torch's operators in float32; its results have a standard deviation of 1.
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.05, torch.int8: 0.2}
SLOWER = 1.2  # time relative to torch's products, without norms and attention, above which it is not used

Ranges = Mapping[WeightKey, ActivationRange]


@cache
def missing(precision: torch.dtype) -> str | None:
    """Return why layers in this precision (torch.int8 for int8) cannot be computed by layers.cpp; None if they can."""
    with LOCK:
        reason = _unsuitable(precision)
        found = library() if reason is None else reason
        return found if isinstance(found, str) else _failure(found, precision)


def _failure(library: ctypes.CDLL, precision: torch.dtype) -> str | None:
    """Return what is wrong with the results or the speed of layers.cpp; None if nothing."""
    try:
        worst = _difference(library, precision)
        if not worst <= TOLERANCE[precision]:
            return f"it differs from torch's operators by {worst:.1e} on this CPU"
        time = _time(library, precision)
    except (RuntimeError, AttributeError, TypeError) as error:  # raised by torch if an operator changed
        return f"it cannot be compared with torch ({error})"
    return f"it takes {time:.2f} times as long as torch's products on this CPU" if time > SLOWER else None


def _unsuitable(precision: torch.dtype) -> str | None:
    """Return why this CPU, or the user, has no use for it in this precision."""
    special = FOR_PRECISION.get(precision)
    amx = "amx_int8" if precision == torch.int8 else "amx_bf16"
    reasons = {
        f"it does not compute in {str(precision).removeprefix('torch.')}": precision not in PRECISIONS,
        f"the CPU has no {special}": special is not None and not cpu_has(special),
        "torch's products are faster with AMX": special is not None and cpu_has(amx),
    }
    return unsuitable() or next((reason for reason, holds in reasons.items() if holds), None)


def native_layers(encoder: Transformer, kernels: KernelSet) -> NativeLayers | None:
    """Return the layers of an encoder in C++, with the weights read now; None if they cannot be computed so."""
    if isinstance(kernels, Int8Kernels):
        precision, ranges = torch.int8, kernels.ranges
    elif isinstance(kernels, FloatKernels) and kernels.kind is PackedProduct:
        precision, ranges = kernels.dtype, {}
    else:
        return None
    config, layers = encoder.config, [layer for layer in encoder.layers if _is_supported(layer)]
    is_full = config.attention == "full" and config.positions != "rotary" and encoder.convolution is None
    if not is_full or len(layers) != len(encoder.layers) or len(set(map(_settings_of, layers))) != 1:
        return None
    if missing(precision) is not None or isinstance(found := library(), str):
        return None
    return NativeLayers(found, [layers[group] for group in encoder.layer_groups], precision, ranges)


class NativeLayers:
    """The layers of an encoder, one after another. library: of C++; ranges: for int8, of each product."""

    def __init__(self, library: ctypes.CDLL, layers: Sequence[Layer], precision: torch.dtype, ranges: Ranges) -> None:
        self._encode, self._precision, self._ranges = library.encode, precision, ranges
        self._kept: list[Tensor] = []  # whose addresses layers.cpp has
        rows = {layer: self._row(layer) for layer in dict.fromkeys(layers)}
        table = [rows[layer] for layer in layers]  # [layers, fields of Layer in layers.cpp]
        self._table = torch.tensor(table, dtype=torch.int64, device="cpu")
        act, num_heads, head_size, eps = _settings_of(layers[0])
        numbers = PRECISIONS[precision], act, num_heads, head_size
        self._settings = *map(ctypes.c_int64, numbers), ctypes.c_float(eps), ctypes.c_float(head_size**-0.5)

    def __call__(self, hidden: Tensor, runs: Sequence[Run], all_layers: bool = False) -> Tensor:
        """Return the result of the last layer, in place of `hidden`; or of all, float32 [layers, tokens, hidden].

        hidden: float32 [tokens, hidden] of the sequences of the runs.
        """
        hidden = hidden.contiguous()
        states = hidden.new_empty((len(self._table), *hidden.shape)) if all_layers else None
        sizes = numbers_of_runs(runs)
        enough = self._encode(
            address(self._table),
            ctypes.c_int64(len(self._table)),
            *self._settings,
            address(hidden),
            address(sizes),
            ctypes.c_int64(len(runs)),
            address(states),
            ctypes.c_int64(torch.get_num_threads()),
        )
        if not enough:
            raise MemoryError(f"not enough memory to encode {len(hidden):,} tokens at once")
        return hidden if states is None else states

    def _row(self, layer: Layer) -> list[int]:
        """Return the fields of a Layer in layers.cpp."""
        attention, ffn = layer.attention, layer.ffn
        row = [field for one in (attention.qkv, attention.out, ffn.up) for field in self._product(one)]
        row += self._product(ffn.down, is_activated=NAMES.get(ffn.act) in FUSED_INT8)
        for norm in (layer.attention_norm, layer.ffn_norm):
            assert norm is not None and norm.bias is not None
            row += [self._keep(norm.weight), self._keep(norm.bias)]
        return row

    def _product(self, product: Linear, is_activated: bool = False) -> list[int]:
        """Return the fields of a Product in layers.cpp. is_activated: its input is the output of an activation."""
        weight, bias = product.weight.detach(), product.whole_bias
        size = [weight.shape[1], weight.shape[0]]
        if self._precision != torch.int8:
            bias = weight.new_zeros(len(weight)) if bias is None else bias
            return [self._keep(_packed(weight.to(self._precision))), self._keep(bias), 0, 0, 0, *size]
        found = (quantize_activated if is_activated else quantize)(weight, bias, self._ranges[weight_key(weight)])
        scale = found.scales.double() * found.x_scale  # of the sums of products
        bias = found.bias - found.x_zero * found.numbers.sum(1, dtype=torch.int64) * scale
        vectors = bias, scale, found.by, found.start
        return [self._keep(_packed(found.numbers)), *map(self._keep, vectors), *size]

    def _keep(self, numbers: Tensor) -> int:
        """Keep a copy of a vector as float32, or packed weights, and return the address."""
        if numbers.device.type != "cpu":
            raise RuntimeError(f"weights on {numbers.device}")
        is_vector = numbers.dim() == 1
        self._kept.append(numbers.detach().to(torch.float32, copy=True) if is_vector else numbers)
        return self._kept[-1].data_ptr()


def _settings_of(layer: Layer) -> tuple[int, int, int, float]:
    """Return the activation in layers.cpp, number and size of the heads, and eps, which all layers must share."""
    attention, heads = layer.attention, layer.attention.num_heads
    return ACTIVATIONS[layer.ffn.act], heads, attention.out.weight.shape[1] // heads, layer.ffn_norm.eps


def _packed(weight: Tensor) -> Tensor:
    """Return a weight [out_size, in_size] as [out_size / 32, groups, 32, group], with 4 bytes in a group."""
    group = 4 // weight.element_size()
    return weight.reshape(-1, PANEL, weight.shape[1] // group, group).transpose(1, 2).contiguous()


def _is_supported(layer: nn.Module) -> TypeGuard[Layer]:
    if not isinstance(layer, Layer) or layer.is_pre or layer.adapters is not None or layer.ffn.gated:
        return False
    attention, ffn = layer.attention, layer.ffn
    norms, size, heads = (layer.attention_norm, layer.ffn_norm), attention.out.weight.shape[0], attention.num_heads
    products = attention.qkv, attention.out, ffn.up, ffn.down
    return (
        all(type(norm) is LayerNorm and norm.bias is not None and norm.eps == norms[1].eps for norm in norms)
        and all(type(product) is Linear and product.weight.dtype == torch.float32 for product in products)
        and attention.qkv.weight.shape[0] == 3 * size == 3 * attention.out.weight.shape[1]
        and size % PANEL == 0 == ffn.up.weight.shape[0] % PANEL
        and size // heads in HEAD_SIZES
        and attention.key_heads == heads
        and attention.query_scale == 1.0
        and ffn.act in ACTIVATIONS
    )


# -- Tries it once in each process -----------------------------------------------------------------------------------


@torch.inference_mode()
def _difference(library: ctypes.CDLL, precision: torch.dtype) -> float:
    """Return the largest difference of a small layer from torch's operators."""
    layer, ranges = _drawn_layer(64, 2, 96)
    runs, hidden = (Run(0, 2, 3), Run(6, 1, 37)), _drawn(torch.Generator().manual_seed(0), 43, 64)
    wanted = layer(hidden, runs)[0]
    found = NativeLayers(library, [layer], precision, ranges)(hidden.clone(), runs)
    return float((found - wanted).abs().max())


@torch.inference_mode()
def _time(library: ctypes.CDLL, precision: torch.dtype) -> float:
    """Return the time of a layer of MiniLM's size for 128 tokens, relative to its products by torch: in 50 ms, once."""
    layer, ranges = _drawn_layer(384, 12, 1536)
    is_int8 = precision == torch.int8
    kernels = Int8Kernels(ranges, torch.float32) if is_int8 else FloatKernels(PackedProduct, precision)
    qkv, out = (kernels.product(one.weight, one.bias) for one in (layer.attention.qkv, layer.attention.out))
    native, ffn = NativeLayers(library, [layer], precision, ranges), kernels.feed_forward(layer.ffn)
    runs, hidden = (Run(0, 4, 32),), _drawn(torch.Generator().manual_seed(0), 128, 384)

    def products(x: Tensor) -> None:
        x = out.plus(qkv(x)[:, : x.shape[1]].contiguous(), x)
        ffn(x, x)

    calls: list[Callable[[], object]] = [partial(native, hidden, runs), partial(products, hidden.to(kernels.dtype))]
    times: tuple[list[float], list[float]] = [], []
    for kept, call in list(zip(times, calls, strict=True)) * 6:
        start = perf_counter()
        call()
        kept.append(perf_counter() - start)
    return min(times[0]) / min(times[1])


def _drawn_layer(size: int, heads: int, inner: int) -> tuple[Layer, Ranges]:
    """Return a layer with random weights, and ranges of its products."""
    draws = torch.Generator().manual_seed(0)
    with torch.device("cpu"):
        layer = Layer(ModelConfig(hidden_size=size, num_attention_heads=heads, intermediate_size=inner)).float().eval()
    for parameter in layer.parameters():
        parameter.copy_(_drawn(draws, *parameter.shape) * 0.8 * size**-0.5)
    for norm in (layer.attention_norm, layer.ffn_norm):
        assert norm is not None
        norm.weight.add_(1.0)
    products = layer.attention.qkv, layer.attention.out, layer.ffn.up, layer.ffn.down
    high = [one.weight.new_full((one.weight.shape[1],), 4.0) for one in products]
    return layer, {weight_key(one.weight): ActivationRange(-end, end) for one, end in zip(products, high, strict=True)}


def _drawn(draws: torch.Generator, *shape: int) -> Tensor:
    """Return random numbers in float32 on the CPU, whatever torch's defaults are."""
    return torch.randn(shape, generator=draws, dtype=torch.float32, device="cpu")
