"""`maskwright next-sentence`: next-sentence prediction"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..core.errors import ConfigError
from .common import (
    ColumnsOption,
    DebugFlag,
    DeviceOption,
    JsonFlag,
    PrecisionOption,
    QuietFlag,
    ThreadsOption,
    print_json,
    print_table,
    set_threads,
)
from .using import read_rows, warn_of_cuts


def next_sentence(
    model: Annotated[
        str, typer.Argument(help="Model pre-trained with mlm+nsp: a folder, or a Hugging Face Hub model ID.")
    ],
    first: Annotated[str | None, typer.Argument(help="First sentence.")] = None,
    second: Annotated[list[str] | None, typer.Argument(help="Candidate next sentences.")] = None,
    input: Annotated[
        Path | None, typer.Option("--input", help="File of sentence pairs: .csv, .tsv, .jsonl or .parquet.")
    ] = None,
    columns: ColumnsOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    threads: ThreadsOption = None,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Predict whether a sentence follows another.

    Examples:

        maskwright next-sentence runs/a/model "The man went to the store." "He bought a gallon of milk."

        maskwright next-sentence runs/a/model --input pairs.tsv --json
    """
    if (first is None) == (input is None) or (first is not None and not second):
        raise ConfigError("Pass a sentence and at least one candidate, or --input FILE.")
    set_threads(threads)
    pairs = [(str(first), candidate) for candidate in second or []] if input is None else _read(input, columns)
    from ..api import open_next_sentence

    judge = open_next_sentence(model, device=device, precision=precision)
    found = [
        {"text": a, "text_pair": b, "label": "IsNext" if share >= 0.5 else "NotNext", "is_next": share}
        for (a, b), share in zip(pairs, judge.probabilities(pairs).tolist(), strict=True)
    ]
    warn_of_cuts(judge.counts)
    if json:
        for row in found:
            print_json(row)
        return
    rows = [(row["text"], row["text_pair"], row["label"], f"{row['is_next']:.4f}") for row in found]
    print_table(("first", "second", "label", "P(IsNext)"), rows, right=("P(IsNext)",))


def _read(path: Path, columns: str | None) -> list[tuple[str, str]]:
    rows = read_rows(path, columns)
    if any(row.text_pair is None for row in rows):
        raise ConfigError(f"{path} contains single texts; next-sentence needs two columns, text and text_pair.")
    return [(row.text, str(row.text_pair)) for row in rows]
