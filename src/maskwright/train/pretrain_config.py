"""The recipe of a pre-training run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ..core import registry
from ..core.config import check, check_above_zero, check_at_least, check_below_one, check_not_negative, fit_types
from .optimizer import Schedule, warmup_steps


@dataclass(frozen=True)
class PretrainConfig:
    """Everything that decides a pre-training run. Validated on construction: ConfigError names the setting.

    corpus: text files, folders or globs, or one folder prepared by an earlier run (its `data/`);
    output: the run folder; preset: a name of `maskwright presets`, changed by `model` (names of ModelConfig);
    tokenizer: a saved one, else a WordPiece one of `vocab_size` is trained first; batch_tokens: tokens of one step at
    most; accumulation: micro-batches that make a step; warmup: share of the steps below 1, else steps;
    short_share: examples of random shorter length; reset_state: of a recurrent network under clm: whether every
    example begins anew; otherwise what it remembers goes on from batch to batch (truncated backpropagation, max_length
    tokens at a time); dropout: in this run only (the saved model keeps the network's own
    for fine-tuning; 0 learns more from a text that is seen about once), None for the network's;
    holdout: share of the documents kept for evaluation when no `eval` text is given; eval: text, or a labelled file
    (then a linear probe on frozen features is scored);
    generator_share, rtd_weight: of objective rtd: the generator's width as a share of the discriminator's (None: a
    quarter), and the weight of the discriminator's loss (None: 50);
    activation_checkpointing: layers keep their inputs alone and run again for their gradients: less memory, about a
    third more work, the same numbers (may change when a run goes on);
    compile: whether layers are compiled (torch.compile): "auto" where that wins back the time it takes, as
    `maskwright doctor` says (the last bits of the numbers depend on it);
    checkpoint_every: steps, 0 for about twenty in a run; tensorboard: also write the log as TensorBoard events (may
    change when a run goes on).
    """

    corpus: tuple[str, ...]
    output: Path
    preset: str = "bert-mini"
    objective: str = "mlm+nsp"
    tokenizer: Path | None = None
    vocab_size: int = 8000
    lowercase: bool = True
    model: dict[str, Any] = field(default_factory=dict)
    steps: int = 2000
    batch_tokens: int = 4096
    max_length: int = 128
    accumulation: int = 1
    activation_checkpointing: bool = False
    compile: Literal["auto", "on", "off"] = "auto"
    lr: float = 5e-4
    warmup: float = 0.1
    schedule: Schedule = "linear"
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    mask_rate: float = 0.15
    whole_words: bool = False
    short_share: float = 0.1
    reset_state: bool = False
    dropout: float | None = None
    generator_share: float | None = None
    rtd_weight: float | None = None
    holdout: float = 0.01
    eval: tuple[str, ...] = ()
    checkpoint_every: int = 0
    evaluate_every: int = 0
    log_every: int = 10
    keep: int = 2
    skip_bad_rows: bool = False
    keep_duplicates: bool = False
    tensorboard: bool = False
    seed: int = 0
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"

    def __post_init__(self) -> None:
        fit_types(self)
        check(bool(self.corpus), "Setting 'corpus' is empty: name at least one text file, folder or glob.")
        known = registry.names("objective")
        check(self.objective in known, registry.unknown_name("objective", self.objective, known))
        check_at_least(self, 1, "steps", "accumulation", "log_every", "keep")
        check_above_zero(self, "lr", "clip_norm", "generator_share", "rtd_weight")
        check_not_negative(self, "warmup", "weight_decay", "checkpoint_every", "evaluate_every")
        check_below_one(self, "mask_rate", "short_share", "holdout", "dropout")
        check(
            self.generator_share is None or self.generator_share <= 1,
            f"Setting 'generator_share' is {self.generator_share}; it must be at most 1.",
        )
        check(self.mask_rate > 0, "Setting 'mask_rate' is 0: nothing would be learnt.")
        check_at_least(self, 8, "max_length")
        check_at_least(self, 16, "vocab_size")
        warmup = warmup_steps(self.warmup, self.steps)
        check(warmup <= self.steps, f"Setting 'warmup' ({warmup} steps) is more than 'steps' ({self.steps}).")
        check(
            self.batch_tokens >= self.max_length * self.accumulation,
            f"Setting 'batch_tokens' is {self.batch_tokens}; it must hold at least one sequence of max_length "
            f"{self.max_length} for each of {self.accumulation} micro-batches.",
        )

    @property
    def sequences(self) -> int:
        """Sequences of one micro-batch."""
        return self.batch_tokens // (self.max_length * self.accumulation)

    def resolved(self, device: str, precision: str) -> PretrainConfig:
        """The same recipe with every automatic setting decided."""
        every = self.checkpoint_every or max(self.steps // 20, 1)
        return replace(
            self,
            device=device,  # type: ignore[arg-type]
            precision=precision,  # type: ignore[arg-type]
            checkpoint_every=every,
            evaluate_every=self.evaluate_every or every,
            output=self.output.resolve(),
            corpus=tuple(_absolute(source) for source in self.corpus),
            eval=tuple(_absolute(source) for source in self.eval),
            tokenizer=self.tokenizer.resolve() if self.tokenizer else None,
        )


def _absolute(source: str) -> str:
    """A path that means the same from any folder; `-` and `hub:` names stay."""
    return source if source == "-" or source.startswith("hub:") else str(Path(source).absolute())
