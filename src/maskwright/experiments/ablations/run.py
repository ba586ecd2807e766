"""Runs the ablations of the BERT paper at a small size: objective, mask rate, size (Devlin et al. 2019, section 5).

Pre-trains every network of the settings with several seeds on the same text, fine-tunes each at several of its
checkpoints on tagged sentences, and writes results.json, table.md and accuracy.svg into the output folder after every
run. Seeds are the outer loop, so finished runs always make a complete table with fewer seeds.
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core import storage
from ...core.config import differences
from ...core.errors import InputError, RunError
from ...core.progress import console, note, set_quiet
from ...data.prepare import prepare
from ...hub.folders import load_model
from ...models.build import build
from ...models.model import Model
from ...models.presets import preset
from ...models.sizes import parameter_count
from ...tasks.examples import Examples
from ...tasks.tagging.task import Tagging
from ...text.tokenizers.tokenizer import Tokenizer
from ...train.checkpoint import read_weights
from ...train.finetuning.finetune import fit
from ...train.inputs import inputs_named
from ...train.pretraining.config import PretrainConfig
from ...train.pretraining.pretrain import pretrain
from ...train.run import check_same_inputs
from .results import Results, write_results

SETTINGS = Path(__file__).parent / "ablations.toml"
STEP_COST = 1.4e6  # parameters that cost as much time as all else in a step, measured on one core


@dataclass(frozen=True)
class Task:
    """The fine-tuning task of all checkpoints: tagged sentences and settings."""

    tagging: Tagging
    train: Examples
    dev: Examples
    settings: dict[str, Any]


@dataclass(frozen=True)
class Part:
    """One network with one seed: a run folder with its scores. top: layers between its encoder and the head of the
    task, as for `maskwright finetune --set`.
    """

    name: str
    seed: int
    config: PretrainConfig
    score_at: tuple[int, ...]
    task_lr: float
    top: dict[str, Any]

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self.config.output

    def score_file(self, step: int) -> Path:
        """The file of the score after `step` steps."""
        return self.folder / "scores" / f"step-{step}.json"

    @property
    def is_finished(self) -> bool:
        """Whether it is trained and scored."""
        return (self.folder / "result.json").is_file() and all(
            self.score_file(step).is_file() for step in self.score_at
        )

    @property
    def cost(self) -> float:
        """Relative cost of the run, for the remaining time."""
        network = preset(str(self.config.preset), vocab_size=8, **self.config.model)
        return self.config.steps * self.config.batch_tokens * (parameter_count(network) + STEP_COST)


def read_settings(path: Path | None = None) -> dict[str, Any]:
    """Returns the settings of a TOML file, by default the shipped one. Raises InputError for an unreadable file."""
    try:
        return tomllib.loads((path or SETTINGS).read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"The settings {path} cannot be read: {error}.") from None


def resolve_files(settings: Mapping[str, Any], corpus: list[Path], train: Path | None, dev: Path | None,
                  data: Path | None) -> dict[str, Any]:  # fmt: skip
    """Returns the settings with full paths: your own files, or those that the settings name inside `data`.

    Raises InputError for a file that does not exist.
    """
    task = settings["task"]
    named = {"corpus": corpus, "train": [train] if train else [], "dev": [dev] if dev else []}
    wanted = {"corpus": settings["corpus"], "train": [task["train"]], "dev": [task["dev"]]}
    found: dict[str, list[str]] = {}
    for role, own in named.items():
        if not own and data is None:
            raise InputError(
                f"No {role} file: pass --{role}, or --data (or MASKWRIGHT_DATA) as the folder with {wanted[role][0]}."
            )
        found[role] = [str(path.resolve()) for path in own or [Path(data or "") / name for name in wanted[role]]]
        for path in found[role]:
            if not Path(path).exists():
                raise InputError(f"{path} does not exist: pass --{role} or another --data.")
    return {**settings, "corpus": found["corpus"], "task": {**task, "train": found["train"][0], "dev": found["dev"][0]}}


def describe(parts: list[Part]) -> list[str]:
    """Returns one line per run of the plan."""
    lines = []
    for part in parts:
        kind, tokens = part.config, part.config.steps * part.config.batch_tokens
        lines.append(
            f"seed {part.seed}, {part.name}: {kind.preset}, {kind.objective}, {kind.steps:,} steps, {tokens:,} tokens, "
            f"learning rate {kind.lr:g}, scored at {', '.join(map(str, part.score_at))}"
        )
    return lines


def ablate(settings: dict[str, Any], output: Path, seeds: int) -> Results:
    """Trains and scores the unfinished runs, and writes the results.

    Raises RunError if `output` was started with other settings.
    """
    parts = plan(settings, output, seeds)
    check_same(settings, output)
    run_all(parts, prepare_texts(settings, output), settings, output)
    return collect(settings, output, seeds)


def collect(settings: dict[str, Any], output: Path, seeds: int) -> Results:
    """Writes the results of the finished runs, also while another process trains."""
    results = Results.collect(settings, plan(settings, output, seeds))
    write_results(results, output)
    return results


def plan(settings: dict[str, Any], output: Path, seeds: int) -> list[Part]:
    """All runs, ordered by seed."""
    parts = []
    for seed in range(seeds):
        for name, own in settings["runs"].items():
            recipe = {**settings["pretraining"], **own}
            task_lr = recipe.pop("task_lr", settings["task"]["lr"])
            top = recipe.pop("top", {})
            config = PretrainConfig(
                corpus=(str(output / "text" / "data"),),
                tokenizer=output / "text" / "tokenizer",
                output=output / f"seed-{seed}" / name.replace(" ", "-").replace("%", "percent"),
                seed=seed,
                keep=len(settings["score_at"]) * 100,  # all are kept until they are scored
                **recipe,
            )
            steps = tuple(step for step in (0, *settings["score_at"]) if step <= config.steps)
            missing = [step for step in steps if step % config.checkpoint_every and step != config.steps]
            if missing:
                raise InputError(
                    f"score_at {missing[0]} is not a multiple of checkpoint_every {config.checkpoint_every}."
                )
            parts.append(Part(name, seed, config, steps, task_lr, top))
    return parts


def check_same(settings: dict[str, Any], output: Path) -> None:
    """Write the settings and inputs to the output folder; raises RunError if it contains other settings or data."""
    kept = output / "settings.json"
    task = settings["task"]
    inputs = inputs_named({"corpus": settings["corpus"], "train": [task["train"]], "dev": [task["dev"]]})
    if not kept.is_file():
        inputs.write(output)
        storage.write_json(kept, settings)
        return
    check_same_inputs(output, inputs, set(inputs.files), can_restart=False)
    differing = differences(storage.read_json(kept), settings)
    if differing:
        raise RunError(f"{output} was started with other settings: {'; '.join(differing)}. Use another -o folder.")


def prepare_texts(settings: dict[str, Any], output: Path) -> Task:
    """Prepares tokenizer, token shards and tokenized task examples, once for all runs."""
    text, task = output / "text", settings["task"]
    source = settings["corpus"]
    if not (text / "tokenizer").exists():
        note(f"Training a WordPiece tokenizer with a vocabulary of {settings['vocab_size']:,} tokens.")
        Tokenizer.train(source, kind="wordpiece", vocab_size=settings["vocab_size"]).save(text / "tokenizer")
    tokenizer = Tokenizer.load(text / "tokenizer")
    prepare(source, tokenizer, text / "data")
    train, dev = (Tagging.read(Path(task[part]), columns=task["columns"]).rows for part in ("train", "dev"))
    tagging = Tagging.from_rows(train, dev)  # with the tags of all rows, including unused ones
    max_length = settings["pretraining"]["max_length"]
    train_examples = tagging.examples(train[: task["train_rows"]], tokenizer, max_length)
    dev_examples = tagging.examples(dev[: task["dev_rows"]], tokenizer, max_length)
    return Task(tagging, train_examples, dev_examples, task)


def run_all(parts: list[Part], task: Task, settings: dict[str, Any], output: Path) -> None:
    """Train and score the unfinished runs; reports the estimated remaining time."""
    left = sum(part.cost for part in parts if not part.is_finished)
    started, total = time.monotonic(), left
    for number, part in enumerate(parts, 1):
        if part.is_finished:
            continue
        done = total - left
        spent = time.monotonic() - started
        rest = f", about {spent / done * left / 60:,.0f} minutes remaining" if done else ""
        note(f"[{number}/{len(parts)}] seed {part.seed}, {part.name}{rest}")
        run_part(part, task)
        left -= part.cost
        write_results(Results.collect(settings, parts), output)


def run_part(part: Part, task: Task) -> None:
    """Pre-train one network, fine-tune its checkpoints, and remove them."""
    model, _ = load_model(pretrain(part.config).model)
    storage.write_json(part.folder / "parameters.json", model.num_parameters)
    accuracies = []
    set_quiet(True)  # no progress of many short fine-tunings
    try:
        for step in part.score_at:
            if not part.score_file(step).is_file():
                score = fine_tuned_accuracy(part, step, task)
                part.score_file(step).parent.mkdir(exist_ok=True)
                storage.write_json(part.score_file(step), {"step": step, "accuracy": score})
            accuracies.append(f"{step}: {100 * storage.read_json(part.score_file(step))['accuracy']:.1f}")
    finally:
        set_quiet(False)
    console().print(f"    accuracy in % after fine-tuning, by step: {', '.join(accuracies)}", markup=False)
    checkpoints = part.folder / "checkpoints"
    if checkpoints.exists():
        storage.remove_folder(checkpoints)


def fine_tuned_accuracy(part: Part, step: int, task: Task) -> float:
    """Dev accuracy over words after fine-tuning the checkpoint of `step`."""
    settings = task.settings
    model = network_at(part, step, task.tagging)
    fit(
        model,
        task.tagging,
        task.train,
        epochs=settings["epochs"],
        lr=part.task_lr,
        batch_size=settings["batch_size"],
        seed=part.seed,
        precision=part.config.precision,
    )
    return task.tagging.evaluate(model, task.dev).metrics["accuracy"]


def network_at(part: Part, step: int, tagging: Tagging) -> Model:
    """The network of the checkpoint of `step`, with a new head initialized from the run's seed."""
    head: dict[str, Any] = {"labels": tagging.labels, "seed": part.seed}
    model, _ = load_model(part.folder / "model", tagging.head, **head, top=part.top)
    if step == 0:
        return build(model.config, tagging.head, **head)
    stored = read_weights(part.folder / "checkpoints" / f"step-{step}")
    encoder = {name.removeprefix("encoder."): value for name, value in stored.items() if name.startswith("encoder.")}
    missing, unexpected = model.encoder.load_state_dict(encoder, strict=False)
    # Taggers have no pooler.
    assert all(name.startswith("pooler.") for name in (*missing, *unexpected)), (missing, unexpected)
    return model
