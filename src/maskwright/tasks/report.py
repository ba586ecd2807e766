"""Report blocks of a task: the base class, and a subclass for each task that shows more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch

from ..core.registry import load
from ..models.model import Model, tokenizer_of
from ..report import Bar, Bars, Block, Command, Confusion, Facts, Grid, Section, Table, WorstError, WorstErrors
from ..report.charts import Histogram
from ..report.numbers import percent
from ..text.tokenizers.encoding import TextCounts
from ..text.words import MISSING, as_sentences
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

WORST = 12  # wrong predictions shown
MOST_LABELS = 30  # labels in the chart of the training rows
MOST_TAGS = 24  # of a confusion matrix of tags
MOST_NAMED = 12  # rare classes named below their table
BINS = 30  # of a histogram of reconstruction errors
AROUND = 160  # characters of a context shown before and after an answer
DRAWN = 3  # translations with a cross-attention map
ALIGNMENT_NOTE = "Rows are target words, columns are source words; each row sums to 1, and dark is 1."
AnyTask = TypeVar("AnyTask", bound=Task)
Written = Callable[[Any], str]


class TaskReport(Generic[AnyTask]):
    """Blocks of the report of a fine-tuning run that depend on the task. A task that shows more has a subclass.

    sequences: plural noun for what the model reads as one sequence, for the chart of lengths; rows: for what is scored;
    about: what the suggested command for one example does; on_file: the command for a file, its input and its output.
    """

    sequences: ClassVar[str] = "rows"
    rows: ClassVar[str] = "rows"
    about: ClassVar[str] = "use it"
    on_file: ClassVar[tuple[str, str, str] | None] = "predict", "texts.txt", "answers.jsonl"

    def __init__(self, task: AnyTask, data: TaskData) -> None:
        self.task, self.data = task, data

    def facts(self) -> dict[str, Any]:
        """Dataset statistics in addition to the numbers of rows and tokens: how many rows were truncated, or how many
        windows they make.
        """
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
        long = getattr(self.task, "long", None)
        is_split = long is not None and not long.both_orders
        return examples if is_split and isinstance(examples, LongExamples) else None

    def labels(self) -> list[Block]:
        """Charts of the labels of the training rows; none if the task has no labels."""
        counts = Counter(str(row.label) for row in self.data.train_rows) if self.task.labels else Counter[str]()
        return [counts_chart(counts, "Classes in the training rows")]

    def lengths(self) -> np.ndarray:
        return self.data.train.lengths

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        """The wrong dev predictions with the largest loss. evaluation: of the dev examples."""
        if self.data.dev.targets is None:
            return []
        return [self.worst(evaluation, lambda own: str(own.get("label", own.get("score", ""))))]

    def worst(
        self, evaluation: Evaluation, predicted: Written, gold: Written | None = None, **options: Any
    ) -> WorstErrors:
        found = worst_errors(self.task, self.data.dev, evaluation.logits, WORST)
        return wrong_predictions(found, predicted, gold, **options)

    def of_rows(self, chosen: Sequence[int], gold: Written, predicted: Written, **numbers: Any) -> list[WorstError]:
        """Errors of some dev rows. gold, predicted: text for the index of a row; numbers: of all rows, by field."""
        errors = []
        for i in chosen:
            row = self.data.dev.rows[i]
            shown = {name: float(values[i]) for name, values in numbers.items()}
            pair = getattr(row, "text_pair", None)
            errors.append(WorstError(row.text, gold(i), predicted(i), text_pair=pair, line=row.line, **shown))
        return errors

    def next_steps(self, model: Path, test: str) -> list[Command]:
        """Commands that use the trained model. test: name of a test file."""
        command, values = self.task.usage
        steps = [
            Command.suggest(f"score it on unseen test {self.rows}", "evaluate", model=model, file=test),
            Command.suggest(self.about, command, model=model, **values),
        ]
        if self.on_file is not None:
            command, source, output = self.on_file
            steps.append(Command.suggest("use it on a file", command, model=model, input=source, output=output))
        return steps


def report_of(data: TaskData) -> TaskReport[Any]:
    """The report blocks of the task of a run."""
    blocks: TaskReport[Any] = load(data.task.report)(data.task, data)
    return blocks


def wrong_predictions(
    found: Sequence[Mapping[str, Any]],
    predicted: Written,
    gold: Written | None = None,
    *,
    pair: Callable[[Any], str | None] | None = None,
    probability: str = "",
    **options: Any,
) -> WorstErrors:
    """The errors that `worst_errors` lists. pair: the second text; probability: its field; options: title and note."""
    rows = [
        WorstError(
            own["text"],
            str(own["gold"]) if gold is None else gold(own),
            predicted(own),
            own.get(probability),
            own["loss"],
            own["text_pair"] if pair is None else pair(own),
            own["line"],
        )
        for own in found
    ]
    return WorstErrors(rows, **options)


def counts_chart(counts: Counter[str], title: str) -> Bars:
    """A bar chart of the most common labels, with their fractions."""
    total = max(sum(counts.values()), 1)
    bars = [
        Bar(label, count, f"{count:,} ({percent(count / total)})") for label, count in counts.most_common(MOST_LABELS)
    ]
    return Bars(bars, title=title)


def threshold_facts(name: str, value: float) -> dict[str, Any]:
    """The decision threshold that was tuned on the dev examples, and how they are scored."""
    return {
        name: f"{value:.4f}, chosen on the dev examples",
        "dev scores": "cross-fitted: each half of the dev examples with the threshold of the other half",
    }


class ClassificationReport(TaskReport[Classification]):
    """Adds class imbalance and a confusion matrix."""

    def facts(self) -> dict[str, Any]:
        rare = self.task.rare
        if rare is None or rare.threshold is None:
            return super().facts()
        return threshold_facts(f"threshold of '{rare.label}'", rare.threshold.value) | super().facts()

    def labels(self) -> list[Block]:
        """Adds the fraction and effective number of each training class, rarest first, if a class is rare."""
        found = self.task.imbalance(self.data.train)
        if not found.rare:
            return super().labels()
        order = sorted(range(len(found.labels)), key=lambda place: (found.counts[place], found.labels[place]))
        rows = [
            (found.labels[i], found.counts[i], percent(found.shares[i]), f"{found.effective_numbers[i]:,.0f}")
            for i in order
        ]
        note = (
            f"Rare: {', '.join(found.rare[:MOST_NAMED])}. The majority-class baseline is correct for "
            f"{percent(found.constant_accuracy)} of the rows, so accuracy is not informative. Effective number of "
            "samples: Cui et al. 2019, with beta 0.999."
        )
        head = ["class", "rows", "share", "effective number"]
        return [*super().labels(), Table(head, rows, title="Rare classes", note=note)]

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        task, names = self.task, self.task.labels
        if task.multi_label:
            return []
        targets, logits = labeled(self.data.dev), evaluation.logits
        shares = task.probabilities(logits)
        guess = torch.from_numpy(task.decide(logits, task.out_of_fold_thresholds(logits, self.data.dev)))
        wrong = (guess != targets).nonzero().flatten()
        order = wrong[shares[wrong, guess[wrong]].argsort(descending=True)][:WORST].tolist()
        sure = shares[torch.arange(len(guess)), guess]
        errors = self.of_rows(order, lambda i: names[int(targets[i])], lambda i: names[int(guess[i])], probability=sure)
        counts = torch.zeros(task.num_labels, task.num_labels, dtype=torch.int64)
        counts.index_put_((targets, guess), torch.ones_like(targets), accumulate=True)
        return [Confusion(names, counts.tolist()), WorstErrors(errors)]


class RegressionReport(TaskReport[Regression]):
    """The dev examples with the largest errors."""

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        return [self.worst(evaluation, lambda own: f"{own['score']:.2f}", lambda own: f"{float(own['gold']):.2f}")]


class AnomalyReport(TaskReport[Anomaly]):
    """Adds the reconstruction errors of the dev examples by class."""

    def facts(self) -> dict[str, Any]:
        threshold = self.task.threshold
        return (
            {} if threshold is None else threshold_facts("threshold on the error", threshold.value)
        ) | super().facts()

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        values = evaluation.logits.squeeze(-1).double().numpy()
        names = np.array([row.label or "normal" for row in self.data.dev.rows], dtype=object)
        normal = self.task.normal or "normal"
        order = sorted(set(names), key=lambda name: (name != normal, name))
        threshold = None if self.task.threshold is None else self.task.threshold.value
        wrong = self.worst(
            evaluation,
            lambda own: "rare" if own["is_rare"] else "normal",
            lambda own: str(own["gold"] if own["gold"] is not None else "normal"),
            note="With the threshold tuned on these rows; the loss is the reconstruction error.",
        )
        return [*error_histograms({str(name): values[names == name] for name in order}, threshold), wrong]


def error_histograms(
    errors: Mapping[str, np.ndarray], threshold: float | None = None, title: str = "Reconstruction errors"
) -> list[Block]:
    """One histogram per class over the same bins. errors: name -> float [rows]; errors above the 99th percentile are in
    the last bin.
    """
    every = np.concatenate(list(errors.values())) if errors else np.zeros(0)
    if not len(every):
        return []
    low, high = float(every.min()), max(float(np.quantile(every, 0.99)), 0.0 if threshold is None else threshold)
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    blocks: list[Block] = []
    for name, values in errors.items():
        counts = np.histogram(np.clip(values, edges[0], edges[-1]), bins=edges)[0].tolist()
        marks = {} if threshold is None else {"threshold": threshold}
        blocks.append(Histogram(edges.tolist(), counts, "mean squared error", "rows", marks, title=f"{title}: {name}"))
    return blocks


class SimilarityReport(TaskReport[Similarity]):
    """The pairs whose cosine similarities are farthest from their gold scores."""

    rows = "pairs"

    def windows(self, examples: Examples) -> LongExamples | None:
        return super().windows(examples.texts if isinstance(examples, PairExamples) else examples)

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        title = "Pairs with the largest error"
        note = "Predicted is the cosine similarity; it is compared with the gold score scaled to 0 to 1."
        if self.data.dev.targets is None:
            return []
        gold, predicted = (lambda own: str(own["gold"] or "together")), (lambda own: f"{own['score']:.3f}")
        return [self.worst(evaluation, predicted, gold, title=title, note=note)]

    def next_steps(self, model: Path, test: str) -> list[Command]:
        search, embed = "semantic search in a folder of texts", "save sentence embeddings"
        if self.task.sparsity is not None:
            saved = Command.suggest(embed, "embed", model=model, input="texts.txt", sparse=True, output="weights.npz")
            return [super().next_steps(model, test)[0], saved]
        return [
            super().next_steps(model, test)[0],
            Command.suggest(search, "search", model=model, folder="texts/", queries="your question"),
            Command.suggest(embed, "embed", model=model, input="texts.txt", output="embeddings.npy"),
        ]


class ChoiceReport(TaskReport[Choice]):
    """Wrong rows, and correct rows with the lowest and highest confidence."""

    sequences = "choices"
    on_file = "predict", "rows.jsonl", "answers.jsonl"

    def windows(self, examples: Examples) -> None:
        return None  # `facts` counts the windows of choices

    def facts(self) -> dict[str, Any]:
        facts = super().facts()
        for name, examples in (("training", self.data.train), ("dev", self.data.dev)):
            assert isinstance(examples, ChoiceExamples)
            facts[f"choices of a {name} row"] = examples.num_texts
            facts[f"longest {name} choice, in tokens with its context"] = int(examples.texts.lengths.max())
            if examples.is_long:
                facts[f"windows of {name} choices"] = len(examples.input_ids)
                facts[f"{name} windows left out"] = examples.texts.num_dropped_windows
        return facts

    def lengths(self) -> np.ndarray:
        assert isinstance(self.data.train, ChoiceExamples)
        return self.data.train.texts.lengths

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        dev, answers = self.data.dev, self.task.answers(evaluation.logits, self.data.dev)
        right = [row for row in range(len(dev)) if self.task.is_right(dev, row, answers[row])]
        order = sorted(right, key=lambda row: answers[row]["score"])
        rows = []
        for row in order[:4] + order[4:][-4:]:
            text = " ".join(filter(None, (dev.rows[row].text, dev.rows[row].text_pair)))
            shown = text if len(text) <= AROUND else "… " + text[-AROUND:]
            rows.append((shown, answers[row]["choice"], percent(answers[row]["score"])))
        note = "The correct predictions with the lowest and the highest confidence, half of each."
        return [
            self.worst(
                evaluation, lambda own: own["choice"], lambda own: own["choices"][own["gold"]], probability="score"
            ),
            Table(("Context", "Chosen", "Probability"), rows, title="Correct predictions", note=note),
        ]


class TaggingReport(TaskReport[Tagging]):
    """Tag counts, scores by entity type, confusions, worst sentences."""

    sequences = "windows"

    def facts(self) -> dict[str, Any]:
        notation = self.task.notation
        facts: dict[str, Any] = {
            "how tags are spelled": "each is a name by itself" if notation is None else notation.description
        }
        for name, examples in (("training", self.data.train), ("dev", self.data.dev)):
            assert isinstance(examples, TaggedExamples)
            facts |= {f"words in {name} rows": examples.num_words, f"windows of {name} rows": len(examples)}
            if self.task.scheme is not None:
                facts[f"{name} tags repaired"] = examples.num_repaired
            if examples.gold is not None and examples.gold.missing:
                facts[f"{name} words without a tag"] = examples.gold.missing.total()
        return facts

    def labels(self) -> list[Block]:
        assert isinstance(self.data.train, TaggedExamples)
        gold = self.task.gold_of(self.data.train)
        if self.task.scheme is None:
            tags = Counter(tag for own in gold for tag in own if tag != MISSING)
            return [counts_chart(tags, "Tags in the training rows")]
        types = Counter(entity.type for tags in gold for entity in spans(tags))
        return [counts_chart(types, "Entities in the training rows")]

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        task, dev, logits = self.task, self.data.dev, evaluation.logits
        assert isinstance(dev, TaggedExamples)
        gold, found = task.gold_of(dev), task.tags_of(logits, dev)
        by_type = {
            type: f"F1 {score.f1:.3f}, precision {score.precision:.3f}, recall {score.recall:.3f}; {score.both:,} of "
            f"{score.gold:,} found, {score.found - score.both:,} wrong ones"
            for type, score in sorted(agreement(gold, found, spans).items() if task.scheme is not None else [])
            if type
        }
        losses = task.losses(logits, dev)
        rows = as_sentences(dev.rows)
        differences = [_differences(row.words, *tags) for row, *tags in zip(rows, gold, found, strict=True)]
        wrong = [row for row in losses.argsort(descending=True).tolist() if differences[row][0]][:WORST]
        errors = self.of_rows(wrong, lambda i: differences[i][0], lambda i: differences[i][1], loss=losses)
        facts = Facts(by_type, title="Scores by type of entity")
        return [facts, *_confusion(task, gold, found), WorstErrors(errors)]


def _confusion(task: Tagging, gold: list[list[str]], found: list[list[str]]) -> list[Block]:
    """Confusion matrix over words; prefixes such as B- and I- are ignored."""

    def name(tag: str) -> str:
        type = "" if task.scheme is None else split_tag(tag)[1]
        return f"type {type}" if type == OUTSIDE else type or tag

    labels = list(dict.fromkeys(map(name, task.tags)))
    if len(labels) > MOST_TAGS:
        return []
    pairs = Counter(
        (name(one), name(other))
        for truth, guess in zip(gold, found, strict=True)
        for one, other in zip(truth, guess, strict=True)
        if one != MISSING
    )
    counts = [[pairs[one, other] for other in labels] for one in labels]
    return [Confusion(labels, counts, title="Where it confuses words")]


def _differences(words: Sequence[str], gold: Sequence[str], found: Sequence[str]) -> tuple[str, str]:
    triples = zip(words, gold, found, strict=True)
    differ = [(word, tags) for word, *tags in triples if tags[0] not in (MISSING, tags[1])]
    first, second = (", ".join(f"{word}/{tags[side]}" for word, tags in differ) for side in (0, 1))
    return first, second


class QaReport(TaskReport[QuestionAnswering]):
    """Statistics of windows and answers, worst errors with the context of the answer."""

    sequences, rows, on_file = "windows", "questions", None

    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        for name, examples in (("training", self.data.train), ("dev", self.data.dev)):
            assert isinstance(examples, Windows)
            facts[f"{name} windows"] = len(examples)
            facts[f"{name} questions without an answer"] = sum(row.label == [] for row in examples.rows)
            facts[f"{name} answers whole in no window"] = len(examples.unreachable)
        threshold = self.task.threshold
        return facts | ({} if threshold is None else threshold_facts("no-answer threshold", threshold.value))

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        def gold(own: Any) -> str:
            return " | ".join(dict.fromkeys(own["gold"])) or "no answer"

        def around(own: Any) -> str:
            place = own["start"] or 0
            start, end = max(place - AROUND, 0), place + AROUND
            return "…" * bool(start) + own["text_pair"][start:end] + "…" * (end < len(own["text_pair"]))

        return [
            self.worst(evaluation, lambda own: own["answer"] or "no answer", gold, pair=around, probability="score")
        ]


class TargetReport(TaskReport[AnyTask]):
    """The first dev examples with the text that the saved model generates; none for a run without one model.

    output: key of the generated text in a prediction; how: the decoding, as in the loss.
    """

    output: ClassVar[str]
    how: ClassVar[str]

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        model = self.data.saved_model()
        if model is None:
            return []
        rows, length = self.data.dev.rows[:WORST], self.data.max_length
        answers = self.task.predict(model, self.task.unlabeled(rows, tokenizer_of(model), length, counts=TextCounts()))
        errors = [
            WorstError(row.text, str(row.label), answer[self.output], loss=-answer["score"], line=row.line)
            for row, answer in zip(rows, answers, strict=True)
        ]
        note = f"The first dev examples. Predicted is the model's output ({self.how}."
        return [WorstErrors(errors, title="Generated texts", note=note), *self.more(model, rows, answers)]

    def more(self, model: Model, rows: Sequence[Any], answers: Sequence[dict[str, Any]]) -> list[Block]:
        """Further blocks about the generated texts. answers: one prediction for each of the rows."""
        return []


class GenerationReport(TargetReport[Generation]):
    """Blocks of a text-to-text model."""

    output, about, how = "generated", "generate text", "greedy decoding); the loss is its negative log probability"


class TranslationReport(TargetReport[Translation]):
    """Adds the cross-attention of the first translations."""

    output, rows, about = "translation", "pairs", "translate a text"
    on_file = "translate", "texts.txt", "translations.txt"
    how = "beam search); the loss is its negative log probability, divided by its length"

    def more(self, model: Model, rows: Sequence[Any], answers: Sequence[dict[str, Any]]) -> list[Block]:
        if not attends(model):
            return []
        pairs = [(row.text, answer["translation"]) for row, answer in zip(rows[:DRAWN], answers, strict=False)]
        maps = [alignment_map(one) for one in alignments(model, self.task, pairs, self.data.max_length)]
        return [Section("Cross-attention of the generated tokens", maps, ALIGNMENT_NOTE)]


def alignment_map(one: Aligned, title: str = "", note: str = "") -> Grid:
    """The alignment of a translation, with the mean largest weight as its caption."""
    strongest = one.weights.max(axis=1).mean()
    caption = f"A target word gives {strongest:.0%} of its attention to one source word, on average."
    return Grid(one.target, one.source, one.weights.tolist(), caption, None, title=title, note=note)
