"""The contract of tasks: rows in, loss and answers out, the same after a folder, alone or beside others."""

from __future__ import annotations

import json
import math
from pathlib import Path

import torch

from contracts.common import SMALL, close, documented, every_parameter_learns, lively
from inference.samples import TEXTS, tokenizer
from maskwright.core import registry
from maskwright.hub.folders import load_model, read_facts
from maskwright.models.config import ModelConfig
from maskwright.models.model import Model
from maskwright.tasks import Examples, SequenceTask, task_of_model
from maskwright.text.tables import Row
from maskwright.train.finetune import fit

MAX_LENGTH = 24


def sample_rows(count: int = 12) -> list[Row]:
    """Rows whose labels are numbers, which classes and scores can both be; every third row is a pair."""
    texts = [text for text in TEXTS if text]
    return [
        Row(texts[n % len(texts)], texts[-n % len(texts)] if n % 3 == 0 else None, str(n % 4), n + 1, "rows.tsv")
        for n in range(count)
    ]


def make(name: str) -> tuple[SequenceTask, Model, Examples]:
    """The task over sample rows, a model for it, and the rows as examples."""
    task: SequenceTask = registry.resolve("task", name).from_rows(sample_rows(), sample_rows(4))
    options = {"labels": task.labels or None, "problem_type": task.problem_type}
    model = lively(ModelConfig(**SMALL), task.head, **options)
    return task, model, task.examples(sample_rows(), tokenizer(), MAX_LENGTH)


def has_its_shapes(name: str, folder: Path) -> None:
    """One row of logits, one answer that JSON can hold, for each row; finite metrics, the main one among them."""
    task, model, examples = make(name)
    assert (task.name, task.head in registry.names("head")) == (name, True)
    evaluation = task.evaluate(model, examples)
    assert evaluation.logits.shape == (len(examples), task.num_labels)
    found = task.decode(evaluation.logits)
    assert len(found) == len(examples) and len(json.loads(json.dumps(found))) == len(found)
    assert task.main_metric in evaluation.metrics
    assert all(math.isfinite(value) for value in [evaluation.loss, *evaluation.metrics.values()])


def learns(name: str, folder: Path) -> None:
    """The loss reaches every parameter."""
    task, model, examples = make(name)
    outcome = task.outcome(model.train(), examples.batch(range(len(examples))))
    every_parameter_learns(model, torch.stack(list(outcome.losses.values())).sum())


def packs(name: str, folder: Path) -> None:
    """A row alone is answered as beside others, and the sums of two halves are those of the whole."""
    task, model, examples = make(name)
    together = task.logits(model, examples)
    for number, row in enumerate(sample_rows()):
        alone = task.logits(model, task.examples([row], tokenizer(), MAX_LENGTH))
        close(together[number : number + 1], alone, f"row {number}")
    whole, *halves = (task.outcome(model, examples.batch(chosen)) for chosen in (range(6), range(3), range(3, 6)))
    for part, total in whole.losses.items():
        added = sum(half.losses[part] for half in halves)
        assert torch.isclose(total, added, rtol=1e-5), f"loss {part}: the sum of two halves is not that of the whole"
        assert whole.counts[part] == sum(half.counts[part] for half in halves)


def travels(name: str, folder: Path) -> None:
    """The facts in the model folder build the task again, with equal answers."""
    task, model, examples = make(name)
    model.save(folder / "model", facts=task.to_json())
    loaded, _ = load_model(folder / "model")
    again = task_of_model(loaded, read_facts(folder / "model"))
    assert type(again) is type(task) and again.to_json() == task.to_json()
    assert again.decode(again.logits(loaded, examples)) == task.decode(task.logits(model, examples))


def repeats(name: str, folder: Path) -> None:
    """Fine-tuning is a function of the seed."""
    task, _, examples = make(name)

    def trained(seed: int) -> torch.Tensor:
        _, model, _ = make(name)
        fit(model, task, examples, epochs=1, lr=1e-3, batch_size=4, seed=seed, precision="fp32")
        return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])

    first = trained(1)
    assert torch.equal(first, trained(1)), "two runs of one seed end differently"
    assert not torch.equal(first, trained(2)), "the seed decides nothing"


TASK = {
    "shapes": has_its_shapes,
    "gradients": learns,
    "packing": packs,
    "saving": travels,
    "seed": repeats,
    "documented": lambda name, folder: documented(name, registry.resolve("task", name)),
}
