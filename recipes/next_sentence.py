"""Next sentence prediction on real text, compared with classifiers that see only length and position.

    MASKWRIGHT_DATA=path python recipes/next_sentence.py -o runs/next-sentence

Continues the built-in model (or trains `--preset` from random weights) with masked tokens and sentence pairs, and
classifies the pairs of held-out documents. Gradient boosting classifies the same pairs from the lengths of A and B and
the position of B, without the text. Then the model learns documents of two sentences, where every B ends its document:
pairs that were never neighbors must not be classified as such. Rerun the same command to resume.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from commands import run
from data_sets import data_file
from running import run_main

import maskwright as mw
from maskwright.core.randomness import generator
from maskwright.core.storage import write_text
from maskwright.data.shards import TextsInMemory
from maskwright.inference.next_sentence import NextSentence
from maskwright.models.model import Model, tokenizer_of
from maskwright.objectives.masked import MaskedLanguageModelingAndNextSentence as Pairs
from maskwright.objectives.segments import Example, sentence_bounds
from maskwright.objectives.selection import make_recipe

TEXTS = ("wikipedia", "novels", "textbooks", "reuters", "speeches")
MAX_LENGTH = 64
EVERY, HELD_OUT_EVERY = 4, 50  # of the documents of each text
BASELINE_EVERY = 12  # of the training documents, for gradient boosting
HELD_OUT_PAIRS = 2000
PAIRS = 300  # of two-sentence documents, per kind
SEQUENCES = 64


def main() -> None:
    """Train, classify the pairs of held-out documents, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/next-sentence"))
    parser.add_argument("--preset", help="train this network from random weights instead of the built-in model")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--two-sentence-steps", type=int, default=60)
    parser.add_argument("--lr", default="1e-4")
    options = parser.parse_args()
    output: Path = options.output
    training, held_out = write_texts(output)
    start = ["--preset", options.preset] if options.preset else ["--model", "english"]
    shared = ["--objective", "mlm+nsp", "--max-length", str(MAX_LENGTH), "--lr", options.lr, "--dropout", "0"]
    run(
        "pretrain", *start, *shared, "--steps", str(options.steps), "--batch-tokens", "1024", "--holdout", "0",
        "-o", str(output / "run"), str(training),
    )  # fmt: skip
    found = {"held-out documents": score(output / "run/model", training, held_out)}

    twos, corpus = two_sentence_documents(held_out), two_sentence_documents(training)
    write_text(output / "two-sentences.txt", "\n\n".join("\n".join(one) for one in corpus) + "\n")
    run(
        "pretrain", "--model", str(output / "run/model"), *shared, "--steps", str(options.two_sentence_steps),
        "--batch-tokens", "1024", "--holdout", "0", "-o", str(output / "two"), str(output / "two-sentences.txt"),
    )  # fmt: skip
    found["documents of two sentences"] = score_two(output / "two/model", twos)
    write_text(output / "results.json", json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


def write_texts(output: Path) -> tuple[Path, Path]:
    """Write the training and the held-out documents, the same every time; returns both files."""
    training, held_out = output / "training.txt", output / "held-out.txt"
    if not held_out.is_file():
        kept: tuple[list[str], list[str]] = ([], [])
        for name in TEXTS:
            for number, document in enumerate(documents_of(data_file(f"pretraining_text/{name}.txt.xz"))):
                if number % HELD_OUT_EVERY == 0:
                    kept[1].append(document)
                elif number % EVERY == 1:
                    kept[0].append(document)
        write_text(training, "\n\n".join(kept[0]) + "\n")
        write_text(held_out, "\n\n".join(kept[1]) + "\n")
    return training, held_out


def documents_of(path: Path) -> Iterator[str]:
    """The documents of a text, packed or not, each with a sentence per line."""
    read = lzma.open if path.suffix == ".xz" else open
    with read(path, "rt", encoding="utf-8") as lines:
        sentences: list[str] = []
        for line in [*lines, ""]:
            if line.strip():
                sentences.append(line.strip())
            elif sentences:
                yield "\n".join(sentences)
                sentences = []


def score(model: Path, training: Path, held_out: Path) -> dict[str, float]:
    """Accuracy of a model, and of gradient boosting without the text, on the pairs of the held-out documents."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    network = mw.load(model)
    texts = encoded(network, held_out)
    examples = planned(network, texts)
    drawn = generator(0, "held-out pairs").permutation(len(examples))[:HELD_OUT_PAIRS]
    examples = [examples[number] for number in sorted(drawn.tolist())]
    labels = np.array([one.is_random for one in examples])
    known = encoded(network, training, BASELINE_EVERY)
    learned = planned(network, known)
    found = {
        "documents": float(len(texts)),
        "pairs": float(len(examples)),
        "nsp_accuracy": accuracy(network, texts, examples),
        "always one class": max(labels.mean(), 1 - labels.mean()),
    }
    for name, columns in (("lengths", slice(0, 4)), ("lengths and position of B", slice(0, None))):
        rows = [np.array([features(own, one) for one in every])[:, columns] for own, every in (
            (known, learned), (texts, examples))]  # fmt: skip
        classifier = HistGradientBoostingClassifier(random_state=0)
        classifier.fit(rows[0], [one.is_random for one in learned])
        found[f"gradient boosting on {name}"] = float((classifier.predict(rows[1]) == labels).mean())
    return found


def encoded(model: Model, path: Path, every: int = 1) -> TextsInMemory:
    """Every `every`-th document of a file."""
    documents = list(documents_of(path))[::every]
    return TextsInMemory.encode([document.split("\n") for document in documents], tokenizer_of(model))


def planned(model: Model, texts: TextsInMemory) -> list[Example]:
    """The pairs of all documents, as pre-training plans them."""
    bounds = {number: sentence_bounds(texts.sentence_lengths_of(number)) for number in range(len(texts))}
    return objective(model).plan(bounds, generator(0, "next sentence"))


def objective(model: Model) -> Pairs:
    """The objective, for the tokenizer of a model."""
    return Pairs(make_recipe(Pairs, tokenizer_of(model), MAX_LENGTH))


@torch.inference_mode()
def accuracy(model: Model, texts: TextsInMemory, examples: Sequence[Example]) -> float:
    """Accuracy of a model on the pairs, with masked tokens, as pre-training evaluates it."""
    right, pairs = 0, objective(model)
    for start in range(0, len(examples), SEQUENCES):
        batch = pairs.batch(texts, examples[start : start + SEQUENCES], generator(0, "masks", start))
        logits = model.nsp_logits(model.pool(model.encode(batch).hidden, batch))  # [sequences, 2]
        right += int((logits.argmax(dim=-1) == batch.labels["nsp"]).sum())
    return right / len(examples)


def features(texts: TextsInMemory, one: Example) -> list[float]:
    """Lengths of A and B, then the position of B in its document."""
    a, b = one.a_stop - one.a_start, one.b_stop - one.b_start
    size = len(texts.document_tokens(one.b_document))
    edges = sentence_bounds(texts.sentence_lengths_of(one.b_document))
    place = [one.b_start, one.b_stop, one.b_start / size, one.b_stop / size, size - one.b_stop, size, len(edges)]
    return [a, b, a + b, a - b, *place, float(one.b_start in edges), float(one.b_stop in edges)]


def two_sentence_documents(path: Path) -> list[tuple[str, str]]:
    """The first two sentences of each document that has them."""
    split = [document.split("\n") for document in documents_of(path)]
    return [(one[0], one[1]) for one in split if len(one) > 1]


def score_two(model: Path, documents: Sequence[tuple[str, str]]) -> dict[str, float]:
    """Mean probability of IsNext of neighbors, and of second sentences that never were neighbors."""
    documents = documents[:PAIRS]
    others = [*documents[1:], documents[0]]
    neighbors = zip(documents, others, strict=True)
    pairs_of = [(one, (one[0], other[1]), (one[1], other[1])) for one, other in neighbors]
    names = ("neighbors", "first sentence and second of another document", "second sentences of two documents")
    judge = NextSentence(mw.load(model))
    found: dict[str, float] = {"pairs of each kind": float(len(documents))}
    for name, pairs in zip(names, zip(*pairs_of, strict=True), strict=True):
        follows = judge.probabilities(pairs)
        found |= {f"{name}: mean": float(follows.mean()), f"{name}: above 0.85": float((follows > 0.85).mean())}
    return found


if __name__ == "__main__":
    run_main(main)
