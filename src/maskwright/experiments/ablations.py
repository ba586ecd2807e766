"""Runs the ablations of the BERT paper at a small size: objective, mask rate, size (Devlin et al. 2019, section 5).

Pre-trains every network of the settings with several seeds on the same text, fine-tunes each at several of its
checkpoints on tagged sentences, and writes results.json, table.md and report.html into the output folder after every
run. Seeds are the outer loop, so finished runs always make a complete table with fewer seeds.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from ..core import storage
from ..core.config import differences
from ..core.errors import InputError, RunError
from ..core.progress import note, set_quiet
from ..data.prepare import prepare
from ..hub.folders import load_model
from ..models.build import build
from ..models.model import Model
from ..models.presets import preset
from ..models.sizes import parameter_count
from ..report import Table
from ..report.charts import Chart, Curves, Series
from ..tasks.examples import Examples
from ..tasks.tagging.task import Tagging
from ..text.tokenizers.tokenizer import Tokenizer
from ..train.checkpoint import read_weights
from ..train.finetuning.finetune import fit
from ..train.inputs import inputs_named
from ..train.pretraining.config import PretrainConfig
from ..train.pretraining.pretrain import pretrain
from ..train.run import RunFolder, check_same_inputs
from .config import AblationsConfig
from .runner import ExperimentResult, Keeper, Part, Shown, write_results

SETTINGS = Path(__file__).parent / "ablations.toml"
STEP_COST = 1.4e6  # parameters that cost as much time as all else in a step, measured on one core
SHOWN = 0.1  # of the target tokens is unchanged, so a masked language model can copy them without any context
NO_RESULT = 0.03  # minimum accuracy above the baseline without context; runs below it are not compared
COLUMNS = (
    "comparison", "run", "parameters", "learning rate", "tokens, millions", "seconds", "token accuracy, %",
    "without context, %", "task accuracy, %", "seeds",
)  # fmt: skip


def read_settings(path: Path | None = None) -> dict[str, Any]:
    """The settings of a TOML file, by default the shipped one. Raises InputError for an unreadable file."""
    try:
        return tomllib.loads((path or SETTINGS).read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"The settings {path} cannot be read: {error}.") from None


def resolve_files(config: AblationsConfig) -> dict[str, Any]:
    """The settings with full paths: your own files, or those that the settings name inside `data`.

    Raises InputError for a file that does not exist.
    """
    settings = read_settings(config.settings)
    task = settings["task"]
    named = {"corpus": config.corpus, "train": config.train, "dev": config.dev}
    wanted = {"corpus": settings["corpus"], "train": [task["train"]], "dev": [task["dev"]]}
    found: dict[str, list[str]] = {}
    for role, given in named.items():
        own = [given] if isinstance(given, Path) else list(given or ())
        if not own and config.data is None:
            raise InputError(
                f"No {role} file: pass --{role}, or --data (or MASKWRIGHT_DATA) as the folder with {wanted[role][0]}."
            )
        found[role] = [str(path.resolve()) for path in own or [Path(config.data or "") / one for one in wanted[role]]]
        for path in found[role]:
            if not Path(path).exists():
                raise InputError(f"{path} does not exist: pass --{role} or another --data.")
    return {**settings, "corpus": found["corpus"], "task": {**task, "train": found["train"][0], "dev": found["dev"][0]}}


@dataclass(frozen=True)
class Run:
    """One network with one seed. top: layers between its encoder and the head of the task, as `finetune --set`."""

    name: str
    seed: int
    config: PretrainConfig
    score_at: tuple[int, ...]
    task_lr: float
    top: dict[str, Any]

    def words(self) -> str:
        kind = self.config
        return (
            f"seed {self.seed}, {self.name}: {kind.preset}, {kind.objective}, {kind.steps:,} steps, "
            f"{kind.steps * kind.batch_tokens:,} tokens, learning rate {kind.lr:g}, scored at "
            f"{', '.join(map(str, self.score_at))}"
        )


def plan(settings: dict[str, Any], output: Path, seeds: int) -> list[Run]:
    """All runs, ordered by seed. Raises InputError for a step without a checkpoint."""
    runs = []
    for seed in range(seeds):
        for name, own in settings["runs"].items():
            recipe = {**settings["pretraining"], **own}
            task_lr, top = recipe.pop("task_lr", settings["task"]["lr"]), recipe.pop("top", {})
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
            runs.append(Run(name, seed, config, steps, task_lr, top))
    return runs


def ablate(settings: dict[str, Any], output: Path, seeds: int) -> ExperimentResult:
    """Train and score the unfinished runs, and write the results.

    Raises RunError if `output` was started with other settings or data.
    """
    runs = plan(settings, output, seeds)
    _check_same(settings, output)
    task = _Task(settings, output)
    parts = [Part(_key(run), f"seed {run.seed}, {run.name}", partial(_run, run, task), _cost(run)) for run in runs]
    Keeper(output / "parts").run(parts, after=partial(collect, settings, output, seeds))
    return collect(settings, output, seeds)


def collect(settings: dict[str, Any], output: Path, seeds: int) -> ExperimentResult:
    """Write the results of the finished runs, also while another process trains."""
    found: dict[str, list[dict[str, Any]]] = {}
    for run in plan(settings, output, seeds):
        path = output / "parts" / f"{_key(run)}.json"
        if path.is_file():
            found.setdefault(run.name, []).append(storage.read_json(path))
    facts = {"settings": settings, "runs": {name: found[name] for name in settings["runs"] if name in found}}
    shown = show(facts)
    output.mkdir(parents=True, exist_ok=True)
    storage.write_json(output / "results.json", facts)
    write_results(output, shown, None)
    return ExperimentResult(output, facts, shown)


def _key(run: Run) -> str:
    return f"seed-{run.seed}-{run.config.output.name}"


def _cost(run: Run) -> float:
    network = preset(str(run.config.preset), vocab_size=8, **run.config.model)
    return run.config.steps * run.config.batch_tokens * (parameter_count(network) + STEP_COST)


def _check_same(settings: dict[str, Any], output: Path) -> None:
    """Write the settings and inputs to the output folder; raises RunError if it has others."""
    kept, task = output / "settings.json", settings["task"]
    inputs = inputs_named({"corpus": settings["corpus"], "train": [task["train"]], "dev": [task["dev"]]})
    if not kept.is_file():
        inputs.write(output)
        storage.write_json(kept, settings)
        return
    check_same_inputs(output, inputs, set(inputs.files), can_restart=False)
    differing = differences(storage.read_json(kept), settings)
    if differing:
        raise RunError(f"{output} was started with other settings: {'; '.join(differing)}. Use another -o folder.")


class _Task:
    """Tokenizer, token shards and tokenized examples of the fine-tuning task, prepared once for all runs."""

    def __init__(self, settings: dict[str, Any], output: Path) -> None:
        text, self.settings, source = output / "text", settings["task"], settings["corpus"]
        if not (text / "tokenizer").exists():
            note(f"Training a WordPiece tokenizer with a vocabulary of {settings['vocab_size']:,} tokens.")
            Tokenizer.train(source, kind="wordpiece", vocab_size=settings["vocab_size"]).save(text / "tokenizer")
        tokenizer = Tokenizer.load(text / "tokenizer")
        prepare(source, tokenizer, text / "data")
        columns, max_length = self.settings["columns"], settings["pretraining"]["max_length"]
        train, dev = (Tagging.read(Path(self.settings[part]), columns=columns).rows for part in ("train", "dev"))
        self.tagging = Tagging.from_rows(train, dev)  # with the tags of all rows, including unused ones
        self.train: Examples = self.tagging.examples(train[: self.settings["train_rows"]], tokenizer, max_length)
        self.dev: Examples = self.tagging.examples(dev[: self.settings["dev_rows"]], tokenizer, max_length)


def _run(run: Run, task: _Task) -> dict[str, Any]:
    """Pre-train one network, fine-tune its checkpoints, remove them, and return the results."""
    folder = run.config.output
    model, _ = load_model(pretrain(run.config).model)
    accuracy = {}
    set_quiet(True)  # no progress of many short fine-tunings
    try:
        for step in run.score_at:
            kept = folder / "scores" / f"step-{step}.json"
            if not kept.is_file():
                kept.parent.mkdir(exist_ok=True)
                storage.write_json(kept, {"step": step, "accuracy": _fine_tuned_accuracy(run, step, task)})
            accuracy[str(step)] = storage.read_json(kept)["accuracy"]
    finally:
        set_quiet(False)
    result, log = storage.read_json(folder / "result.json"), RunFolder(folder, {}).records()
    if (folder / "checkpoints").exists():
        storage.remove_folder(folder / "checkpoints")
    words = "clm" if "clm_accuracy" in result["scores"] else "mlm"
    most_common = result["baseline"]["mlm_accuracy"]
    return {
        "seed": run.seed,
        "parameters": model.num_parameters,
        "rate": run.config.lr,
        "tokens": sum(line.get("tokens", 0) for line in log),
        "seconds": round(sum(line.get("seconds", 0.0) for line in log), 1),
        "guessed": result["scores"][f"{words}_accuracy"],
        "loss": result["scores"][f"{words}_loss"],
        "commonest": most_common,  # terms: ok
        "blind": most_common if words == "clm" else SHOWN + (1 - SHOWN) * most_common,
        "unigram_loss": result["baseline"]["mlm_loss"],
        "accuracy": accuracy,
    }


def _fine_tuned_accuracy(run: Run, step: int, task: _Task) -> float:
    """Dev accuracy over words after fine-tuning the checkpoint of `step`."""
    model = _network_at(run, step, task.tagging)
    how = {"epochs": task.settings["epochs"], "batch_size": task.settings["batch_size"], "lr": run.task_lr}
    fit(model, task.tagging, task.train, seed=run.seed, precision=run.config.precision, **how)
    return task.tagging.evaluate(model, task.dev).metrics["accuracy"]


def _network_at(run: Run, step: int, tagging: Tagging) -> Model:
    """The network of the checkpoint of `step`, with a new head initialized from the run's seed."""
    folder = run.config.output
    head: dict[str, Any] = {"labels": tagging.labels, "seed": run.seed}
    model, _ = load_model(folder / "model", tagging.head, **head, top=run.top)
    if step == 0:
        return build(model.config, tagging.head, **head)
    stored = read_weights(folder / "checkpoints" / f"step-{step}")
    encoder = {name.removeprefix("encoder."): value for name, value in stored.items() if name.startswith("encoder.")}
    missing, unexpected = model.encoder.load_state_dict(encoder, strict=False)
    # Taggers have no pooler.
    assert all(name.startswith("pooler.") for name in (*missing, *unexpected)), (missing, unexpected)
    return model


# -- the table, the curves, and whether they cross ---------------------------------------------------------------------


@dataclass(frozen=True)
class Compared:
    """The runs of one comparison, with the seeds and the scored steps that all of them have."""

    title: str
    names: list[str]
    found: Mapping[str, list[dict[str, Any]]]
    seeds: list[int]
    steps: list[int]

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> list[Compared]:
        """All comparisons that have a seed."""
        compared = []
        for title, names in facts["settings"]["comparisons"].items():
            every = [facts["runs"].get(name, []) for name in names]
            seeds = sorted(set.intersection(*({one["seed"] for one in runs} for runs in every)))
            if seeds:
                steps = set.intersection(*(set(runs[0]["accuracy"]) for runs in every))
                compared.append(cls(title, names, dict(zip(names, every, strict=True)), seeds, sorted(map(int, steps))))
        return compared

    def spread(self, name: str, key: str) -> tuple[float, float]:
        """Mean and deviation of a value over seeds."""
        return _spread([one[key] for one in self.found[name] if one["seed"] in self.seeds])

    def accuracy(self, name: str, step: int) -> tuple[float, float]:
        """Mean and deviation of the accuracy after fine-tuning."""
        return _spread([one["accuracy"][str(step)] for one in self.found[name] if one["seed"] in self.seeds])

    def is_result(self, name: str) -> bool:
        """Whether a run is better than copying unchanged tokens and predicting the most common token elsewhere."""
        return self.spread(name, "guessed")[0] > self.spread(name, "blind")[0] + NO_RESULT


def _spread(values: Sequence[float]) -> tuple[float, float]:
    return fmean(values), stdev(values) if len(values) > 1 else 0.0


def _percent(spread: tuple[float, float]) -> str:
    return f"{100 * spread[0]:.1f} ± {100 * spread[1]:.1f}"


def show(facts: dict[str, Any]) -> Shown:
    """The table, the curves by step, and the notes."""
    compared, settings, rows, said = Compared.of(facts), facts["settings"], [], []
    for one in compared:
        for name in one.names:
            last = _percent(one.accuracy(name, one.steps[-1]))
            total = {**settings["pretraining"], **settings["runs"][name]}["steps"]
            kept = one.found[name][0]
            rows.append((
                one.title, name, f"{kept['parameters']:,}", f"{kept['rate']:g}",
                f"{one.spread(name, 'tokens')[0] * one.steps[-1] / total / 1e6:.2f}",
                f"{one.spread(name, 'seconds')[0]:,.0f}", _percent(one.spread(name, "guessed")),
                f"{100 * one.spread(name, 'blind')[0]:.1f}",
                last if one.is_result(name) else f"no result ({last})", len(one.seeds),
            ))  # fmt: skip
        poor = [name for name in one.names if not one.is_result(name)]
        if poor:
            said.append(
                f"{one.title.capitalize()}: {', '.join(poor)} scored hardly above the baseline without context: no "
                "result for them."
            )
    both = Compared.of({**facts, "settings": {"comparisons": {"": ["mlm", "left to right"]}}})
    said += [crossing(both[0])] if both else ["No seed has both directions yet."]
    note_text = (
        "Task accuracy: after fine-tuning at the last step that the runs of a comparison share; ± is the standard "
        "deviation over seeds. Token accuracy: held-out masked or next tokens at the end of the run; without context: "
        "the most common token, and for masked LM also the 10% of unchanged tokens."
    )
    charts = [
        Chart(
            f"By {one.title}: accuracy after fine-tuning",
            [
                Series(name, one.steps, [run["accuracy"][str(step)] for step in one.steps], smooth=False)
                for name in one.names
                for run in one.found[name]
                if run["seed"] in one.seeds
            ],
            x_label="steps of pre-training",
            unit="percent",
        )
        for one in compared
    ]
    return Shown("ablations", said, [Table(COLUMNS, rows, note=note_text, right=COLUMNS[2:])], [Curves(charts)])


def crossing(both: Compared) -> str:
    """A sentence on whether the curves of masked and causal language modeling cross."""
    steps = [step for step in both.steps if step]
    scores = {step: [both.accuracy(name, step) for name in both.names] for step in steps}
    gaps = {step: first[0] - second[0] for step, (first, second) in scores.items()}
    errors = {step: math.hypot(one[1], other[1]) / math.sqrt(len(both.seeds)) for step, (one, other) in scores.items()}
    clear = [step for step in steps if abs(gaps[step]) > 2 * errors[step]]
    lower = [step for step in steps if gaps[step] < 0]
    ahead_from = next((step for step in steps if all(gaps[later] > 0 for later in steps if later >= step)), None)
    if lower and ahead_from is not None:
        said = f"The curves cross: causal LM is better at step {lower[0]:,}, masked LM from step {ahead_from:,} on"
    elif not lower:
        said = "The curves do not cross: masked LM is never below causal LM"
    elif len(lower) == len(steps):
        said = "The curves do not cross within this budget: causal LM is better at every checkpoint"
    else:
        said = f"The curves cross several times: causal LM is better at {len(lower)} of {len(steps)} checkpoints"
    if len(both.seeds) == 1:
        return f"{said}, with one seed, so the variation over seeds is unknown."
    how = f"at {', '.join(f'{step:,}' for step in clear)}" if clear else "at none"
    return (
        f"{said} ({len(both.seeds)} seeds). The gap is above twice its standard error {how} of {len(steps)} "
        "checkpoints."
    )
