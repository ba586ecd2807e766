"""Scores of fine-tuned models by executor and precision: the library's own, ONNX Runtime and OpenVINO.

    MASKWRIGHT_DATA=path python recipes/executor_scores.py -o runs/executors
    MASKWRIGHT_DATA=path python recipes/executor_scores.py --only names --epochs 1 -o runs/try

Fine-tunes MiniLM on SST-2, STS-B and CoNLL-2003 (names), exports each model in every format and precision, and runs
`maskwright evaluate` on the dev split with each. int8 is calibrated on training texts. An export that does not agree
with the library is not written, and has no score. Rerun the same command to resume; table.md has the table.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from commands import minilm_folder, run
from data_sets import data_file
from running import run_main

from maskwright.core.errors import InputError
from maskwright.core.storage import read_json, write_json, write_text


class Set(NamedTuple):
    """A task with its data. metric: the one in the table."""

    task: str
    train: str
    dev: str
    metric: str
    columns: tuple[str, ...] = ()


SETS = {
    "sst2": Set("classification", "sst2/train.tsv", "sst2/dev.tsv", "accuracy"),
    "stsb": Set("regression", "stsb/train.tsv", "stsb/dev.tsv", "spearman"),
    "names": Set(
        "tagging", "conll2003/train.conll.xz", "conll2003/dev.conll", "entity_f1", ("--columns", "token=0,tag=3")
    ),
}
# Executor and precision; "own" is the library.
WAYS = (
    *(("own", precision) for precision in ("fp32", "bf16", "int8")),
    *(("onnx", precision) for precision in ("fp32", "fp16", "int8")),
    *(("openvino", precision) for precision in ("fp32", "bf16", "int8")),
)


def main() -> None:
    """Train, export, evaluate what is not there yet, and print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("-o", "--output", type=Path, required=True)
    options.add_argument("--only", default=",".join(SETS), help="sets, separated by commas")
    options.add_argument("--epochs", default="2")
    chosen = options.parse_args()
    minilm = minilm_folder()
    if minilm is None:
        raise InputError("The package that carries MiniLM is not installed: make .venv/.test installs it.")
    names = chosen.only.split(",")
    found: dict[str, dict[str, float | None]] = {}
    for name in names:
        own, folder = SETS[name], chosen.output / name
        run(
            "finetune", own.task, "--model", minilm, "--train", str(data_file(own.train)), "--dev",
            str(data_file(own.dev)), "--epochs", chosen.epochs, "--lr", "1e-4", "--batch-size", "16",
            "--max-length", "128", *own.columns, "-o", str(folder / "run"),
        )  # fmt: skip
        for executor, precision in WAYS:
            kept = folder / f"{executor}-{precision}.json"
            if not kept.exists():
                write_json(kept, evaluated(own, folder, executor, precision))
            score = read_json(kept).get(own.metric)
            found.setdefault(f"{executor}, {precision}", {})[name] = score
    lines = [f"| executor | {' | '.join(names)} |", f"| --- |{' ---: |' * len(names)}"]
    for way, scores in found.items():
        cells = ("not written" if scores[name] is None else f"{scores[name]:.4f}" for name in names)
        lines.append(f"| {way} | {' | '.join(cells)} |")
    write_text(chosen.output / "table.md", "\n".join(lines) + "\n")
    print("\n".join(lines))


def evaluated(own: Set, folder: Path, executor: str, precision: str) -> dict[str, Any]:
    """The dev metrics; only a reason where no graph was written."""
    model, calibration = str(folder / "run/model"), ("--calibrate-on", str(data_file(own.train)))
    options = calibration if precision == "int8" else ()
    if executor == "own":
        how = ("--precision", precision, *options)
    else:
        graph = folder / f"{executor}-{precision}"
        command = [sys.executable, "-m", "maskwright", "export", model, "--to", executor, "--precision", precision]
        command += [*options, "--replace", "-o", str(graph)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            print(done.stderr.strip().splitlines()[-1], file=sys.stderr)
            return {"reason": done.stderr.strip().splitlines()[-1]}
        model, how = str(graph), ()
    metrics: dict[str, Any] = run("evaluate", model, str(data_file(own.dev)), *own.columns, *how)["metrics"]
    return metrics


if __name__ == "__main__":
    run_main(main)
