"""Continued pre-training: from a trained model, with its network and tokenizer, on the text of a domain."""

from __future__ import annotations

from torch import nn

from ...core import registry
from ...core.errors import InputError
from ...hub.adapters import attach_adapter
from ...hub.folders import load_model
from ...models.model import Model
from ...objectives.fitting import check_fits
from ...text.tokenizers.tokenizer import Tokenizer
from .config import PretrainConfig
from .start_network import network_here


class StartModel:
    """The model that a run starts from, with the head of its objective; a head that it lacks is new.

    network: its configuration. Raises InputError for a network that does not fit the recipe.
    """

    def __init__(self, config: PretrainConfig) -> None:
        self.config, self.name = config, str(config.start)
        objective = registry.resolve("objective", config.objective)
        network = network_here(self.name)
        if network is not None:  # before its weights are read
            check_fits(config.objective, network, self.name, is_trained=True)
        self.model, self.report = load_model(self.name, objective.head, seed=config.seed)
        self.report.log_weight_mismatch(self.name)
        self.network = self.model.config
        check_fits(config.objective, self.network, self.name, is_trained=True)
        positions = self.network.max_position_embeddings
        if config.max_length > positions:
            raise InputError(f"Setting 'max_length' is {config.max_length}; {self.name} has {positions} positions.")

    @property
    def tokenizer(self) -> Tokenizer:
        """Its tokenizer. Raises InputError if it has none."""
        if self.model.tokenizer is None:
            raise InputError(f"{self.name} has no tokenizer: copy its tokenizer.json or vocab.txt to the model folder.")
        tokenizer: Tokenizer = self.model.tokenizer
        return tokenizer

    def fill(self, model: nn.Module) -> None:
        """Give `model` the start model's weights and, if the recipe trains one, an adapter on them."""
        assert isinstance(model, Model)
        model.load_state_dict(self.model.state_dict())
        if self.config.adapter is not None:
            attach_adapter(model, self.name, self.config.lora, self.report.new, self.config.seed, {})
