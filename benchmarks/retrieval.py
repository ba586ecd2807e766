"""Compare rerankers, SPLADE models and Matryoshka embeddings with sentence-transformers: same rows, steps and seeds.

    MASKWRIGHT_DATA=path python benchmarks/retrieval.py --peer peer/bin/python -o runs/retrieval

Each side trains all seeds in one process; `--peer` is a Python with sentence-transformers 6.2. Both write model
folders, which one program scores on the same dev examples. There is one epoch and no selection. Every folder is
kept, so rerun the same command to resume; the table replaces that of docs/results/retrieval.md.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "recipes"))

MINILM, ENGLISH = "MiniLM", "english"
SETTINGS = {"batch_size": 8, "epochs": 1, "warmup": 0.1, "weight_decay": 0.01, "max_length": 64}
KINDS: dict[str, dict[str, Any]] = {
    "reranker": {"data": "stsb", "model": MINILM, "lr": 2e-4, "metrics": ("spearman", "pearson")},
    "SPLADE": {
        "data": "qnli",
        "model": ENGLISH,
        "lr": 1e-4,
        "sparsity": (1e-3, 1e-3),
        "metrics": ("accuracy", "terms_first", "terms_second"),
    },
    "Matryoshka": {
        "data": "stsb",
        "model": MINILM,
        "lr": 5e-5,
        "sizes": (128, 32),
        "metrics": ("spearman", "spearman_128", "spearman_32"),
    },
}
SIDES = ("maskwright", "sentence-transformers")


def main() -> None:
    """Train what is not there yet, score the folders, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/retrieval"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=512, help="training rows")
    parser.add_argument("--dev-rows", type=int, default=200)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--peer", default=sys.executable, help="a Python with sentence-transformers")
    parser.add_argument("--plan", type=Path, help=argparse.SUPPRESS)  # the peer's own process
    options = parser.parse_args()
    if options.plan is not None:
        for job in json.loads(options.plan.read_text(encoding="utf-8")):
            timed(train_theirs, job)
        return
    jobs = [job for kind in options.kinds.split(",") for job in plan(kind, options)]
    for job in jobs:
        if job["side"] == SIDES[0]:
            timed(train_ours, job)
    path = options.output / "plan.json"
    path.write_text(json.dumps([job for job in jobs if job["side"] == SIDES[1]]), encoding="utf-8")
    subprocess.run([options.peer, __file__, "--plan", str(path)], check=True)
    write_table(jobs)


def timed(train: Any, job: dict[str, Any]) -> None:
    """Train what is not finished, and keep the seconds of the CPU, which others on the machine change little."""
    finished = Path(f"{job['output']}.json")
    if finished.is_file():
        return
    started = time.process_time()
    train(job)
    seconds = time.process_time() - started
    finished.write_text(json.dumps({"seconds": seconds}), encoding="utf-8")
    print(f"{job['kind']}, {job['side']}, seed {job['seed']}: {seconds:.0f} s", flush=True)


def plan(kind: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The runs of one kind, with the rows written as files that both sides read."""
    from common import minilm_folder

    from maskwright.hub.folders import load_model

    own = SETTINGS | KINDS[kind]
    files = {}
    for part, most in (("train", options.rows), ("dev", options.dev_rows)):
        source = Path(os.environ["MASKWRIGHT_DATA"]) / own["data"] / f"{part}.tsv"
        with source.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
        random.Random(0).shuffle(rows)
        if kind == "SPLADE":
            rows = [row[:2] for row in rows if row[2] == "entailment"]
        files[part] = str((options.output / f"{kind}-{part}.tsv").absolute())
        options.output.mkdir(parents=True, exist_ok=True)
        names = ["sentence1", "sentence2", "score" if own["data"] == "stsb" else "label"][: len(rows[0])]
        lines = ["\t".join(row) for row in [names, *rows[:most]]]
        Path(files[part]).write_text("\n".join([*lines, ""]), encoding="utf-8")
    model = minilm_folder()
    if own["model"] == ENGLISH:  # whose numbers of 8 bits only Maskwright reads
        model = str((options.output / ENGLISH).absolute())
        if not Path(model).is_dir():
            load_model(ENGLISH)[0].save(model)
    return [
        own
        | files
        | {
            "kind": kind,
            "side": side,
            "seed": seed,
            "folder": model,
            "output": str((options.output / kind / f"{side}-{seed}").absolute()),
        }
        for seed in range(options.seeds)
        for side in SIDES
    ]


def train_ours(job: dict[str, Any]) -> None:
    """`maskwright finetune similarity`, without the choice of an epoch, since there is only one."""
    from maskwright.train.finetuning.config import FinetuneConfig
    from maskwright.train.finetuning.finetune import finetune

    kind = {
        "reranker": {"encoder": "cross", "score_range": (0, 5)},
        "SPLADE": {"encoder": "sparse", "sparsity": job.get("sparsity")},
    }
    own = kind.get(job["kind"], {"matryoshka": job.get("sizes"), "score_range": (0, 5)})
    config = {name: job[name] for name in ("train", "dev", "output", "lr", "seed", *SETTINGS)}
    finetune(FinetuneConfig(task="similarity", model=job["folder"], precision="fp32", device="cpu", **config, **own))


def train_theirs(job: dict[str, Any]) -> None:
    """The trainers of sentence-transformers, with the losses that correspond to ours."""
    import sentence_transformers as st
    import torch
    from datasets import Dataset
    from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss
    from sentence_transformers.sentence_transformer import losses as dense
    from sentence_transformers.sparse_encoder import callbacks
    from sentence_transformers.sparse_encoder import losses as sparse

    with Path(job["train"]).open(encoding="utf-8", newline="") as file:
        names, *rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    columns: dict[str, list[Any]] = dict(zip(names[:2], map(list, list(zip(*rows, strict=True))[:2]), strict=True))
    if len(names) == 3:
        columns["label"] = [float(row[2]) / (5 if job["data"] == "stsb" else 1) for row in rows]
    torch.manual_seed(job["seed"])
    arguments = {
        "output_dir": f"{job['output']}-trainer",
        "num_train_epochs": job["epochs"],
        "per_device_train_batch_size": job["batch_size"],
        "learning_rate": job["lr"],
        "warmup_steps": job["warmup"],
        "weight_decay": job["weight_decay"],
        "seed": job["seed"],
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
    }
    extra: dict[str, Any] = {}
    if job["kind"] == "reranker":
        model = st.CrossEncoder(job["folder"], num_labels=1, max_length=job["max_length"], device="cpu")
        loss, trainer, kind = BinaryCrossEntropyLoss(model), st.CrossEncoderTrainer, st.CrossEncoderTrainingArguments
    elif job["kind"] == "SPLADE":
        from sentence_transformers.base.modules import Transformer
        from sentence_transformers.sparse_encoder.modules import SpladePooling

        network = Transformer(job["folder"], transformer_task="fill-mask")
        model = st.SparseEncoder(modules=[network, SpladePooling("max")], device="cpu")
        model.max_seq_length = job["max_length"]
        first, second = job["sparsity"]
        loss = sparse.SpladeLoss(
            model,
            sparse.SparseMultipleNegativesRankingLoss(model),
            document_regularizer_weight=second,
            query_regularizer_weight=first,
        )
        extra["callbacks"] = [callbacks.SpladeRegularizerWeightSchedulerCallback(loss, warmup_ratio=1.0)]
        trainer, kind = st.SparseEncoderTrainer, st.SparseEncoderTrainingArguments
    else:
        model = st.SentenceTransformer(job["folder"], device="cpu")
        model.max_seq_length = job["max_length"]
        loss = dense.MatryoshkaLoss(model, dense.CosineSimilarityLoss(model), [384, *job["sizes"]])
        trainer, kind = st.SentenceTransformerTrainer, st.SentenceTransformerTrainingArguments
    run = trainer(model=model, args=kind(**arguments), train_dataset=Dataset.from_dict(columns), loss=loss, **extra)
    run.train()
    model.save_pretrained(job["output"])


def score(job: dict[str, Any]) -> dict[str, float]:
    """The dev metrics of a folder, whichever side wrote it."""
    import torch

    from maskwright.hub.folders import load_model
    from maskwright.models.model import tokenizer_of
    from maskwright.tasks.base import Task
    from maskwright.tasks.regression import Regression
    from maskwright.tasks.similarity import Similarity

    tasks: dict[str, Task] = {
        "reranker": Regression(scale=(0, 5)),
        "SPLADE": Similarity("pairs", sparsity=(0, 0)),
        "Matryoshka": Similarity(matryoshka=tuple(job.get("sizes", ()))),
    }
    task = tasks[job["kind"]]
    folder = Path(job["output"])
    model, _ = load_model(folder / "model" if job["side"] == SIDES[0] else folder)
    examples = task.examples(task.read_known(job["dev"]).rows, tokenizer_of(model), job["max_length"])
    with torch.inference_mode():
        found = task.evaluate(model, examples).metrics
    seconds = json.loads(Path(f"{folder}.json").read_text(encoding="utf-8"))["seconds"]
    return {**{name: found[name] for name in job["metrics"]}, "CPU seconds": seconds}


def write_table(jobs: list[dict[str, Any]]) -> None:
    """Means and ranges over the seeds, as Markdown on the page of results and on the screen."""
    from tables import write_part

    lines = [f"| | metric | {' | '.join(SIDES)} |", "| --- | --- | ---: | ---: |"]
    for kind in dict.fromkeys(job["kind"] for job in jobs):
        sides = {side: [score(job) for job in jobs if (job["kind"], job["side"]) == (kind, side)] for side in SIDES}
        for metric in sides[SIDES[0]][0]:
            cells = [shown([found[metric] for found in sides[side]]) for side in SIDES]
            lines.append(f"| {kind} | {metric.replace('_', ' ')} | {' | '.join(cells)} |")
    print("\n".join(lines))
    title = "Rerankers, SPLADE and Matryoshka, measured"
    write_part(HERE.parent / "docs" / "results" / "retrieval.md", "retrieval", lines, title)


def shown(values: list[float]) -> str:
    """Mean and range."""
    form = "{:.3f}" if max(values) < 2 else "{:.0f}"
    mean, *ends = (form.format(value) for value in (statistics.mean(values), min(values), max(values)))
    return f"{mean} ({' to '.join(ends)})"


if __name__ == "__main__":
    main()
