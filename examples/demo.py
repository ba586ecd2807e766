"""The demo: text -> tokenizer -> BERT -> masked-token predictions -> a classifier, compared with two baselines.

    make demo                                  on the documentation that this Python carries, and our own tickets
    make demo CORPUS=texts/ LABELS=rows.csv    on your files

Nothing is downloaded. The report names the best system.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from python_text import read_python_text
from sklearn.base import BaseEstimator
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, f1_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import maskwright as mw
from maskwright.core.errors import InputError
from maskwright.core.program import run_program
from maskwright.core.progress import note
from maskwright.core.storage import write_text
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
    Paragraph,
    Report,
    RunMetadata,
    Score,
    System,
    WorstError,
    WorstErrors,
    write_report,
)
from maskwright.text.readers.tables import read_table
from maskwright.train.pretraining.pretrain import PretrainResult

HERE = Path(__file__).parent
TICKETS = HERE / "support_tickets.csv"
SEEDS = 3
TEST_SHARE = 0.2
# Sized for two CPU cores and a few minutes: steps and epochs were reduced for time after a first run, not for score.
PRETRAINING = {
    "preset": "bert-tiny",
    "vocab_size": 2500,
    "steps": 1500,
    "batch_tokens": 2048,
    "max_length": 64,
    "lr": 1e-3,
    "dropout": 0.0,
}
FINETUNING = {"epochs": 8, "lr": 5e-4, "batch_size": 16, "max_length": 64}
SENTENCES = [
    "Return a new [MASK] containing all items from the iterable in ascending order.",
    "If the file does not exist, an [MASK] is raised.",
    "The [MASK] statement is used for repeated execution as long as an expression is true.",
    "Return True if the string is empty, [MASK] otherwise.",
    "This module provides a [MASK] to read and write files.",
]


@dataclass(frozen=True)
class Rows:
    """Labeled texts: for training, and for the test that decides nothing."""

    train_texts: list[str]
    train_labels: list[str]
    test_texts: list[str]
    test_labels: list[str]


@dataclass(frozen=True)
class SystemScore:
    """A classifier and its test scores, one for each seed, with the last seed's answers."""

    name: str
    accuracy: list[float]
    macro_f1: list[float]
    predicted: list[str]
    seconds: float


def main() -> None:
    """Run the demo and print the path of the report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", help="your text: a file, a folder or a glob")
    parser.add_argument("--labels", type=Path, help="your labeled rows, with a text and a label column")
    parser.add_argument("-o", "--output", type=Path, default=Path("demo"))
    options = parser.parse_args()
    began = time.monotonic()
    output: Path = options.output
    source, facts = (options.corpus, {"read": options.corpus}) if options.corpus else write_python_text(output)
    rows = read_rows(options.labels or TICKETS)

    note("1/3  Pre-training a small BERT on the text")
    config = mw.PretrainConfig(corpus=(str(source),), output=output / "pretrain", **PRETRAINING)
    pretrained = mw.pretrain(config)
    filled = fill(pretrained.model, options.corpus is None)

    note("2/3  Three classifiers: TF-IDF, the network without pre-training, the pre-trained network")
    systems = [tf_idf(rows), *networks(pretrained.model, rows, output)]

    note("3/3  Writing the page")
    page = output / "report.html"
    minutes = (time.monotonic() - began) / 60
    write_report(page, make_report(pretrained, filled, rows, systems, facts, options, minutes))
    print_summary(pretrained, filled, systems, page, minutes)


def write_python_text(output: Path) -> tuple[Path, dict[str, str | int]]:
    """The documentation of this Python as a corpus file, and what was read."""
    text = read_python_text()
    path = output / "corpus.txt"
    write_text(path, "\n\n".join("\n".join(document) for document in text.documents) + "\n")
    note(
        f"Text: {', '.join(f'{count} {name}' for name, count in text.sources.items())}; {text.characters:,} characters."
    )
    return path, {**text.sources, "characters": text.characters}


def read_rows(path: Path) -> Rows:
    """Labeled rows: by their `split` column where there is one, else a fifth for the test, by a hash of the text."""
    with path.open(encoding="utf-8-sig", newline="") as handle:
        has_split = "split" in (next(csv.reader(handle), []))
    if has_split:
        parts = [read_table(path, where={"split": part}).rows for part in ("train", "test")]
    else:
        rows = read_table(path).rows
        is_test = [int(hashlib.sha256(row.text.encode()).hexdigest(), 16) % 100 < 100 * TEST_SHARE for row in rows]
        parts = [[row for row, test in zip(rows, is_test, strict=True) if test == wanted] for wanted in (False, True)]
    if not all(parts):
        raise InputError(f"{path} has too few rows to set a test aside: about 50 labeled rows are the least.")
    (train_texts, train_labels), (test_texts, test_labels) = (
        ([row.text for row in part], [str(row.label) for row in part]) for part in parts
    )
    note(f"Labeled rows: {len(train_texts)} for training, {len(test_texts)} held out for the test.")
    return Rows(train_texts, train_labels, test_texts, test_labels)


def fill(model: Path, about_python: bool) -> list[MaskExample]:
    """Predict the masked words of some sentences about Python."""
    if not about_python:
        return []
    examples = []
    for sentence, candidates in zip(SENTENCES, mw.FillMask(model, top_k=5).fill(SENTENCES), strict=True):
        before, after = sentence.split("[MASK]")
        guesses = [(candidate.token_str, candidate.score) for candidate in candidates.masks[0].candidates]
        examples.append(MaskExample(before, after, guesses))
    return examples


def networks(model: Path, rows: Rows, output: Path) -> list[SystemScore]:
    """The same network fine-tuned from random and from pre-trained weights, three seeds each."""
    pretrained = mw.load(model)
    scratch = mw.build(pretrained.config, seed=1)
    scratch.tokenizer = pretrained.tokenizer
    return [
        score_system(
            name,
            [mw.TextClassifier(start, random_state=seed, **FINETUNING) for seed in range(SEEDS)],
            rows,
            output / "classifier" if start is pretrained else None,
        )
        for name, start in (("the network without pre-training", scratch), ("the pre-trained network", pretrained))
    ]


def tf_idf(rows: Rows) -> SystemScore:
    """Word and word-pair counts with logistic regression, its strength chosen by cross-validation."""
    pipeline = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LogisticRegression(max_iter=1000))
    search = GridSearchCV(pipeline, {"logisticregression__C": [0.3, 1, 3, 10, 30]}, cv=5)
    return score_system("TF-IDF and logistic regression", [search], rows)


def score_system(name: str, classifiers: list[BaseEstimator], rows: Rows, folder: Path | None = None) -> SystemScore:
    """Fit each classifier on the training rows and score it on the test; keep the last one's model in `folder`."""
    began = time.monotonic()
    accuracy, macro_f1, predicted = [], [], np.array([])
    for classifier in classifiers:
        classifier.fit(rows.train_texts, rows.train_labels)
        predicted = classifier.predict(rows.test_texts)
        accuracy.append(float((predicted == np.array(rows.test_labels)).mean()))
        macro_f1.append(float(f1_score(rows.test_labels, predicted, average="macro")))
    if folder is not None:
        classifiers[-1].save(folder)
    seconds = time.monotonic() - began
    note(f"     {name}: test accuracy {np.mean(accuracy):.3f}")
    return SystemScore(name, accuracy, macro_f1, predicted.tolist(), seconds)


def make_report(
    pretrained: PretrainResult,
    filled: list[MaskExample],
    rows: Rows,
    systems: list[SystemScore],
    facts: dict[str, str | int],
    options: argparse.Namespace,
    minutes: float,
) -> Report:
    """The page: who won, by how much, the figures, the filled masks, the mistakes, and what to do next."""
    own = systems[-1]
    labels = sorted(set(rows.train_labels) | set(rows.test_labels))
    counts = confusion_matrix(rows.test_labels, own.predicted, labels=labels)
    mistakes = [
        WorstError(text, gold, guess)
        for text, gold, guess in zip(rows.test_texts, rows.test_labels, own.predicted, strict=True)
        if gold != guess
    ]
    scores = pretrained.scores
    rows_shown = [
        System(
            system.name,
            {"accuracy": _score(system.accuracy), "macro F1": _score(system.macro_f1)},
            seeds=len(system.accuracy),
            note=f"{system.seconds:.0f} s",
            source="baseline" if system is not own else "own",
        )
        for system in reversed(systems)
    ]
    blocks = [
        KeyFigures(
            [
                Figure("Test accuracy, pre-trained", f"{np.mean(own.accuracy):.3f}", note=f"mean of {SEEDS} seeds"),
                Figure("Test accuracy, not pre-trained", f"{np.mean(systems[1].accuracy):.3f}"),
                Figure("Test accuracy, TF-IDF", f"{np.mean(systems[0].accuracy):.3f}"),
                Figure("Masked tokens right", f"{100 * scores['mlm_accuracy']:.1f} %", note=_baseline(pretrained)),
                Figure("Minutes in all", f"{minutes:.1f}"),
            ]
        ),
        Comparison(rows_shown, title="Classifiers on the test rows", note=_caution(rows)),
        MaskExamples(filled, title="Masks in sentences about Python"),
        Confusion(labels, counts.tolist(), note="The pre-trained network, last seed, on the test rows."),
        WorstErrors(mistakes, title="Its mistakes on the test rows"),
        Facts({**facts, "training rows": len(rows.train_texts), "test rows": len(rows.test_texts)}, title="The data"),
        RunMetadata("make demo", {**PRETRAINING, **{f"fine-tuning {key}": value for key, value in FINETUNING.items()}}),
        Paragraph(f"The pre-training run has a separate report: {pretrained.report}"),
        NextSteps(
            [
                Command(
                    f'maskwright predict {options.output / "classifier"} "the screen stays black"', "use the classifier"
                ),
                Command("make demo CORPUS=path LABELS=path", "the same with your own files"),
            ]
        ),
    ]
    return Report("Maskwright demo", headline(systems), _health(systems), blocks)


def headline(systems: list[SystemScore]) -> str:
    """Who won, in one sentence; a tie within two deviations is called one."""
    tf_idf_score, scratch, own = (float(np.mean(system.accuracy)) for system in systems)
    gain = f"pre-training moves the network from {scratch:.3f} to {own:.3f}"
    if tf_idf_score > own:
        return f"TF-IDF wins on these test rows ({tf_idf_score:.3f} accuracy); {gain}."
    if tf_idf_score == own:
        return f"The pre-trained network and TF-IDF tie at {own:.3f} accuracy; {gain}."
    return f"The pre-trained network wins with {own:.3f} accuracy, TF-IDF gets {tf_idf_score:.3f}; {gain}."


def _health(systems: list[SystemScore]) -> Health:
    tf_idf_score, scratch, own = (float(np.mean(system.accuracy)) for system in systems)
    if own <= scratch:
        level, word, advice = "bad", "Pre-training did not help here", "More text, or nearer text, may change that."
    elif own <= tf_idf_score:
        level, word, advice = "watch", "Counting words is as good", "Prefer it here, or pre-train on more text."
    else:
        level, word, advice = "good", "Pre-training helps", "The result is above counting words too."
    return Health(level, [advice], word)  # type: ignore[arg-type]


def _caution(rows: Rows) -> str:
    error = 0.5 / np.sqrt(len(rows.test_labels))
    return (
        f"{len(rows.test_labels)} test rows: differences below about {2 * error:.2f} are within chance. "
        "The deviation is over seeds."
    )


def _score(values: list[float]) -> Score:
    return Score(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None, values)


def _baseline(pretrained: PretrainResult) -> str:
    return f"most common token: {100 * pretrained.baseline.mlm_accuracy:.1f}%"


def print_summary(
    pretrained: PretrainResult, filled: list[MaskExample], systems: list[SystemScore], page: Path, minutes: float
) -> None:
    """The results on the terminal."""
    print(f"\n{headline(systems)}\n")
    print(f"masked-token accuracy on held-out text:  {pretrained.scores['mlm_accuracy']:.1%} ({_baseline(pretrained)})")
    for example in filled:
        words = ", ".join(f"{word} {share:.0%}" for word, share in example.guesses[:3])
        print(f"  {example.before}[MASK]{example.after}\n      {words}")
    print("\ntest accuracy and macro F1")
    for system in systems:
        seeds = f"mean of {len(system.accuracy)} seeds" if len(system.accuracy) > 1 else ""
        print(f"  {system.name:<34} {np.mean(system.accuracy):.3f}  {np.mean(system.macro_f1):.3f}  {seeds}")
    results = {system.name: system.accuracy for system in systems}
    write_text(page.with_name("results.json"), json.dumps(results, indent=2) + "\n")
    print(f"\n{minutes:.1f} minutes. The report: {page.resolve()}")


if __name__ == "__main__":
    run_program(main, stopped="Stopped. Rerun the same command to resume.")
