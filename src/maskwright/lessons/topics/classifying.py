"""From a text to a class: shapes, heads, and scores of answers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..lesson import APPLICATIONS, AUTOENCODER, Lesson

if TYPE_CHECKING:
    from ..sheet import Sheet

PART = "Tasks"
ROUTER = "My router's led is not working, I tried changing the power socket but still no light."
LABELS = ("Billing", "Hardware", "Software")


def _shapes(sheet: Sheet) -> None:
    from ...inference.predict import Predictor
    from ...inference.trace import trace
    from ...tasks.classification import Classification
    from ...train.report import Arrow, Box, Flow, Table
    from ..small import small_network, word_tokenizer

    tokenizer = word_tokenizer(ROUTER)
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
    found = trace(Predictor(model, Classification(LABELS)), ROUTER)
    sheet.equal("words between white space", 16, len(found.words))
    sheet.equal("shapes, by words", "16x768 -> 768 -> 3", found.summary("words"))
    sheet.off(
        "tokens that the network sees",
        "16",
        22,
        len(found.tokens),
        "the slide counts words at white space; the tokenizer also splits punctuation, and adds [CLS] and [SEP]",
    )
    total = sum(found.answer["probabilities"].values())
    sheet.near("probabilities of the 3 classes sum to", 1.0, total, 1e-6, digits=2)
    boxes = [
        Box(f"{step.name}: {step.size}", (n if n < 4 else 7 - n) * 1.4 + 0.1, n // 4)  # back below the first row
        for n, step in enumerate(found.steps)
    ]
    sheet.show(Flow(boxes, [Arrow(n, n + 1) for n in range(len(boxes) - 1)], "Shapes along the way"))
    sheet.show(Table(["", "shape", "what"], [(step.name, step.size, step.note) for step in found.steps]))
    sheet.answer(
        f"In the pooler and one linear layer: {768 * 768 + 768:,} and {768 * 3 + 3:,} parameters. The network passes "
        "on the vector of the first token alone, which has seen all others."
    )


def _heads(sheet: Sheet) -> None:
    from ...models.describe import parameter_count
    from ...models.presets import preset
    from ...train.report import Table

    base = preset("bert-base")
    bare = parameter_count(base)
    rows = []
    heads = {
        "3 classes": (parameter_count(base, "classification", 3) - bare, 768 * 3 + 3),
        "9 tags": (parameter_count(base, "tagging", 9) - (bare - 769 * 768), 768 * 9 + 9),
        "start and end": (parameter_count(base, "qa") - (bare - 769 * 768), 768 * 2 + 2),
        "one of several texts": (parameter_count(base, "choice") - bare, 768 + 1),
        "a number": (parameter_count(base, "regression") - bare, 768 + 1),
    }
    for name, (found, slide) in heads.items():
        sheet.equal(f"new numbers for: {name}", slide, found)
        rows.append((name, found, f"{found / bare:.4%}"))
    sheet.show(Table(["final layer", "new numbers", "share of BERT-Base"], rows, right=["new numbers"]))
    most = max(found for found, _ in heads.values())
    sheet.answer(
        f"At most {most:,} of {bare:,}: everything else comes from pre-training. When a folder is opened for another "
        "task, the report of the run lists which weights are new."
    )


def _scores(sheet: Sheet) -> None:
    from ...tasks.metrics import accuracy, matthews, pearson, spearman
    from ...train.report import Table

    gold, predicted = [1, 1, 1, 1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1, 1, 0]
    by_hand = (7 * 1 - 2 * 0) / math.sqrt((7 + 2) * 7 * 3 * 1)
    sheet.near("accuracy of 8 right in 10 (CoLA has 70 % acceptable)", 0.8, accuracy(gold, predicted), 1e-9, digits=2)
    sheet.near("Matthews, (TP·TN − FP·FN) / √…", by_hand, matthews(gold, predicted), 1e-9)
    sheet.near("Matthews of 'always acceptable'", 0.0, matthews(gold, [1] * 10), 1e-9)
    similar, guessed = [0.0, 1.0, 2.0, 4.0, 5.0], [0.1, 0.2, 0.4, 1.6, 3.2]
    sheet.near("Spearman of a bent but rising line", 1.0, spearman(similar, guessed), 1e-9)
    straight = pearson(similar, guessed)
    sheet.holds("Pearson of the same", "below 1", f"{straight:.4f}", 0.85 < straight < 0.99)
    always = accuracy(gold, [1] * 10)
    rows = [
        ("the model", accuracy(gold, predicted), matthews(gold, predicted)),
        ("always acceptable", always, matthews(gold, [1] * 10)),
    ]
    sheet.show(Table(["answers", "accuracy", "Matthews"], rows))
    sheet.answer(
        f"Because always saying 'acceptable' is right for {always:.0%} of such sentences and knows nothing: its "
        f"Matthews correlation is 0, that of the model {matthews(gold, predicted):.2f}."
    )


LESSONS = (
    Lesson(
        "shape-trace",
        PART,
        AUTOENCODER,
        "Text Classification: training",
        "From 16 words to 3 numbers",
        "The way of a support ticket through a classifier, with the shape of every tensor: words, vectors, one vector, "
        "three scores.",
        ("inference.trace:trace",),
        "Where is the decision made?",
        _shapes,
    ),
    Lesson(
        "final-layer",
        PART,
        AUTOENCODER,
        "Introducing BERT: the final layer",
        "Only the last layer belongs to the task",
        "Classes, tags, spans, choices: each task puts one small layer on the same encoder.",
        ("models.describe:parameter_count",),
        "How much of a fine-tuned BERT is new?",
        _heads,
    ),
    Lesson(
        "task-scores",
        PART,
        APPLICATIONS,
        "GLUE Tasks",
        "Why CoLA has a score of its own",
        "Accuracy flatters where one class is common. Matthews correlation is 0 for whoever always says the same; "
        "correlations of similarity look at order, or at straight lines.",
        ("tasks.metrics:matthews", "tasks.metrics:spearman", "tasks.metrics:pearson", "tasks.metrics:accuracy"),
        "Why is CoLA not scored by accuracy?",
        _scores,
    ),
)
