"""From random weights in a few minutes: text -> tokenizer -> BERT -> filled masks -> a classifier and two baselines.

    make demo-from-scratch                                  on Python's own documentation, and our own tickets
    make demo-from-scratch CORPUS=texts/ LABELS=rows.csv    on your files

Everything is read from this machine; nothing is downloaded. The report compares the three classifiers.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from python_text import write_python_text
from sklearn.metrics import confusion_matrix
from tickets import TICKETS, Rows, SystemResult, contend, read_rows, tf_idf

import maskwright as mw
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
from maskwright.train.pretraining.pretrain import PretrainResult

SEEDS = 3
# Sized for two CPU cores and a few minutes: steps and epochs were cut for time after a first run, not for score.
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


def main() -> None:
    """Runs the demo and prints the path of the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", help="your text: a file, a folder or a glob")
    parser.add_argument("--labels", type=Path, help="your labeled rows, with a text and a label column")
    parser.add_argument("--steps", type=int, default=PRETRAINING["steps"], help="steps of pre-training")
    parser.add_argument("-o", "--output", type=Path, default=Path("demo-from-scratch"))
    options = parser.parse_args()
    began = time.monotonic()
    output: Path = options.output
    source, facts = (options.corpus, {"read": options.corpus}) if options.corpus else write_python_text(output)
    rows = read_rows(options.labels or TICKETS)

    note("1/3  Pre-training a small BERT on the text")
    config = mw.PretrainConfig(
        corpus=(str(source),), output=output / "pretrain", **{**PRETRAINING, "steps": options.steps}
    )
    pretrained = mw.pretrain(config)
    filled = fill(pretrained.model, options.corpus is None)

    note("2/3  Three classifiers: TF-IDF, the network without pre-training, the pre-trained network")
    contenders = [tf_idf(rows), *networks(pretrained.model, rows, output)]

    note("3/3  Writing the page")
    page = output / "report.html"
    minutes = (time.monotonic() - began) / 60
    write_report(page, make_report(pretrained, filled, rows, contenders, facts, options, minutes))
    print_summary(pretrained, filled, contenders, page, minutes)


def fill(model: Path, about_python: bool) -> list[MaskExample]:
    """Predictions for the masked words of some sentences about Python."""
    if not about_python:
        return []
    examples = []
    for sentence, candidates in zip(SENTENCES, mw.FillMask(model, top_k=5).fill(SENTENCES), strict=True):
        before, after = sentence.split("[MASK]")
        guesses = [(candidate.token_str, candidate.score) for candidate in candidates.masks[0].candidates]
        examples.append(MaskExample(before, after, guesses))
    return examples


def networks(model: Path, rows: Rows, output: Path) -> list[SystemResult]:
    """The same network fine-tuned from random and from pre-trained weights, three seeds each."""
    pretrained = mw.load(model)
    scratch = mw.build(pretrained.config, seed=1)
    scratch.tokenizer = pretrained.tokenizer
    return [
        contend(
            name,
            [mw.TextClassifier(start, random_state=seed, **FINETUNING) for seed in range(SEEDS)],
            rows,
            output / "classifier" if start is pretrained else None,
        )
        for name, start in (("the network without pre-training", scratch), ("the pre-trained network", pretrained))
    ]


def make_report(
    pretrained: PretrainResult,
    filled: list[MaskExample],
    rows: Rows,
    contenders: list[SystemResult],
    facts: dict[str, str | int],
    options: argparse.Namespace,
    minutes: float,
) -> Report:
    """The page: who won, by how much, the figures, the filled masks, the mistakes, and what to do next."""
    own = contenders[-1]
    labels = sorted(set(rows.train_labels) | set(rows.test_labels))
    counts = confusion_matrix(rows.test_labels, own.predicted, labels=labels)
    mistakes = [
        WorstError(text, gold, guess)
        for text, gold, guess in zip(rows.test_texts, rows.test_labels, own.predicted, strict=True)
        if gold != guess
    ]
    scores = pretrained.scores
    systems = [
        System(
            contender.name,
            {"accuracy": _score(contender.accuracy), "macro F1": _score(contender.macro_f1)},
            seeds=len(contender.accuracy),
            note=f"{contender.seconds:.0f} s",
            source="baseline" if contender is not own else "own",
        )
        for contender in reversed(contenders)
    ]
    blocks = [
        KeyFigures(
            [
                Figure("Test accuracy, pre-trained", f"{np.mean(own.accuracy):.3f}", note=f"mean of {SEEDS} seeds"),
                Figure("Test accuracy, not pre-trained", f"{np.mean(contenders[1].accuracy):.3f}"),
                Figure("Test accuracy, TF-IDF", f"{np.mean(contenders[0].accuracy):.3f}"),
                Figure("Masked tokens right", f"{100 * scores['mlm_accuracy']:.1f}%", note=_baseline(pretrained)),
                Figure("Minutes in all", f"{minutes:.1f}"),
            ]
        ),
        Comparison(systems, title="Classifiers on the test rows", note=_caution(rows)),
        MaskExamples(filled, title="Masks in sentences about Python"),
        Confusion(labels, counts.tolist(), note="The pre-trained network, last seed, on the test rows."),
        WorstErrors(mistakes, title="Its mistakes on the test rows"),
        Facts({**facts, "training rows": len(rows.train_texts), "test rows": len(rows.test_texts)}, title="The data"),
        RunMetadata(
            "make demo-from-scratch",
            {**PRETRAINING, **{f"fine-tuning {key}": value for key, value in FINETUNING.items()}},
        ),
        Paragraph(f"The pre-training run has a separate page: {pretrained.report}"),
        NextSteps(
            [
                Command(
                    f'maskwright predict {options.output / "classifier"} "the screen stays black"', "use the classifier"
                ),
                Command("make demo-from-scratch CORPUS=path LABELS=path", "the same with your own files"),
            ]
        ),
    ]
    return Report("Maskwright demo from random weights", headline(contenders), _health(contenders), blocks)


def headline(contenders: list[SystemResult]) -> str:
    """Who won, in one sentence; a tie within two deviations is called one."""
    tf_idf_score, scratch, own = (float(np.mean(contender.accuracy)) for contender in contenders)
    gain = f"pre-training moves the network from {scratch:.3f} to {own:.3f}"
    if tf_idf_score > own:
        return f"TF-IDF wins on these test rows ({tf_idf_score:.3f} accuracy); {gain}."
    if tf_idf_score == own:
        return f"The pre-trained network and TF-IDF tie at {own:.3f} accuracy; {gain}."
    return f"The pre-trained network wins with {own:.3f} accuracy, TF-IDF gets {tf_idf_score:.3f}; {gain}."


def _health(contenders: list[SystemResult]) -> Health:
    tf_idf_score, scratch, own = (float(np.mean(contender.accuracy)) for contender in contenders)
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
    return f"always the most common token: {100 * pretrained.baseline.mlm_accuracy:.1f}%"


def print_summary(
    pretrained: PretrainResult, filled: list[MaskExample], contenders: list[SystemResult], page: Path, minutes: float
) -> None:
    """The results on the terminal."""
    print(f"\n{headline(contenders)}\n")
    print(
        "masked tokens predicted correctly on held-out text: "
        f"{pretrained.scores['mlm_accuracy']:.1%} ({_baseline(pretrained)})"
    )
    for example in filled:
        words = ", ".join(f"{word} {share:.0%}" for word, share in example.predictions[:3])
        print(f"  {example.before}[MASK]{example.after}\n      {words}")
    print("\ntest accuracy and macro F1")
    for contender in contenders:
        seeds = f"mean of {len(contender.accuracy)} seeds" if len(contender.accuracy) > 1 else ""
        print(f"  {contender.name:<34} {np.mean(contender.accuracy):.3f}  {np.mean(contender.macro_f1):.3f}  {seeds}")
    results = {contender.name: contender.accuracy for contender in contenders}
    write_text(page.with_name("results.json"), json.dumps(results, indent=2) + "\n")
    print(f"\n{minutes:.1f} minutes. The report: {page.resolve()}")


if __name__ == "__main__":
    run_program(main, stopped="Stopped. Rerun the same command to resume.")
