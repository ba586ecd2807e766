"""The training parts of the contest: pre-training through benchmarks/pretrain.py, fine-tuning through finetune.py.

Each measurement runs in a separate process; the backends alternate, in rounds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from maskwright.core.progress import note
from maskwright.speed.backend import MAX_ERROR_CHARS, environment

HERE = Path(__file__).parent
PRETRAIN, FINETUNE = HERE.parent / "pretrain.py", HERE / "finetune.py"

# name -> preset, vocabulary, share of --steps: a network that is slow gets fewer
SETTINGS = {
    "tiny-1k": ("bert-tiny", 1_000, 0.4),
    "mini-8k": ("bert-mini", 8_000, 1.0),
    "mini-30k": ("bert-mini", 30_522, 0.6),
    "small-8k": ("bert-small", 8_000, 0.6),
    "base-30k": ("bert-base", 30_522, 0.25),
}
# what the page calls it -> flags of pretrain.py
PRETRAINERS = {
    "transformers Trainer fp32": ("trainer", "fp32"),
    "transformers Trainer bf16": ("trainer", "bf16"),
    "plain loop bf16, fused AdamW": ("loop", "bf16"),
    "plain loop bf16, compiled": ("loop-compiled", "bf16"),
    "plain loop fp32, fused AdamW": ("loop", "fp32"),
    "maskwright bf16": ("maskwright", "bf16"),
    "maskwright fp32": ("maskwright", "fp32"),
}
FINETUNERS = {
    "transformers Trainer fp32": "trainer-fp32",
    "transformers Trainer bf16, rows of similar length": "trainer-bf16",
    "plain loop bf16, rows of similar length, fused AdamW": "loop",
    "the same, math attention": "loop-math",
    "the same, math attention, fp32": "loop-math-fp32",
    "the same, compiled": "loop-compiled",
    "maskwright.TextClassifier.fit": "maskwright",
}
WARM_UP = 2


Commands = dict[str, list[str]]  # what the page calls a contender -> its script and flags


def contests(part: str, options: argparse.Namespace, model: Path) -> dict[str, Commands]:
    """The contests of a part by setting: tokens a second of pre-training, rows a second of fine-tuning."""
    if part == "pretraining":
        return {name: _pretraining(name, options) for name in options.settings.split(",")}
    rows = ["--model", str(model), "--rows", str(options.rows)]
    return {f"minilm, {options.rows:,} rows": {name: [str(FINETUNE), kind, *rows] for name, kind in FINETUNERS.items()}}


def _pretraining(setting: str, options: argparse.Namespace) -> Commands:
    preset, vocab_size, share = SETTINGS[setting]
    steps = max(round(share * options.steps), WARM_UP + 1)
    network = ["--preset", preset, "--vocab-size", str(vocab_size), "--steps", str(steps), "--warm-up", str(WARM_UP)]
    return {
        name: [str(PRETRAIN), contender, *network, "--precision", precision]
        for name, (contender, precision) in PRETRAINERS.items()
    }


def hold(commands: Commands, options: argparse.Namespace) -> dict[str, Any]:
    """Rates of every contender in every round, and why those are missing that failed."""
    rates: dict[str, list[float]] = {name: [] for name in commands}
    memory: dict[str, int] = {}
    missing: dict[str, str] = {}
    for number in range(options.rounds):
        for name, command in commands.items():
            if name in missing:
                continue
            result = subprocess.run(
                [sys.executable, *command],
                capture_output=True,
                text=True,
                check=False,
                env=environment(options.threads),
            )
            if result.returncode:
                missing[name] = result.stderr.strip()[-MAX_ERROR_CHARS:] or f"exit code {result.returncode}"
                note(f"missing: {name}: {missing[name]}")
                continue
            told = json.loads(result.stdout.strip().splitlines()[-1])
            rates[name].append(told["rate"])
            memory[name] = max(told["memory"], memory.get(name, 0))
        note(f"round {number + 1} of {options.rounds}")
    rows = {
        name: {"rates": own, "median": median(own), "memory": memory[name]}
        for name, own in rates.items()
        if own and name not in missing
    }
    return {"rows": rows, "missing": missing}
