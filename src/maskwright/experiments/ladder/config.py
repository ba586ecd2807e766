"""The recipe of a ladder: models from bag of words to BERT on the same rows and budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from ...core.config import NETWORK, OPTIMIZATION, check, check_above_zero, check_at_least, check_name, fit_types, option
from ...hub.published import absolute_name
from ...train import settings

LADDER_MODELS = ("words", "static", "lstm", "bilstm", "elmo", "gpt", "bert-scratch", "bert")


@dataclass(frozen=True)
class LadderConfig:
    """Everything that decides a ladder. Validated on construction: ConfigError names the setting.

    data: labeled training rows; dev: labeled rows for evaluation, None to hold out a tenth of data; corpus: raw text
    for pre-training, empty for the texts of data; models: further model folders to fine-tune; only: names of
    LADDER_MODELS, empty for all. The budget is the same for all: epochs over the rows in batches of batch_size, and
    pretrain_steps steps of pretrain_tokens for pre-training. hidden_size: of every network; num_layers: of
    Transformers, recurrent networks have 2; vocab_size: of the shared tokenizer; static_method: skip-gram or cbow.
    """

    COMMAND: ClassVar[str] = "experiment ladder"

    data: Path = option(help="Labeled rows to train on.", metavar="FILE", reads="rows")
    output: Path = option(help=settings.OUTPUT)
    dev: Path | None = option(
        None, "Labeled rows to score on.", metavar="FILE", default_help="10% of --data", reads="rows"
    )
    corpus: tuple[str, ...] = option(
        (), "Raw text for pre-training. Repeatable.", default_help="the texts of --data", reads="text"
    )
    models: tuple[str, ...] = option((), "Also fine-tune this model folder. Repeatable.", flag="--model", reads="model")
    only: tuple[str, ...] = option(
        (),
        "Models to compare: words, static, lstm, bilstm, elmo, gpt, bert-scratch or bert. Repeatable.",
        default_help="all of them",
    )
    columns: dict[str, str] = option({}, settings.COLUMNS)
    metric: str | None = option(None, "Dev metric that is compared, such as macro_f1.", default_help="the task's own")
    epochs: int = option(5, settings.EPOCHS)
    seeds: int = option(3, settings.SEEDS, help="Number of seeds of each model.")
    batch_size: int = option(32, settings.BATCH_SIZE)
    max_length: int = option(128, settings.MAX_LENGTH)
    pretrain_steps: int = option(500, settings.STEPS, help="Optimizer steps of each pre-training.")
    pretrain_tokens: int = option(
        4096, "Maximum tokens per optimizer step of each pre-training.", unit="tokens", panel=OPTIMIZATION
    )
    hidden_size: int = option(256, "Hidden size of every network.", panel=NETWORK)
    num_layers: int = option(4, "Layers of the Transformers; recurrent networks have 2.", panel=NETWORK)
    vocab_size: int = option(8000, "Vocabulary size of the shared tokenizer.", unit="tokens", panel=NETWORK)
    static_method: Literal["skip-gram", "cbow"] = option(
        "skip-gram", "Training method of the static word embeddings.", panel=NETWORK
    )
    lr_given: float = option(5e-5, "Peak learning rate for the folders of --model.", panel=OPTIMIZATION)
    skip_bad_rows: bool = option(False, settings.SKIP_BAD_ROWS)
    seed: int = option(0, settings.SEED)
    device: settings.Device = option("auto", settings.DEVICE)
    precision: settings.Precision = option("auto", settings.PRECISION)

    def __post_init__(self) -> None:
        fit_types(self)
        for name in self.only:
            check_name("only", "model of the comparison", name, LADDER_MODELS)
        check_at_least(self, 1, "epochs", "seeds", "batch_size", "pretrain_steps", "num_layers")
        check_at_least(self, 16, "vocab_size", "hidden_size", "max_length")
        check_above_zero(self, "lr_given")
        check(self.hidden_size % 2 == 0, f"Setting 'hidden_size' is {self.hidden_size}; it must be even.")
        check(
            self.pretrain_tokens >= self.max_length,
            f"Setting 'pretrain_tokens' is {self.pretrain_tokens}; it must fit a sequence of {self.max_length}.",
        )

    @property
    def ordered_models(self) -> tuple[str, ...]:
        """Names of the models, the simplest first."""
        return tuple(name for name in LADDER_MODELS if not self.only or name in self.only)

    def resolved(self, device: str, precision: str) -> LadderConfig:
        """The recipe with every automatic setting resolved and every path absolute."""
        changes: dict[str, Any] = {"device": device, "precision": precision}
        changes |= {name: getattr(self, name).absolute() for name in ("data", "output")}
        changes["dev"] = None if self.dev is None else self.dev.absolute()
        changes["corpus"] = tuple(_absolute(source) for source in self.corpus)
        changes["models"] = tuple(absolute_name(name) for name in self.models)
        return replace(self, **changes)


def _absolute(source: str) -> str:
    return source if source.startswith("hub:") else str(Path(source).absolute())
