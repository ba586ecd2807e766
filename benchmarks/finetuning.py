"""Compare fine-tuning scores with transformers' Trainer: same checkpoint, rows, tokens and settings.

    MASKWRIGHT_DATA=path python benchmarks/finetuning.py -o runs/finetuning --seeds 3

Fine-tunes MiniLM on every set of finetuning.toml, ours with the training loop of `maskwright finetune` (default
precision: bfloat16 if the device supports it), theirs with transformers' Trainer and model classes with bf16=True,
alternating by seed. Both use the token IDs of our tokenizer (a test compares it with theirs) and the same metrics.
Nothing is selected on the dev examples: the last weights are scored. The table compares the seeds that both sides have,
with the p of a paired t-test. Every score is saved, so rerun the same command to resume; `--table` only prints the
saved scores. With --settings benchmarks/adapters.toml, both train LoRA adapters, theirs with PEFT; their recorded peak
memory is that of the process, so run it with --sides maskwright and then with --sides transformers.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import ttest_rel
from torch import Tensor

from maskwright.core import registry, storage
from maskwright.core.memory import peak_memory
from maskwright.core.progress import set_quiet
from maskwright.core.randomness import generator
from maskwright.data.batch import Batch
from maskwright.hub.adapters import attach_adapter
from maskwright.hub.folders import load_model
from maskwright.models.device import resolve_device
from maskwright.models.lora_config import LoraConfig
from maskwright.tasks.base import Task
from maskwright.tasks.examples import Examples
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.finetuning.finetune import fit

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "recipes"))

from common import minilm_folder  # noqa: E402

SIDES = ("maskwright", "transformers")
MODEL_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
CLASSES = {
    "classification": "AutoModelForSequenceClassification",
    "regression": "AutoModelForSequenceClassification",
    "tagging": "AutoModelForTokenClassification",
    "choice": "AutoModelForMultipleChoice",
    "qa": "AutoModelForQuestionAnswering",
}


@dataclass(frozen=True)
class Set:
    """One data set: its task, rows as tokens, and the settings."""

    name: str
    task: Task
    train: Examples
    dev: Examples
    settings: dict[str, Any]


def main() -> None:
    """Train what is not there yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/finetuning"))
    parser.add_argument("--settings", type=Path, default=HERE / "finetuning.toml")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", help="only these, separated by commas")
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--table", action="store_true", help="print what is finished, and stop")
    options = parser.parse_args()
    recipe = tomllib.loads(options.settings.read_text(encoding="utf-8"))
    names = options.sets.split(",") if options.sets else list(recipe["sets"])
    if not options.table:
        set_quiet(True)
        for name in names:
            run_set(name, {**recipe["setting"], **recipe["sets"][name]}, options)
    print(table(recipe, options.output))


def run_set(name: str, settings: dict[str, Any], options: argparse.Namespace) -> None:
    """All seeds of both sides on one set."""
    wanted = [(side, seed) for seed in range(options.seeds) for side in options.sides.split(",")]
    missing = [(side, seed) for side, seed in wanted if not score_file(options.output, name, side, seed).is_file()]
    if not missing:
        return
    data, device = read_set(name, settings), resolve_device(options.device)
    for side, seed in missing:
        started = time.monotonic()
        logits = (train_ours if side == "maskwright" else train_theirs)(data, seed, device)
        found = data.task.score(logits, data.dev)
        facts = {
            "metrics": found.metrics,
            "loss": found.loss,
            "seconds": time.monotonic() - started,
            "peak_bytes": peak_memory(),
            "train_rows": data.train.num_rows,
            "dev_rows": data.dev.num_rows,
            "settings": settings,
        }
        path = score_file(options.output, name, side, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        storage.write_json(path, facts)
        score = f"{settings['metric']} {found.metrics[settings['metric']]:.4f}"
        print(f"{name}, {side}, seed {seed}: {score}, {facts['seconds']:.0f} s", flush=True)


def score_file(output: Path, name: str, side: str, seed: int) -> Path:
    """Where one score is kept."""
    return output / name / f"{side}-{seed}.json"


def minilm() -> str:
    """The model folder of the installed package."""
    folder = minilm_folder()
    if folder is None:
        sys.exit("error: The package that carries MiniLM is not installed: make .venv/.test installs it.")
    return folder


def read_set(name: str, settings: dict[str, Any]) -> Set:
    """The rows, at most `train_rows` and `dev_rows` of them, as tokens."""
    if "MASKWRIGHT_DATA" not in os.environ:
        sys.exit("error: MASKWRIGHT_DATA must name the folder of data sets.")
    cls: type[Task] = registry.resolve("task", settings["task"])
    rows = []
    for part in ("train", "dev"):
        names = settings.get(f"{part}_folders", [settings["folder"]])
        folders = [Path(os.environ["MASKWRIGHT_DATA"]) / one for one in names]
        files = [next(path for path in sorted(one.iterdir()) if path.name.startswith(f"{part}.")) for one in folders]
        found = [row for file in files for row in cls.read(file, columns=settings.get("columns")).rows]
        order = generator(0, f"{part} rows").permutation(len(found))[: settings[f"{part}_rows"]]
        rows.append([found[number] for number in sorted(order.tolist())])
    task = cls.from_rows(*rows)
    tokenizer = Tokenizer.load(minilm())
    train, dev = (task.examples(part, tokenizer, settings["max_length"]) for part in rows)
    return Set(name, task, train, dev, settings)


def train_ours(data: Set, seed: int, device: torch.device) -> Tensor:
    """The dev logits of a model that our loop fine-tuned."""
    task, settings = data.task, data.settings
    model, loaded = load_model(
        minilm(), task.head, labels=task.labels or None, problem_type=task.problem_type, seed=seed
    )
    if settings["adapter"]:
        attach_adapter(model, minilm(), LoraConfig(), loaded.new, seed, {})
    task.init_from_counts(model, data.train)
    model.to(device)
    fit(
        model,
        task,
        data.train,
        epochs=settings["epochs"],
        lr=settings["lr"],
        batch_size=settings["batch_size"],
        seed=seed,
        warmup_share=settings["warmup"],
        weight_decay=settings["weight_decay"],
    )
    return task.logits(model, data.dev).cpu()


def train_theirs(data: Set, seed: int, device: torch.device) -> Tensor:
    """The dev logits of a model that transformers' Trainer fine-tuned, in the layout of ours."""
    import transformers

    transformers.logging.set_verbosity_error()
    settings, kind = data.settings, data.settings["task"]
    transformers.set_seed(seed)
    labels = {"num_labels": data.task.num_labels} if kind not in ("qa", "choice") else {}
    if kind == "regression":
        labels["problem_type"] = "regression"
    model = getattr(transformers, CLASSES[kind]).from_pretrained(minilm(), **labels)
    if settings["adapter"]:
        import peft

        ours = LoraConfig()
        model = peft.get_peft_model(
            model,
            peft.LoraConfig(
                task_type="SEQ_CLS",
                r=ours.rank,
                lora_alpha=ours.alpha,
                target_modules=list(ours.targets),
                lora_dropout=ours.dropout,
            ),
        )
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            num_train_epochs=settings["epochs"],
            learning_rate=settings["lr"],
            per_device_train_batch_size=settings["batch_size"],
            warmup_steps=settings["warmup"],
            weight_decay=settings["weight_decay"],
            seed=seed,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            use_cpu=device.type == "cpu",
            bf16=True,
        )
        units = list(range(len(data.train)))
        trainer = transformers.Trainer(
            model, arguments, train_dataset=units, data_collator=lambda rows: padded(data.train, rows, kind)[1]
        )
        trainer.train()
    return dev_logits(model.eval(), data, kind)


def padded(examples: Examples, units: list[int], kind: str) -> tuple[Batch, dict[str, Tensor]]:
    """A packed batch of ours, and the same as transformers wants it: [batch, seq], or [batch, choices, seq]."""
    batch = examples.batch(units)
    lengths = batch.lengths
    split = {"input_ids": batch.input_ids, "attention_mask": torch.ones_like(batch.input_ids)}
    if batch.token_type_ids is not None:
        split["token_type_ids"] = batch.token_type_ids.long()
    inputs = {
        name: torch.nn.utils.rnn.pad_sequence(list(values.split(lengths)), batch_first=True)
        for name, values in split.items()
    }
    if kind == "tagging":
        tags = torch.full_like(batch.input_ids, -100)
        tags[batch.labels["places"]] = batch.labels["tags"]
        inputs["labels"] = torch.nn.utils.rnn.pad_sequence(list(tags.split(lengths)), True, -100)
    elif kind == "qa":
        inputs["start_positions"], inputs["end_positions"] = batch.labels["sequence"].unbind(1)
    elif kind == "choice":
        inputs = choices(batch, inputs)
    else:
        inputs["labels"] = batch.labels["sequence"]
    return batch, inputs


def choices(batch: Batch, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Choices of the same question side by side: [batch, choices, seq]."""
    sides = {name: values[batch.labels["places"]] for name, values in inputs.items()}
    return {**sides, "labels": batch.labels["sequence"]}


def dev_logits(model: Any, data: Set, kind: str) -> Tensor:
    """Run their model on the dev examples: [rows, labels], [words, labels] or [tokens, 2], as `Task.logits`."""
    examples, size, total = data.dev, data.settings["batch_size"], len(data.dev)
    begins = np.concatenate([[0], np.cumsum(examples.lengths)])
    found: dict[int, Tensor] = {}
    with torch.inference_mode():
        for start in range(0, total, size):
            units = list(range(start, min(start + size, total)))
            batch, inputs = padded(examples, units, kind)
            output = model(**{name: inputs[name].to(model.device) for name in MODEL_INPUTS if name in inputs})
            if kind == "qa":
                both = torch.stack([output.start_logits, output.end_logits], dim=-1)  # [batch, seq, 2]
                for window, row, length in zip(batch.labels["example"].tolist(), both, batch.lengths, strict=True):
                    found.update(zip(range(begins[window], begins[window + 1]), row[:length], strict=True))
            elif kind == "tagging":
                flat = torch.cat([row[:length] for row, length in zip(output.logits, batch.lengths, strict=True)])
                found.update(zip(batch.labels["words"].tolist(), flat[batch.labels["places"]], strict=True))
            else:
                keys = units if kind == "choice" else batch.labels["example"].tolist()
                found.update(zip(keys, output.logits, strict=True))
    return torch.stack([found[key] for key in sorted(found)]).cpu()


def table(recipe: dict[str, Any], output: Path) -> str:
    """Scores of both sides as Markdown: mean ± deviation over seeds."""
    lines = [
        "| set | rows | metric | maskwright | transformers | difference | p | time |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, own in recipe["sets"].items():
        sides = {side: read_scores(output / name, side) for side in SIDES}
        seeds = sorted(sides["maskwright"].keys() & sides["transformers"].keys())  # that both have
        if not seeds:
            continue
        ours, theirs = ([sides[side][seed]["metrics"][own["metric"]] for seed in seeds] for side in SIDES)
        seconds = [statistics.median(sides[side][seed]["seconds"] for seed in seeds) for side in SIDES]
        rows = sides["maskwright"][seeds[0]]["train_rows"]
        lines.append(
            f"| {name} | {rows:,} | {own['metric']} | {shown(ours)} | {shown(theirs)} | "
            f"{statistics.mean(ours) - statistics.mean(theirs):+.3f} | {paired_p(ours, theirs)} | "
            f"{seconds[1] / seconds[0]:.1f} x |"
        )
    return "\n".join(lines)


def read_scores(folder: Path, side: str) -> dict[int, dict[str, Any]]:
    """What is kept of one side, by seed."""
    paths = {int(path.stem.rpartition("-")[2]): path for path in folder.glob(f"{side}-*.json")}
    return {seed: json.loads(path.read_text(encoding="utf-8")) for seed, path in paths.items()}


def paired_p(ours: list[float], theirs: list[float]) -> str:
    """Two-sided p of the paired t-test over the seeds; nothing where it is undefined."""
    if len(ours) < 2 or len({round(one - other, 12) for one, other in zip(ours, theirs, strict=True)}) < 2:
        return ""
    return f"{ttest_rel(ours, theirs).pvalue:.3f}"


def shown(values: list[float]) -> str:
    """Mean ± deviation, and how many seeds where not three."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    seeds = "" if len(values) == 3 else f" ({len(values)} seeds)"
    return f"{statistics.mean(values):.3f} ± {deviation:.3f}{seeds}"


if __name__ == "__main__":
    main()
