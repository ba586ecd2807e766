"""What a fine-tuning run was, as a command, and what can be done with its model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..tasks.long_texts import LONG_SETTINGS
from .report import Command, NextSteps


def next_steps(model: Path, task: str) -> NextSteps:
    """Commands that use the model of a finished run of `task`."""
    test = {"tagging": "test.conll", "qa": "test.json", "choice": "test.jsonl"}.get(task, "test.tsv")
    if task == "similarity":
        return NextSteps(
            [
                Command(f"maskwright evaluate {model} {test}", "score it on pairs that decided nothing"),
                Command(f'maskwright search {model} texts/ "your question"', "find what you mean in a folder of texts"),
                Command(f"maskwright embed {model} --input texts.txt --output vectors.npy", "keep the vectors"),
            ]
        )
    if task == "qa":
        use = Command(f'maskwright answer {model} --question "Who?" --context "your text"', "use it")
        return NextSteps(
            [Command(f"maskwright evaluate {model} {test}", "score it on questions that decided nothing"), use]
        )
    if task == "generation":
        return NextSteps(
            [
                Command(f"maskwright evaluate {model} {test}", "score it on rows that decided nothing"),
                Command(f'maskwright predict {model} "your text"', "let it write"),
                Command(f"maskwright predict {model} --input texts.txt --output written.jsonl", "use it on a file"),
            ]
        )
    if task == "translation":
        return NextSteps(
            [
                Command(f"maskwright evaluate {model} test.tsv", "score it on pairs that decided nothing"),
                Command(f'maskwright translate {model} "your text"', "let it translate"),
                Command(f"maskwright translate {model} --input texts.txt --output written.txt", "use it on a file"),
            ]
        )
    single, texts = f'maskwright predict {model} "your text"', "texts.txt"
    if task == "choice":
        single, texts = f'{single} --choice "one ending" --choice "another"', "rows.jsonl"
    return NextSteps(
        [
            Command(f"maskwright evaluate {model} {test}", "score it on rows that decided nothing"),
            Command(single, "use it"),
            Command(f"maskwright predict {model} --input {texts} --output answers.jsonl", "use it on a file"),
        ]
    )


def command_of(recipe: dict[str, Any]) -> list[str]:
    """The command that runs a recipe, in words."""
    words = ["maskwright", "finetune", recipe["task"]]
    for name in ("train", "dev"):
        if name in recipe:
            words += [f"--{name}", str(recipe[name])]
            words += [str(recipe[f"{name}_target"])] if f"{name}_target" in recipe else []
    for name in (
        "model",
        "preset",
        "tokenizer",
        "target_tokenizer",
        "batch_tokens",
        "label_smoothing",
        "average_checkpoints",
        "epochs",
        "lr",
        "batch_size",
        "max_length",
        "seeds",
        "seed",
        "class_weight",
        "metric",
        "focal",
        "resample",
        "threshold_for",
        "threshold_precision",
        "normal",
        "normal_quantile",
        "delimiter",
    ):
        if name in recipe:
            words += [f"--{name.replace('_', '-')}", str(recipe[name])]
    if "score_range" in recipe:
        words += ["--score-range", *(f"{end:g}" for end in recipe["score_range"])]
    if recipe.get("long") == "windows":
        given = [name for name in LONG_SETTINGS if name in recipe and name != "both_orders"]
        words += [word for name in given for word in (f"--{name.replace('_', '-')}", str(recipe[name]))]
    words += [
        f"--{name.replace('_', '-')}"
        for name in ("average_seeds", "crf", "contrastive", "calibrate", "both_orders")
        if recipe.get(name)
    ]
    words += [word for name, value in recipe.get("network", {}).items() for word in ("--set", f"{name}={value}")]
    return [*words, "-o", recipe["output"]]
