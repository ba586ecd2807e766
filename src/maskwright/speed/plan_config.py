"""Settings of a training cost estimate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..core import registry
from ..core.config import (
    HARDWARE,
    Setting,
    check,
    check_above_zero,
    check_at_least,
    check_below_one,
    check_name,
    fit_types,
    option,
)
from ..core.gpus import GB, gpu_named
from ..objectives.fitting import GENERAL, usual_objective
from ..train import settings
from ..train.pretraining.config import GENERATOR_SHARE, MASK_RATE, OBJECTIVE_OF

BATCH_HERE, BATCH_ON_GPUS = 4096, 131_072  # tokens per step: default of `pretrain`; batch of BERT (256 x 512)
STEPS = 2000  # default of `pretrain`
TRANSLATION = "translation"  # of an encoder-decoder by `finetune translation`
# Bytes per second of one direction, per GPU in a machine or per machine in a network; vendors' figures.
LINKS = {"nvlink": 300 * GB, "pcie": 32 * GB, "400gb": 50 * GB, "100gb": 12.5 * GB}  # A100: NVLink 3; PCIe 4.0 x16
GPUS_OF_MACHINE = 8
OBJECTIVE = Setting(
    f"{OBJECTIVE_OF.help.removesuffix('.')}; or {TRANSLATION}: pairs of --max-length tokens on each side, all counted."
)


def link_of(name: str | None, gpus: int) -> float:
    """Bytes per second of a link: a name of LINKS, gigabytes per second as a number, or None for the usual one."""
    if name is None:
        name = "nvlink" if gpus <= GPUS_OF_MACHINE else "400gb"
    if name in LINKS:
        return LINKS[name]
    try:
        speed = float(name) * GB
    except ValueError:
        speed = 0.0
    check(
        0 < speed < float("inf"),
        f"Setting 'interconnect' is '{name}'; it must be one of {', '.join(LINKS)}, or gigabytes per second.",
    )
    return speed


@dataclass(frozen=True)
class PlanConfig:
    """A pre-training run to estimate. Validated on construction: ConfigError names the setting.

    preset, model, vocab_size, objective, max_length, mask_rate, generator_share, activation_checkpointing, shard: as in
    PretrainConfig; vocab_size None for that of the preset; objective can be TRANSLATION.
    tokens: of the whole run, instead of `steps` (None: 2,000); batch_tokens: per step over all devices, None for 4,096
    on this machine and 131,072 on named GPUs; accumulation: gradient accumulation steps, None for as few as fit.
    gpu: a name of core.gpus.GPUS, None for this machine; gpus: their number; interconnect: see `link_of`;
    utilization: assumed fraction of the peak, without communication;
    price_per_hour: of one device, in any currency; probe_seconds: duration of the measurement on this machine.
    """

    COMMAND: ClassVar[str] = "plan"

    preset: str = option("bert-base", settings.PRESET)
    model: dict[str, Any] = option({}, settings.NETWORK_CHANGES)
    vocab_size: int | None = option(None, "Vocabulary size.", default_help="the preset's")
    objective: str = option(None, OBJECTIVE, default_help="that of the preset's family, as in pretrain")
    tokens: float | None = option(None, "Tokens of the whole run, such as 3.3e9, instead of --steps.")
    steps: int | None = option(None, settings.STEPS, default_help=f"{STEPS} steps")
    batch_tokens: int | None = option(
        None,
        settings.BATCH_TOKENS,
        default_help=f"{BATCH_HERE} tokens here, {BATCH_ON_GPUS} on named GPUs",
    )
    max_length: int = option(128, settings.MAX_LENGTH)
    accumulation: int | None = option(None, settings.ACCUMULATION, default_help="as few as fit into memory")
    activation_checkpointing: bool = option(False, settings.ACTIVATION_CHECKPOINTING)
    shard: bool = option(False, settings.SHARD)
    mask_rate: float = option(0.15, MASK_RATE)
    generator_share: float | None = option(None, GENERATOR_SHARE)
    gpu: str | None = option(None, "GPU to plan for, such as h100 or a100-40.", default_help="this machine")
    gpus: int = option(1, "Number of GPUs.")
    interconnect: str | None = option(
        None,
        "Slowest link between the GPUs: nvlink, pcie, 400gb, 100gb, or a number of GB/s.",
        panel=HARDWARE,
        default_help="nvlink up to 8 GPUs, 400gb beyond",
    )
    utilization: float = option(
        0.3,
        "Assumed utilization: fraction of the GPUs' peak FLOP/s, without communication. Measured on an H100: BERT-base "
        "0.29, BERT-large 0.34.",
        panel=HARDWARE,
        old_flag="--utilisation",  # terms: ok
    )
    price_per_hour: float | None = option(
        None, "Price of one GPU, or of this machine, per hour, in any currency.", panel=HARDWARE
    )
    probe_seconds: float = option(10.0, "Duration of the measurement on this machine.", unit="seconds", panel=HARDWARE)
    device: settings.Device = option("auto", settings.DEVICE)
    precision: settings.Precision = option("auto", settings.PRECISION)

    def __post_init__(self) -> None:
        is_usual = self.objective is None
        if is_usual:
            object.__setattr__(self, "objective", GENERAL)  # until the network is known
        fit_types(self)
        from ..models.presets import PRESETS

        check_name("preset", "preset", self.preset, PRESETS)
        if is_usual:
            object.__setattr__(self, "objective", self.dependent_defaults["objective"])
        check_name("objective", "objective", self.objective, [*registry.names("objective"), TRANSLATION])
        check_above_zero(self, "tokens", "utilization", "price_per_hour", "probe_seconds", "mask_rate")
        check_at_least(self, 1, "steps", "accumulation", "gpus", "batch_tokens")
        check_at_least(self, 8, "max_length")
        check_at_least(self, 16, "vocab_size")
        check_below_one(self, "mask_rate")
        check(self.utilization <= 1, f"Setting 'utilization' is {self.utilization}; it must be at most 1.")
        check(
            self.tokens is None or self.steps is None,
            "--tokens and --steps are mutually exclusive: pass one of them.",
        )
        check(
            self.generator_share is None or 0 < self.generator_share <= 1,
            f"Setting 'generator_share' is {self.generator_share}; it must be above 0 and at most 1.",
        )
        check(self.gpu is not None or self.gpus == 1, "--gpus requires --gpu, such as --gpu h100.")
        check(self.gpus > 1 or not self.shard, "--shard requires several GPUs, as in --gpus 8.")
        if self.gpu is not None:
            gpu_named(self.gpu)
        link_of(self.interconnect, self.gpus)
        check(
            self.tokens_of_step >= self.text_tokens * self.gpus * (self.accumulation or 1),
            f"A step of {self.tokens_of_step:,} tokens is less than one sequence of {self.text_tokens:,} for each of "
            f"{self.gpus * (self.accumulation or 1)} micro-batches: raise --batch-tokens.",
        )

    @property
    def dependent_defaults(self) -> dict[str, Any]:
        """The defaults that depend on other settings."""
        from ..models.presets import preset

        return {"objective": usual_objective(preset(self.preset, **self.model))}

    @property
    def tokens_of_step(self) -> int:
        """Maximum tokens per step over all devices."""
        return self.batch_tokens or (BATCH_HERE if self.gpu is None else BATCH_ON_GPUS)

    @property
    def text_tokens(self) -> int:
        """Tokens of a sequence, or of a pair of source and target."""
        return self.max_length * (2 if self.objective == TRANSLATION else 1)

    @property
    def sequences(self) -> int:
        """Sequences, or pairs, per step on one device."""
        return self.tokens_of_step // (self.text_tokens * self.gpus)
