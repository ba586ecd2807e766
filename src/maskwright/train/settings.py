"""Settings that several commands share; each configuration gives its own default."""

from __future__ import annotations

from typing import Literal

from ..core.options import DATA, HARDWARE, NETWORK, OPTIMIZATION, RUN, Setting

Device = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["auto", "fp32", "bf16", "fp16"]

OUTPUT = Setting("Run folder.", short="-o")
MODEL = Setting("Model folder, or Hugging Face Hub model ID, to start from.")
PRESET = Setting("Model preset; `maskwright presets` lists them.")
NETWORK_CHANGES = Setting(
    "Change the preset, as in positions=rotary or attention=big_bird. Repeatable.",
    flag="--set",
    metavar="NAME=VALUE",
    panel=NETWORK,
)
COLUMNS = Setting(
    "Column mapping, as in text=body,label=y.", metavar="ROLE=NAME,…", panel=DATA, default_help="by column name"
)
SKIP_BAD_ROWS = Setting("Skip invalid rows; they are counted and reported.", panel=DATA)
EVAL = Setting("Held-out text. Repeatable.", panel=DATA, default_help="--holdout of the documents")
HOLDOUT = Setting("Fraction of the documents held out where --eval names no text.", panel=DATA)

STEPS = Setting("Optimizer steps.", unit="steps")
EPOCHS = Setting("Number of epochs.")
LR = Setting("Peak learning rate.")
BATCH_SIZE = Setting("Batch size in examples.", unit="examples")
BATCH_TOKENS = Setting("Maximum tokens per optimizer step.", unit="tokens")
MAX_LENGTH = Setting("Maximum sequence length in tokens.", unit="tokens")
SEEDS = Setting("Number of seeds: train with seed, seed + 1, …; report mean and deviation.")
ACCUMULATION = Setting("Gradient accumulation steps.", panel=OPTIMIZATION)
WARMUP = Setting("Warmup: a fraction of the steps below 1, else a number of steps.", panel=OPTIMIZATION)
SCHEDULE = Setting("Learning-rate schedule.", panel=OPTIMIZATION)
WEIGHT_DECAY = Setting("AdamW weight decay of matrices; biases and norms have none.", panel=OPTIMIZATION)
CLIP_NORM = Setting("Maximum gradient norm.", panel=OPTIMIZATION)
ACTIVATION_CHECKPOINTING = Setting(
    "Activation checkpointing: less memory, about a third more computation.", panel=OPTIMIZATION
)

CHECKPOINT_EVERY = Setting("Steps between checkpoints.", unit="steps", panel=RUN)
LOG_EVERY = Setting("Steps between log entries.", unit="steps", panel=RUN)
KEEP = Setting("Number of checkpoints to keep.", panel=RUN)
TENSORBOARD = Setting("Also write the log as TensorBoard events.", panel=RUN)

SEED = Setting("Random seed; the same seed gives the same results.")
DEVICE = Setting("Device to compute on.", panel=HARDWARE)
PRECISION = Setting("Precision (dtype); auto is bf16 where the CPU or GPU has it.", panel=HARDWARE)
THREADS = Setting("Number of CPU threads.", panel=HARDWARE, default_help="all", minimum=1)
