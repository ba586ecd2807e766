"""Report blocks of a task: the base class. A task that shows more has a subclass in its `report.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..core.registry import load
from ..models.model import Model, tokenizer_of
from ..report import (
    Bar,
    Bars,
    Block,
    Command,
    Confusion,
    Facts,
    Grid,
    Histogram,
    Section,
    Table,
    WorstError,
    WorstErrors,
)
from ..report.numbers import percent
from ..text.readers.tagged import MISSING, as_sentences
from ..text.tokenizers.encoding import TextCounts
from .anomaly import Anomaly
from .base import Evaluation, Task, TaskData
from .choice import Choice, ChoiceExamples
from .classification import Classification
from .evaluation.scoring import worst_errors
from .examples import Examples
from .generation import Generation
from .qa.task import QuestionAnswering
from .qa.windows import Windows
from .regression import Regression
from .sequence import labeled
from .similarity import PairExamples, Similarity
from .tagging.examples import TaggedExamples
from .tagging.schemes import OUTSIDE, agreement, spans, split_tag
from .tagging.task import Tagging
from .translation import Aligned, Translation, alignments, attends
from .windows import LongExamples

# -- Report blocks of a task: the base class. A task that shows more has a subclass in its `report.py` --------------

WORST = 12  # wrong predictions shown
MOST_LABELS = 30  # labels in the chart of the training rows
AnyTask = TypeVar("AnyTask", bound=Task)


class TaskReport(Generic[AnyTask]):
    """Blocks of the report of a fine-tuning run that depend on the task.

    sequences: plural noun for what the model reads as one sequence, for the chart of lengths.
    """

    sequences: ClassVar[str] = "rows"

    def __init__(self, task: AnyTask, data: TaskData) -> None:
        self.task, self.data = task, data

    def facts(self) -> dict[str, Any]:
        """Returns dataset statistics in addition to the numbers of rows and tokens."""
        return self.length_facts()

    def length_facts(self) -> dict[str, Any]:
        """Returns how many rows were truncated, or how many windows they make."""
        train, dev, length = self.data.train, self.data.dev, self.data.max_length
        windows = self.windows(train)
        if windows is None:
            return {
                f"training rows truncated to {length} tokens": train.num_truncated,
                "truncated dev examples": dev.num_truncated,
            }
        return {
            f"training windows of {length} tokens": len(windows.input_ids),
            "training texts with more than the maximum of windows": windows.num_limited_rows,
            "skipped windows of them": windows.num_dropped_windows,
            "dev windows": len(dev.input_ids),
        }

    def windows(self, examples: Examples) -> LongExamples | None:
        """Returns the windows of long texts; None if the examples are truncated."""
        long = getattr(self.task, "long", None)
        is_split = long is not None and not long.both_orders
        return examples if is_split and isinstance(examples, LongExamples) else None

    def threshold_facts(self, name: str, value: float) -> dict[str, Any]:
        """Returns the decision threshold that was tuned on the dev examples, and how they are scored."""
        return {
            name: f"{value:.4f}, chosen on the dev examples",
            "dev scores": "cross-fitted: each half of the dev examples with the threshold of the other half",
        }

    def labels(self) -> list[Block]:
        """Returns charts of the labels of the training rows; none if the task has no labels."""
        if not self.task.labels:
            return []
        counts = Counter(str(row.label) for row in self.data.train_rows)
        return [counts_chart(counts, "Classes in the training rows")]

    def lengths(self) -> np.ndarray:
        """Returns the lengths of the training sequences in tokens: int64 [sequences]."""
        return self.data.train.lengths

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        """Returns the wrong dev predictions with the largest loss. evaluation: of the dev examples."""
        if self.data.dev.targets is None:
            return []
        errors = [
            WorstError(
                error["text"],
                str(error["gold"]),
                str(error.get("label", error.get("score", ""))),
                loss=error["loss"],
                text_pair=error["text_pair"],
                line=error["line"],
            )
            for error in worst_errors(self.task, self.data.dev, evaluation.logits, WORST)
        ]
        return [WorstErrors(errors)]

    def next_steps(self, model: Path, test: str) -> list[Command]:
        """Returns commands that use the trained model. test: name of a test file."""
        return [
            Command.suggest("score it on unseen test rows", "evaluate", model=model, file=test),
            self.use(model),
            Command.suggest("use it on a file", "predict", model=model, input="texts.txt", output="answers.jsonl"),
        ]

    def use(self, model: Path, about: str = "use it") -> Command:
        """Returns the command that uses the trained model on one example."""
        command, values = self.task.usage
        return Command.suggest(about, command, model=model, **values)


def report_of(data: TaskData) -> TaskReport[Any]:
    """Returns the report blocks of the task of a run."""
    blocks: TaskReport[Any] = load(data.task.report)(data.task, data)
    return blocks


def counts_chart(counts: Counter[str], title: str) -> Bars:
    """Returns a bar chart of the most common labels, with their fractions."""
    total = max(sum(counts.values()), 1)
    bars = [
        Bar(label, count, f"{count:,} ({percent(count / total)})") for label, count in counts.most_common(MOST_LABELS)
    ]
    return Bars(bars, title=title)


# -- Report blocks for classification: class imbalance, confusion matrix, worst errors ------------------------------

MOST_NAMED = 12  # rare classes named below the table


class ClassificationReport(TaskReport[Classification]):
    """Blocks of a text classifier."""

    def facts(self) -> dict[str, Any]:
        """Adds the tuned threshold of the rare class."""
        rare = self.task.rare
        if rare is None or rare.threshold is None:
            return super().facts()
        return self.threshold_facts(f"threshold of '{rare.label}'", rare.threshold.value) | super().facts()

    def labels(self) -> list[Block]:
        """Adds a table of the class imbalance if a class is rare."""
        return [*super().labels(), *imbalance_table(self.task, self.data.train)]

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        """Returns the confusion matrix and the wrong predictions with the highest confidence; none if multi-label."""
        task, rows = self.task, self.data.dev_rows
        if task.multi_label:
            return []
        targets, logits = labeled(self.data.dev), evaluation.logits
        shares = task.probabilities(logits)
        guess = torch.from_numpy(task.decide(logits, task.out_of_fold_thresholds(logits, self.data.dev)))
        wrong = (guess != targets).nonzero().flatten()
        order = wrong[shares[wrong, guess[wrong]].argsort(descending=True)][:WORST].tolist()
        errors = [
            WorstError(
                rows[i].text, task.labels[int(targets[i])], task.labels[int(guess[i])], float(shares[i, guess[i]]),
                text_pair=rows[i].text_pair, line=rows[i].line,
            )
            for i in order
        ]  # fmt: skip
        counts = torch.zeros(task.num_labels, task.num_labels, dtype=torch.int64)
        counts.index_put_((targets, guess), torch.ones_like(targets), accumulate=True)
        return [Confusion(task.labels, counts.tolist()), WorstErrors(errors)]


def imbalance_table(task: Classification, train: Examples) -> list[Block]:
    """Fraction and effective number of each training class, rarest first; empty if no class is rare."""
    found = task.imbalance(train)
    if not found.rare:
        return []
    numbers, shares = found.effective_numbers, found.shares
    order = sorted(range(len(found.labels)), key=lambda place: (found.counts[place], found.labels[place]))
    rows = [
        (found.labels[place], found.counts[place], percent(shares[place]), f"{numbers[place]:,.0f}") for place in order
    ]
    note = (
        f"Rare: {', '.join(found.rare[:MOST_NAMED])}. The majority-class baseline is correct for "
        f"{percent(found.constant_accuracy)} of the rows, so accuracy is not informative. Effective number of samples: "
        "Cui et al. 2019, with beta 0.999."
    )
    return [Table(["class", "rows", "share", "effective number"], rows, title="Rare classes", note=note)]


# -- Report blocks for regression: the largest errors ---------------------------------------------------------------


class RegressionReport(TaskReport[Regression]):
    """Blocks of a regression model."""

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        """Returns the dev examples with the largest errors."""
        targets, predicted = labeled(self.data.dev), evaluation.logits.squeeze(-1)
        distance = (predicted - targets).abs()
        rows = self.data.dev_rows
        errors = [
            WorstError(
                rows[i].text, f"{targets[i]:.2f}", f"{predicted[i]:.2f}", loss=float(distance[i] ** 2),
                text_pair=rows[i].text_pair, line=rows[i].line,
            )
            for i in distance.argsort(descending=True)[:WORST].tolist()
        ]  # fmt: skip
        return [WorstErrors(errors)]


# -- Report blocks for anomaly detection: reconstruction errors, worst wrong predictions ----------------------------

BINS = 30


class AnomalyReport(TaskReport[Anomaly]):
    """Blocks of an anomaly detector."""

    def facts(self) -> dict[str, Any]:
        """Adds the tuned threshold."""
        threshold = self.task.threshold
        tuned = {} if threshold is None else self.threshold_facts("threshold on the error", threshold.value)
        return tuned | super().facts()

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        """Returns the reconstruction errors of the dev examples by class, and the worst wrong predictions."""
        task, dev = self.task, self.data.dev
        values = evaluation.logits.squeeze(-1).double().numpy()
        names = np.array([row.label if row.label is not None else "normal" for row in dev.rows], dtype=object)
        normal = task.normal if task.normal is not None else "normal"
        order = sorted(set(names), key=lambda name: (name != normal, name))
        errors = {str(name): values[names == name] for name in order}
        threshold = None if task.threshold is None else task.threshold.value
        wrong = [
            WorstError(
                error["text"],
                str(error["gold"] if error["gold"] is not None else "normal"),
                "rare" if error["is_rare"] else "normal",
                loss=error["score"],
                text_pair=error["text_pair"],
                line=error["line"],
            )
            for error in worst_errors(task, dev, evaluation.logits, WORST)
        ]
        note = "With the threshold tuned on these rows; the loss is the reconstruction error."
        return [*error_histograms(errors, threshold), WorstErrors(wrong, note=note)]


def error_histograms(
    errors: Mapping[str, np.ndarray], threshold: float | None = None, title: str = "Reconstruction errors"
) -> list[Block]:
    """One histogram per class over the same bins. errors: name -> float [rows]; errors above the 99th percentile are in
    the last bin.
    """
    every = np.concatenate(list(errors.values())) if errors else np.zeros(0)
    if not len(every):
        return []
    high = max(float(np.quantile(every, 0.99)), 0.0 if threshold is None else threshold)
    low = float(every.min())
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    marks = {} if threshold is None else {"threshold": threshold}
    return [
        Histogram(
            edges.tolist(),
            np.histogram(np.clip(values, edges[0], edges[-1]), bins=edges)[0].tolist(),
            title=f"{title}: {name}",
            x_label="mean squared error",
            y_label="rows",
            marks=marks,
        )
        for name, values in errors.items()
        if len(values)
    ]


# -- Report blocks for sentence embeddings: the pairs with the largest errors ---------------------------------------


class SimilarityReport(TaskReport[Similarity]):
    """Blocks of a sentence encoder."""

    def windows(self, examples: Examples) -> LongExamples | None:
        """Returns the windows of both texts of the pairs."""
        return super().windows(examples.texts if isinstance(examples, PairExamples) else examples)

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        """Returns the pairs whose cosine similarities are farthest from their gold scores."""
        dev = self.data.dev
        if dev.targets is None:
            return []
        losses, cosines = self.task.losses(evaluation.logits, dev), self.task.cosines(evaluation.logits)
        errors = [
            WorstError(
                dev.rows[i].text, str(dev.rows[i].label or "together"), f"{cosines[i]:.3f}", loss=float(losses[i]),
                text_pair=dev.rows[i].text_pair, line=dev.rows[i].line,
            )
            for i in losses.argsort(descending=True)[:WORST].tolist()
        ]  # fmt: skip
        note = "Predicted is the cosine similarity; it is compared with the gold score scaled to 0 to 1."
        return [WorstErrors(errors, title="Pairs with the largest error", note=note)]

    def next_steps(self, model: Path, test: str) -> list[Command]:
        """Returns commands that use the trained model."""
        return [
            Command.suggest("score it on unseen test pairs", "evaluate", model=model, file=test),
            Command.suggest(
                "semantic search in a folder of texts", "search", model=model, folder="texts/", queries="your question"
            ),
            Command.suggest(
                "save sentence embeddings", "embed", model=model, input="texts.txt", output="embeddings.npy"
            ),
        ]


# -- Report blocks for multiple choice: wrong and correct predictions -----------------------------------------------

RIGHT = 8  # correct predictions shown
LONGEST = 160  # characters of a context in the table


class ChoiceReport(TaskReport[Choice]):
    """Blocks of a multiple-choice model."""

    sequences = "choices"

    def windows(self, examples: Examples) -> None:
        """Returns None: `facts` counts the windows of choices."""
        return None

    def facts(self) -> dict[str, Any]:
        """Adds the number of choices per row, the tokens of the longest choice, and windows."""
        facts = super().facts()
        for name, examples in (("training", self.data.train), ("dev", self.data.dev)):
            assert isinstance(examples, ChoiceExamples)
            facts[f"choices of a {name} row"] = examples.num_choices
            facts[f"longest {name} choice, in tokens with its context"] = int(examples.sequence_lengths.max())
            if examples.windows is not None:
                facts[f"windows of {name} choices"] = len(examples.input_ids)
                facts[f"{name} windows left out"] = examples.windows.num_dropped_windows
        return facts

    def lengths(self) -> np.ndarray:
        """Returns the lengths of the training choices with their contexts: int64 [sequences]."""
        assert isinstance(self.data.train, ChoiceExamples)
        return self.data.train.sequence_lengths

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        """Returns the wrong rows with the largest loss, and correct rows with the lowest and highest confidence."""
        wrong = [
            WorstError(
                error["text"],
                error["choices"][error["gold"]],
                error["choice"],
                error["score"],
                text_pair=error["text_pair"],
                line=error["line"],
            )
            for error in worst_errors(self.task, self.data.dev, evaluation.logits, WORST)
        ]
        return [WorstErrors(wrong), _right(self.task, self.data.dev, evaluation.logits)]

    def next_steps(self, model: Path, test: str) -> list[Command]:
        """Returns commands that use the trained model."""
        return [
            *super().next_steps(model, test)[:2],
            Command.suggest("use it on a file", "predict", model=model, input="rows.jsonl", output="answers.jsonl"),
        ]


def _right(task: Choice, dev: Examples, logits: Tensor) -> Table:
    answers = task.answers(logits, dev)
    right = [row for row in range(len(dev)) if task.is_right(dev, row, answers[row])]
    order = sorted(right, key=lambda row: answers[row]["score"])
    shown = order[: RIGHT // 2] + order[RIGHT // 2 :][-(RIGHT // 2) :]
    rows = [
        (
            _short(" ".join(filter(None, (dev.rows[row].text, dev.rows[row].text_pair)))),
            answers[row]["choice"],
            percent(answers[row]["score"]),
        )
        for row in shown
    ]
    note = "The correct predictions with the lowest and the highest confidence, half of each."
    return Table(("Context", "Chosen", "Probability"), rows, title="Correct predictions", note=note)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else "… " + text[-LONGEST:]


# -- Report blocks for tagging: tag counts, scores by entity type, confusions, worst errors -------------------------

MOST_TAGS = 24  # largest confusion matrix


class TaggingReport(TaskReport[Tagging]):
    """Blocks of a token classifier."""

    sequences = "windows"

    def facts(self) -> dict[str, Any]:
        """Returns the tagging scheme, and words, windows and repaired tags of both splits."""
        facts: dict[str, Any] = {"how tags are spelled": _written(self.task)}
        for name, examples in (("training", self.data.train), ("dev", self.data.dev)):
            assert isinstance(examples, TaggedExamples)
            facts |= {f"words in {name} rows": examples.num_words, f"windows of {name} rows": len(examples)}
            if self.task.scheme is not None:
                facts[f"{name} tags repaired"] = examples.num_repaired
            if examples.gold is not None and examples.gold.missing:
                facts[f"{name} words without a tag"] = examples.gold.missing.total()
        return facts

    def labels(self) -> list[Block]:
        """Returns a chart of the tags, or of the entity types, of the training rows."""
        assert isinstance(self.data.train, TaggedExamples)
        gold = self.task.gold_of(self.data.train)
        if self.task.scheme is None:
            return [
                counts_chart(
                    Counter(tag for tags in gold for tag in tags if tag != MISSING), "Tags in the training rows"
                )
            ]
        types = Counter(entity.type for tags in gold for entity in spans(tags))
        return [counts_chart(types, "Entities in the training rows")]

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        """Returns scores by entity type, a confusion matrix over words, and the worst sentences."""
        task, dev, logits = self.task, self.data.dev, evaluation.logits
        assert isinstance(dev, TaggedExamples)
        gold, found = task.gold_of(dev), task.tags_of(logits, dev)
        blocks: list[Block] = [_by_type(gold, found)] if task.scheme is not None else []
        confusion = _confusion(task, gold, found)
        return [*blocks, *([] if confusion is None else [confusion]), _worst(task, dev, logits, gold, found)]


def _written(task: Tagging) -> str:
    return "each is a name by itself" if task.notation is None else task.notation.description


def _by_type(gold: list[list[str]], found: list[list[str]]) -> Facts:
    by_type = agreement(gold, found, spans)
    rows = {
        type: f"F1 {score.f1:.3f}, precision {score.precision:.3f}, recall {score.recall:.3f}; {score.both:,} of "
        f"{score.gold:,} found, {score.found - score.both:,} wrong ones"
        for type, score in sorted(by_type.items())
        if type
    }
    return Facts(rows, title="Scores by type of entity")


def _confusion(task: Tagging, gold: list[list[str]], found: list[list[str]]) -> Confusion | None:
    """Confusion matrix over words; prefixes such as B- and I- are ignored."""

    def name(tag: str) -> str:
        type = "" if task.scheme is None else split_tag(tag)[1]
        return f"type {type}" if type == OUTSIDE else type or tag

    labels = list(dict.fromkeys(map(name, task.tags)))
    if len(labels) > MOST_TAGS:
        return None
    place = {label: number for number, label in enumerate(labels)}
    counts = torch.zeros(len(labels), len(labels), dtype=torch.int64)
    for truth, guess in zip(gold, found, strict=True):
        for one, other in zip(truth, guess, strict=True):
            if one == MISSING:
                continue
            counts[place[name(one)], place[name(other)]] += 1
    return Confusion(labels, counts.tolist(), title="Where it confuses words")


def _worst(
    task: Tagging, dev: TaggedExamples, logits: Tensor, gold: list[list[str]], found: list[list[str]]
) -> WorstErrors:
    """The wrong sentences with the largest mean loss, with gold and predicted tags where they differ."""
    rows, losses = as_sentences(dev.rows), task.losses(logits, dev)
    order = losses.argsort(descending=True).tolist()
    wrong = [row for row in order if _differences(rows[row].words, gold[row], found[row])[0]][:WORST]
    return WorstErrors(
        [
            WorstError(
                rows[row].text, *_differences(rows[row].words, gold[row], found[row]), loss=float(losses[row]),
                line=rows[row].line,
            )
            for row in wrong
        ]
    )  # fmt: skip


def _differences(words: Sequence[str], gold: Sequence[str], found: Sequence[str]) -> tuple[str, str]:
    """The words with wrong tags, with the gold tags and with the predicted ones."""
    triples = zip(words, gold, found, strict=True)
    differ = [(word, one, other) for word, one, other in triples if one not in (MISSING, other)]
    return ", ".join(f"{word}/{one}" for word, one, _ in differ), ", ".join(
        f"{word}/{other}" for word, _, other in differ
    )


# -- Report blocks for question answering: statistics and worst errors ----------------------------------------------

AROUND = 160  # characters of context shown before and after an answer


class QaReport(TaskReport[QuestionAnswering]):
    """Blocks of a question-answering model."""

    sequences = "windows"

    def facts(self) -> dict[str, Any]:
        """Returns the number of windows, unanswerable questions and unreachable answers, and the threshold."""
        facts: dict[str, Any] = {}
        for name, examples in (("training", self.data.train), ("dev", self.data.dev)):
            assert isinstance(examples, Windows)
            facts[f"{name} windows"] = len(examples)
            facts[f"{name} questions without an answer"] = sum(row.label == [] for row in examples.rows)
            facts[f"{name} answers whole in no window"] = len(examples.unreachable)
        if self.task.threshold is not None:
            facts["no-answer threshold"] = f"{self.task.threshold.value:.4f}, tuned on the dev examples"
            facts["dev scores"] = "each half of the dev examples with the threshold of the other half"
        return facts

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        """Returns the wrong dev predictions with the largest loss."""
        errors = [
            WorstError(
                error["text"],
                " | ".join(dict.fromkeys(error["gold"])) or "no answer",
                error["answer"] or "no answer",
                error["score"],
                text_pair=_around(error["text_pair"], error["start"]),
                line=error["line"],
            )
            for error in worst_errors(self.task, self.data.dev, evaluation.logits, WORST)
        ]
        return [WorstErrors(errors)]

    def next_steps(self, model: Path, test: str) -> list[Command]:
        """Returns commands that use the trained model."""
        return [
            Command.suggest("score it on unseen test questions", "evaluate", model=model, file=test),
            self.use(model),
        ]


def _around(context: str, place: int | None) -> str:
    """The part of a context around a position, or its beginning."""
    start, end = max((place or 0) - AROUND, 0), (place or 0) + AROUND
    return ("…" if start else "") + context[start:end] + ("…" if end < len(context) else "")


# -- Report blocks of tasks that generate a target text: generated texts of the first dev examples -------------------


SHOWN = 12  # dev examples with their generated texts


class TargetReport(TaskReport[AnyTask]):
    """Blocks of a text generation task.

    output: key of the generated text in a prediction; note: how it is generated, for the table.
    """

    output: ClassVar[str]
    note: ClassVar[str]

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        """Returns the first dev examples with the output of the saved model; none for a run without one model."""
        model = self.data.saved_model()
        if model is None:
            return []
        rows = self.data.dev.rows[:SHOWN]
        length = self.data.max_length
        answers = self.task.predict(model, self.task.unlabeled(rows, tokenizer_of(model), length, counts=TextCounts()))
        errors = [
            WorstError(row.text, str(row.label), answer[self.output], loss=-answer["score"], line=row.line)
            for row, answer in zip(rows, answers, strict=True)
        ]
        return [WorstErrors(errors, title="Generated texts", note=self.note), *self.more(model, rows, answers)]

    def more(self, model: Model, rows: Sequence[Any], answers: Sequence[dict[str, Any]]) -> list[Block]:
        """Returns further blocks about the generated texts. answers: one prediction for each of the rows."""
        return []


# -- Report blocks for text-to-text generation ----------------------------------------------------------------------


class GenerationReport(TargetReport[Generation]):
    """Blocks of a text-to-text model."""

    output = "generated"
    note = (
        "The first dev examples. Predicted is the model's output (greedy decoding); the loss is its negative log "
        "probability."
    )

    def next_steps(self, model: Path, test: str) -> list[Command]:
        """Returns commands that use the trained model."""
        evaluate, _, use_on_file = super().next_steps(model, test)
        return [evaluate, self.use(model, "generate text"), use_on_file]


# -- Report blocks for translation: translations of dev examples, cross-attention -----------------------------------

DRAWN = 3  # examples with a cross-attention map
ALIGNMENT_NOTE = "Rows are target words, columns are source words; each row sums to 1, and dark is 1."


class TranslationReport(TargetReport[Translation]):
    """Blocks of a translation model."""

    output = "translation"
    note = (
        "The first dev examples. Predicted is the model's output (beam search); the loss is its negative log "
        "probability, divided by its length."
    )

    def more(self, model: Model, rows: Sequence[Any], answers: Sequence[dict[str, Any]]) -> list[Block]:
        """Returns the cross-attention of the first translations."""
        if not attends(model):
            return []
        pairs = [(row.text, answer["translation"]) for row, answer in zip(rows[:DRAWN], answers, strict=False)]
        maps = [alignment_map(one) for one in alignments(model, self.task, pairs, self.data.max_length)]
        return [Section("Cross-attention of the generated tokens", maps, ALIGNMENT_NOTE)]

    def next_steps(self, model: Path, test: str) -> list[Command]:
        """Returns commands that use the trained model."""
        return [
            Command.suggest("score it on unseen test pairs", "evaluate", model=model, file=test),
            self.use(model, "translate a text"),
            Command.suggest("use it on a file", "translate", model=model, input="texts.txt", output="translations.txt"),
        ]


def alignment_map(one: Aligned, title: str = "", note: str = "") -> Grid:
    """Returns the alignment heatmap of a translation, with the mean largest weight as its caption."""
    strongest = one.weights.max(axis=1).mean()
    caption = f"A target word gives {strongest:.0%} of its attention to one source word, on average."
    return Grid(one.target, one.source, one.weights.tolist(), caption, None, title, note)
