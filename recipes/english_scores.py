"""Scores of an English encoder on dev splits, without fine-tuning and, on request, fine-tuned.

    MASKWRIGHT_DATA=path python recipes/english_scores.py runs/english/model --tuned runs/english/tuned

STS-B: Spearman correlation of cosine similarities. AG News: logistic regression on frozen embeddings of 500 rows, five
random samples, compared with TF-IDF on the same rows. --tuned fine-tunes on AG News (500 rows) and SST-2 (3,000 rows)
with three seeds each; rerun the same command to resume. Test sets are not used.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import data_file, run_main

from maskwright.api import open_embedder
from maskwright.core import storage
from maskwright.core.randomness import generator
from maskwright.tasks.evaluation.metrics import spearman
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.finetuning.finetune import finetune

PROBE_ROWS, PROBE_DRAWS = 500, 5
TUNED = {"agnews": 500, "sst2": 3000}  # rows of each
OCCUPATIONS = ("doctor", "nurse", "engineer", "teacher", "secretary", "soldier", "lawyer", "dancer", "farmer", "clerk")
PRONOUN_TEMPLATES = ("[MASK] is a {}.", "[MASK] was a {} for many years.", "[MASK] works as a {}.")
Row = dict[str, str]


def main() -> None:
    """Print the scores as JSON."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", help="a model folder")
    options.add_argument("--tuned", type=Path, help="fine-tune as well, in this folder")
    options.add_argument("--threads", type=int)
    chosen = options.parse_args()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    found = scores(chosen.model)
    if chosen.tuned is not None:
        found |= tuned_scores(chosen.model, chosen.tuned)
    print(json.dumps(found, indent=2))


def scores(model: str | Path) -> dict[str, float]:
    """Scores of a model folder without tuning."""
    embedder = open_embedder(model)
    pairs = rows_of(data_file("stsb/dev.tsv"))
    first, second = (embedder.vectors([row[column] for row in pairs]) for column in ("sentence1", "sentence2"))
    gold = [float(row["score"]) for row in pairs]
    train, dev = (rows_of(data_file(f"agnews/{part}.tsv")) for part in ("train", "dev"))
    probes = probe_scores(train, dev, lambda rows, fitted: embedder.vectors([row["text"] for row in rows]))
    return {
        "stsb_dev_spearman": round(spearman(gold, cosines(first, second)), 4),
        **named("agnews_500_probe", probes),
        **named("agnews_500_tfidf", probe_scores(train, dev, tfidf())),
    }


def tuned_scores(model: str | Path, folder: Path) -> dict[str, float]:
    """Accuracy of fine-tuned models on dev parts: mean and standard deviation of three seeds."""
    found: dict[str, float] = {}
    for name, count in TUNED.items():
        rows = rows_of(data_file(f"{name}/train.tsv"))
        text = next(column for column in rows[0] if column != "label")
        chosen = generator(0, name).permutation(len(rows))[:count]
        path = folder / f"{name}.tsv"
        lines = ["text\tlabel", *(f"{rows[index][text]}\t{rows[index]['label']}" for index in chosen)]
        storage.write_text(path, "\n".join(lines) + "\n")
        dev = folder / f"{name}-dev.tsv"
        lines = ["text\tlabel", *(f"{row[text]}\t{row['label']}" for row in rows_of(data_file(f"{name}/dev.tsv")))]
        storage.write_text(dev, "\n".join(lines) + "\n")
        config = FinetuneConfig(
            train=path, dev=dev, output=folder / name, model=str(model), epochs=8, lr=1e-4, batch_size=16, seeds=3
        )
        result = finetune(config)
        key = f"{name}_{count}_tuned"
        found |= {key: round(result.mean["accuracy"], 4), f"{key}_deviation": round(result.deviation["accuracy"], 4)}
    return found


def pronoun_shares(model: str | Path) -> dict[str, float]:
    """The fraction of "he" among "he" and "she" as the prediction for the mask in sentences about occupations.

    0.5 is no preference; the model learned these shares from its text.
    """
    import maskwright as mw

    filler, found = mw.FillMask(str(model), precision="fp32"), {}
    for job in OCCUPATIONS:
        texts = [template.format(job) for template in PRONOUN_TEMPLATES]
        odds = [
            {one.token_str: one.score for one in filled.masks[0].candidates}
            for filled in filler.fill(texts, targets=["he", "she"])
        ]
        found[job] = round(float(np.mean([one["he"] / (one["he"] + one["she"]) for one in odds])), 2)
    return found


def probe_scores(
    train: Sequence[Row], dev: Sequence[Row], features: Callable[[Sequence[Row], bool], np.ndarray]
) -> list[float]:
    """Accuracy on `dev` of logistic regression on `PROBE_ROWS` rows of `train`, for each draw of them.

    features: of rows; the second argument is whether to fit on them.
    """
    from sklearn.linear_model import LogisticRegression

    found = []
    for draw in range(PROBE_DRAWS):
        chosen = [train[index] for index in generator(draw, "probe rows").permutation(len(train))[:PROBE_ROWS]]
        probe = LogisticRegression(C=10.0, max_iter=2000)
        probe.fit(features(chosen, True), [row["label"] for row in chosen])
        found.append(float(probe.score(features(dev, False), [row["label"] for row in dev])))
    return found


def tfidf() -> Callable[[Sequence[Row], bool], np.ndarray]:
    """TF-IDF features of words and word pairs."""
    counter = tfidf_counter()

    def features(rows: Sequence[Row], fitted: bool) -> np.ndarray:
        texts = [row["text"] for row in rows]
        return counter.fit_transform(texts) if fitted else counter.transform(texts)

    return features


def tfidf_counter() -> Any:
    """TF-IDF of words and word pairs, to be fitted."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)


def fitted_tfidf(texts: Sequence[str], labels: Sequence[str]) -> Any:
    """Logistic regression on TF-IDF features, fitted: the usual baseline of text classification."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    return make_pipeline(tfidf_counter(), LogisticRegression(C=10.0, max_iter=2000)).fit(texts, labels)


def named(name: str, values: Sequence[float]) -> dict[str, float]:
    """Mean and standard deviation of some draws."""
    deviation = float(np.std(values, ddof=1))
    return {name: round(float(np.mean(values)), 4), f"{name}_deviation": round(deviation, 4)}


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The cosine similarity of each pair of rows: float [rows]."""
    products: np.ndarray = (first * second).sum(axis=1)
    return products / (np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1))


def rows_of(path: Path) -> list[Row]:
    """The rows of a tab-separated file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    names = lines[0].split("\t")
    return [dict(zip(names, line.split("\t"), strict=True)) for line in lines[1:]]


if __name__ == "__main__":
    run_main(main)
