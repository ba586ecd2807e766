"""Text classification: tensor shapes, heads and metrics."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..inputs import integer, text
from ..lesson import APPLICATIONS, AUTOENCODER, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Tasks"
ROUTER = "The lamp of my router stays dark, although I tried another socket and another cable."
LABELS = ("Billing", "Hardware", "Software")


def _shapes(record: LessonRecorder, text: str) -> None:
    from ...inference.predict import Predictor
    from ...inference.trace import trace
    from ...report import Arrow, Box, Flow, Table
    from ...tasks.classification import Classification
    from ..small import small_network, word_tokenizer

    tokenizer = word_tokenizer(text)
    model = small_network(
        tokenizer.vocab_size,
        "classification",
        labels=LABELS,
        hidden_size=768,
        num_hidden_layers=1,
        num_attention_heads=12,
        initializer_range=0.02,
    )
    model.tokenizer = tokenizer
    found = trace(Predictor(model, Classification(LABELS)), text)
    record.equal("words of the text", 15, len(text.split()))
    record.equal("shapes: [CLS] and the words", "16x768 -> 768 -> 3", found.summary("words", closing=False))
    record.off(
        "the same with the closing [SEP]",
        "16x768",
        "17x768 -> 768 -> 3",
        found.summary("words"),
        "the slide omits the closing [SEP]; BERT's input ends with it",
    )
    record.off(
        "input tokens of the network",
        "16",
        19,
        len(found.tokens),
        "the slide tokenizes on whitespace; in a tokenizer, , and . are separate tokens",
    )
    total = sum(found.answer["probabilities"].values())
    record.near("probabilities of the 3 classes sum to", 1.0, total, digits=2, law=True)
    boxes = [
        Box(f"{step.name}: {step.size}", (n if n < 4 else 7 - n) * 1.4 + 0.1, n // 4)  # back below the first row
        for n, step in enumerate(found.steps)
    ]
    record.show(Flow(boxes, [Arrow(n, n + 1) for n in range(len(boxes) - 1)], "Tensor shapes per step"))
    record.show(Table(["", "shape", "what"], [(step.name, step.size, step.note) for step in found.steps]))
    record.answer(
        f"In the pooler and one linear layer: {768 * 768 + 768:,} and {768 * 3 + 3:,} parameters. The pooler uses only "
        "the vector of the first token, which has attended to all others."
    )


def _heads(record: LessonRecorder, classes: int, tags: int) -> None:
    from ...models.presets import preset
    from ...models.sizes import parameter_count
    from ...report import Table

    base = preset("bert-base")
    bare = parameter_count(base)
    rows = []
    heads = {
        f"{classes} classes": (parameter_count(base, "classification", classes) - bare, 769 * classes),
        f"{tags} tags": (parameter_count(base, "tagging", tags) - (bare - 769 * 768), 769 * tags),
        "start and end": (parameter_count(base, "qa") - (bare - 769 * 768), 768 * 2 + 2),
        "multiple choice": (parameter_count(base, "choice") - bare, 768 + 1),
        "regression": (parameter_count(base, "regression") - bare, 768 + 1),
    }
    for name, (found, slide) in heads.items():
        record.equal(f"new parameters for: {name}", slide, found, law=True)
        rows.append((name, found, f"{found / bare:.4%}"))
    record.show(Table(["final layer", "new numbers", "fraction of BERT-Base"], rows, right=["new numbers"]))
    most = max(found for found, _ in heads.values())
    record.answer(
        f"At most {most:,} of {bare:,} parameters: all others come from pre-training. The report of a run lists the "
        "new weights."
    )


def _scores(
    record: LessonRecorder, true_positives: int, false_negatives: int, false_positives: int, true_negatives: int
) -> None:
    from ...report import Table
    from ...tasks.evaluation.metrics import accuracy, matthews, pearson, spearman

    tp, fn, fp, tn = true_positives, false_negatives, false_positives, true_negatives
    gold = [1] * (tp + fn) + [0] * (fp + tn)
    predicted = [1] * tp + [0] * fn + [1] * fp + [0] * tn
    count, right, product = len(gold), tp + tn, (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    by_hand = (tp * tn - fp * fn) / math.sqrt(product) if product else 0.0
    record.near(
        f"accuracy of {right} correct predictions of {count} (70% of CoLA is acceptable)",
        right / count,
        accuracy(gold, predicted),
        digits=2,
        law=True,
    )
    record.near("Matthews, (TP·TN − FP·FN) / √…", by_hand, matthews(gold, predicted), law=True)
    record.equal("Matthews of 'always acceptable'", 0.0, matthews(gold, [1] * count), law=True)
    similar, guessed = [0.0, 1.0, 2.0, 4.0, 5.0], [0.1, 0.2, 0.4, 1.6, 3.2]
    record.near("Spearman of a nonlinear but monotonic relation", 1.0, spearman(similar, guessed))
    straight = pearson(similar, guessed)
    record.holds("Pearson of the same", "below 1", f"{straight:.4f}", 0.85 < straight < 0.99)
    always = accuracy(gold, [1] * count)
    rows = [
        ("the model", accuracy(gold, predicted), matthews(gold, predicted)),
        ("always acceptable", always, matthews(gold, [1] * count)),
    ]
    record.show(Table(["answers", "accuracy", "Matthews"], rows))
    record.answer(
        f"Because always predicting 'acceptable' is correct for {always:.0%} of such sentences. The Matthews "
        f"correlation of this baseline is 0, that of the model {matthews(gold, predicted):.2f}."
    )


LESSONS = (
    Lesson(
        "shape-trace",
        PART,
        AUTOENCODER,
        "Text Classification: training",
        "From 16 words to 3 numbers",
        "A classifier processes a support ticket. The lesson shows the shape of every tensor: words, vectors, one "
        "vector, three scores. The ticket is our own sentence of exactly as many words as the slide's: 15.",
        ("inference.trace:trace",),
        "Where is the decision made?",
        _shapes,
        (text("text", "Text to classify", ROUTER, 1, 40),),
    ),
    Lesson(
        "final-layer",
        PART,
        AUTOENCODER,
        "Introducing BERT: the final layer",
        "Only the last layer is task-specific",
        "Classes, tags, spans, choices: each task adds one small layer to the same encoder.",
        ("models.sizes:parameter_count",),
        "How much of a fine-tuned BERT is new?",
        _heads,
        (integer("classes", "Number of classes", 3, 2, 1000), integer("tags", "Number of tags", 9, 2, 200)),
    ),
    Lesson(
        "task-scores",
        PART,
        APPLICATIONS,
        "GLUE Tasks",
        "CoLA and the Matthews correlation",
        "Accuracy is high if one class is frequent. The Matthews correlation of a constant prediction is 0. "
        "Spearman's correlation measures order, Pearson's a linear relation.",
        (
            "tasks.evaluation.metrics:matthews",
            "tasks.evaluation.metrics:spearman",
            "tasks.evaluation.metrics:pearson",
            "tasks.evaluation.metrics:accuracy",
        ),
        "Why is CoLA not scored by accuracy?",
        _scores,
        (
            integer("true_positives", "Acceptable, predicted acceptable", 7, 1, 200),
            integer("false_negatives", "Acceptable, predicted unacceptable", 0, 0, 200),
            integer("false_positives", "Unacceptable, predicted acceptable", 2, 0, 200),
            integer("true_negatives", "Unacceptable, predicted unacceptable", 1, 0, 200),
        ),
    ),
)
