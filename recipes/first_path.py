"""From raw text to a measured model on real data: the figures of docs/results/quality.md.

    MASKWRIGHT_DATA=path python recipes/first_path.py -o runs/first-path

Pre-trains bert-mini (recipes/pretrain_mini.toml) on the texts there. Then fine-tunes SST-2 and a small data set (500
rows of AG News) with three seeds each, from it and from scratch, and SST-2 from MiniLM if that package is installed.
Every part is a normal command; rerun the script to resume.
"""

from __future__ import annotations

import argparse
import json
from itertools import islice
from pathlib import Path

from common import data_folder, minilm_folder, run, run_main

from maskwright.core.storage import write_text

HERE = Path(__file__).parent
TEXTS = ("wikipedia", "novels", "textbooks", "reuters", "speeches")
SETTINGS = ["--max-length", "64", "--warmup", "0.1"]
SMALL_ROWS = 500


def first_rows(table: Path, count: int, output: Path) -> Path:
    """Write the header and the first `count` rows of a table to `output`."""
    with table.open(encoding="utf-8") as lines:
        write_text(output, "".join(islice(lines, count + 1)))
    return output


def main() -> None:
    """Run everything and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/first-path"))
    parser.add_argument("--seeds", default="3")
    options = parser.parse_args()
    data, output = data_folder(), options.output
    texts = [str(data / "pretraining_text" / f"{name}.txt.xz") for name in TEXTS]
    sst2 = ["--train", str(data / "sst2/train.tsv"), "--dev", str(data / "sst2/dev.tsv"), *SETTINGS]

    mini = output / "pretrain"
    found = {"pretrain": run("pretrain", "--config", str(HERE / "pretrain_mini.toml"), "-o", str(mini), *texts)}
    small = first_rows(data / "agnews/train.tsv", SMALL_ROWS, output / f"agnews-{SMALL_ROWS}.tsv")
    agnews = ["--train", str(small), "--dev", str(data / "agnews/dev.tsv"), *SETTINGS]
    for name, rows, epochs in (("sst2", sst2, "3"), ("agnews-small", agnews, "10")):
        for start, source in (
            ("pretrained", ["--model", str(mini / "model")]),
            ("scratch", ["--preset", "bert-mini", "--tokenizer", str(mini / "model")]),
        ):
            found[f"{name} {start}"] = run(
                "finetune", "classification", *rows, *source, "--epochs", epochs, "--lr", "3e-4", "--batch-size", "32",
                "--seeds", options.seeds, "-o", str(output / f"{name}-{start}"),
            )  # fmt: skip
    if folder := minilm_folder():
        found["sst2 MiniLM"] = run(
            "finetune", "classification", *sst2, "--model", folder, "--epochs", "4", "--lr", "1e-4",
            "--batch-size", "16", "--seeds", options.seeds, "--set",
            "average_seeds=true", "-o", str(output / "sst2-minilm"),
        )  # fmt: skip
    (output / "results.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    shown = ("metrics", "deviation", "average")
    print(json.dumps({name: {key: facts.get(key) for key in shown} for name, facts in found.items()}, indent=2))


if __name__ == "__main__":
    run_main(main)
