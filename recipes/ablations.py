"""The ablations of the BERT paper, small: objective, mask rate, size (Devlin et al. 2019, section 5).

    MASKWRIGHT_DATA=path python recipes/ablations.py -o runs/ablations

Pre-trains every network of ablations.toml with three seeds on the same text, fine-tunes each at several of its
checkpoints on tagged sentences, and writes results.json, table.md and accuracy.svg into the output folder, anew
after every run. Seeds are the outer loop, so whatever is finished makes a complete table with fewer seeds. Interrupted,
the same command goes on where it was; `--table` only writes the results of what is finished, also while another process
is at work.
"""

from __future__ import annotations

import argparse
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablation_results import Results, write_results
from data_sets import data_folder
from running import run_main

from maskwright.api import load
from maskwright.core import storage
from maskwright.core.config import differences
from maskwright.core.errors import InputError, RunError
from maskwright.core.progress import console, note, set_quiet
from maskwright.data.prepare import prepare
from maskwright.hub.folders import load_model
from maskwright.models.describe import parameter_count
from maskwright.models.model import Model, build
from maskwright.models.presets import preset
from maskwright.tasks.examples import Examples
from maskwright.tasks.tagging import Tagging
from maskwright.text.tokenizer import Tokenizer
from maskwright.train.checkpoint import read_weights
from maskwright.train.finetune import fit
from maskwright.train.pretrain import pretrain
from maskwright.train.pretrain_config import PretrainConfig

HERE = Path(__file__).parent
STEP_COST = 1.4e6  # parameters that cost as much time as all else in a step, measured on one core


@dataclass(frozen=True)
class Task:
    """What checkpoints are fine-tuned on: tagged sentences, the same for all of them, and how."""

    tagging: Tagging
    train: Examples
    dev: Examples
    settings: dict[str, Any]


@dataclass(frozen=True)
class Part:
    """One network with one seed: a run folder with its scores. top: what stands between its encoder and the head of the
    task, as `maskwright finetune --set` takes it.
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
        """Where the score after `step` steps is kept."""
        return self.folder / "scores" / f"step-{step}.json"

    @property
    def is_finished(self) -> bool:
        """Whether it is trained and scored."""
        return (self.folder / "result.json").is_file() and all(
            self.score_file(step).is_file() for step in self.score_at
        )

    @property
    def cost(self) -> float:
        """Steps times what one costs beside its parameters and for them, for the time that is left."""
        network = preset(self.config.preset, vocab_size=8, **self.config.model)
        return self.config.steps * self.config.batch_tokens * (parameter_count(network) + STEP_COST)


def main() -> None:
    """Parse, run, and say where the results are."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/ablations"))
    parser.add_argument("--settings", type=Path, default=HERE / "ablations.toml")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--dry-run", action="store_true", help="say what would be run, and stop")
    parser.add_argument("--table", action="store_true", help="write the results of what is finished, and stop")
    ablate(parser.parse_args())


def ablate(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    settings = tomllib.loads(options.settings.read_text(encoding="utf-8"))
    output: Path = options.output.resolve()
    parts = plan(settings, output, options.seeds)
    if options.dry_run:
        for part in parts:
            kind, tokens = part.config, part.config.steps * part.config.batch_tokens
            print(f"seed {part.seed}, {part.name}: {kind.preset}, {kind.objective}, {kind.steps:,} steps, "
                  f"{tokens:,} tokens, rate {kind.lr:g}, scored at {', '.join(map(str, part.score_at))}")  # fmt: skip
        return
    if not options.table:
        check_same(settings, output)
        task = prepare_texts(settings, output)
        run_all(parts, task, settings, output)
    write_results(Results.collect(settings, parts), output)
    print(f"table: {output / 'table.md'}\nplot:  {output / 'accuracy.svg'}\nall:   {output / 'results.json'}")


def plan(settings: dict[str, Any], output: Path, seeds: int) -> list[Part]:
    """All parts, seed after seed."""
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
                keep=len(settings["score_at"]) * 100,  # all of them stay until they are scored
                **recipe,
            )
            steps = tuple(step for step in (0, *settings["score_at"]) if step <= config.steps)
            missing = [step for step in steps if step % config.checkpoint_every and step != config.steps]
            if missing:
                raise InputError(f"score_at {missing[0]} is no multiple of checkpoint_every {config.checkpoint_every}.")
            parts.append(Part(name, seed, config, steps, task_lr, top))
    return parts


def check_same(settings: dict[str, Any], output: Path) -> None:
    """Keep the settings in the output folder; raise RunError when others are there."""
    kept = output / "settings.json"
    if not kept.is_file():
        storage.write_json(kept, settings)
        return
    differing = differences(storage.read_json(kept), settings)
    if differing:
        raise RunError(f"{output} was begun with other settings: {'; '.join(differing)}. Give another -o folder.")


def prepare_texts(settings: dict[str, Any], output: Path) -> Task:
    """The text as shards with its tokenizer, and the tagged sentences as tokens, once for all runs."""
    folder, text, task = data_folder(), output / "text", settings["task"]
    source = [str(folder / name) for name in settings["corpus"]]
    if not (text / "tokenizer").exists():
        note(f"Training a WordPiece tokenizer of {settings['vocab_size']:,} pieces.")
        Tokenizer.train(source, kind="wordpiece", vocab_size=settings["vocab_size"]).save(text / "tokenizer")
    tokenizer = Tokenizer.load(text / "tokenizer")
    prepare(source, tokenizer, text / "data")
    train, dev = (Tagging.read(folder / task[part], columns=task["columns"]).rows for part in ("train", "dev"))
    tagging = Tagging.from_rows(train, dev)  # knows the tags of all rows, also of those that are not used
    max_length = settings["pretraining"]["max_length"]
    train_examples = tagging.examples(train[: task["train_rows"]], tokenizer, max_length)
    dev_examples = tagging.examples(dev[: task["dev_rows"]], tokenizer, max_length)
    return Task(tagging, train_examples, dev_examples, task)


def run_all(parts: list[Part], task: Task, settings: dict[str, Any], output: Path) -> None:
    """Train and score whatever is not finished, with the time that is left for the whole."""
    left = sum(part.cost for part in parts if not part.is_finished)
    started, total = time.monotonic(), left
    for number, part in enumerate(parts, 1):
        if part.is_finished:
            continue
        done = total - left
        spent = time.monotonic() - started
        rest = f", about {spent / done * left / 60:,.0f} minutes left" if done else ""
        note(f"[{number}/{len(parts)}] seed {part.seed}, {part.name}{rest}")
        run_part(part, task)
        left -= part.cost
        write_results(Results.collect(settings, parts), output)


def run_part(part: Part, task: Task) -> None:
    """Pre-train one network, fine-tune its checkpoints, and drop them."""
    model = load(pretrain(part.config).model)
    storage.write_json(part.folder / "parameters.json", model.num_parameters)
    accuracies = []
    set_quiet(True)  # the steps of some dozen short fine-tunings tell nobody anything
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
    """Accuracy over the words of dev after fine-tuning the network as it was after `step` steps."""
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
    """The network as it was after `step` steps, with a new head drawn from the run's seed."""
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


if __name__ == "__main__":
    run_main(main)
