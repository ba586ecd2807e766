"""What the built-in model `english` does on this machine in about three minutes, without internet.

    make demo                                  on Python's own documentation, and our own support tickets
    make demo CORPUS=texts/ LABELS=rows.csv    on your files

1. Semantic search: questions about Python, answered by passages of its documentation.
2. A classifier of support tickets: TF-IDF, the same network from random weights, and fine-tuned `english`.
3. Classification without labels: the names of the classes are all it gets.
4. Continued pre-training on the documentation: accuracy at masked tokens before and after.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from python_text import PythonText, read_python_text
from sklearn.metrics import confusion_matrix
from tickets import TICKETS, Rows, SystemResult, accuracy_interval, contend, difference_interval, read_rows, tf_idf

import maskwright as mw
from maskwright.core.errors import InputError
from maskwright.core.program import run_program
from maskwright.core.progress import note, warn_once
from maskwright.core.storage import write_text
from maskwright.inference.held_out_text import score_text
from maskwright.inference.search import Hit
from maskwright.report import (
    Command,
    Comparison,
    Confusion,
    Facts,
    Figure,
    Health,
    KeyFigures,
    MaskExample,
    MaskExamples,
    NextSteps,
    Report,
    RunMetadata,
    Score,
    System,
    Table,
    WorstError,
    WorstErrors,
    write_report,
)
from maskwright.text.readers.corpus import read_documents

SEEDS = 3
HELD_OUT = 20  # every 20th document is held out
FINETUNING = {"epochs": 5, "lr": 2e-4, "batch_size": 32, "max_length": 96}
PRETRAINING = {"steps": 60, "batch_tokens": 2048, "max_length": 64, "lr": 3e-4, "warmup": 0.1}
TEMPLATE = "{} support ticket"
QUESTIONS = [
    "How can I repeat a block of code as long as a condition is true?",
    "Which error do I get when a key is not in a dictionary?",
    "How do I make sure that a file is closed after an exception?",
]
SENTENCES = [
    "Return a new [MASK] containing all items from the iterable in ascending order.",
    "If the file does not exist, an [MASK] is raised.",
    "The [MASK] statement is used for repeated execution as long as an expression is true.",
    "Return True if the string is empty, [MASK] otherwise.",
    "This module provides a [MASK] to read and write files.",
]


@dataclass(frozen=True)
class Text:
    """The corpus: training and held-out part, the folder that is searched, and what was read."""

    train: Path
    held_out: Path
    folder: str
    facts: dict[str, Any]
    is_python: bool


@dataclass(frozen=True)
class Masks:
    """Continued pre-training: accuracy at masked tokens of held-out text, and filled masks, before and after."""

    before: float
    after: float
    baseline: float
    examples: list[tuple[MaskExample, MaskExample]]
    seconds: float


@dataclass(frozen=True)
class Findings:
    """Everything that the page shows."""

    model: str
    text: Text
    hits: list[tuple[str, list[Hit]]]
    search_seconds: float
    rows: Rows
    contenders: list[SystemResult]  # TF-IDF, random weights, the model
    without_labels: SystemResult
    masks: Masks
    minutes: float


def main() -> None:
    """Runs the demo and prints the path of the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", help="your text: a file, a folder or a glob")
    parser.add_argument("--labels", type=Path, help="your labeled rows, with a text and a label column")
    parser.add_argument("--model", default="english", help="model to start from; default: english")
    parser.add_argument("--steps", type=int, default=PRETRAINING["steps"], help="steps of continued pre-training")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="seeds of the fine-tuned classifier")
    parser.add_argument("-o", "--output", type=Path, default=Path("demo"))
    options = parser.parse_args()
    began = time.monotonic()
    output: Path = options.output
    text = split_corpus(options.corpus, output) if options.corpus else split_python_text(read_python_text(), output)
    rows = read_rows(options.labels or TICKETS)

    note("1/4  Semantic search")
    start = time.monotonic()
    hits = search(options.model, text)
    search_seconds = time.monotonic() - start

    note("2/4  A classifier of the labeled rows")
    with warn_once():  # all networks read the same rows
        contenders = [tf_idf(rows), *networks(options.model, rows, output, options.seeds)]

    note("3/4  The same classes without any label")
    without_labels = zero_shot(options.model, rows)

    note("4/4  Continued pre-training on the text")
    masks = continue_pretraining(options.model, text, output, options.steps)

    minutes = (time.monotonic() - began) / 60
    found = Findings(options.model, text, hits, search_seconds, rows, contenders, without_labels, masks, minutes)
    page = output / "report.html"
    write_report(page, make_report(found))
    print_summary(found, page)


def split_python_text(text: PythonText, output: Path) -> Text:
    """The documentation of this Python: one file per document to search, and the two parts for pre-training."""
    folder = output / "documentation"
    for name, document in text.named.items():
        write_text(folder / f"{name}.txt", "\n".join(document) + "\n")
    parts = _write_parts(text.documents, output)
    note(f"Text: {', '.join(f'{count} {name}' for name, count in text.sources.items())}.")
    return Text(*parts, str(folder / "topics"), {**text.sources, "characters": text.characters}, is_python=True)


def split_corpus(source: str, output: Path) -> Text:
    """Your text in two parts."""
    documents = [list(document.sentences) for document in read_documents(source)]
    if len(documents) < HELD_OUT:
        raise InputError(
            f"{source} has {len(documents)} documents; {HELD_OUT} or more are needed (blank lines divide)."
        )
    facts = {"read": source, "documents": len(documents)}
    return Text(*_write_parts(documents, output), source, facts, is_python=False)


def _write_parts(documents: list[list[str]], output: Path) -> tuple[Path, Path]:
    paths = output / "train.txt", output / "held-out.txt"
    for path, is_held_out in zip(paths, (False, True), strict=True):
        own = [one for number, one in enumerate(documents) if (number % HELD_OUT == HELD_OUT - 1) is is_held_out]
        write_text(path, "\n\n".join("\n".join(document) for document in own) + "\n")
    return paths


def search(model: str, text: Text) -> list[tuple[str, list[Hit]]]:
    """The two best passages for each question (for your own text: for the first sentences that are held out)."""
    questions = QUESTIONS
    if not text.is_python:
        lines = text.held_out.read_text(encoding="utf-8").splitlines()
        questions = [line for line in lines if line.strip()][: len(QUESTIONS)]
    return list(zip(questions, mw.search(model, text.folder, questions, top_k=2), strict=True))


def networks(model: str, rows: Rows, output: Path, seeds: int) -> list[SystemResult]:
    """The same network fine-tuned from random weights (one seed) and from the model."""
    pretrained = mw.load(model, None)
    scratch = mw.build(pretrained.config, seed=1)
    scratch.tokenizer = pretrained.tokenizer
    return [
        contend("the same network, random weights", [mw.TextClassifier(scratch, **FINETUNING)], rows),
        contend(
            f"{model}, fine-tuned",
            [mw.TextClassifier(model, random_state=seed, **FINETUNING) for seed in range(seeds)],
            rows,
            output / "classifier",
        ),
    ]


def zero_shot(model: str, rows: Rows) -> SystemResult:
    """The test rows classified by the similarity of their embeddings to those of the class names."""
    began = time.monotonic()
    labels = sorted(set(rows.train_labels))
    found = mw.zero_shot(model, rows.test_texts, [label.lower() for label in labels], template=TEMPLATE)
    by_name = {label.lower(): label for label in labels}
    predicted = np.array([by_name[answer["label"]] for answer in found])
    is_right = predicted == np.array(rows.test_labels)
    accuracy = [float(is_right.mean())]
    return SystemResult(
        f"{model}, no labels", accuracy, [], is_right[None], predicted.tolist(), time.monotonic() - began
    )


def continue_pretraining(model: str, text: Text, output: Path, steps: int) -> Masks:
    """Continue pre-training on the training part; score both models on the held-out part."""
    began = time.monotonic()
    config = mw.PretrainConfig(
        corpus=(str(text.train),), start=model, output=output / "pretrain", **{**PRETRAINING, "steps": steps}
    )
    trained = mw.pretrain(config).model
    scores = [
        score_text(mw.load(folder, "mlm"), text.held_out, max_length=PRETRAINING["max_length"]).metrics
        for folder in (model, trained)
    ]
    filled = [fill(folder) for folder in (model, trained)] if text.is_python else [[], []]
    before, after = (score["mlm_accuracy"] for score in scores)
    baseline = scores[0]["mlm_baseline"]
    return Masks(before, after, baseline, list(zip(*filled, strict=True)), time.monotonic() - began)


def fill(model: Path | str) -> list[MaskExample]:
    """Predictions for the masks of some sentences about Python."""
    examples = []
    for sentence, candidates in zip(SENTENCES, mw.FillMask(model, top_k=5).fill(SENTENCES), strict=True):
        before, after = sentence.split("[MASK]")
        predictions = [(candidate.token_str, candidate.score) for candidate in candidates.masks[0].candidates]
        examples.append(MaskExample(before, after, predictions))
    return examples


def make_report(found: Findings) -> Report:
    """The page: the finding, the figures, search, classifiers, masks, next steps."""
    own, masks, rows = found.contenders[-1], found.masks, found.rows
    labels = sorted(set(rows.train_labels) | set(rows.test_labels))
    counts = confusion_matrix(rows.test_labels, own.predicted, labels=labels)
    mistakes = [
        WorstError(text, gold, predicted)
        for text, gold, predicted in zip(rows.test_texts, rows.test_labels, own.predicted, strict=True)
        if gold != predicted
    ]
    systems = [_system(one, "own" if one is own else "baseline") for one in reversed(found.contenders)]
    systems.insert(1, _system(found.without_labels, "own"))
    blocks = [
        KeyFigures(
            [
                Figure(f"Test accuracy, {found.model}", f"{own.mean:.3f}", note=_seeds(own)),
                Figure("Test accuracy, TF-IDF", f"{found.contenders[0].mean:.3f}"),
                Figure("Test accuracy, no labels", f"{found.without_labels.mean:.3f}", note=_majority(rows)),
                Figure(
                    "Masked tokens predicted",
                    f"{masks.after:.1%}",
                    note=f"{masks.before:.1%} before; most common token: {masks.baseline:.1%}",
                ),
                Figure("Minutes", f"{found.minutes:.1f}"),
            ]
        ),
        Comparison(systems, title="Classifiers on the test rows", note=_interval_note(found)),
        Table(
            ["question", "passage", "file", "similarity"],
            [
                [question if rank == 0 else "", _shortened(hit.passage.text), hit.file, f"{hit.score:.2f}"]
                for question, hits in found.hits
                for rank, hit in enumerate(hits)
            ],
            title=f"Semantic search ({found.search_seconds:.0f} s, embeddings included)",
        ),
        MaskExamples([before for before, _ in masks.examples], title=f"Masks filled by {found.model}"),
        MaskExamples([after for _, after in masks.examples], title="The same after continued pre-training"),
        Confusion(labels, counts.tolist(), note=f"{own.name}, last seed, on the test rows."),
        WorstErrors(mistakes, title="Its errors on the test rows"),
        Facts(
            {**found.text.facts, "training rows": len(rows.train_texts), "test rows": len(rows.test_texts)},
            title="The data",
        ),
        RunMetadata(
            "make demo",
            {
                **{f"pre-training {key}": value for key, value in PRETRAINING.items()},
                **{f"fine-tuning {key}": value for key, value in FINETUNING.items()},
            },
        ),
        NextSteps(
            [
                Command('maskwright predict demo/classifier "the screen stays black"', "use the classifier"),
                Command("maskwright studio demo/classifier", "see tokens, attention and predictions as you type"),
                Command("make demo CORPUS=path LABELS=path", "the same on your files"),
            ]
        ),
    ]
    return Report("Maskwright demo", headline(found), _health(found), blocks)


def headline(found: Findings) -> str:
    """The finding in one sentence; differences whose interval includes 0 are called ties."""
    tf_idf_row, _, own = found.contenders
    low, high = difference_interval(own, tf_idf_row)
    verb = "beats" if low > 0 else "loses to" if high < 0 else "ties with"
    return (
        f"{own.name} {verb} TF-IDF on {len(found.rows.test_labels)} test rows: {own.mean:.3f} and "
        f"{tf_idf_row.mean:.3f} accuracy, difference {low:+.3f} to {high:+.3f} (95% interval)."
    )


def _health(found: Findings) -> Health:
    tf_idf_row, scratch, own = found.contenders
    reasons = [f"From random weights the same network reaches {scratch.mean:.3f}."]
    low, high = difference_interval(own, tf_idf_row)
    if low > 0:
        return Health("good", reasons, "Pre-training wins")
    if high < 0:
        return Health("bad", reasons, "TF-IDF wins")
    return Health("watch", [*reasons, "More test rows would narrow the interval."], "No clear winner")


def _system(one: SystemResult, source: Any) -> System:
    low, high = accuracy_interval(one.is_right)
    deviation = float(np.std(one.accuracy, ddof=1)) if len(one.accuracy) > 1 else None
    scores = {
        "accuracy": Score(one.mean, deviation, one.accuracy),
        "95% interval": f"{low:.3f} to {high:.3f}",
        "macro F1": float(np.mean(one.macro_f1)) if one.macro_f1 else None,
    }
    return System(one.name, scores, seeds=len(one.accuracy), note=f"{one.seconds:.0f} s", source=source)


def _interval_note(found: Findings) -> str:
    return (
        f"{len(found.rows.test_labels)} test rows, which decided nothing. Intervals: bootstrap over test rows. "
        f"No labels: cosine similarity to the class names in '{TEMPLATE.format('…')}'."
    )


def _seeds(own: SystemResult) -> str:
    return f"mean of {len(own.accuracy)} seeds" if len(own.accuracy) > 1 else "one seed"


def _majority(rows: Rows) -> str:
    most = max(rows.test_labels.count(label) for label in set(rows.test_labels))
    return f"always the most common class: {most / len(rows.test_labels):.3f}"


def _shortened(text: str, width: int = 240) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1].rsplit(" ", 1)[0] + " …"


def print_summary(found: Findings, page: Path) -> None:
    """The results on the terminal."""
    print(f"\n{headline(found)}\n")
    for one in (*found.contenders, found.without_labels):
        low, high = accuracy_interval(one.is_right)
        print(f"  {one.name:<34} {one.mean:.3f}  ({low:.3f} to {high:.3f})")
    print("\nSemantic search")
    for question, (best, *_) in found.hits:
        print(f"  {question}\n      {best.score:.2f}  {Path(best.file).stem}: {_shortened(best.passage.text, 140)}")
    masks = found.masks
    print(
        f"\nMasked tokens of held-out text predicted: {masks.before:.1%} before, {masks.after:.1%} after continued "
        f"pre-training (most common token: {masks.baseline:.1%})"
    )
    for before, after in masks.examples:
        words = [", ".join(word for word, _ in one.predictions[:3]) for one in (before, after)]
        print(f"  {after.before}[MASK]{after.after}\n      before: {words[0]}; after: {words[1]}")
    results = {one.name: one.accuracy for one in (*found.contenders, found.without_labels)}
    write_text(page.with_name("results.json"), json.dumps(results, indent=2) + "\n")
    print(f"\n{found.minutes:.1f} minutes. The report: {page.resolve()}")


if __name__ == "__main__":
    run_program(main, stopped="Stopped. Rerun the same command to resume.")
