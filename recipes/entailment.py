"""Natural language inference: classify the lectures' examples with a model trained on other pairs.

    MASKWRIGHT_DATA=path python recipes/entailment.py -o runs/entailment

Fine-tunes the built-in model `english` on SNLI and MNLI (three epochs, about 15 minutes of one core) and predicts the
five pairs that the SNLI paper and lectures on it print. Every training row with one of their premises is excluded.
Rerun the same command to resume.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from commands import run
from data_sets import data_file
from running import run_main

from maskwright.core.errors import InputError
from maskwright.core.storage import write_text

# Words that name a pair; the sentences are read from the data.
PAIRS = (
    ("East Asian country", "is sleeping"),
    ("An older and younger man smiling", "cats playing on the floor"),
    ("soccer game with multiple males", "are playing a sport"),
    ("black race car starts up", "a lonely road"),
    ("smiling costumed woman is holding", "fairy costume"),
)
PARTS = ("train", "dev")


def main() -> None:
    """Split off the asked pairs, train on the others, predict, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/entailment"))
    parser.add_argument("--epochs", default="3")
    options = parser.parse_args()
    output: Path = options.output
    asked = split_off(output)
    run(
        "finetune", "classification", "--model", "english", "--train", str(output / "train.tsv"),
        "--dev", str(output / "dev.tsv"), "--epochs", options.epochs, "--batch-size", "32",
        "--max-length", "64", "-o", str(output / "run"),
    )  # fmt: skip
    lines = ["| premise | hypothesis | label | predicted | probability |", "| --- | --- | --- | --- | --- |"]
    for premise, hypothesis, label in asked:
        found = run("predict", str(output / "run/model"), premise, "--pair", hypothesis)
        lines.append(f"| {premise} | {hypothesis} | {label} | {found['label']} | {found['score']:.2f} |")
    write_text(output / "table.md", "\n".join(lines) + "\n")
    print("\n".join(lines))


def split_off(output: Path) -> list[tuple[str, str, str]]:
    """Writes train.tsv (SNLI and MNLI) and dev.tsv (SNLI) without the premises of PAIRS.

    Returns the asked pairs with their labels.

    Raises InputError where a pair is not in the data.
    """
    found: dict[tuple[str, str], tuple[str, str, str]] = {}
    for part in PARTS:
        header, *lines = data_file(f"snli/{part}.tsv").read_text(encoding="utf-8").splitlines()
        others = []
        for line in lines:
            premise, hypothesis, label = line.split("\t")
            named = [pair for pair in PAIRS if pair[0] in premise]
            found |= {pair: (premise, hypothesis, label) for pair in named if pair[1] in hypothesis}
            others += [] if named else [line]
        if part == "train":
            others += data_file("mnli/train.tsv").read_text(encoding="utf-8").splitlines()[1:]
        write_text(output / f"{part}.tsv", "\n".join([header, *others]) + "\n")
    missing = [" / ".join(pair) for pair in PAIRS if pair not in found]
    if missing:
        raise InputError(f"SNLI in MASKWRIGHT_DATA lacks the pair {missing[0]}: use the whole development set.")
    return [found[pair] for pair in PAIRS]


if __name__ == "__main__":
    run_main(main)
