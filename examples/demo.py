"""What a model does on this machine in a few minutes, without internet: one page with tables.

    make demo                                  the built-in `english`, on Python's documentation and our own tickets
    make demo CORPUS=texts/ LABELS=rows.csv    on your files
    make demo-from-scratch                     a small BERT from random weights, pre-trained here

1. Semantic search: questions about Python, answered by passages of its documentation (not from random weights).
2. Pre-training on the documentation: accuracy at masked tokens, before and after.
3. A classifier of support tickets: TF-IDF, the same network from random weights, and the pre-trained one fine-tuned.
4. Classification without labels: the names of the classes are all it gets (not from random weights).
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import time
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from textwrap import shorten
from typing import Any

import numpy as np
from python_text import read_python_text
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import maskwright as mw
from maskwright.core.errors import InputError
from maskwright.core.program import run_program
from maskwright.core.progress import note, warn_once
from maskwright.core.storage import write_json, write_text
from maskwright.inference.held_out_text import score_text
from maskwright.report import Command, Confusion, Facts, NextSteps, Report, Table, WorstError, WorstErrors, write_report
from maskwright.tasks.evaluation.compare import bootstrap_scores
from maskwright.text.readers.corpus import read_documents
from maskwright.text.readers.tables import read_table

TICKETS = Path(__file__).parent / "support_tickets.csv"
HELD_OUT = 20  # every 20th document is held out
TEST_SHARE = 0.2
FINETUNING = {"epochs": 5, "lr": 2e-4, "batch_size": 32, "max_length": 96}
CONTINUED = {"steps": 60, "batch_tokens": 2048, "max_length": 64, "lr": 3e-4, "warmup": 0.1}
# Sized for two CPU cores and a few minutes: steps and epochs were cut for time after a first run, not for score.
SMALL_FINETUNING = {"epochs": 8, "lr": 5e-4, "batch_size": 16, "max_length": 64}
SMALL = {"preset": "bert-tiny", "vocab_size": 2500, "steps": 1500, "batch_tokens": 2048, "max_length": 64, "lr": 1e-3,
         "dropout": 0.0}  # fmt: skip
QUESTIONS = [
    "How can I repeat a block of code as long as a condition is true?",
    "Which error do I get when a key is not in a dictionary?",
    "How do I make sure that a file is closed after an exception?",
]
SENTENCES = [
    "Return a new [MASK] containing all items from the iterable in ascending order.",
    "If the file does not exist, an [MASK] is raised.",
    "Return True if the string is empty, [MASK] otherwise.",
]


@dataclass(frozen=True)
class System:
    """A classifier and its answers for the test rows. is_right: bool [seeds, rows]; predicted: by the last seed."""

    name: str
    is_right: np.ndarray
    predicted: list[str]
    seconds: float

    @property
    def mean(self) -> float:
        """Mean test accuracy."""
        return float(self.is_right.mean())


def main() -> None:
    """Runs the demo and prints the path of the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", help="your text: a file, a folder or a glob")
    parser.add_argument("--labels", type=Path, default=TICKETS, help="your labeled rows: a text and a label column")
    parser.add_argument("--from-scratch", action="store_true", help="start from random weights instead of english")
    parser.add_argument("--steps", type=int, help="steps of pre-training")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of the fine-tuned classifier")
    parser.add_argument("-o", "--output", type=Path, help="default: demo, or demo-from-scratch")
    chosen = parser.parse_args()
    output = chosen.output or Path("demo-from-scratch" if chosen.from_scratch else "demo")
    began, start = time.monotonic(), None if chosen.from_scratch else "english"
    python = None if chosen.corpus else read_python_text()
    documents = python.documents if python else [list(one.sentences) for one in read_documents(chosen.corpus)]
    train, held_out = split_text(documents, output)
    rows = read_rows(chosen.labels)
    blocks: list[Any] = []
    if start:
        note("Semantic search")
        lines = filter(None, held_out.read_text(encoding="utf-8").split("\n"))
        questions, text = (QUESTIONS, output / "topics.txt") if python else (list(lines)[:3], train)
        if python:
            write_text(text, "\n\n".join("\n".join(document) for document in documents[: python.num_topics]) + "\n")
        found = zip(questions, mw.search(start, str(text), questions, top_k=2), strict=True)
        hits = [
            (question, shorten(hit.passage.text, 240, placeholder=" …"), f"{hit.score:.2f}")
            for question, both in found
            for hit in both
        ]
        blocks.append(Table(["question", "passage", "similarity"], hits, title="Semantic search"))

    model, table = pretrain(start, train, held_out, output, chosen)
    blocks.append(table)
    note("A classifier of the labeled rows")
    own = start or "the pre-trained network"
    tuning = FINETUNING if start else SMALL_FINETUNING
    with warn_once():  # all networks read the same rows
        pretrained = mw.load(start or model, None)
        scratch = mw.build(pretrained.config, seed=1)
        scratch.tokenizer = pretrained.tokenizer
        systems = [
            contend("TF-IDF and logistic regression", [tf_idf()], rows),
            contend("the same network, random weights", [mw.TextClassifier(scratch, **tuning)], rows),
        ]
        seeds = [mw.TextClassifier(start or model, random_state=seed, **tuning) for seed in range(chosen.seeds)]
        systems.append(contend(f"{own}, fine-tuned", seeds, rows))
        rmtree(output / "classifier", ignore_errors=True)  # of an earlier run
        seeds[-1].save(output / "classifier")
    if start:
        systems.append(zero_shot(start, rows))
    page = output / "report.html"
    minutes = (time.monotonic() - began) / 60
    write_page(page, rows, systems, blocks, minutes)
    write_json(output / "results.json", {one.name: one.is_right.mean(axis=1).tolist() for one in systems})
    print(f"\n{headline(systems)}\n")
    for one in systems:
        print(f"  {one.name:<34} {one.mean:.3f}")
    for block in blocks:
        print(f"\n{block.title}", *("  " + " | ".join(map(str, row)) for row in block.rows), sep="\n")
    print(f"\n{minutes:.1f} minutes. The report: {page.resolve()}")


def pretrain(
    start: str | None, train: Path, held_out: Path, output: Path, chosen: argparse.Namespace
) -> tuple[Path, Table]:
    """The model folder, and accuracy at masked tokens of held-out text and filled masks, before and after."""
    note("Pre-training on the text")
    settings = (CONTINUED | {"start": start}) if start else SMALL
    settings = settings | ({"steps": chosen.steps} if chosen.steps else {})
    model = mw.pretrain(mw.PretrainConfig(corpus=(str(train),), output=output / "pretrain", **settings)).model
    sentences = [] if chosen.corpus else SENTENCES
    columns = {}
    for name, folder in [*([("before", start)] if start else []), ("after", model)]:
        scores = score_text(mw.load(folder, "mlm"), held_out, max_length=64).metrics
        filled = mw.FillMask(folder, top_k=3).fill(sentences) if sentences else []
        words = [", ".join(one.token_str for one in found.masks[0].candidates) for found in filled]
        columns[name] = [f"{scores['mlm_accuracy']:.1%}", *words]
        columns["most common token"] = [f"{scores['mlm_baseline']:.1%}", *["" for _ in words]]
    rows = zip(["masked tokens predicted", *sentences], *columns.values(), strict=True)
    return model, Table(["", *columns], list(rows), title="Pre-training on the text")


def split_text(documents: list[list[str]], output: Path) -> tuple[Path, Path]:
    """The training part of the text and the held-out one."""
    if len(documents) < HELD_OUT:
        raise InputError(
            f"The text has {len(documents)} documents; {HELD_OUT} or more are needed (blank lines divide)."
        )
    paths = output / "train.txt", output / "held-out.txt"
    for path, is_held_out in zip(paths, (False, True), strict=True):
        own = [one for number, one in enumerate(documents) if (number % HELD_OUT == HELD_OUT - 1) is is_held_out]
        write_text(path, "\n\n".join("\n".join(document) for document in own) + "\n")
    return paths


Rows = tuple[list[str], list[str], list[str], list[str]]  # training texts and labels, test texts and labels


def read_rows(path: Path) -> Rows:
    """Labeled rows: by their `split` column if there is one, else a fifth for the test, by a hash of the text."""
    with path.open(encoding="utf-8-sig", newline="") as handle:
        has_split = "split" in next(csv.reader(handle), [])
    if has_split:
        parts = [read_table(path, where={"split": part}).rows for part in ("train", "test")]
    else:
        rows = read_table(path).rows
        is_test = [int(hashlib.sha256(row.text.encode()).hexdigest(), 16) % 100 < 100 * TEST_SHARE for row in rows]
        parts = [[row for row, test in zip(rows, is_test, strict=True) if test == wanted] for wanted in (False, True)]
    if not all(parts):
        raise InputError(f"{path} has too few rows for a test set: pass about 50 labeled rows or more.")
    (train, train_labels), (test, test_labels) = (
        ([row.text for row in part], [str(row.label) for row in part]) for part in parts
    )
    return train, train_labels, test, test_labels


def tf_idf() -> Any:
    """TF-IDF of words and bigrams with logistic regression, its regularization chosen by cross-validation."""
    pipeline = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LogisticRegression(max_iter=1000))
    return GridSearchCV(pipeline, {"logisticregression__C": [0.3, 1, 3, 10, 30]}, cv=5)


def contend(name: str, classifiers: list[Any], rows: Rows) -> System:
    """Fit each classifier on the training rows and score it on the test rows, which decide nothing."""
    train, train_labels, test, test_labels = rows
    began, is_right, predicted = time.monotonic(), [], np.array([])
    for classifier in classifiers:
        predicted = classifier.fit(train, train_labels).predict(test)
        is_right.append(predicted == np.array(test_labels))
    return System(name, np.array(is_right), list(predicted), time.monotonic() - began)


def zero_shot(model: str, rows: Rows) -> System:
    """The test rows classified by the similarity of their embeddings to those of the class names."""
    began, (_, train_labels, test, test_labels) = time.monotonic(), rows
    by_name = {label.lower(): label for label in sorted(set(train_labels))}
    found = mw.zero_shot(model, test, list(by_name), template="{} support ticket")
    predicted = [by_name[answer["label"]] for answer in found]
    is_right = np.array(predicted) == np.array(test_labels)
    return System(f"{model}, no labels", is_right[None], predicted, time.monotonic() - began)


def headline(systems: list[System]) -> str:
    """The finding in one sentence; differences whose interval includes 0 are called ties."""
    baseline, _, own = systems[:3]
    found = bootstrap_scores(own.is_right.mean(axis=0), baseline.is_right.mean(axis=0))
    verb = "beats" if found.low > 0 else "loses to" if found.high < 0 else "ties with"
    return (
        f"{own.name} {verb} TF-IDF on {found.num_rows} test rows: {own.mean:.3f} and {baseline.mean:.3f} accuracy, "
        f"difference {found.low:+.3f} to {found.high:+.3f} (95% interval)."
    )


def write_page(path: Path, rows: Rows, systems: list[System], blocks: list[Any], minutes: float) -> None:
    """The page: the finding, the classifiers, their errors, search, masks, next steps."""
    _, train_labels, test, test_labels = rows
    labels, own = sorted(set(train_labels) | set(test_labels)), systems[2]
    answers = zip(test, test_labels, own.predicted, strict=True)
    errors = [WorstError(text, gold, predicted) for text, gold, predicted in answers if gold != predicted]
    table = [(one.name, f"{one.mean:.3f}", len(one.is_right), f"{one.seconds:.0f} s") for one in systems]
    counts = confusion_matrix(test_labels, own.predicted, labels=labels).tolist()
    facts = {"training rows": len(train_labels), "test rows": len(test), "minutes": f"{minutes:.1f}"}
    commands = [
        Command(f'maskwright predict {path.parent / "classifier"} "the screen stays black"', "use the classifier"),
        Command(f"maskwright studio {path.parent / 'classifier'}", "see tokens, attention and predictions"),
        Command("make demo CORPUS=path LABELS=path", "the same on your files"),
    ]
    blocks = [
        Table(["classifier", "test accuracy", "seeds", "time"], table, title="Classifiers on the test rows"),
        *blocks,
        Confusion(labels, counts, note=f"{own.name}, last seed, on the test rows."),
        WorstErrors(errors, title="Its errors on the test rows"),
        Facts(facts, title="The data"),
        NextSteps(commands),
    ]
    write_report(path, Report("Maskwright demo", headline(systems), blocks=blocks))


if __name__ == "__main__":
    run_program(main, stopped="Stopped. Rerun the same command to resume.")
