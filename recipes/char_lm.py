"""Interpretable cells of a character language model: an LSTM on Shakespeare, War and Peace or Python code (Karpathy et
al. 2015).

    MASKWRIGHT_DATA=path python recipes/char_lm.py -o runs/char                                30 minutes of training
    MASKWRIGHT_DATA=path python recipes/char_lm.py --text war_and_peace --hidden 512 --minutes 120 -o runs/peace
    python recipes/char_lm.py --text python --minutes 15 -o runs/code       the standard library of the running Python
    MASKWRIGHT_DATA=path python recipes/char_lm.py --steps 20 --hidden 32 -o runs/try

An LSTM predicts the next byte of a text. --minutes limits the training time: the recipe times a few steps and computes
the number that fits. --steps sets the number directly. Part of the training text is held out for the curve of the
report; the dev text is not used for any choice. It is scored once: perplexity and bits per byte. The end of a speech or
paragraph counts as a byte, repeated ends count once.

Then the unit that correlates best with each rule (quotation marks, position in the line, words in capitals, lines that
end with a colon; in code also open brackets, comments and the conditions of `if`) is searched on the first half of the
dev text and confirmed on the second half. The same search in an LSTM with random weights shows which correlations were
not learned. The recipe prints samples; cells.html colors the text by the best unit of each rule, and table.json has the
numbers. --seeds trains several networks. Rerun the same command to resume.
"""

from __future__ import annotations

import argparse
import math
import platform
import sysconfig
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from common import data_file, made_once, minutes_of, options_of, read_options, run_main, spread

from maskwright.core import storage
from maskwright.core.progress import note
from maskwright.hub.folders import load_model
from maskwright.inference.generate import Generation, TextGenerator
from maskwright.inference.held_out_text import score_text
from maskwright.inference.ready import place
from maskwright.inspect.cells import (
    RULES,
    FoundUnit,
    UnitActivations,
    documents_of,
    find_units,
    read_cells,
    tokens_of,
    untrained_like,
)
from maskwright.inspect.reports import write_cells
from maskwright.models.decoding.rules import Rules
from maskwright.models.model import Model, tokenizer_of
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.pretraining.config import PretrainConfig
from maskwright.train.pretraining.pretrain import pretrain
from maskwright.train.run import RunFolder

PLAIN = ("line", "capitals", "heading", "quotes")
TEXTS: dict[str, dict[str, Any]] = {  # files of the data sets, what samples begin with, and the rules that are searched
    "tinyshakespeare": {
        "train": "tinyshakespeare_train.txt",
        "dev": "tinyshakespeare_dev.txt",
        "start": "KING",
        "rules": PLAIN,
    },
    "war_and_peace": {
        "train": "war_and_peace_train.txt.xz",
        "dev": "war_and_peace_dev.txt",
        "start": "The",
        "rules": PLAIN,
    },
    "python": {"start": "def ", "rules": ("line", "depth", "comment", "condition", "heading", "quotes")},
}
DEV_FILES = 25  # one file of code in so many is for the dev text
DEV_BYTES = 200_000
PACKAGES = ("asyncio", "collections", "concurrent/futures", "email", "http", "importlib", "json", "logging", "urllib")
CLEAR = 0.6  # a correlation on unseen text that says something
TOP = 3  # units named for each rule
BYTES = 261  # and the special tokens
TEMPERATURES, SAMPLES, SAMPLE_BYTES = (0.5, 0.8), 2, 300
MEASURED_STEPS = 8


def main() -> None:
    """Train, score, search, write."""
    chosen = _options()
    prepare(chosen)
    steps = steps_of(chosen)
    runs = []
    for seed in range(chosen.seeds):
        result = pretrain(recipe_of(chosen, chosen.output / f"seed-{seed}", steps, seed))
        model = place(load_model(result.model)[0], chosen.device, "fp32")
        readings, found, not_learnt = search(chosen, model, seed)
        if seed == 0:
            show_samples(chosen, model)
            write_cells(chosen.output / "cells.html", readings, found, [], f"an LSTM on {chosen.text}")
        runs.append(
            {
                "seed": seed,
                "parameters": model.num_parameters,
                "minutes": minutes_of(result.output),
                **score(chosen, model),
                "cells": [one.to_json() for one in found],
                "untrained": [one.to_json() for one in not_learnt],
            }
        )
    storage.write_json(chosen.output / "table.json", {"text": chosen.text, "steps": steps, "runs": runs})
    show(chosen, steps, runs)


def _options() -> argparse.Namespace:
    options = options_of(__doc__)
    options.add_argument("--text", choices=list(TEXTS), default="tinyshakespeare")
    options.add_argument("--seeds", type=int, default=1)
    options.add_argument("--minutes", type=float, default=30.0, help="of one training; --steps says it otherwise")
    options.add_argument("--steps", type=int)
    options.add_argument("--hidden", type=int, default=256)
    options.add_argument("--layers", type=int, default=2)
    options.add_argument("--streams", type=int, default=32, help="number of parallel streams")
    options.add_argument("--stretch", type=int, default=100, help="bytes that a gradient goes back")
    options.add_argument("--lr", type=float, default=2e-3)
    options.add_argument("--device", default="auto")
    options.add_argument("--precision", default="fp32")
    chosen = read_options(options)
    return chosen


# -- training ---------------------------------------------------------------------------------------------------------


def prepare(chosen: argparse.Namespace) -> None:
    """Train a byte-level tokenizer once, and collect the code."""
    if chosen.text == "python":
        made_once(chosen.output / "code", {"text": f"Python {platform.python_version()}"}, write_code)
    if not (chosen.output / "tokenizer").is_dir():
        trained = Tokenizer.train([str(text_of(chosen, "train"))], kind="byte-bpe", vocab_size=BYTES)
        trained.save(chosen.output / "tokenizer")


def write_code(new: Path) -> None:
    """The modules of the standard library: every DEV_FILES-th is for the dev text."""
    library = Path(sysconfig.get_path("stdlib"))
    files = [*library.glob("*.py"), *(path for name in PACKAGES for path in (library / name).glob("*.py"))]
    parts: dict[str, list[str]] = {"train": [], "dev": []}
    for number, path in enumerate(sorted(files)):
        parts["train" if number % DEV_FILES else "dev"].append(path.read_text(encoding="utf-8", errors="replace"))
    for name, texts in parts.items():
        storage.write_text(new / f"{name}.txt", "\n\n".join(texts)[: DEV_BYTES if name == "dev" else None])


def text_of(chosen: argparse.Namespace, part: str) -> Path:
    """The file of a part of the text."""
    if chosen.text == "python":
        return Path(chosen.output / "code" / f"{part}.txt")
    return data_file(f"char_lm/{TEXTS[chosen.text][part]}")


def recipe_of(chosen: argparse.Namespace, output: Path, steps: int, seed: int) -> PretrainConfig:
    """What is trained and how."""
    return PretrainConfig(
        corpus=(str(text_of(chosen, "train")),),
        output=output,
        preset="lstm-small",
        objective="clm",
        tokenizer=chosen.output / "tokenizer",
        model={"hidden_size": chosen.hidden, "num_hidden_layers": chosen.layers},
        steps=steps,
        batch_tokens=chosen.streams * chosen.stretch,
        max_length=chosen.stretch,
        lr=chosen.lr,
        warmup=0.02,
        holdout=0.02,
        keep_duplicates=True,
        seed=seed,
        device=chosen.device,
        precision=chosen.precision,
    )


def steps_of(chosen: argparse.Namespace) -> int:
    """Return the number of steps that fit into the time: measured once, and reused when the run resumes."""
    if chosen.steps is not None:
        return int(chosen.steps)
    plan = chosen.output / "plan.json"
    sizes = ("text", "minutes", "hidden", "layers", "streams", "stretch")
    wanted = {name: getattr(chosen, name) for name in sizes}
    known = storage.read_json(plan) if plan.exists() else {}
    if wanted.items() <= known.items():
        return int(known["steps"])
    recipe = recipe_of(chosen, chosen.output / "measured", MEASURED_STEPS, 0)
    at_the_end = {"checkpoint_every": MEASURED_STEPS, "evaluate_every": MEASURED_STEPS, "compile": "off"}
    measured = pretrain(replace(recipe, log_every=1, **at_the_end), restart=True)
    seconds = median(one["seconds"] for one in RunFolder(measured.output, {}).records() if "seconds" in one)
    steps = max(int(chosen.minutes * 60 / seconds), 1)
    note(f"A step takes about {seconds:.2f} s here: {steps:,} steps in {chosen.minutes:g} minutes.")
    storage.write_json(plan, wanted | {"steps": steps, "seconds_per_step": seconds})
    return steps


# -- what it learned ---------------------------------------------------------------------------------------------------


def score(chosen: argparse.Namespace, model: Model) -> dict[str, float]:
    """Score the dev text, which was not used for any choice."""
    perplexity = score_text(model, text_of(chosen, "dev")).metrics["perplexity"]
    return {"perplexity": perplexity, "bits_per_byte": math.log2(perplexity)}


def search(
    chosen: argparse.Namespace, model: Model, seed: int
) -> tuple[UnitActivations, list[FoundUnit], list[FoundUnit]]:
    """What every unit holds along the dev text, and the units that follow each rule, best first: of the model, and of
    the same network with random weights.
    """
    read = tokens_of(documents_of(str(text_of(chosen, "dev"))), tokenizer_of(model))
    readings, random = read_cells(model, read), read_cells(untrained_like(model, seed), read)
    found, not_learned = (
        [one for rule in TEXTS[chosen.text]["rules"] for one in find_units(own, rule, random, TOP)]
        for own in (readings, random)
    )
    return readings, found, not_learned


def show_samples(chosen: argparse.Namespace, model: Model) -> None:
    """Print a continuation of a prompt."""
    start = TEXTS[chosen.text]["start"]
    for temperature in TEMPERATURES:
        how = Generation(SAMPLE_BYTES, Rules(temperature=temperature), num_results=SAMPLES)
        for sample in TextGenerator(model).generate([start], how)[0]:
            print(f"-- temperature {temperature}\n{start}{sample.text}\n")


def show(chosen: argparse.Namespace, steps: int, runs: list[dict[str, Any]]) -> None:
    """Print the table: the best unit of each rule as it was found, and as it was confirmed."""
    one = runs[0]
    names = ("minutes", "perplexity", "bits_per_byte")
    minutes, perplexity, bits = (spread([run[name] for run in runs], 3) for name in names)
    print(f"{chosen.text}: {one['parameters']:,} parameters, {steps:,} steps, {minutes} minutes")
    print(f"dev text: perplexity {perplexity}, bits per byte {bits}")
    print(f"{'seed':>4}  {'rule':<36}{'unit':>7}{'searched':>10}{'confirmed':>10}{'untrained, confirmed':>22}")
    for run in runs:
        untrained_units = best_by_rule(run["untrained"])
        for rule, unit in best_by_rule(run["cells"]).items():
            print(
                f"{run['seed']:>4}  {RULES[rule][1]:<36}{unit['layer']:>3}:{unit['unit']:<3}{unit['searched']:>+10.3f}"
                f"{unit['confirmed']:>+10.3f}{untrained_units[rule]['confirmed']:>+22.3f}"
            )
        own, other = clear(run["cells"]), clear(run["untrained"])
        print(f"      rules followed at {CLEAR} or more on the half that was not searched: {own}; untrained: {other}")
    print(f"page: {chosen.output / 'cells.html'}")


def best_by_rule(units: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """rule -> the unit that followed it best where it was searched."""
    found: dict[str, dict[str, Any]] = {}
    for one in units:
        found.setdefault(one["rule"], one)
    return found


def clear(units: list[dict[str, Any]]) -> int:
    """How many rules have a unit that follows them clearly on the half that was not searched."""
    return sum(abs(one["confirmed"]) >= CLEAR for one in best_by_rule(units).values())


if __name__ == "__main__":
    run_main(main)
