"""The built-in model `english` compared on public tasks: the tables of docs/results/english-comparison.md.

    MASKWRIGHT_DATA=path python recipes/english_tables.py -o runs/english-tables --threads 1

Columns: `english`; `minilm` with its default learning rate and with that of `english`; the network of `english` with
random weights; TF-IDF. Networks are trained with the default settings of `maskwright finetune`, which holds a tenth of
the training rows out to choose the epoch. The test rows chose nothing in this recipe. Each score is one file in
-o/cells, so rerun the same command to resume; --table only prints what is finished, as the tables of the page.
"""

from __future__ import annotations

import argparse
import json
import lzma
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from data_sets import data_file, data_folder
from english_scores import rows_of, tfidf_counter
from figures import minutes_of
from running import run_main
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge

from maskwright.api import open_embedder, open_model, open_predictor
from maskwright.core import storage
from maskwright.core.errors import InputError, RunError
from maskwright.core.memory import peak_memory
from maskwright.core.randomness import generator
from maskwright.core.util import plural
from maskwright.hub.folders import load_model, save_model
from maskwright.hub.published import ENGLISH, built_in_folder
from maskwright.hub.recommended import recommended_lr
from maskwright.inference.held_out_text import score_text
from maskwright.models.build import build
from maskwright.tasks.evaluation.metrics import measure as measure_all
from maskwright.tasks.evaluation.metrics import spearman
from maskwright.text.formats.files import open_bytes
from maskwright.text.readers.corpus import read_documents
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.finetuning.finetune import finetune

SEEDS = 3
HELD = 1000  # test rows of a training file, where the dev split took part in choosing the model's recipe
NEWS_DOCUMENTS = 300
SIZES = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
TUNED = ("english", "minilm", "minilm-lr", "random")  # minilm-lr: with the learning rate of `english`
UNTUNED = ("english", "minilm", "random", "tfidf")


@dataclass(frozen=True)
class Task:
    """A row of the table.

    Attributes:
        name: As printed.
        task: Name of the task of `finetune`.
        folder: Of the data.
        metrics: Printed, the main one first.
        rows: Number of training rows, another sample for each seed; None for all.
        is_held: Whether the test rows are `HELD` of the training file, from which no training row is drawn, and not the
            dev split.
        texts: Columns of the texts; none in a file of tagged words.
        label: Column of the label or score.
        settings: Of the FinetuneConfig.
        published: Test scores of BERT-mini on the GLUE server.
    """

    name: str
    task: str
    folder: str
    metrics: tuple[str, ...]
    rows: int | None = None
    is_held: bool = False
    texts: tuple[str, ...] = ("text",)
    label: str = "label"
    settings: dict[str, Any] = field(default_factory=dict)
    published: str = ""

    @property
    def key(self) -> str:
        """agnews-100."""
        return self.folder if self.rows is None else f"{self.folder}-{self.rows}"


CLASSES, PAIR, ONE = "classification", ("sentence1", "sentence2"), ("sentence",)
TASKS = (
    Task("AG News, 100 rows", CLASSES, "agnews", ("accuracy",), 100, True),
    Task("AG News, 500 rows", CLASSES, "agnews", ("accuracy",), 500, True),
    Task("SST-2, 100 rows", CLASSES, "sst2", ("accuracy",), 100, True, ONE),
    Task("SST-2, 500 rows", CLASSES, "sst2", ("accuracy",), 500, True, ONE),
    Task("spam in text messages, 1,000 rows", CLASSES, "sms_spam", ("macro_f1",), 1000),
    Task("intents, 77 classes, 2,000 rows", CLASSES, "banking77", ("accuracy",), 2000),
    Task("STS-B", "regression", "stsb", ("pearson", "spearman"), texts=PAIR, label="score", published="75.4/73.3"),
    Task("MRPC", CLASSES, "mrpc", ("f1", "accuracy"), texts=PAIR, published="81.1/71.8"),
    Task("CoLA", CLASSES, "cola", ("matthews",), texts=ONE, published="0.0"),
    Task("RTE", CLASSES, "rte", ("accuracy",), texts=PAIR, published="57.9"),
    Task("SST-2, all 6,917 sentences", CLASSES, "sst2", ("accuracy",), texts=ONE, published="85.9"),
    Task("QNLI, 4,030 rows", CLASSES, "qnli", ("accuracy",), texts=("question", "sentence"), published="84.1"),
    Task("names, CoNLL-2003, 2,000 sentences", "tagging", "conll2003", ("entity_f1",), 2000, texts=(),
         settings={"columns": {"token": "0", "tag": "3"}}),
)  # fmt: skip
SMALL, MANY, GLUE, LARGE = TASKS[:4], TASKS[4:6], TASKS[6:10], TASKS[10:]
ADAPTED = (TASKS[1], TASKS[3])  # full fine-tuning of `english` is compared with LoRA


@dataclass(frozen=True)
class Cell:
    """A score to measure. task: None without fine-tuning."""

    task: Task | None
    column: str
    seed: int = 0

    @property
    def key(self) -> str:
        """agnews-100.english.0."""
        return f"{'untuned' if self.task is None else self.task.key}.{self.column}.{self.seed}"

    @property
    def has_own_process(self) -> bool:
        """Whether its peak memory is reported, which a process has only one of."""
        return self.task in ADAPTED and self.column in ("english", "lora")


def main() -> None:
    """Measure what is missing, in order, and print the tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("-o", "--output", type=Path, default=Path("runs/english-tables"))
    options.add_argument("--threads", type=int)
    options.add_argument("--cell", help="measure only this one, such as agnews-100.english.0, in this process")
    options.add_argument("--table", action="store_true", help="print the tables of what is finished, and stop")
    chosen = options.parse_args()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    wanted = {cell.key: cell for cell in cells()}
    if chosen.cell and chosen.cell not in wanted:
        options.error(f"there is no cell {chosen.cell}; there are {', '.join(wanted)}")
    if not chosen.table:
        for cell in [wanted[chosen.cell]] if chosen.cell else wanted.values():
            measure(cell, chosen)
    if not chosen.cell:
        print(tables(chosen.output))


def cells() -> list[Cell]:
    """All cells in order: the most informative and the quickest first, further seeds of the long ones last."""
    tuned, others = TUNED[:2], TUNED[2:]
    found = [Cell(task, "tfidf", seed) for task in TASKS if task.texts for seed in range(seeds_of(task, "tfidf"))]
    found += [Cell(None, column) for column in UNTUNED]
    found += [Cell(task, column, seed) for task in SMALL for column in tuned for seed in range(SEEDS)]
    found += [Cell(task, ENGLISH) for task in GLUE]
    found += [Cell(task, "lora", seed) for seed in range(SEEDS) for task in ADAPTED]
    found += [Cell(task, column, seed) for task in (SMALL[0], SMALL[2]) for column in others for seed in range(SEEDS)]
    found += [Cell(task, tuned[1]) for task in GLUE]
    found += [Cell(task, column, seed) for seed in range(SEEDS) for task in MANY for column in tuned]
    found += [Cell(task, column, seed) for seed in range(1, SEEDS) for task in GLUE for column in tuned]
    found += [Cell(task, column, seed) for seed in range(SEEDS) for task in LARGE for column in tuned]
    found += [Cell(task, column, seed) for seed in range(SEEDS) for task in TASKS for column in others]
    return list({cell.key: cell for cell in found}.values())


def seeds_of(task: Task, column: str) -> int:
    """How many seeds a cell of the table has; they matter to TF-IDF only as far as they draw rows."""
    return 1 if column == "tfidf" and task.rows is None else SEEDS


def measure(cell: Cell, chosen: argparse.Namespace) -> None:
    """Write the file of a cell, unless it is there."""
    path = chosen.output / "cells" / f"{cell.key}.json"
    if path.is_file():
        return
    if cell.has_own_process and not chosen.cell:
        threads = ["--threads", str(chosen.threads)] if chosen.threads else []
        command = [sys.executable, __file__, "-o", str(chosen.output), "--cell", cell.key, *threads]
        if subprocess.run(command, check=False).returncode:
            raise RunError(f"{cell.key} could not be measured: its error is above.")
        return
    if cell.task is None:
        found = untuned(cell.column, chosen.output)
    elif cell.column == "tfidf":
        found = {"metrics": counted(cell.task, *split(cell.task, cell.seed, chosen.output))}
    else:
        found = trained(cell, chosen.output)
    storage.write_json(path, found)
    print(f"{cell.key}: {json.dumps(found)}", flush=True)


# -- data -------------------------------------------------------------------------------------------------------------


def split(task: Task, seed: int, output: Path) -> tuple[Path, Path]:
    """The files of the training rows of a seed, and of the test rows."""
    ending = ".tsv" if task.texts else ".conll"
    paths = output / "data" / f"{task.key}-{seed}{ending}", output / "data" / f"{task.key}-test{ending}"
    head, rows = units(task, "train")
    if task.is_held:
        order = generator(0, "test rows").permutation(len(rows))
        test, rows = ([rows[index] for index in part] for part in (order[:HELD], order[HELD:]))
    else:
        test = units(task, "dev")[1]
    if task.rows:
        rows = [rows[index] for index in generator(seed, "training rows").permutation(len(rows))[: task.rows]]
    for path, own in zip(paths, (rows, test), strict=True):
        storage.write_text(path, head + "".join(own))
    return paths


def units(task: Task, part: str) -> tuple[str, list[str]]:
    """The first line of a table and its rows, or "" and sentences of tagged words."""
    folder = data_folder() / task.folder
    found = sorted(folder.glob(f"{part}.*"))
    if not found:
        raise InputError(f"{folder} has no file {part}.")
    with open_bytes(found[0]) as handle:
        text = handle.read().decode("utf-8")
    if not task.texts:
        return "", [f"{sentence}\n\n" for sentence in text.strip("\n").split("\n\n")]
    head, *rows = text.splitlines(keepends=True)
    return head, rows


# -- scores -----------------------------------------------------------------------------------------------------------


def trained(cell: Cell, output: Path) -> dict[str, Any]:
    """Scores on the test rows after fine-tuning; the run is deleted."""
    task = cell.task
    assert task is not None
    train, test = split(task, cell.seed, output)
    run = output / "runs" / cell.key
    settings = {"task": task.task, "train": train, "output": run, "seed": cell.seed, **start_of(cell.column)}
    result = finetune(FinetuneConfig(**settings, **task.settings))
    predictor = open_predictor(result.model)
    rows = predictor.task.read_known(test, columns=task.settings.get("columns")).rows
    evaluation = predictor.evaluate(rows)[1]
    found = {
        "metrics": {name: evaluation.metrics[name] for name in task.metrics},
        "seconds": 60 * minutes_of(run / f"seed-{cell.seed}"),
        "peak_bytes": peak_memory(),
        "model_bytes": sum(file.stat().st_size for file in result.model.iterdir() if file.suffix == ".safetensors"),
        "rows": len(rows),
    }
    shutil.rmtree(run)
    return found


def start_of(column: str) -> dict[str, Any]:
    """Settings of a FinetuneConfig for what a column starts from; all others have their defaults."""
    if column == "random":
        config = load_model(ENGLISH)[0].config
        network = {name: getattr(config, name) for name in SIZES}
        tokenizer = built_in_folder(ENGLISH)
        return {"preset": "bert-mini", "tokenizer": tokenizer, "network": network, "lr": recommended_lr(ENGLISH)}
    if column == "lora":
        return {"model": ENGLISH, "adapter": "lora"}
    return {"model": "minilm", "lr": recommended_lr(ENGLISH)} if column == "minilm-lr" else {"model": column}


def counted(task: Task, train_file: Path, test_file: Path) -> dict[str, float]:
    """Scores of logistic or ridge regression on TF-IDF; of a pair, on the difference and the product of its vectors."""
    train, test = (rows_of(path) for path in (train_file, test_file))
    gold = [row[task.label] for row in train]
    counter = tfidf_counter().fit([row[name] for row in train for name in task.texts])

    def features(rows: list[dict[str, str]]) -> Any:
        first, *others = (counter.transform([row[name] for row in rows]) for name in task.texts)
        return sparse.hstack([abs(first - others[0]), first.multiply(others[0])]) if others else first

    if task.task == "regression":
        fitted = Ridge().fit(features(train), np.array(gold, dtype=float))
        return measure_all(task.metrics, [float(row[task.label]) for row in test], fitted.predict(features(test)))
    fitted = LogisticRegression(C=10.0, max_iter=2000).fit(features(train), gold)
    predicted, known = fitted.predict(features(test)), fitted.classes_.tolist()
    return measure_all(
        task.metrics, [known.index(row[task.label]) for row in test], [known.index(label) for label in predicted]
    )


def untuned(column: str, output: Path) -> dict[str, Any]:
    """Scores without fine-tuning: STS-B, search, and masked tokens of a model that predicts them."""
    if column == "random":
        random = build(load_model(ENGLISH)[0].config, None, seed=0)
        random.tokenizer = load_model(ENGLISH)[0].tokenizer
        save_model(random, output / "random", replace=True)
    model = str(output / "random") if column == "random" else column
    pairs = rows_of(data_file("stsb/dev.tsv"))
    passages, questions, answers = questions_of(data_file("squadshifts_wiki/dev.json.xz"))
    vectors = tfidf_vectors(passages) if column == "tfidf" else open_embedder(model, normalize=True).vectors
    first, second = (vectors([row[name] for row in pairs]) for name in PAIR)
    products = vectors(questions) @ vectors(passages).T
    ranks = (products > products[range(len(answers)), answers][:, None]).sum(axis=1)
    found = {
        "STS-B dev, Spearman": spearman([float(row["score"]) for row in pairs], (first * second).sum(axis=1)),
        f"{len(questions)} questions, their passage of {len(passages)} first": float((ranks == 0).mean()),
    }
    if column == ENGLISH:
        text = output / "data" / "news.txt"
        documents = islice(read_documents(data_file("pretraining_text/reuters.txt.xz")), NEWS_DOCUMENTS)
        storage.write_text(text, "\n\n".join("\n".join(one.sentences) for one in documents) + "\n")
        scored = score_text(open_model(model, "fill-mask"), text)
        found |= {"masked tokens of news": scored.metrics["mlm_accuracy"]}
        return {"metrics": found, "tokens": scored.tokens, "most common token": scored.metrics["mlm_baseline"]}
    return {"metrics": found}


def questions_of(path: Path) -> tuple[list[str], list[str], list[int]]:
    """The passages of a SQuAD file, its questions, and the passage of each."""
    passages: list[str] = []
    questions: list[str] = []
    answers: list[int] = []
    with lzma.open(path, "rt", encoding="utf-8") as handle:
        for article in json.load(handle)["data"]:
            for paragraph in article["paragraphs"]:
                questions += (own := [entry["question"] for entry in paragraph["qas"]])
                answers += [len(passages)] * len(own)
                passages.append(paragraph["context"])
    return passages, questions, answers


def tfidf_vectors(texts: list[str]) -> Callable[[list[str]], np.ndarray]:
    """TF-IDF vectors with the document frequencies of `texts`."""
    counter = tfidf_counter().fit(texts)
    return lambda own: counter.transform(own).toarray()


# -- tables -----------------------------------------------------------------------------------------------------------


def tables(output: Path) -> str:
    """The finished cells as the tables of the page."""
    found = {path.stem: storage.read_json(path) for path in sorted((output / "cells").glob("*.json"))}

    def of(task: Task, column: str) -> list[dict[str, Any]]:
        keys = (Cell(task, column, seed).key for seed in range(SEEDS))
        return [found[key] for key in keys if key in found]

    columns = (*TUNED, "tfidf")
    lines = [("test score, percent", *columns, "BERT-mini, published")]
    for task in TASKS:
        if of(task, ENGLISH):
            names = "/".join(name.replace("_", " ") for name in task.metrics)
            scores = (shown(task, of(task, column), seeds_of(task, column)) for column in columns)
            lines.append((f"{task.name}: {names}", *scores, task.published))
    untuned = {column: found.get(Cell(None, column).key, {"metrics": {}})["metrics"] for column in UNTUNED}
    others = [("without fine-tuning, percent", *UNTUNED)]
    for name in untuned[ENGLISH]:
        others.append((name, *(percent(own[name]) if name in own else "" for own in untuned.values())))
    costs = [("english", "score", "seconds", "peak memory, GB", "saved, MB")]
    for task in ADAPTED:
        for column, label in ((ENGLISH, "full"), ("lora", "LoRA")):
            if runs := of(task, column):
                means = [mean(run[name] for run in runs) for name in ("seconds", "peak_bytes", "model_bytes")]
                sizes = (f"{means[0]:.0f}", f"{means[1] / 1e9:.2f}", f"{means[2] / 1e6:.1f}")
                costs.append((f"{task.name}: {label}", shown(task, runs), *sizes))
    return "\n\n".join(markdown(table) for table in (lines, others, costs))


def shown(task: Task, runs: Sequence[dict[str, Any]], seeds: int = SEEDS) -> str:
    """Means over the seeds, and the range of the first metric."""
    if not runs:
        return ""
    values = [run["metrics"][task.metrics[0]] for run in runs]
    means = "/".join(percent(mean(run["metrics"][name] for run in runs)) for name in task.metrics)
    notes = [f"{percent(min(values))} to {percent(max(values))}"] * (len(runs) > 1)
    notes += [plural(len(runs), "seed")] * (len(runs) < seeds)
    return f"{means} ({'; '.join(notes)})" if notes else means


def percent(value: float) -> str:
    """0.8432 -> 84.3."""
    return f"{100 * value:.1f}"


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """A table; the first line has the names of the columns."""
    first, *others = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([first, "| " + " | ".join(["---"] * len(lines[0])) + " |", *others])


if __name__ == "__main__":
    run_main(main)
