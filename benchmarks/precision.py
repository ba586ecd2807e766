"""What bfloat16 and int8 cost in score: fine-tuned MiniLM on SST-2, STS-B and CoNLL-2003, in every number format.

    MASKWRIGHT_DATA=path python benchmarks/precision.py -o runs/precision

Fine-tunes once for each set, then evaluates the same weights on the dev rows in float32, bfloat16 and int8; int8 is
calibrated on training rows. Runs that are there are not made again; the table is written to precision.md.
"""

from __future__ import annotations

import argparse
import lzma
import os
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "recipes"), str(HERE.parent / "src")]

from commands import minilm_folder, run  # noqa: E402

from maskwright.core.storage import read_json, write_json, write_text  # noqa: E402

FORMATS = ("fp32", "bf16", "int8")
TOLERANCE = {"fp32": 0.0, "bf16": 0.005, "int8": 0.01}  # of a score between 0 and 1
SETTINGS = ("--epochs", "3", "--lr", "1e-4", "--batch-size", "16", "--max-length", "128")


@dataclass(frozen=True)
class Set:
    """A data set: its task, metric, columns, and whether rows are lines below a header or blocks between blank ones."""

    task: str
    metric: str
    columns: tuple[str, ...] = ()
    in_blocks: bool = False


SETS = {
    "sst2": Set("classification", "accuracy"),
    "stsb": Set("regression", "spearman"),
    "conll2003": Set("tagging", "f1", ("--columns", "token=0,tag=3"), in_blocks=True),
}


def main() -> None:
    """Fine-tune and evaluate what is missing; write and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/precision"))
    parser.add_argument("--data", type=Path, default=os.environ.get("MASKWRIGHT_DATA"))
    parser.add_argument("--rows", type=int, default=3_000, help="training rows, evenly from all over the file")
    parser.add_argument("--sets", default=",".join(SETS))
    options = parser.parse_args()
    model = minilm_folder()
    if options.data is None or model is None:
        sys.exit("error: This needs $MASKWRIGHT_DATA (or --data), and the package that carries MiniLM.")
    lines = [
        f"| set | metric | {' | '.join(FORMATS)} | largest loss | tolerance |",
        "| --- | --- |" + " ---: |" * len(FORMATS) + " --- | --- |",
    ]
    for name in options.sets.split(","):
        scores = measure(name, model, options.data / name, options)
        losses = {one: scores["fp32"] - scores[one] for one in FORMATS}
        worst = max(FORMATS, key=lambda one: losses[one])
        kept = all(losses[one] <= TOLERANCE[one] for one in FORMATS)
        cells = " | ".join(f"{scores[one]:.4f}" for one in FORMATS)
        told = f"{losses[worst]:.4f} ({worst})" if losses[worst] > 0 else "none"
        lines.append(f"| {name} | {SETS[name].metric} | {cells} | {told} | {'kept' if kept else 'EXCEEDED'} |")
    lines += ["", "Tolerances: " + ", ".join(f"{TOLERANCE[one]} in {one}" for one in FORMATS[1:]) + "."]
    write_text(options.output / "precision.md", "\n".join(lines) + "\n")
    print("\n".join(lines))


def measure(name: str, model: str, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """The dev score in every format, from one fine-tuned model."""
    own, output = SETS[name], options.output / name
    output.mkdir(parents=True, exist_ok=True)
    kind = ".conll" if own.in_blocks else ".tsv"
    train, dev = output / f"train{kind}", folder / f"dev{kind}"
    if not train.exists():
        write_text(train, chosen_rows(folder / f"train{kind}", options.rows, own.in_blocks))
    if not (output / "run" / "model").is_dir():
        run("finetune", own.task, "--model", model, "--train", str(train), "--dev", str(dev), *own.columns, *SETTINGS,
            "-o", str(output / "run"))  # fmt: skip
    scores = {}
    for one in FORMATS:
        path = output / f"{one}.json"
        if not path.exists():
            more = ("--calibrate-on", str(train)) if one == "int8" else ()
            write_json(
                path, run("evaluate", str(output / "run" / "model"), str(dev), *own.columns, "--precision", one, *more)
            )
        scores[one] = float(read_json(path)["metrics"][own.metric])
    return scores


def chosen_rows(path: Path, count: int, in_blocks: bool) -> str:
    """Rows evenly from all over a file, which may be packed (.xz); the header of a table stays."""
    packed = path.with_name(path.name + ".xz")
    data = lzma.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
    text = data.decode("utf-8")
    mark = "\n\n" if in_blocks else "\n"
    rows = [row for row in text.split(mark) if row.strip()]
    head = [] if in_blocks else rows[:1]
    rows = rows[len(head) :]
    step = max(len(rows) / count, 1.0)
    kept = [rows[int(number * step)] for number in range(min(count, len(rows)))]
    return mark.join([*head, *kept]) + "\n"


if __name__ == "__main__":
    main()
