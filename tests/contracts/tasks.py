"""The contract of tasks: loss and predictions from rows, equal after saving and loading, in any batch."""

import json
import math
from collections.abc import Callable
from typing import Any

import torch

from contracts.common import SMALL, close, every_parameter_learns, lively, reads_nothing
from inference.samples import TEXTS, tokenizer
from maskwright.core import registry
from maskwright.hub.folders import load_model, read_facts
from maskwright.models.config import ModelConfig
from maskwright.tasks.base import Task, task_of_model
from maskwright.text.readers.choices import ChoiceRow
from maskwright.text.readers.squad import Question, ReferenceAnswer
from maskwright.text.readers.tables import Row
from maskwright.text.words import Sentence
from maskwright.train.finetuning.finetune import fit

MAX_LENGTH = 24


def sample_rows(count=12):
    """Rows whose labels are numbers, which classes and scores can both be; every third row is a pair."""
    texts = [text for text in TEXTS if text]
    return [
        Row(texts[n % len(texts)], texts[-n % len(texts)] if n % 3 == 0 else None, str(n % 4), n + 1, "rows.tsv")
        for n in range(count)
    ]


def tagged_rows(count=12):
    words = [word for text in TEXTS for word in text.split()]
    rows = []
    for n in range(count):
        length = 60 if n == 2 else 2 + n % 5
        own = [words[(3 * n + place) % len(words)] for place in range(length)]
        tags = [("O", "B-PER", "I-PER", "B-LOC")[place % 4] for place in range(length)]
        rows.append(Sentence.of_words(own, tags, n + 1, "rows.conll"))
    return rows


def requested_rows(count=12):
    """Questions on contexts, each answered by a word of it; every fourth has no answer, one is longer than a window."""
    words = [word for text in TEXTS for word in text.split()]
    rows = []
    for n in range(count):
        context = " ".join(words[(5 * n + place) % len(words)] for place in range(60 if n == 2 else 4 + n % 5))
        start = context.rindex(" ") + 1
        golds = () if n % 4 == 3 else (ReferenceAnswer(context[start:], start),)
        rows.append(Question(str(n), f"{words[n % len(words)]}?", context, golds, n + 1, "rows.json"))
    return rows


def chosen_rows(count=12):
    """A context, every third with a question, and three choices; one is longer than a sequence may be."""
    words = [word for text in TEXTS for word in text.split()]
    rows = []
    for n in range(count):
        context = " ".join(words[(5 * n + place) % len(words)] for place in range(60 if n == 2 else 3 + n % 5))
        choices = tuple(" ".join(words[(n + 7 * k) % len(words) :][: 1 + k]) for k in range(3))
        rows.append(ChoiceRow(context, words[n] if n % 3 == 0 else "", choices, n % 3, n + 1, "rows.jsonl"))
    return rows


def similar_rows(count=12):
    texts = [text for text in TEXTS if text]
    return [
        Row(texts[n % len(texts)], texts[(3 * n + 1) % len(texts)], str(1 + n % 4), n + 1, "rows.tsv")
        for n in range(count)
    ]


ROWS_OF: dict[str, Callable[..., list[Any]]] = {
    "tagging": tagged_rows,
    "qa": requested_rows,
    "choice": chosen_rows,
    "similarity": similar_rows,
}


def rows_for(name, count=12):
    return ROWS_OF.get(name, sample_rows)(count)


def make(name):
    """The task over sample rows, a model for it, and the rows as examples."""
    task: Task = registry.resolve("task", name).from_rows(rows_for(name), rows_for(name, 4))
    options = {"labels": task.labels or None, "problem_type": task.problem_type}
    model = lively(ModelConfig(**SMALL), task.head, **options)
    return task, model, task.examples(rows_for(name), tokenizer(), MAX_LENGTH)


def has_its_shapes(name, folder):
    """Logits for each target (tokens for qa, choices, two vectors for similarity), an answer for each row; finite
    metrics.
    """
    task, model, examples = make(name)
    assert (task.name, task.head in [*registry.names("head"), None]) == (name, True)
    evaluation = task.evaluate(model, examples)
    assert examples.targets is not None
    shapes = {
        "qa": (int(examples.lengths.sum()), 2),
        "choice": (len(examples.targets), 3),
        "similarity": (len(examples.targets), 2, model.config.hidden_size),
        "anomaly": (len(examples), 1),
        "generation": (len(examples), 3),
        "translation": (len(examples), 3),
    }
    assert evaluation.logits.shape == shapes.get(name, (len(examples.targets), task.num_labels))
    found = task.answers(evaluation.logits, examples)
    assert len(found) == examples.num_rows == len(rows_for(name)) and len(json.loads(json.dumps(found))) == len(found)
    assert task.main_metric in evaluation.metrics
    assert all(math.isfinite(value) for value in [evaluation.loss, *evaluation.metrics.values()])


def learns(name, folder):
    task, model, examples = make(name)
    outcome = task.outcome(model.train(), examples.batch(range(len(examples))))
    if name in ("qa", "choice"):  # a number added to all logits of a softmax changes nothing
        model.head.classifier.bias.requires_grad_(False)  # type: ignore[union-attr,operator]
    if task.head is None:  # vectors are means of the last layer's, which the pooler does not see
        model.encoder.pooler.requires_grad_(False)  # type: ignore[union-attr]
    every_parameter_learns(model, torch.stack(list(outcome.losses.values())).sum())


def packs(name, folder):
    """A single row has the same prediction as in a batch, and the sums of two halves are those of the whole."""
    task, model, examples = make(name)
    together = task.logits(model, examples)
    place = 0
    for number, row in enumerate(rows_for(name)):
        alone = task.logits(model, task.examples([row], tokenizer(), MAX_LENGTH))
        close(together[place : place + len(alone)], alone, f"row {number}")
        place += len(alone)
    whole, *halves = (task.outcome(model, examples.batch(chosen)) for chosen in (range(6), range(3), range(3, 6)))
    for part, total in whole.losses.items():
        added = sum(half.losses[part] for half in halves)
        assert torch.isclose(total, added, rtol=1e-5), f"loss {part}: the sum of two halves is not that of the whole"
        assert whole.counts[part] == sum(half.counts[part] for half in halves)


def travels(name, folder):
    task, model, examples = make(name)
    model.save(folder / "model", facts=task.to_json())
    loaded, _ = load_model(folder / "model")
    again = task_of_model(loaded, read_facts(folder / "model"))
    assert type(again) is type(task) and again.to_json() == task.to_json()
    found = again.answers(again.logits(loaded, examples), examples)
    assert found == task.answers(task.logits(model, examples), examples)


def repeats(name, folder):
    """Fine-tuning is a function of the seed."""
    task, _, examples = make(name)

    def trained(seed):
        _, model, _ = make(name)
        fit(model, task, examples, epochs=1, lr=1e-3, batch_size=4, seed=seed, precision="fp32")
        return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])

    first = trained(1)
    assert torch.equal(first, trained(1)), "two runs of one seed end differently"
    assert not torch.equal(first, trained(2)), "the seed decides nothing"


def unites(name, folder):
    """A model and itself are that model: the same score, the same loss of every row."""
    task, model, examples = make(name)
    logits = task.logits(model, examples)
    alone, twice = (
        task.combine_predictions([logits], [examples]),
        task.combine_predictions([logits, logits], [examples, examples]),
    )
    close(task.losses(alone, examples), task.losses(twice, examples), "one model and the same twice")
    assert task.main_metric in task.deciding_metrics
    evaluation, united = task.score(logits, examples), task.score(twice, examples)
    # Ranks of numbers that are nearly equal may change places by rounding.
    assert math.isclose(evaluation.metrics[task.main_metric], united.metrics[task.main_metric], abs_tol=0.02)
    for metric in task.deciding_metrics:
        task.choose_by(metric)
        assert metric in task.score(logits, examples).metrics
    assert task.joined([task]).to_json() == task.to_json()


def waits_for_no_device(name, folder):
    task, model, examples = make(name)
    reads_nothing(model, examples.batch(range(len(examples))), task.outcome)


TASK = {
    "device": waits_for_no_device,
    "shapes": has_its_shapes,
    "gradients": learns,
    "packing": packs,
    "saving": travels,
    "seed": repeats,
    "ensembles": unites,
}
