"""The recipe of a ladder: the same rows, the same budget, from counted words to BERT."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ..core.config import check, check_above_zero, check_at_least, fit_types
from ..core.registry import unknown_name

RUNGS = ("words", "static", "lstm", "bilstm", "elmo", "gpt", "bert-scratch", "bert")


@dataclass(frozen=True)
class LadderConfig:
    """Everything that decides a ladder. Validated on construction: ConfigError names the setting.

    data: labelled rows to learn from; dev: rows that score, None to set a tenth of data aside; corpus: raw text for the
    rungs that are pre-trained, none for the texts of data; models: folders to fine-tune beside them; only: rungs to
    climb, none for all of RUNGS. The budget is the same for all: epochs over the rows in batches of batch_size, and
    pretrain_steps steps of pretrain_tokens for what is pre-trained. hidden_size: of every network; num_layers: of
    Transformers, recurrent ones have 2; vocab_size: of the tokenizer that all share; static_method: of static vectors,
    skip-gram or cbow.
    """

    data: Path
    output: Path
    dev: Path | None = None
    corpus: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    columns: dict[str, str] = field(default_factory=dict)
    metric: str | None = None
    epochs: int = 5
    seeds: int = 3
    batch_size: int = 32
    max_length: int = 128
    pretrain_steps: int = 500
    pretrain_tokens: int = 4096
    hidden_size: int = 256
    num_layers: int = 4
    vocab_size: int = 8000
    static_method: Literal["skip-gram", "cbow"] = "skip-gram"
    lr_given: float = 5e-5
    skip_bad_rows: bool = False
    seed: int = 0
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"

    def __post_init__(self) -> None:
        fit_types(self)
        for name in self.only:
            check(name in RUNGS, unknown_name("rung", name, RUNGS))
        check_at_least(self, 1, "epochs", "seeds", "batch_size", "pretrain_steps", "num_layers")
        check_at_least(self, 16, "vocab_size", "hidden_size", "max_length")
        check_above_zero(self, "lr_given")
        check(self.hidden_size % 2 == 0, f"Setting 'hidden_size' is {self.hidden_size}; it must be even.")
        check(
            self.pretrain_tokens >= self.max_length,
            f"Setting 'pretrain_tokens' is {self.pretrain_tokens}; it must hold a sequence of {self.max_length}.",
        )

    @property
    def climbed(self) -> tuple[str, ...]:
        """The rungs, lowest first."""
        return tuple(name for name in RUNGS if not self.only or name in self.only)

    def resolved(self, device: str, precision: str) -> LadderConfig:
        """The same recipe with every automatic setting decided and every path absolute."""
        changes: dict[str, Any] = {"device": device, "precision": precision}
        changes |= {name: getattr(self, name).absolute() for name in ("data", "output")}
        changes["dev"] = None if self.dev is None else self.dev.absolute()
        changes["corpus"] = tuple(_absolute(source) for source in self.corpus)
        changes["models"] = tuple(_absolute(name) if Path(name).is_dir() else name for name in self.models)
        return replace(self, **changes)


def _absolute(source: str) -> str:
    return source if source.startswith("hub:") else str(Path(source).absolute())
