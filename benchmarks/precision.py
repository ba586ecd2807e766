"""Compare the scores of fine-tuned MiniLM on SST-2, STS-B and CoNLL-2003 by precision.

    MASKWRIGHT_DATA=path python benchmarks/precision.py -o runs/precision

Fine-tunes once for each data set, then evaluates the same weights on the dev examples in float32, bfloat16 and int8;
int8 is calibrated on training rows. Existing runs are reused; the table is written to precision.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "recipes"), str(HERE.parent / "src")]

from commands import minilm_folder, run  # noqa: E402

from maskwright.core.storage import read_json, write_json, write_text  # noqa: E402
from maskwright.text.formats.files import open_bytes  # noqa: E402

FORMATS = ("fp32", "bf16", "int8")
TOLERANCE = {"fp32": 0.0, "bf16": 0.005, "int8": 0.01}  # of a score between 0 and 1
SETTINGS = ("--epochs", "3", "--lr", "1e-4", "--batch-size", "16", "--max-length", "128")


SETS = ("sst2", "stsb", "conll2003")  # of finetuning.toml, which has their tasks, metrics and columns


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
    known = tomllib.loads((HERE / "finetuning.toml").read_text(encoding="utf-8"))["sets"]
    for name in options.sets.split(","):
        metric = known[name]["metric"]
        scores = measure(known[name], model, options.data / known[name]["folder"], options.output / name, options.rows)
        losses = {one: scores["fp32"] - scores[one] for one in FORMATS}
        worst = max(FORMATS, key=lambda one: losses[one])
        kept = all(losses[one] <= TOLERANCE[one] for one in FORMATS)
        cells = " | ".join(f"{scores[one]:.4f}" for one in FORMATS)
        told = f"{losses[worst]:.4f} ({worst})" if losses[worst] > 0 else "none"
        lines.append(f"| {name} | {metric} | {cells} | {told} | {'kept' if kept else 'EXCEEDED'} |")
    lines += ["", "Tolerances: " + ", ".join(f"{TOLERANCE[one]} in {one}" for one in FORMATS[1:]) + "."]
    write_text(options.output / "precision.md", "\n".join(lines) + "\n")
    print("\n".join(lines))


def measure(own: dict[str, Any], model: str, folder: Path, output: Path, rows: int) -> dict[str, float]:
    """The dev score of a set in every format, from one fine-tuned model. own: what finetuning.toml says of the set."""
    output.mkdir(parents=True, exist_ok=True)
    in_blocks = own["task"] == "tagging"
    kind = ".conll" if in_blocks else ".tsv"
    train, dev, trained = output / f"train{kind}", folder / f"dev{kind}", output / "run" / "model"
    pairs = ",".join(f"{role}={name}" for role, name in own.get("columns", {}).items())
    columns = ("--columns", pairs) if pairs else ()
    if not train.exists():
        write_text(train, chosen_rows(folder / f"train{kind}", rows, in_blocks))
    if not trained.is_dir():
        run("finetune", own["task"], "--model", model, "--train", str(train), "--dev", str(dev), *columns, *SETTINGS,
            "-o", str(output / "run"))  # fmt: skip
    scores = {}
    for one in FORMATS:
        path = output / f"{one}.json"
        if not path.exists():
            more = ("--calibrate-on", str(train)) if one == "int8" else ()
            write_json(path, run("evaluate", str(trained), str(dev), *columns, "--precision", one, *more))
        scores[one] = float(read_json(path)["metrics"][own["metric"]])
    return scores


def chosen_rows(path: Path, count: int, in_blocks: bool) -> str:
    """Rows evenly from all over a file, which may be packed (.xz); the header of a table stays."""
    packed = path.with_name(path.name + ".xz")
    with open_bytes(str(packed if packed.exists() else path)) as handle:
        text = handle.read().decode("utf-8")
    mark = "\n\n" if in_blocks else "\n"
    rows = [row for row in text.split(mark) if row.strip()]
    head = [] if in_blocks else rows[:1]
    rows = rows[len(head) :]
    step = max(len(rows) / count, 1.0)
    kept = [rows[int(number * step)] for number in range(min(count, len(rows)))]
    return mark.join([*head, *kept]) + "\n"


if __name__ == "__main__":
    main()
