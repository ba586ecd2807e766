"""What the commands that use a model share: options, and reading texts from a file."""

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
    from ..text.encoding import TextCounts
    from ..text.inputs import Text
    from ..text.row_stream import RowStream
    from ..text.tables import Row

InputOption = Annotated[
    Path | None, typer.Option("--input", help="A file of texts: .txt, .csv, .tsv, .jsonl, .parquet, or -.")
]
MaxLengthOption = Annotated[
    int | None,
    typer.Option("--max-length", help="Tokens of a text, at most.  [default: as the folder says]", show_default=False),
]
WindowOption = Annotated[
    int | None,
    typer.Option(
        "--max-length", help="Tokens that the model sees at once.  [default: as in training]", show_default=False
    ),
]
BatchTokensOption = Annotated[
    int | None,
    typer.Option("--batch-tokens", min=1, help="Tokens computed at once.  [default: by device]", show_default=False),
]
CalibrateOption = Annotated[
    Path | None,
    typer.Option(
        "--calibrate-on",
        help="With --precision int8: a file of typical texts.  [default: the first ones of --input]",
        show_default=False,
    ),
]


def read_rows(path: Path, columns: str | None = None, skip_bad_rows: bool = False) -> list[Row]:
    """The texts, or pairs, of a file; bad rows that are left out are told."""
    from ..text.tables import read_texts

    table = read_texts(path, columns=parse_columns(columns) or None, skip_bad_rows=skip_bad_rows)
    warn_of_skipped(table)
    return table.rows


def stream_rows(path: Path, columns: str | None = None, skip_bad_rows: bool = False) -> RowStream:
    """The same, read as they are needed; bad rows that are left out are to be told with `warn_of_skipped`."""
    from ..text.row_stream import RowStream

    return RowStream(path, columns=parse_columns(columns) or None, skip_bad_rows=skip_bad_rows)


def read_any_rows(path: Path, columns: str | None = None, skip_bad_rows: bool = False) -> Sequence[AnyRow] | RowStream:
    """Sentences, questions or choices of a file that holds such, as a whole; or texts of any other, as needed."""
    from ..text.choices import is_choices, read_choices
    from ..text.sentiment_trees import is_treebank, read_treebank
    from ..text.squad import is_questions, read_questions
    from ..text.tagged import is_tagged, read_tagged

    roles = parse_columns(columns)
    table: AnyTable
    if not roles and is_questions(path):
        table = read_questions(path, need_answers=False, skip_bad_rows=skip_bad_rows)
    elif not roles and is_choices(path):
        table = read_choices(path, with_labels=None, skip_bad_rows=skip_bad_rows)
    elif is_treebank(path):
        table = read_treebank(path, columns=roles, skip_bad_rows=skip_bad_rows)
    elif is_tagged(path, roles):
        table = read_tagged(path, columns=roles, need_tags=False, skip_bad_rows=skip_bad_rows)
    else:
        return stream_rows(path, columns, skip_bad_rows)
    warn_of_skipped(table)
    return table.rows


def refuse_same_file(input: Path | None, output: Path | None) -> None:
    """Raise ConfigError when the results would take the place of the texts they are made from."""
    if input is not None and output is not None and output.exists() and input.exists() and output.samefile(input):
        raise ConfigError(f"--output is the file that --input reads, {input}: choose another name for the results.")


def warn_of_skipped(rows: AnyTable | RowStream) -> None:
    """Tell how many bad rows were left out, after the last one was read."""
    if rows.num_skipped:
        warn(f"{plural(rows.num_skipped, 'bad row is', 'bad rows are')} left out.")


def warn_of_cuts(counts: TextCounts) -> None:
    """Tell how many texts were too long for the model, and how many tokens its vocabulary does not have."""
    if counts.cut_texts or counts.all_unknown:
        warn(counts.note())
    elif counts.unknown_tokens:
        note(counts.note())


def calibration_texts(
    precision: str, calibrate_on: Path | None, rows: Sequence[AnyRow] | RowStream | None = None
) -> list[Text] | None:
    """Texts that int8 is calibrated on: of a file, else the first of `rows`; None for another precision.

    Raises ConfigError where there are none, or for a file with another precision.
    """
    if precision != "int8":
        if calibrate_on is not None:
            raise ConfigError("--calibrate-on goes with --precision int8.")
        return None
    from itertools import islice

    from ..inference.calibration import CALIBRATION_TEXTS
    from ..tasks.examples import content_of

    source = rows if calibrate_on is None else read_any_rows(calibrate_on)
    if source is None or getattr(source, "num_rows", 0) is None:
        raise ConfigError("--precision int8 needs typical texts here: give a file of them with --calibrate-on.")
    found = islice(iter(source), CALIBRATION_TEXTS)
    return [content_of(row) for row in found]


def tell_int8_loss(model: Model) -> None:
    """Tell what int8 costs a model that runs in it."""
    from ..inference.calibration import loss_of

    loss = loss_of(model)
    if loss is not None:
        note(str(loss))
