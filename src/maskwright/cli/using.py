"""Options of the commands that run a model, and reading of their input files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import ConfigError
from ..core.plural import plural
from ..core.progress import note, warn
from .common import parse_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..models.model import Model
    from ..tasks.base import AnyRow, AnyTable
    from ..text.readers.inputs import Text
    from ..text.readers.row_stream import RowStream
    from ..text.readers.tables import Row
    from ..text.tokenizers.encoding import TextCounts

InputOption = Annotated[
    Path | None, typer.Option("--input", help="Input file: .txt, .csv, .tsv, .jsonl, .parquet, or -.")
]
MaxLengthOption = Annotated[
    int | None,
    typer.Option(
        "--max-length", help="Maximum sequence length in tokens.  \\[default: the model's]", show_default=False
    ),
]
WindowOption = Annotated[
    int | None,
    typer.Option("--max-length", help="Context length in tokens.  \\[default: as in training]", show_default=False),
]
BatchTokensOption = Annotated[
    int | None,
    typer.Option("--batch-tokens", min=1, help="Maximum tokens per batch.  \\[default: by device]", show_default=False),
]
CalibrateOption = Annotated[
    Path | None,
    typer.Option(
        "--calibrate-on",
        help="Calibration texts for --precision int8.  \\[default: first rows of --input]",
        show_default=False,
    ),
]


def read_rows(path: Path, columns: str | None = None, skip_bad_rows: bool = False) -> list[Row]:
    """Reads the texts or pairs of a file, and warns of skipped rows."""
    from ..text.readers.tables import read_texts

    table = read_texts(path, columns=parse_columns(columns) or None, skip_bad_rows=skip_bad_rows)
    warn_of_skipped(table)
    return table.rows


def stream_rows(path: Path, columns: str | None = None, skip_bad_rows: bool = False) -> RowStream:
    """Streams the texts or pairs of a file. Call `warn_of_skipped` at the end."""
    from ..text.readers.row_stream import RowStream

    return RowStream(path, columns=parse_columns(columns) or None, skip_bad_rows=skip_bad_rows)


def read_any_rows(path: Path, columns: str | None = None, skip_bad_rows: bool = False) -> Sequence[AnyRow] | RowStream:
    """Reads a file of tagged sentences, questions or choices; streams the texts of any other file."""
    from ..core import registry
    from ..text.readers.reader import find_reader

    roles = parse_columns(columns)
    reader = find_reader(path, roles) or registry.resolve("reader", "texts")
    rows = reader.read(path, roles, skip_bad_rows)
    if reader.name == "texts":
        stream: RowStream = rows
        return stream
    warn_of_skipped(rows)
    return list(rows.rows)


def refuse_same_file(input: Path | None, output: Path | None) -> None:
    """Raise ConfigError when the output file is the input file."""
    if input is not None and output is not None and output.exists() and input.exists() and output.samefile(input):
        raise ConfigError(f"--output is the file that --input reads, {input}: choose another name for the results.")


def warn_of_skipped(rows: AnyTable | RowStream) -> None:
    """Warn of skipped rows. Call it after the last row was read."""
    if rows.num_skipped:
        warn(f"{plural(rows.num_skipped, 'bad row is', 'bad rows are')} left out.")


def warn_of_cuts(counts: TextCounts) -> None:
    """Report truncated texts and unknown tokens."""
    if counts.cut_texts or counts.all_unknown:
        warn(counts.note())
    elif counts.unknown_tokens:
        note(counts.note())


def calibration_texts(
    precision: str, calibrate_on: Path | None, rows: Sequence[AnyRow] | RowStream | None = None
) -> list[Text] | None:
    """Calibration texts for int8: of a file, else the first of `rows`; None for another precision.

    Raises ConfigError where there are none, or for a file with another precision.
    """
    if precision != "int8":
        if calibrate_on is not None:
            raise ConfigError("--calibrate-on goes with --precision int8.")
        return None
    from itertools import islice

    from ..inference.calibration import CALIBRATION_TEXTS
    from ..tasks.rows.examples import content_of

    source = rows if calibrate_on is None else read_any_rows(calibrate_on)
    if source is None or getattr(source, "num_rows", 0) is None:
        raise ConfigError("--precision int8 needs calibration texts: pass a file with --calibrate-on.")
    found = islice(iter(source), CALIBRATION_TEXTS)
    return [content_of(row) for row in found]


def tell_int8_loss(model: Model) -> None:
    """Report the accuracy loss of int8."""
    from ..inference.calibration import loss_of

    loss = loss_of(model)
    if loss is not None:
        note(str(loss))
