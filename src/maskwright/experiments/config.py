"""Settings of the experiments, without torch, so that `--help` starts fast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from ..core.config import (
    HARDWARE,
    NETWORK,
    OPTIMIZATION,
    check,
    check_above_zero,
    check_at_least,
    check_below_one,
    check_name,
    check_not_negative,
    fit_types,
    option,
)
from ..core.util import THREADS
from ..hub.published import absolute_name
from ..tasks.specs import task_for
from ..train import settings
from ..train.finetuning.config import FinetuneConfig
from ..train.schedules import Schedule

Config = TypeVar("Config", bound="ExperimentConfig")
LADDER_MODELS = ("words", "static", "lstm", "bilstm", "elmo", "gpt", "bert-scratch", "bert")
TASK = task_for("tagged")  # of the probes of `experiment layers`
# Devlin et al. 2019, appendix A.3: what worked well across all tasks. Learning rates in the paper's order.
GRID: Mapping[str, tuple[Any, ...]] = {"batch_size": (16, 32), "lr": (5e-5, 3e-5, 2e-5), "epochs": (2, 3, 4)}
FIXED = {"batch_size": 32, "lr": 3e-5, "epochs": 3}


@dataclass(frozen=True, kw_only=True)
class ExperimentConfig:
    """What all experiments share. Validated on construction: ConfigError names the setting."""

    output: Path = option(help=settings.OUTPUT)
    skip_bad_rows: bool = option(False, settings.SKIP_BAD_ROWS)
    seed: int = option(0, settings.SEED)
    device: settings.Device = option("auto", settings.DEVICE)
    precision: settings.Precision = option("auto", settings.PRECISION)

    @property
    def all_seeds(self) -> list[int]:
        return [self.seed + number for number in range(self.seeds)]  # type: ignore[attr-defined]  # of every subclass

    def resolved(self: Config, device: str, precision: str) -> Config:
        """The recipe with every automatic setting resolved and every path absolute."""
        changes: dict[str, Any] = {"device": device, "precision": precision}
        for one in fields(self):
            value, reads = getattr(self, one.name), one.metadata["setting"].reads
            if isinstance(value, Path):
                changes[one.name] = value.absolute()
            elif reads in ("model", "text"):
                absolute = absolute_name if reads == "model" else _absolute
                changes[one.name] = absolute(value) if isinstance(value, str) else tuple(map(absolute, value))
        return replace(self, **changes)


def _absolute(source: str) -> str:
    return source if source.startswith("hub:") else str(Path(source).absolute())


@dataclass(frozen=True)
class LayerLabConfig(ExperimentConfig):
    """Everything that decides a layer-wise probing run. The rows and the optimizer are as for fine-tuning a tagger;
    precision is that of the encoder, probes compute in fp32; probe_size is the hidden size in each direction;
    feature_memory is in 10^9 bytes, larger features are memory-mapped from the run folder.
    """

    COMMAND: ClassVar[str] = "experiment layers"

    model: str = option(
        help="Model folder, or Hugging Face Hub model ID, whose layers are compared.", is_argument=True, reads="model"
    )
    train: Path = option(help="Tagged sentences to train on.", metavar="FILE", reads="rows")
    dev: Path | None = option(
        None, "Tagged sentences to score on.", metavar="FILE", default_help="10% of --train", reads="rows"
    )
    columns: dict[str, str] = option({}, settings.COLUMNS)
    probe: Literal["linear", "bilstm"] = option("linear", "Tagger on the features.")
    probe_size: int = option(128, "Units of a BiLSTM probe, in each direction.", panel=NETWORK)
    probe_layers: int = option(1, "Number of layers of a BiLSTM probe.", panel=NETWORK)
    dropout: float = option(0.1, "Dropout of the probe.", panel=OPTIMIZATION)
    crf: bool = option(False, "Add a conditional random field (CRF) to the probe.")
    each_layer: bool = option(False, "Also evaluate each layer separately.")
    also_finetune: bool = option(False, "Also evaluate the fine-tuned model.")
    finetune_epochs: int = option(3, "Number of fine-tuning epochs.", panel=OPTIMIZATION)
    finetune_lr: float = option(5e-5, "Peak learning rate of fine-tuning.", panel=OPTIMIZATION)
    seeds: int = option(3, settings.SEEDS, help="Number of probes per row; report mean and deviation.")
    epochs: int = option(10, settings.EPOCHS, help="Number of epochs per probe.")
    lr: float = option(2e-3, settings.LR, help="Peak learning rate of a probe.")
    batch_size: int = option(32, settings.BATCH_SIZE)
    max_length: int = option(128, settings.MAX_LENGTH)
    warmup: float = option(0.1, settings.WARMUP)
    schedule: Schedule = option("linear", settings.SCHEDULE)
    weight_decay: float = option(0.01, settings.WEIGHT_DECAY)
    clip_norm: float = option(1.0, settings.CLIP_NORM)
    feature_dtype: Literal["fp32", "bf16"] = option(
        "fp32", "Data type of stored features; bf16 takes half the memory.", panel=HARDWARE
    )
    feature_memory: float = option(
        2.0, "Features kept in memory, in gigabytes; larger ones go to files.", unit="GB", panel=HARDWARE
    )

    def __post_init__(self) -> None:
        fit_types(self)
        check_at_least(self, 1, "probe_size", "probe_layers", "finetune_epochs")
        check_below_one(self, "dropout")
        check_above_zero(self, "finetune_lr")
        check_not_negative(self, "feature_memory")
        _ = self.probing  # its checks are ours

    @property
    def probing(self) -> FinetuneConfig:
        """The fine-tuning recipe of the probes: rows, epochs and optimizer."""
        names = {setting.name for setting in fields(self)} & {setting.name for setting in fields(FinetuneConfig)}
        return FinetuneConfig(**{name: getattr(self, name) for name in names}, task=TASK)

    @property
    def finetuning(self) -> FinetuneConfig:
        """The fine-tuning that is compared with the probes: the same rows and seeds, in a subfolder of the run."""
        own: dict[str, Any] = {
            "output": self.output / "finetuned",
            "epochs": self.finetune_epochs,
            "lr": self.finetune_lr,
        }
        return replace(self.probing, **own)


@dataclass(frozen=True)
class RareLabConfig(ExperimentConfig):
    """Everything that decides a comparison of methods for class imbalance. All classes but rare_class are the rest."""

    COMMAND: ClassVar[str] = "experiment rare"

    data: Path = option(help="Labeled rows, from which train, dev and test are sampled.", metavar="FILE", reads="rows")
    model: str = option(help=settings.MODEL)
    rare_class: str = option(help="Class to find.", metavar="CLASS")
    rate: float = option(0.05, "Fraction of the rare class in each split.")
    columns: dict[str, str] = option({}, settings.COLUMNS)
    seeds: int = option(3, settings.SEEDS, help="Number of seeds, for samples of rows and for models.")
    max_train_rows: int | None = option(
        None, "Maximum training rows; as many dev examples, twice as many test rows.", default_help="all rows"
    )
    epochs: int = option(3, settings.EPOCHS)
    lr: float = option(5e-5, settings.LR)
    batch_size: int = option(32, settings.BATCH_SIZE)
    max_length: int = option(128, settings.MAX_LENGTH)
    focal: float = option(2.0, "Gamma of the focal loss.", panel=OPTIMIZATION)

    def __post_init__(self) -> None:
        fit_types(self)
        check(0 < self.rate < 0.5, f"Setting 'rate' is {self.rate:g}; it must be between 0 and 0.5, as in 0.05.")
        check_at_least(self, 1, "seeds", "epochs", "batch_size")
        check_at_least(self, 10, "max_train_rows")
        check_above_zero(self, "lr")
        check_not_negative(self, "focal")
        check_at_least(self, 4, "max_length")


@dataclass(frozen=True)
class LadderConfig(ExperimentConfig):
    """Everything that decides a comparison of models from bag of words to BERT on the same rows and budget: epochs over
    the rows in batches of batch_size, and pretrain_steps steps of pretrain_tokens for pre-training.
    """

    COMMAND: ClassVar[str] = "experiment ladder"

    data: Path = option(help="Labeled rows to train on.", metavar="FILE", reads="rows")
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


class GridPoint(NamedTuple):
    """Hyperparameters of a grid search."""

    batch_size: int
    lr: float
    epochs: int

    @property
    def words(self) -> str:
        return f"batch {self.batch_size}, lr {self.lr:g}, {self.epochs} epoch{'s' * (self.epochs > 1)}"


@dataclass(frozen=True)
class BenchmarkConfig(ExperimentConfig):
    """Everything that decides a benchmark. With `grid`, the first seed runs every setting, and the best on dev is used;
    epochs, lr and batch_size that are given are not varied.
    """

    COMMAND: ClassVar[str] = "experiment benchmark"

    benchmark: Literal["glue", "squad", "conll", "swag"] = option(help="Benchmark to run.", is_argument=True)
    data: Path = option(help="Folder of the files of the benchmark.", metavar="DIRECTORY")
    model: str = option(help=settings.MODEL)
    tasks: tuple[str, ...] = option(
        (), "Only these tasks, such as cola,mrpc.", metavar="NAME,…", separator=",", default_help="all that are found"
    )
    seeds: int = option(1, settings.SEEDS)
    epochs: int | None = option(None, settings.EPOCHS, default_help="3 epochs; --grid: 2, 3, 4")
    lr: float | None = option(None, settings.LR, default_help="3e-5; --grid: 5e-5, 3e-5, 2e-5")
    batch_size: int | None = option(None, settings.BATCH_SIZE, default_help="32 examples; --grid: 16, 32")
    max_length: int | None = option(None, settings.MAX_LENGTH, default_help="128 tokens; squad: 384")
    max_train_rows: int = option(0, "Maximum training rows of each task, sampled once and reported; 0 for all.")
    grid: bool = option(False, "Try batch 16/32, lr 5e-5/3e-5/2e-5 and 2 to 4 epochs; keep the best on dev.")
    submission: bool = option(False, "GLUE: write test predictions in the format of the leaderboard.")

    def __post_init__(self) -> None:
        fit_types(self)
        check_at_least(self, 1, "seeds", "epochs", "batch_size")
        check_above_zero(self, "lr")
        check_at_least(self, 4, "max_length")
        check(
            self.max_train_rows == 0 or self.max_train_rows >= 2,
            f"Setting 'max_train_rows' is {self.max_train_rows}; it must be 0, for all rows, or at least 2.",
        )
        check(
            not self.submission or self.benchmark == "glue",
            f"--submission writes the leaderboard files of glue; {self.benchmark} has none.",
        )

    @property
    def points(self) -> list[GridPoint]:
        """The settings to run, in order: one, or the grid restricted to the given values."""
        ways = [
            (given,) if (given := getattr(self, name)) is not None else GRID[name] if self.grid else (FIXED[name],)
            for name in GridPoint._fields
        ]
        return [GridPoint(*way) for way in product(*ways)]


@dataclass(frozen=True, kw_only=True)
class AblationsConfig:
    """Settings of `maskwright experiment ablations`."""

    COMMAND: ClassVar[str] = "experiment ablations"

    output: Path = option(help="Run folder. Rerun the same command to resume.", short="-o")
    corpus: tuple[Path, ...] = option(
        (), "Raw text for pre-training. Repeatable.", default_help="the file named in --settings"
    )
    train: Path | None = option(
        None, "Tagged sentences to fine-tune on (CoNLL).", default_help="the file named in --settings"
    )
    dev: Path | None = option(
        None, "Tagged sentences to score on (CoNLL).", default_help="the file named in --settings"
    )
    data: Path | None = option(None, "Folder that contains the files named in --settings.", envvar="MASKWRIGHT_DATA")
    settings: Path | None = option(
        None, "TOML file of runs and comparisons.", default_help="the shipped ablations.toml"
    )
    seeds: int = option(3, "Number of seeds.", minimum=1)
    print_settings: bool = option(False, "Print the settings file and stop.")
    dry_run: bool = option(False, "Print the plan and stop.")
    table: bool = option(False, "Write the results of finished runs and stop.")
    threads: int | None = option(None, THREADS)
