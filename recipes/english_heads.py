"""Task heads of the built-in model `english`: LoRA adapters trained on data whose license allows it.

    MASKWRIGHT_DATA=path python recipes/english_heads.py -o runs/english-heads              all heads
    MASKWRIGHT_DATA=path python recipes/english_heads.py -o runs/english-heads spam pos     some of them

Each head is a row of `HEADS`: task, files, license, epochs. A tenth of the training rows chooses the best epoch; the
dev split is scored once, at the end, with a 95% bootstrap interval over its rows, compared with the trivial baseline
(and TF-IDF with logistic regression for single texts). A head is fit for release if the interval lies above the
baseline by `LEAST_GAIN`. Folders of -o: NAME/run, NAME/model (float16, with its card) and NAME/scores.json; rerun the
same command to resume. `python tools/built_in.py english-NAME runs/english-heads/NAME/model` puts one in the package.

Sentiment, topics, paraphrases and grammar have no head: the data sets at hand state no license for their text (SST,
AG News, QQP) or forbid commercial use (MRPC, CoLA: excerpts of published works).
"""

from __future__ import annotations

import argparse
import json
import lzma
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import data_file, made_once, minutes_of, options_of, read_options, run_main
from english_scores import fitted_tfidf

from maskwright.api import open_predictor
from maskwright.core import storage
from maskwright.core.randomness import generator
from maskwright.hub.folders import load_model, read_facts, save_model
from maskwright.inference.predict import Predictor
from maskwright.tasks.base import TaskData
from maskwright.tasks.evaluation.compare import ScoredPredictions
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.finetuning.finetune import FinetuneResult, finetune

BASE = "english"
ADAPTER = {"adapter": "lora", "rank": 8, "targets": "all-linear"}
LEAST_GAIN = 0.02
SAMPLES = 1000
UNANSWERED_EVERY = 3  # every third question of a paragraph, also asked of another one
CITED = "free if its source is cited: Almeida, Hidalgo and Yamakami (2011)"


# Texts that the studio shows, written for it; the data sets are not repeated in the package.
EXAMPLES: dict[str, list[dict[str, str]]] = {
    "spam": [
        {
            "text": "URGENT! You have won a holiday for two. Call 09061 701 461 now to claim your prize.",
            "label": "spam",
        },
        {"text": "ok see you at seven, i will bring the cake", "label": "ham"},
    ],
    "entailment": [
        {
            "text": "Two children are kicking a ball in the park.",
            "text_pair": "The children are playing outside.",
            "label": "entailment",
        },
        {
            "text": "Two children are kicking a ball in the park.",
            "text_pair": "The children are asleep.",
            "label": "contradiction",
        },
        {
            "text": "A woman is reading on a bench.",
            "text_pair": "The woman is waiting for her husband.",
            "label": "neutral",
        },
    ],
    "pos": [
        {"text": "The old sailor quickly tied his boat to the pier ."},
        {"text": "She will fly to Paris if the strike ends ."},
    ],
    "names": [
        {"text": "Ada Lovelace met Charles Babbage in London in June 1833 ."},
        {"text": "Angela Merkel visited Microsoft in Seattle ."},
    ],
    "intents": [
        {"text": "I ordered a new card two weeks ago and it still has not arrived."},
        {"text": "How do I change my PIN?"},
    ],
}


@dataclass(frozen=True)
class Head:
    """A task head.

    Attributes:
        about: What it does, one line.
        task: Name of the task.
        train: Training files in $MASKWRIGHT_DATA; several are joined.
        dev: File that is scored at the end.
        license: Of the data.
        limits: What it cannot do.
        settings: Of the FinetuneConfig.
    """

    about: str
    task: str
    train: tuple[str, ...]
    dev: str
    license: str
    limits: str
    settings: dict[str, Any] = field(default_factory=dict)


HEADS = {
    "spam": Head(
        "spam in text messages: ham or spam",
        "classification",
        ("sms_spam/train.tsv",),
        "sms_spam/dev.tsv",
        CITED,
        "text messages of the years before 2011; not tried on mail",
        {"epochs": 3, "max_length": 96},
    ),
    "pos": Head(
        "parts of speech: the 17 universal tags",
        "tagging",
        ("ud_ewt_pos/train.conll.xz",),
        "ud_ewt_pos/dev.conll",
        "CC BY-SA 4.0",
        "uncased: proper nouns are recognized without their capital letters",
        {"epochs": 2, "max_length": 96, "columns": {"token": "0", "tag": "1"}, "metric": "accuracy"},
    ),
    "names": Head(
        "names of persons, locations, corporations, groups, products and works",
        "tagging",
        ("wnut17/train.conll",),
        "wnut17/dev.conll",
        "CC BY 4.0",
        "trained on 3,394 noisy posts, uncased: finds few rare names",
        {"epochs": 6, "max_length": 96},
    ),
    "entailment": Head(
        "entailment, neutral or contradiction of two texts; zero-shot classification with --labels",
        "classification",
        ("snli/train.tsv",),
        "snli/dev.tsv",
        "CC BY-SA 4.0",
        "trained on 7,740 pairs of image captions; weak on abstract text",
        {"epochs": 4, "max_length": 64},
    ),
    "intents": Head(
        "intents of messages to a bank: 77 classes",
        "classification",
        ("banking77/train.tsv",),
        "banking77/dev.tsv",
        "CC BY 4.0",
        "every text gets one of the 77 banking intents",
        {"epochs": 8, "max_length": 64},
    ),
    "qa": Head(
        "answers questions from a text, or says that it has no answer",
        "qa",
        (
            "squad2/train.json.xz",
            "squad1/train.json.xz",
            "squadshifts_wiki/train.json.xz",
            "squadshifts_amazon/train.json.xz",
        ),
        "squad2/dev.json.xz",
        "CC BY-SA 4.0 (SQuAD), CC BY 4.0 (SQuADShifts)",
        "Wikipedia and product reviews; short answers that the text states in words like those of the question",
        {"epochs": 1, "max_length": 224, "rank": 16},
    ),
}


def main() -> None:
    """Train, score and export the chosen heads; print a table."""
    options = options_of(__doc__)
    options.add_argument("names", nargs="*", metavar="HEAD", help=f"of {', '.join(HEADS)}; all without")
    options.add_argument("--epochs", type=int, help="epochs of every head, for a short trial")
    options.add_argument("--seed", type=int, default=0)
    chosen = read_options(options)
    if unknown := sorted(set(chosen.names) - set(HEADS)):
        options.error(f"there is no head {', '.join(unknown)}; there are {', '.join(HEADS)}")
    found = {name: made(name, chosen) for name in chosen.names or HEADS}
    print(table(found))


def made(name: str, chosen: argparse.Namespace) -> dict[str, Any]:
    """Train, score and export a head, or read the scores of a finished one."""
    folder, head = chosen.output / name, HEADS[name]
    result = finetune(recipe_of(head, folder, chosen))
    path = folder / "scores.json"
    if not path.exists():
        facts = facts_of(name, head, result)
        export(result.model, folder / "model", facts)
        scores = scored(head, folder)
        export(result.model, folder / "model", {**facts, "scores": scores})
        storage.write_json(path, scores)
    found: dict[str, Any] = storage.read_json(path)
    return found


def recipe_of(head: Head, folder: Path, chosen: argparse.Namespace) -> FinetuneConfig:
    """The training of a head."""
    own = head.settings if chosen.epochs is None else {**head.settings, "epochs": chosen.epochs}
    return FinetuneConfig(
        task=head.task,
        model=BASE,
        train=train_file(head, folder),
        output=folder / "run",
        seed=chosen.seed,
        **{**ADAPTER, **own},
    )


def train_file(head: Head, folder: Path) -> Path:
    """The training file; several files of questions are joined in `folder`/data."""
    if len(head.train) == 1:
        return data_file(head.train[0])
    made_from = {"files": list(head.train), "without_answer": UNANSWERED_EVERY}
    return made_once(folder / "data", made_from, partial(join_questions, head)) / "train.json"


def join_questions(head: Head, folder: Path) -> None:
    """Write the questions of several SQuAD files into one, and more questions without an answer.

    SQuAD 2.0 has few training rows here, and the other sets have an answer to every question. So every third question
    is also asked of the next paragraph of its article, unless one of its answers is there.
    """
    articles = []
    for name in head.train:
        with lzma.open(data_file(name), "rt", encoding="utf-8") as handle:
            for number, article in enumerate(json.load(handle)["data"]):
                paragraphs = article["paragraphs"]
                asked: list[list[dict[str, Any]]] = [list(paragraph["qas"]) for paragraph in paragraphs]
                for place, paragraph in enumerate(paragraphs[:-1]):
                    for question in paragraph["qas"][::UNANSWERED_EVERY]:
                        answers = {answer["text"].lower() for answer in question["answers"]}
                        if not any(answer in paragraphs[place + 1]["context"].lower() for answer in answers):
                            other = {"answers": [], "is_impossible": True, "id": f"{question['id']}-{number}-{place}"}
                            asked[place + 1].append({**question, **other})
                kept = [{**paragraph, "qas": qas} for paragraph, qas in zip(paragraphs, asked, strict=True)]
                articles.append({"title": "", "paragraphs": kept})
    storage.write_json(folder / "train.json", {"version": "v2.0", "data": articles})


def facts_of(name: str, head: Head, result: FinetuneResult) -> dict[str, Any]:
    """The contents of a head's card, without its scores."""
    known = read_facts(result.model)
    settings = ("epochs", "lr", "batch_size", "max_length", "seed", "rank", "targets")
    own = {key: known["training"][key] for key in settings if key in known["training"]}
    return {
        **{key: value for key, value in known.items() if key not in (*RECORDED, "training", "adapter", "examples")},
        "about": head.about,
        "data": {"train": ", ".join(head.train), "held_out": head.dev, "license": head.license},
        "training": {**own, "minutes": round(minutes_of(result.output / f"seed-{own['seed']}"), 1)},
        "limits": head.limits,
        "examples": EXAMPLES.get(name, []),
    }


RECORDED = ("format", "version", "versions", "manifest", "head", "labels")  # written again


def export(model: Path, folder: Path, facts: dict[str, Any]) -> None:
    """Write the adapter with float16 weights."""
    save_model(load_model(model)[0], folder, facts=facts, replace=True, weights_as="fp16")


def scored(head: Head, folder: Path) -> dict[str, Any]:
    """Scores of the exported adapter on the dev split, with their interval and baselines."""
    predictor = open_predictor(folder / "model", precision="fp32")
    task, columns = predictor.task, head.settings.get("columns")
    if "metric" in head.settings:
        task.choose_by(head.settings["metric"])
    options = {} if columns is None else {"columns": columns}
    dev = task.read_known(data_file(head.dev), **options).rows
    train = task.read_known(train_file(head, folder), **options).rows
    began = time.monotonic()
    examples, evaluation = predictor.evaluate(dev)
    seconds = time.monotonic() - began
    low, high = interval(task.rate(evaluation.logits, examples))
    baseline = task.baseline(data_of(predictor, train, dev))
    found = {
        "metric": task.main_metric,
        "score": round(evaluation.metrics[task.main_metric], 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "baseline": round(baseline.score, 4),
        "baseline_is": baseline.predictor,
        "examples": len(dev),
        "training_examples": len(train),
        "examples_per_second": round(len(dev) / seconds),
        "is_fit_for_release": bool(low > baseline.score + LEAST_GAIN),
    }
    if head.task == "classification" and all(isinstance(row.text, str) and row.text_pair is None for row in dev):
        found["tfidf"] = round(
            fitted_tfidf([row.text for row in train], [row.label for row in train]).score(
                [row.text for row in dev], [row.label for row in dev]
            ),
            4,
        )
    return found


def data_of(predictor: Predictor, train: list[Any], dev: list[Any]) -> TaskData:
    """The labeled rows, for the task's baseline."""
    task, length = predictor.task, predictor.max_length
    examples = [task.examples(rows, predictor.tokenizer, length) for rows in (train, dev)]
    first_model: Callable[[], Any] = partial(load_model, BASE)
    return TaskData(task, train, dev, *examples, max_length=length, first_model=first_model)


def interval(rated: ScoredPredictions) -> tuple[float, float]:
    """95% bootstrap interval of a score over rows."""
    count, draws = len(rated.parts), generator(0, "interval")
    values = [rated.of(rated.parts[draws.integers(count, size=count)]) for _ in range(SAMPLES)]
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def table(found: dict[str, dict[str, Any]]) -> str:
    """The scores as a Markdown table."""
    lines = ["| head | metric | score (95% interval) | trivial baseline | TF-IDF | released |", "| --- " * 6 + "|"]
    for name, one in found.items():
        lines.append(
            f"| `{BASE}-{name}` | {one['metric']} | {one['score']:.3f} ({one['low']:.3f} to {one['high']:.3f}) | "
            f"{one['baseline']:.3f}, {one['baseline_is']} | {one.get('tfidf', '')} | "
            f"{'yes' if one['is_fit_for_release'] else 'no'} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    run_main(main)
