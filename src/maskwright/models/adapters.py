"""Adapters: LoRA updates and a head on a base model whose weights do not change.

Models with adapters on one base use the same weight tensors (`SharedWeights`). The trained parameters are those that
require gradients: the updates, the head, and what the base lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..core.randomness import derive_seed
from ..nn.layers import Linear, LoraLinear, LowRank
from .lora_config import LoraConfig


@dataclass(frozen=True)
class LoraPart:
    """Outputs `start` to `start + size` of the linear layer `module` (a name in the model), called `name` there."""

    module: str
    name: str
    start: int
    size: int


class SharedWeights:
    """The weights of a base model that several models use, by parameter name, and what inference prepared from them.

    The tensors must not change.
    """

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._on_device: dict[torch.device, dict[str, Tensor]] = {}
        self._prepared: dict[Any, Any] = {}

    def share(self, model: nn.Module) -> None:
        """Let `model` use these tensors instead of equal ones of its own."""
        for name, parameter in model.named_parameters():
            if name in self.tensors and not parameter.requires_grad and parameter.shape == self.tensors[name].shape:
                parameter.data = self.tensors[name]

    def move(self, model: nn.Module, device: torch.device) -> None:
        """Move the parameters of `model` that use these tensors to `device`, where they are copied once."""
        addresses, tensors = {one.data_ptr() for one in self._all()}, self._copies(device)
        for name, parameter in model.named_parameters():
            if name in tensors and parameter.data_ptr() in addresses:
                parameter.data = tensors[name]

    def prepare(self, weights: Sequence[Tensor | None], key: Any, make: Callable[[], Any]) -> Any:
        """Returns `make()`, made once for these weights and `key` if all of them are shared, else every time.

        weights: parameters of any shape [...], or None.
        """
        addresses = tuple(one.data_ptr() for one in weights if one is not None)
        if not {one.data_ptr() for one in self._all()}.issuperset(addresses):
            return make()
        if (addresses, key) not in self._prepared:
            self._prepared[addresses, key] = make()
        return self._prepared[addresses, key]

    def __deepcopy__(self, memo: dict[int, Any]) -> SharedWeights:
        """Return itself: a copied model has its own weights."""
        return self

    def __reduce__(self) -> tuple[type[SharedWeights], tuple[()]]:
        """Pickle nothing: an unpickled model has its own weights."""
        return SharedWeights, ()

    def _copies(self, device: torch.device) -> dict[str, Tensor]:
        if device not in self._on_device:
            self._on_device[device] = {name: tensor.to(device) for name, tensor in self.tensors.items()}
        return self._on_device[device]

    def _all(self) -> list[Tensor]:
        return [one for known in (self.tensors, *self._on_device.values()) for one in known.values()]


@dataclass(frozen=True)
class Adapter:
    """What a model with an adapter knows about it.

    base: the name of the base model (short name, folder or Hub model ID); weights_sha256: of the base's weights;
    network: changed settings between encoder and head; shared: the base's weights, None in training.
    """

    config: LoraConfig
    base: str
    weights_sha256: str
    network: Mapping[str, Any] = field(default_factory=dict)
    shared: SharedWeights | None = None


def add_lora(model: nn.Module, parts: Sequence[LoraPart], config: LoraConfig, seed: int) -> None:
    """Freeze every parameter of `model` and add low-rank updates of `parts`, initialized from `seed`."""
    model.requires_grad_(False)
    for part in parts:
        linear = model.get_submodule(part.module)
        if not isinstance(linear, LoraLinear):
            linear = LoraLinear(cast("Linear", linear))
            model.set_submodule(part.module, linear)
        update = LowRank(
            linear.weight.shape[1], part.start, part.size, config.rank, config.alpha / config.rank, config.dropout
        )
        update.initialize(torch.Generator().manual_seed(derive_seed(seed, f"lora {part.module} {part.name}")))
        linear.lora[part.name] = update.to(linear.weight.device)


def merge_adapter(model: nn.Module) -> None:
    """Make `model` a whole model, in place: updates are added to the weights, and no weight is shared or frozen."""
    for name, part in list(model.named_modules()):
        if isinstance(part, LoraLinear):
            model.set_submodule(name, part.merged())
    for parameter in model.parameters():
        if not parameter.requires_grad:
            parameter.data = parameter.data.clone()
            parameter.requires_grad_(True)
    cast("Any", model).adapter = None


def trained_state(model: nn.Module) -> dict[str, Tensor]:
    """What training changes: of a model with an adapter its trained parameters, of other models the whole state."""
    state: dict[str, Tensor] = model.state_dict()
    if getattr(model, "adapter", None) is None:
        return state
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    return {name: tensor for name, tensor in state.items() if name in trained}


def load_trained_state(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Load what `trained_state` returned. Raises RuntimeError, as torch does, for tensors of another model.

    state: parameters of any shape [...] by name.
    """
    is_whole = getattr(model, "adapter", None) is None
    found = model.load_state_dict(state, strict=is_whole)
    if found.unexpected_keys:
        raise RuntimeError(f"Unexpected tensors: {', '.join(found.unexpected_keys)}.")
