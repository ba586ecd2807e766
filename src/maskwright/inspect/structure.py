"""Structure of a model: its blocks with their weights, and the shapes and FLOPs of one text that flows through them.

Shapes are those of the modules' calls. FLOPs are counted by torch where matrix products run (`FlopCounterMode`), a
multiply-add as two operations; what a fused recurrent kernel does inside is not counted.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from ..core.errors import InputError, MissingFileError
from ..models.heads import ChoiceHead
from ..models.model import Model, tokenizer_of
from ..nn.layers import LoraLinear, LowRank

TITLES = {
    "embeddings": "embeddings",
    "word": "word embeddings",
    "position": "position embeddings",
    "token_type": "token type embeddings",
    "norm": "layer norm",
    "attention.qkv": "queries, keys, values",
    "attention.global_qkv": "queries, keys, values of global tokens",
    "attention": "scores and weighted sums",
    "attention.out": "attention output",
    "attention_norm": "layer norm",
    "ffn.up": "feed-forward: up",
    "ffn.gate": "feed-forward: gate",
    "ffn.down": "feed-forward: down",
    "ffn_norm": "layer norm",
    "pooler": "pooler",
    "head": "head",
    "dense": "dense",
    "classifier": "output layer",
}
_LAYER = re.compile(r"(?P<where>.*?)(?P<kind>[a-z_]+)\.(?P<number>\d+)")


@dataclass(frozen=True)
class Weight:
    """A parameter: name in the model, shape, number of elements."""

    name: str
    shape: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class Part:
    """A step inside a block.

    name: of its module; weights: its own parameters; flops: of one text; input, output: shapes of its first call, ()
    if it was not called; calls: how often it was called.
    """

    name: str
    title: str
    weights: tuple[Weight, ...]
    flops: int
    input: tuple[int, ...]
    output: tuple[int, ...]
    calls: int

    @property
    def parameters(self) -> int:
        return sum(weight.size for weight in self.weights)


@dataclass(frozen=True)
class Block:
    """A block of the model, such as a layer, with its parts in the order of computation; see `Part`."""

    name: str
    title: str
    parts: tuple[Part, ...]
    flops: int
    output: tuple[int, ...]
    calls: int

    @property
    def parameters(self) -> int:
        return sum(part.parameters for part in self.parts)


@dataclass(frozen=True)
class Structure:
    """Blocks of a model and the tokens whose shapes they have.

    num_truncated: tokens of the text beyond the maximum length; counts_flops: False for fused recurrent kernels.
    """

    tokens: tuple[str, ...]
    num_truncated: int
    blocks: tuple[Block, ...]
    counts_flops: bool

    @property
    def parameters(self) -> int:
        return sum(block.parameters for block in self.blocks)

    @property
    def flops(self) -> int:
        return sum(block.flops for block in self.blocks)

    def to_json(self) -> dict[str, Any]:
        blocks = [
            {
                **asdict(block),
                "parameters": block.parameters,
                "parts": [{**asdict(part), "parameters": part.parameters} for part in block.parts],
            }
            for block in self.blocks
        ]
        return {
            "tokens": list(self.tokens),
            "parameters": self.parameters,
            "flops": self.flops,
            "counts_flops": self.counts_flops,
            "blocks": blocks,
        }


@dataclass
class _Calls:
    """Calls of a module: count, and shapes of the first."""

    count: int = 0
    input: tuple[int, ...] = ()
    output: tuple[int, ...] = ()


@dataclass
class _Run:
    """What one text did in each module, by name; parameters: their names, of a shared one the first."""

    parameters: frozenset[str]
    calls: dict[str, _Calls] = field(default_factory=dict)
    flops: dict[str, int] = field(default_factory=dict)


def model_structure(model: Model, text: str, max_length: int | None = None) -> Structure:
    """Run a text through a model and describe its blocks.

    Raises InputError for an exported graph, which has no modules.
    """
    if model.graph_precision is not None:
        raise InputError("An exported graph has no modules to show: use the model that it was exported from.")
    tokenizer = tokenizer_of(model)
    encoding = tokenizer(text, max_length=max_length or model.config.max_position_embeddings)
    run = _run(model, torch.tensor([encoding.ids]), torch.tensor([encoding.type_ids]))
    blocks = [_block(model, name, run) for name in _block_names(model)]
    return Structure(tuple(encoding.tokens), encoding.num_truncated, tuple(blocks), model.config.recurrent is None)


def _run(model: Model, ids: Tensor, types: Tensor) -> _Run:
    """ids, types: int64 [1, tokens]."""
    found = _Run(frozenset(name for name, _ in model.named_parameters()))

    def record(name: str) -> Any:
        def hook(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            calls = found.calls.setdefault(name, _Calls())
            if not calls.count:
                calls.input, calls.output = _shape(inputs), _shape(output)
            calls.count += 1

        return hook

    device = model.word_embeddings.device
    options: dict[str, Tensor] = {"input_ids": ids.to(device)}
    if model.config.type_vocab_size:
        options["token_type_ids"] = types.to(device)
    if model.has_decoder:
        start = model.config.decoder_start_token_id or 0
        options["decoder_input_ids"] = torch.full_like(options["input_ids"], start)
    if isinstance(model.head, ChoiceHead):
        options = {name: value[:, None] for name, value in options.items()}  # [1, choices, tokens]
    handles = [module.register_forward_hook(record(name)) for name, module in model.named_modules() if name]
    try:
        with torch.no_grad(), FlopCounterMode(display=False, depth=20) as counter:
            model(**options)
    finally:
        for handle in handles:
            handle.remove()
    prefix = f"{type(model).__name__}."
    found.flops = {
        name.removeprefix(prefix): sum(counts.values()) for name, counts in counter.get_flop_counts().items()
    }
    return found


def _shape(value: Any) -> tuple[int, ...]:
    """The shape of a tensor, or of the first one of several."""
    if isinstance(value, Tensor):
        return tuple(value.shape)
    if isinstance(value, (tuple, list)):
        return next((shape for one in value if (shape := _shape(one))), ())
    return ()


def _block_names(model: Model) -> list[str]:
    """The modules that are blocks: each layer, and the modules around the layers."""
    found = []
    for name, child in model.named_children():
        if name == "head" or not any(True for _ in child.children()):
            found.append(name)
            continue
        for inner, module in child.named_children():
            if isinstance(module, nn.ModuleList):
                found += [f"{name}.{inner}.{number}" for number in range(len(module))]
            else:
                found.append(f"{name}.{inner}")
    return [name for name in found if any(True for _ in model.get_submodule(name).parameters())]


def _block(model: Model, name: str, run: _Run) -> Block:
    module = model.get_submodule(name)
    calls = run.calls.get(name, _Calls())
    parts = tuple(_parts(module, name, run))
    flops = run.flops.get(name, 0)
    last = next((part.output for part in reversed(parts) if part.output), ())
    return Block(name, _block_title(name), parts, flops, calls.output or last, calls.count)


def _parts(block: nn.Module, block_name: str, run: _Run) -> list[Part]:
    """Modules with parameters of their own, and what a module computes outside of its children."""
    found: list[Part] = []
    for inner, module in block.named_modules():
        if isinstance(module, LowRank):
            continue
        name = f"{block_name}.{inner}" if inner else block_name
        weights = tuple(one for one in _own_weights(module, name) if one.name in run.parameters)
        children = [f"{name}.{child}" for child, _ in module.named_children() if child != "lora"]
        own = run.flops.get(name, 0) - sum(run.flops.get(child, 0) for child in children)
        if not weights and own <= 0:
            continue
        calls = run.calls.get(name, _Calls())
        title = TITLES.get(inner) or TITLES.get(block_name.rpartition(".")[2] if not inner else "", inner or "weights")
        if children and own > 0 and inner != "attention":
            title = "product with the word embeddings" if not weights or weights[0].name.endswith("bias") else title
        found.append(Part(name, title, weights, own, calls.input, calls.output, calls.count))
    return _ordered(found)


def _ordered(parts: list[Part]) -> list[Part]:
    """Moves what a module computes itself after its children, in attention before the last of them."""
    result = list(parts)
    for part in parts:
        inside = [one for one in result if one.name.startswith(f"{part.name}.")]
        if not inside:
            continue
        result.remove(part)
        last = result.index(inside[-1])
        result.insert(last if part.name.endswith("attention") else last + 1, part)
    return result


def _own_weights(module: nn.Module, name: str) -> tuple[Weight, ...]:
    """Parameters of a module and of its low-rank updates."""
    pairs = list(module.named_parameters(recurse=False))
    if "lora" in dict(module.named_children()):
        pairs += [(f"lora.{inner}", one) for inner, one in module.lora.named_parameters()]  # type: ignore[union-attr]  # a ModuleDict
    return tuple(Weight(f"{name}.{inner}", tuple(one.shape), one.numel()) for inner, one in pairs)


def _block_title(name: str) -> str:
    layer = _LAYER.fullmatch(name)
    if layer is None:
        return name.removeprefix("encoder.").replace(".", " ").replace("_", " ")
    where = layer["where"].rstrip(".").replace(".", " ")
    return f"{'' if where == 'encoder' else f'{where} '}layer {int(layer['number']) + 1}".strip()


# -- Weights of a model: distribution and singular values of a parameter, differences from another model -------------


BINS = 60
MOST_SINGULAR = 200  # singular values returned, evenly spaced in their order


def weights_of(model: Model, *, of_base: bool = False) -> dict[str, Tensor]:
    """Return the parameters by name, with low-rank updates added to the weights that they change.

    of_base: without these updates, and without parameters that were trained with them.
    """
    found = {}
    for name, parameter in model.named_parameters():
        if ".lora." in name or (of_base and parameter.requires_grad):
            continue
        found[name] = parameter.detach()
    if not of_base:
        for name, module in model.named_modules():
            if isinstance(module, LoraLinear):
                found[f"{name}.weight"] = module.merged().weight.detach()
    return found


def describe_weight(model: Model, name: str) -> dict[str, Any]:
    """Return shape, mean, standard deviation, range, norm, histogram and singular values of a parameter.

    {"edges": [bins + 1], "counts": [bins], "singular": values of a matrix in decreasing order, else []}. Raises
    MissingFileError for an unknown name.
    """
    parameters = dict(model.named_parameters())
    whole = weights_of(model)
    if name not in parameters:
        raise MissingFileError(f"The model has no weights named {name}.")
    values = whole.get(name, parameters[name].detach()).float().cpu()
    low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    counts = torch.histc(values, BINS, low, high)
    return {
        "name": name,
        "shape": list(values.shape),
        "size": values.numel(),
        "mean": float(values.mean()),
        "deviation": float(values.std(correction=0)),
        "least": float(values.min()),
        "most": float(values.max()),
        "norm": float(values.norm()),
        "edges": torch.linspace(low, high, BINS + 1).tolist(),
        "counts": counts.int().tolist(),
        "singular": _singular(values),
    }


def _singular(values: Tensor) -> list[float]:
    """The singular values of a matrix, from the eigenvalues of the smaller of its Gram matrices."""
    if values.dim() != 2 or min(values.shape) < 2:
        return []
    wide = values.double() if values.shape[0] >= values.shape[1] else values.double().T
    found = torch.linalg.eigvalsh(wide.T @ wide).clamp(min=0).sqrt().flip(0)
    chosen = torch.linspace(0, len(found) - 1, min(len(found), MOST_SINGULAR)).round().long()
    singular: list[float] = found[chosen].tolist()
    return singular


def weight_differences(model: Model, other: Model | None) -> tuple[dict[str, float], list[str]]:
    """Compare the parameters of a model with those of another one, or with those that its adapter changed.

    other: None for the base of the adapter. Returns the norm of the difference over the norm in the other model, by the
    names of the parameters that both have in one shape, and the names of the model's other parameters. Raises
    InputError for a model without an adapter and other, and for models without common parameters.
    """
    if other is None and model.adapter is None:
        raise InputError("This model is not an adapter: select a model to compare it with.")
    base = weights_of(model, of_base=True) if other is None else weights_of(other)
    found, alone = {}, []
    for name, weight in weights_of(model).items():
        partner = base.get(name)
        if partner is None or partner.shape != weight.shape:
            alone.append(name)
            continue
        there = partner.float().to(weight.device)
        norm, distance = float(there.norm()), float((weight.float() - there).norm())
        found[name] = distance / norm if norm else float(distance > 0)
    if not found:
        raise InputError("These models have no weights of equal names and shapes: compare models of one architecture.")
    return found, alone
