"""What a planned run is: the settings of `maskwright plan`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ..core import registry
from ..core.config import check, check_above_zero, check_at_least, check_below_one, fit_types
from .gpus import gpu_named

BATCH_HERE, BATCH_ON_GPUS = 4096, 131_072  # tokens of a step: as `pretrain` has it; as BERT was trained (256 x 512)
STEPS = 2000  # as `pretrain` has it


@dataclass(frozen=True)
class PlanConfig:
    """A pre-training run to reckon with. Validated on construction: ConfigError names the setting.

    preset, model, vocab_size, objective, max_length, mask_rate, generator_share: as in PretrainConfig, vocab_size None
    for the preset's own; tokens: of the whole run, else `steps` (None: 2,000); batch_tokens: of one step over all
    devices, None for 4,096 here and 131,072 on named GPUs; accumulation: None for as few micro-batches as fit;
    activation_checkpointing: as in PretrainConfig.
    gpu: a name of gpus.GPUS, None for this machine; gpus: how many; utilisation: the share of their peak that is
    assumed; price_per_hour: of one device, in any currency; probe_seconds: how long this machine is measured.
    """

    preset: str = "bert-base"
    model: dict[str, Any] = field(default_factory=dict)
    vocab_size: int | None = None
    objective: str = "mlm+nsp"
    tokens: float | None = None
    steps: int | None = None
    batch_tokens: int | None = None
    max_length: int = 128
    accumulation: int | None = None
    activation_checkpointing: bool = False
    mask_rate: float = 0.15
    generator_share: float | None = None
    gpu: str | None = None
    gpus: int = 1
    utilisation: float = 0.3
    price_per_hour: float | None = None
    probe_seconds: float = 10.0
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"

    def __post_init__(self) -> None:
        fit_types(self)
        known = registry.names("objective")
        check(self.objective in known, registry.unknown_name("objective", self.objective, known))
        check_above_zero(self, "tokens", "utilisation", "price_per_hour", "probe_seconds", "mask_rate")
        check_at_least(self, 1, "steps", "accumulation", "gpus", "batch_tokens")
        check_at_least(self, 8, "max_length")
        check_below_one(self, "mask_rate")
        check(self.utilisation <= 1, f"Setting 'utilisation' is {self.utilisation}; it is a share of the peak.")
        check(self.tokens is None or self.steps is None, "Give tokens or steps: one follows from the other.")
        check(
            self.generator_share is None or 0 < self.generator_share <= 1,
            f"Setting 'generator_share' is {self.generator_share}; it must be above 0 and at most 1.",
        )
        check(self.gpu is not None or self.gpus == 1, "gpus counts named GPUs: say which with --gpu, such as h100.")
        if self.gpu is not None:
            gpu_named(self.gpu)
        check(
            self.tokens_of_step >= self.max_length * self.gpus * (self.accumulation or 1),
            f"A step of {self.tokens_of_step:,} tokens is less than one sequence of {self.max_length:,} for each of "
            f"{self.gpus * (self.accumulation or 1)} micro-batches: raise --batch-tokens.",
        )

    @property
    def tokens_of_step(self) -> int:
        """Tokens of one step over all devices, at most."""
        return self.batch_tokens or (BATCH_HERE if self.gpu is None else BATCH_ON_GPUS)

    @property
    def sequences(self) -> int:
        """Sequences of one step on one device."""
        return self.tokens_of_step // (self.max_length * self.gpus)
