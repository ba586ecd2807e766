"""Settings that several commands share; each configuration gives its own default."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from ..core import registry
from ..core.config import DATA, NETWORK, OPTIMIZATION, RUN, Setting, check, check_name, read_toml
from ..core.errors import MaskwrightError
from ..core.program import num_processes
from ..core.storage import read_json
from ..core.util import DEVICE, PRECISION, THREADS, Device, Precision  # noqa: F401 (for settings.DEVICE and others)
from ..models.lora_config import ALL_LINEAR, LoraConfig
from ..models.lora_config import TARGETS as LORA_TARGETS

Adapter = Literal["lora"]
Overlap = Literal["longest", "error"]
ReducePrecision = Literal["bf16"]

OUTPUT = Setting("Run folder.", short="-o")
MODEL = Setting("Model folder, or Hub model ID, to start from.", reads="model")
PRESET = Setting("Model preset; `maskwright pretrain --preset list` lists them.")
NETWORK_CHANGES = Setting(
    "Change the preset, as in positions=rotary or attention=big_bird. Repeatable.",
    flag="--set",
    metavar="NAME=VALUE",
    panel=NETWORK,
)
COLUMNS = Setting(
    "Column mapping, as in text=body,label=y.", metavar="ROLE=NAME,…", panel=DATA, default_help="by column name"
)
ANNOTATOR = Setting(
    "Annotator whose answers are read, in a file of an annotation tool.",
    metavar="NAME",
    panel=DATA,
    default_help="all; where they disagree, an error",
)
OVERLAP = Setting(
    "Which of overlapping spans is kept, in a file of an annotation tool.", panel=DATA, default_help="longest"
)
SKIP_BAD_ROWS = Setting("Skip invalid rows; they are counted and reported.", panel=DATA)
KEEP_DUPLICATES = Setting("Keep duplicate documents.", panel=DATA)
EVAL = Setting("Held-out text. Repeatable.", reads="text", panel=DATA, default_help="--holdout of the documents")
HOLDOUT = Setting("Fraction of the documents held out where --eval names no text.", panel=DATA)

STEPS = Setting("Optimizer steps.", unit="steps")
EPOCHS = Setting("Number of epochs.")
LR = Setting("Peak learning rate.", old_flag="--learning-rate")
BATCH_SIZE = Setting("Batch size in examples.", unit="examples")
BATCH_TOKENS = Setting("Maximum tokens per optimizer step.", unit="tokens")
MAX_LENGTH = Setting("Maximum sequence length in tokens.", unit="tokens")
SEEDS = Setting("Number of seeds: train with seed, seed + 1, …; report mean and deviation.")
ACCUMULATION = Setting(
    "Gradient accumulation steps: micro-batches per step, dealt to the processes.",
    panel=OPTIMIZATION,
    default_help="1, or the number of processes under torchrun",
)
WARMUP = Setting("Warmup: a fraction of the steps below 1, else a number of steps.", panel=OPTIMIZATION)
SCHEDULE = Setting("Learning-rate schedule.", panel=OPTIMIZATION, recipe_only=True)
WEIGHT_DECAY = Setting(
    "AdamW weight decay of matrices; biases and norms have none.", panel=OPTIMIZATION, recipe_only=True
)
CLIP_NORM = Setting("Maximum gradient norm.", panel=OPTIMIZATION, recipe_only=True)
ACTIVATION_CHECKPOINTING = Setting(
    "Activation checkpointing: less memory, about a third more computation.", panel=OPTIMIZATION
)

SHARD = Setting(
    "Under torchrun, each process stores a part of weights, gradients and optimizer state (FSDP).", panel=OPTIMIZATION
)
REDUCE_PRECISION = Setting(
    "Precision in which the gradients of several processes are added up.",
    panel=OPTIMIZATION,
    default_help="fp32",
    recipe_only=True,
)

ADAPTER_LR = 2e-3  # Hu et al. 2021 (table 9) use 5e-4 for larger models and many more steps
ADAPTER = Setting(
    "Train a LoRA adapter and the head; model/ is then a small folder without the base. --lr is 2e-3 by default.",
    default_help="none: train all weights",
    panel=NETWORK,
)
RANK = Setting("Rank of the adapter's matrices.", default_help="8", panel=NETWORK, recipe_only=True)
ALPHA = Setting(
    "Scale of the adapter: its updates are multiplied by alpha / rank.",
    default_help="16",
    panel=NETWORK,
    recipe_only=True,
)
TARGETS = Setting(
    f"Linear layers that the adapter changes, of {', '.join(LORA_TARGETS)} and {ALL_LINEAR}.",
    metavar="NAME,…",
    default_help="query,value",
    panel=NETWORK,
    recipe_only=True,
)
ADAPTER_DROPOUT = Setting("Dropout of the adapter's input.", default_help="0", panel=NETWORK, recipe_only=True)
MERGE = Setting("Merge the adapter: model/ is a whole model.", panel=NETWORK)

CHECKPOINT_EVERY = Setting("Steps between checkpoints.", unit="steps", panel=RUN, recipe_only=True)
LOG_EVERY = Setting("Steps between log entries.", unit="steps", panel=RUN, recipe_only=True)
KEEP = Setting("Number of checkpoints to keep.", panel=RUN, recipe_only=True)
LOG = Setting("Also write the log for tensorboard, wandb or mlflow. Repeatable.", metavar="NAME", panel=RUN)
TENSORBOARD = Setting("The same as --log tensorboard.", panel=RUN, recipe_only=True)

SEED = Setting("Random seed; the same seed gives the same results.")

# Of a command that is printed: what it says without --accumulation in a single process.
SINGLE_PROCESS: dict[str, Any] = {"accumulation": 1}


def check_log(config: Any) -> None:
    """Raises ConfigError for an unknown logger."""
    for name in config.log:
        check_name("log", "logger", name, registry.names("logger"))


def fill_accumulation(config: Any) -> None:
    """Set the number of micro-batches of a frozen configuration that has none.

    It is that of the run in its output folder, if several processes began it, else the number of processes.
    """
    if config.accumulation is not None:
        return
    folder, count = Path(config.output), num_processes()
    with suppress(MaskwrightError):  # a damaged run folder is reported when it is opened
        if (folder / "config.toml").is_file() and (folder / "run.json").is_file():
            facts = read_json(folder / "run.json")
            if isinstance(facts, dict) and facts.get("processes", 1) > 1:
                count = read_toml(folder / "config.toml").get("accumulation", count)
    object.__setattr__(config, "accumulation", count)


_OF_ADAPTERS = {"rank": "rank", "alpha": "alpha", "targets": "targets", "dropout": "adapter_dropout"}  # of LoraConfig


def lora_of(config: Any) -> LoraConfig:
    """The settings of the adapter that a recipe trains. Raises ConfigError for a wrong value."""
    given = {name: getattr(config, own) for name, own in _OF_ADAPTERS.items() if getattr(config, own) is not None}
    if "targets" in given:
        given["targets"] = tuple(name.strip() for name in given["targets"].split(","))
    return LoraConfig(**given)


def check_adapter(config: Any) -> None:
    """Raises ConfigError for wrong settings of an adapter, and for such settings without an adapter."""
    check(config.adapter is None or not getattr(config, "shard", False), "--shard and --adapter exclude each other.")
    for name in (*_OF_ADAPTERS.values(), "merge"):
        check(
            config.adapter is not None or getattr(config, name) in (None, False),
            f"Setting '{name}' requires --adapter lora.",
        )
    lora_of(config)


def annotation_roles(columns: dict[str, str], annotator: str | None, overlap: Overlap | None) -> dict[str, str]:
    """Returns a column mapping with the roles `annotator` and `overlap`, as far as they are set."""
    return columns | ({"annotator": annotator} if annotator else {}) | ({"overlap": overlap} if overlap else {})
