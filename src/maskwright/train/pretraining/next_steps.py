"""Suggested commands after pre-training."""

from __future__ import annotations

from pathlib import Path

from ...core import registry
from ...report import Command
from ...tasks.rows.contents import readers_of
from ...tasks.spec import task_after


def next_steps(objective: str, model: Path) -> list[Command]:
    """Returns commands that use a model pre-trained with an objective, then one that fine-tunes it."""
    task = task_after(objective)
    test = readers_of(task)[0].example_file
    files = {part: test.replace("test", part) for part in ("train", "dev")}
    finetune = Command.suggest(
        f"fine-tune it for {task}", "finetune", task=task, model=model, output="runs/task", **files
    )
    return [*registry.resolve("objective", objective).uses(model), finetune]
