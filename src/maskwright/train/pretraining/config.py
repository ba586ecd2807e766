"""The recipe of a pre-training run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ...core import registry
from ...core.config import (
    DATA,
    HARDWARE,
    OBJECTIVE,
    OPTIMIZATION,
    RUN,
    Setting,
    check,
    check_above_zero,
    check_at_least,
    check_below_one,
    check_name,
    check_not_negative,
    fit_types,
    option,
)
from ...core.errors import ConfigError, MaskwrightError
from ...core.object_store import is_remote
from ...hub.published import absolute_name
from ...models.lora_config import LoraConfig
from ...objectives.fitting import GENERAL, usual_objective
from .. import settings
from ..schedules import Schedule, warmup_steps

if TYPE_CHECKING:
    from ...models.config import ModelConfig


OBJECTIVE_OF = Setting("Pre-training objective: mlm, mlm+nsp, mlm+sop, rtd, clm, bilm or denoise.")
USUAL_OBJECTIVE = "that of the network: mlm+nsp for BERT, clm for GPT-2, ...; mlm with --model of an encoder"
MASK_RATE = Setting("Masking probability.", panel=OBJECTIVE)
PRESET = "bert-mini"
LR, CONTINUED_LR = 5e-4, 1e-4  # with random weights, and continued from a model
GENERATOR_SHARE = Setting(
    "Width of rtd's generator, as a fraction of the discriminator's.",
    default_help="0.25",
    panel=OBJECTIVE,
    recipe_only=True,
)


@dataclass(frozen=True)
class PretrainConfig:
    """Settings of a pre-training run. Raises ConfigError on construction for wrong ones.

    start: a model with the network, vocabulary and weights to continue from; model: changes of the preset, by names of
    ModelConfig. activation_checkpointing and log may change when a run is resumed. `maskwright pretrain --help` has a
    line for each setting.
    """

    COMMAND: ClassVar[str] = "pretrain"

    corpus: tuple[str, ...] = option(
        help="Text files, folders, glob patterns, hub: names, or the data/ folder of an earlier run, also in an object "
        "store.",
        is_argument=True,
        reads="text",
    )
    output: Path = option(help=settings.OUTPUT)
    start: str | None = option(
        None,
        "Model to continue pre-training from: a folder, a short name such as english, or a Hub model ID.",
        flag="--model",
        metavar="MODEL",
        default_help="none: random weights",
        reads="model",
    )
    preset: str | None = option(None, settings.PRESET, default_help="bert-mini; none with --model")
    objective: str = option(None, OBJECTIVE_OF, default_help=USUAL_OBJECTIVE)
    tokenizer: Path | None = option(
        None, "Folder of a saved tokenizer.", default_help="train WordPiece first", reads="model"
    )
    vocab_size: int = option(8000, "Vocabulary size of the tokenizer that is trained.", unit="tokens")
    lowercase: bool = option(True, "Lowercase the text in the tokenizer that is trained.", panel=DATA)
    model: dict[str, Any] = option({}, settings.NETWORK_CHANGES)
    adapter: settings.Adapter | None = option(
        None, settings.ADAPTER, help="Train a LoRA adapter; model/ is then a small folder without the base."
    )
    rank: int | None = option(None, settings.RANK)
    alpha: float | None = option(None, settings.ALPHA)
    targets: str | None = option(None, settings.TARGETS)
    adapter_dropout: float | None = option(None, settings.ADAPTER_DROPOUT)
    merge: bool = option(False, settings.MERGE)
    steps: int = option(2000, settings.STEPS)
    batch_tokens: int = option(4096, settings.BATCH_TOKENS)
    max_length: int = option(128, settings.MAX_LENGTH)
    accumulation: int = option(None, settings.ACCUMULATION)
    activation_checkpointing: bool = option(False, settings.ACTIVATION_CHECKPOINTING)
    shard: bool = option(False, settings.SHARD)
    reduce_precision: settings.ReducePrecision | None = option(None, settings.REDUCE_PRECISION)
    compile: Literal["auto", "on", "off"] = option(
        "auto", "Compile the layers; auto where that saves more time than it takes.", panel=HARDWARE, recipe_only=True
    )
    lr: float = option(None, settings.LR, default_help="5e-4; 1e-4 with --model")
    warmup: float = option(0.1, settings.WARMUP)
    schedule: Schedule = option("linear", settings.SCHEDULE)
    weight_decay: float = option(0.01, settings.WEIGHT_DECAY)
    clip_norm: float = option(1.0, settings.CLIP_NORM)
    mask_rate: float = option(0.15, MASK_RATE)
    whole_words: bool = option(False, "Mask whole words.", panel=OBJECTIVE)
    short_share: float = option(
        0.1, "Fraction of examples truncated to a random length.", panel=OBJECTIVE, recipe_only=True
    )
    reset_state: bool = option(
        False,
        "Reset the hidden state at each example (recurrent networks with clm).",
        panel=OBJECTIVE,
        recipe_only=True,
    )
    dropout: float | None = option(
        None,
        "Dropout in this run; the saved model keeps its own.",
        default_help="the network's",
        panel=OPTIMIZATION,
        recipe_only=True,
    )
    generator_share: float | None = option(None, GENERATOR_SHARE)
    rtd_weight: float | None = option(
        None, "Weight of the discriminator's loss under rtd.", default_help="50", panel=OBJECTIVE, recipe_only=True
    )
    holdout: float = option(0.01, settings.HOLDOUT)
    eval: tuple[str, ...] = option(
        (), settings.EVAL, help="Held-out text, or a labeled file for a linear probe. Repeatable."
    )
    checkpoint_every: int = option(0, settings.CHECKPOINT_EVERY, default_help="a twentieth of --steps")
    evaluate_every: int = option(
        0, "Steps between evaluations.", default_help="as checkpoint_every", panel=RUN, recipe_only=True
    )
    log_every: int = option(10, settings.LOG_EVERY)
    keep: int = option(2, settings.KEEP)
    skip_bad_rows: bool = option(False, settings.SKIP_BAD_ROWS)
    keep_duplicates: bool = option(False, settings.KEEP_DUPLICATES)
    shard_cache: float = option(
        20.0, "Local cache of token shards from an object store, at most.", unit="GB", panel=DATA, recipe_only=True
    )
    log: tuple[str, ...] = option((), settings.LOG)
    tensorboard: bool = option(False, settings.TENSORBOARD)
    seed: int = option(0, settings.SEED)
    device: settings.Device = option("auto", settings.DEVICE)
    precision: settings.Precision = option("auto", settings.PRECISION)

    def __post_init__(self) -> None:
        settings.fill_accumulation(self)
        is_usual = self.objective is None
        if is_usual:
            object.__setattr__(self, "objective", GENERAL)  # until the network is known
        for name, value in self._defaults_of_start.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        fit_types(self)
        settings.check_log(self)
        check(bool(self.corpus), "Setting 'corpus' is empty: pass at least one text file, folder or glob.")
        from ...models.presets import PRESETS

        if self.start is None:
            check_name("preset", "preset", str(self.preset), PRESETS)
        if is_usual:
            object.__setattr__(self, "objective", self._usual_objective)
        check_name("objective", "objective", self.objective, registry.names("objective"))
        check_at_least(self, 1, "steps", "accumulation", "log_every", "keep")
        check_above_zero(self, "lr", "clip_norm", "shard_cache", "generator_share", "rtd_weight")
        check_not_negative(self, "warmup", "weight_decay", "checkpoint_every", "evaluate_every")
        check_below_one(self, "mask_rate", "short_share", "holdout", "dropout")
        check(
            self.generator_share is None or self.generator_share <= 1,
            f"Setting 'generator_share' is {self.generator_share}; it must be at most 1.",
        )
        check(self.mask_rate > 0, "Setting 'mask_rate' is 0: nothing would be learned.")
        check_at_least(self, 8, "max_length")
        settings.check_adapter(self)
        check(not self.shard or self.compile != "on", "--shard and compile=on exclude each other.")
        self._check_start()
        check_at_least(self, 16, "vocab_size")
        warmup = warmup_steps(self.warmup, self.steps)
        check(warmup <= self.steps, f"Setting 'warmup' ({warmup} steps) is more than 'steps' ({self.steps}).")
        check(
            self.batch_tokens >= self.max_length * self.accumulation,
            f"Setting 'batch_tokens' is {self.batch_tokens}; it must fit at least one sequence of max_length "
            f"{self.max_length} for each of {self.accumulation} micro-batches.",
        )

    @property
    def dependent_defaults(self) -> dict[str, Any]:
        return {**self._defaults_of_start, "objective": self._usual_objective, **settings.SINGLE_PROCESS}

    @property
    def _defaults_of_start(self) -> dict[str, Any]:
        """Those that depend on what the run starts from."""
        lr = LR if self.start is None else CONTINUED_LR if self.adapter is None else settings.ADAPTER_LR
        return {"preset": PRESET if self.start is None else None, "lr": lr}

    @property
    def _usual_objective(self) -> str:
        if self.start is None:
            from ...models.presets import preset

            try:
                fresh = preset(str(self.preset), **self.model)
            except ConfigError:  # it is rejected with its reason when it is built
                return GENERAL
            return usual_objective(fresh)
        network = network_here(self.start)
        return GENERAL if network is None else usual_objective(network, is_trained=True)

    def _check_start(self) -> None:
        check(self.adapter is None or self.start is not None, "--adapter requires --model, the model that it changes.")
        if self.start is None:
            return
        own = [name for name in ("preset", "tokenizer", "model") if getattr(self, name)]
        check(not own, f"Setting '{''.join(own[:1])}' requires random weights: a model to continue from has its own.")
        check(self.objective != "rtd", "Objective rtd trains two networks, so it cannot continue from one model.")

    @property
    def lora(self) -> LoraConfig:
        return settings.lora_of(self)

    @property
    def sequences(self) -> int:
        return self.batch_tokens // (self.max_length * self.accumulation)

    def resolved(self, device: str, precision: str) -> PretrainConfig:
        """The recipe with every automatic setting resolved."""
        every = self.checkpoint_every or max(self.steps // 20, 1)
        return replace(
            self,
            device=device,  # type: ignore[arg-type]  # one of its choices
            precision=precision,  # type: ignore[arg-type]  # one of its choices
            checkpoint_every=every,
            evaluate_every=self.evaluate_every or every,
            output=self.output.resolve(),
            corpus=tuple(_absolute(source) for source in self.corpus),
            eval=tuple(_absolute(source) for source in self.eval),
            tokenizer=self.tokenizer.resolve() if self.tokenizer else None,
            start=None if self.start is None else absolute_name(self.start),
        )


def _absolute(source: str) -> str:
    """The absolute path of a source; `-`, `hub:` names and addresses are unchanged."""
    if source == "-" or source.startswith("hub:") or is_remote(source):
        return source
    return str(Path(source).absolute())


def network_here(name: str) -> ModelConfig | None:
    """The network of a model that needs no download; None for others, and where loading it will raise an error."""
    from ...hub.config_file import read_config
    from ...hub.published import built_in_folder, installed_folder, is_built_in, is_short_name
    from ...hub.sentence import network_folder

    if is_built_in(name):
        folder: Path | None = built_in_folder(name)
    else:
        folder = installed_folder(name) if is_short_name(name) else Path(name)
    try:
        return None if folder is None or "\0" in name else read_config(network_folder(folder)).config
    except MaskwrightError:
        return None


# -- Settings of static word embeddings --------------------------------------------------------------------------------


MOST_SIZE, MOST_WINDOW = 10_000, 1_000


@dataclass(frozen=True)
class StaticConfig:
    """Settings of static word embeddings. Raises ConfigError for values out of range.

    Training uses one thread, so it is deterministic.
    """

    COMMAND: ClassVar[str] = "vectors"

    corpus: tuple[str, ...] = option(help="Text files, folders or glob patterns.", is_argument=True)
    output: Path = option(help="Output model folder.", short="-o")
    method: Literal["skip-gram", "cbow"] = option("skip-gram", "Training objective; cbow is continuous bag of words.")
    size: int = option(100, "Embedding dimensions.", minimum=1)
    window: int = option(5, "Maximum context words on each side.", minimum=1)
    min_count: int = option(2, "Minimum word frequency.", minimum=1)
    vocab_size: int = option(30_000, "Maximum vocabulary size.", minimum=16)
    epochs: int = option(5, "Number of training epochs.", minimum=1)
    lowercase: bool = option(True, "Ignore case and accents.")
    seed: int = option(0, settings.SEED)
    skip_bad_rows: bool = option(False, settings.SKIP_BAD_ROWS)

    def __post_init__(self) -> None:
        check(bool(self.corpus), "The corpus is empty: pass at least one text file, folder or glob.")
        check(self.method in ("skip-gram", "cbow"), f"method is '{self.method}'; it must be skip-gram or cbow.")
        for name in ("size", "window", "min_count", "epochs"):
            check(getattr(self, name) >= 1, f"{name} is {getattr(self, name)}; it must be at least 1.")
        for name, most in (("size", MOST_SIZE), ("window", MOST_WINDOW)):
            check(getattr(self, name) <= most, f"{name} is {getattr(self, name)}; it must be at most {most:,}.")
        check(0 <= self.seed < 2**32, f"seed is {self.seed}; it must be from 0 to {2**32 - 1}.")
