"""Settings that commands share which run a model, and reading of their input files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..core.config import HARDWARE, Setting, check, option
from ..core.errors import ConfigError
from ..core.progress import note, warn
from ..core.util import DEVICE, EXECUTOR, OWN, PRECISION, THREADS, Device, Executor, Precision, plural
from ..train.settings import ANNOTATOR, COLUMNS, OVERLAP, SKIP_BAD_ROWS, Overlap, annotation_roles
from ..train.settings import MAX_LENGTH as OF_TRAINING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..models.model import Model
    from ..tasks.base import AnyRow
    from ..text.readers.inputs import Text
    from ..text.readers.tables import FoundRows, Row, RowStream
    from ..text.tokenizers.encoding import TextCounts

Columns = Mapping[str, str]

MODEL = Setting("Model folder, or a Hugging Face Hub model ID.", is_argument=True)
INPUT = Setting("Input file: .txt, .csv, .tsv, .jsonl, .parquet, or -.")
MAX_LENGTH = replace(OF_TRAINING, unit="", default_help="the model's")
BATCH_TOKENS = Setting("Maximum tokens per batch.", default_help="by device", minimum=1)
BEAM = Setting("Beam size; 1 is greedy decoding.", minimum=1)
CALIBRATE_ON = Setting("File of calibration texts for --precision int8.", panel=HARDWARE)
LAYERS = Setting(
    "Layers: embeddings, last, second-to-last, sum-all, sum-last-4, concat-last-4, or numbers from 0, as in 9,10."
)
ENSEMBLE = Setting(
    "Average with this model, or with those of a run (one per seed): probabilities, values or span scores. Repeatable.",
    metavar="MODEL",
)
CORPUS = Setting("Text files, folders or glob patterns.", is_argument=True)


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """Where and how precisely a command computes."""

    device: Device = option("auto", DEVICE)
    precision: Precision = option("auto", PRECISION)
    threads: int | None = option(None, THREADS)


@dataclass(frozen=True, kw_only=True)
class InferenceHardware(Hardware):
    """The same with int8."""

    precision: Literal["auto", "fp32", "bf16", "fp16", "int8"] = option(  # type: ignore[assignment]  # adds int8
        "auto", PRECISION, help=f"{PRECISION.help.removesuffix('.')}; int8 is calibrated on texts."
    )
    calibrate_on: Path | None = option(None, CALIBRATE_ON, default_help="first rows of --input")


@dataclass(frozen=True, kw_only=True)
class ExecutorHardware(InferenceHardware):
    """The same with the program that computes."""

    executor: Executor = option("own", EXECUTOR)


def model_of(settings: ExecutorHardware, model: str, head: Literal["stored", "none"] = "stored") -> tuple[str, str]:
    """What to open for the executor of the settings, and in which precision; see `export.executors.executed`."""
    if settings.executor == OWN:
        return model, settings.precision
    from ..export.executors import executed

    return executed(model, settings.executor, settings.precision, settings.device, head)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """How a command reads the rows of a file."""

    columns: dict[str, str] = option({}, COLUMNS)
    skip_bad_rows: bool = option(False, SKIP_BAD_ROWS)


@dataclass(frozen=True, kw_only=True)
class AnnotatedRows(Rows):
    """How a command reads the rows of a file that may be one of an annotation tool."""

    annotator: str | None = option(None, ANNOTATOR)
    overlap: Overlap | None = option(None, OVERLAP)

    @property
    def roles(self) -> dict[str, str]:
        """The column mapping, with the annotator and the rule for overlaps."""
        return annotation_roles(self.columns, self.annotator, self.overlap)


def check_one_source(texts: Sequence[str], input: Path | None, what: str = "texts") -> None:
    """Raises ConfigError unless either texts or an input file are given."""
    check(bool(texts) != (input is not None), f"Pass either {what} or --input FILE.")


def read_rows(path: Path, columns: Columns | None = None, skip_bad_rows: bool = False) -> list[Row]:
    """Reads the texts or pairs of a file, and warns of skipped rows."""
    from ..text.readers.tables import read_texts

    table = read_texts(path, columns=columns or None, skip_bad_rows=skip_bad_rows)
    warn_of_skipped(table)
    return table.rows


def stream_rows(path: Path, columns: Columns | None = None, skip_bad_rows: bool = False) -> RowStream:
    """Streams the texts or pairs of a file. Call `warn_of_skipped` at the end."""
    from ..text.readers.tables import RowStream

    return RowStream(path, columns=columns or None, skip_bad_rows=skip_bad_rows)


def read_any_rows(
    path: Path, columns: Columns | None = None, skip_bad_rows: bool = False
) -> Sequence[AnyRow] | RowStream:
    """Reads a file of tagged sentences, questions or choices; streams the texts of any other file."""
    from ..core import registry
    from ..text.readers.tables import find_reader

    roles = columns or {}
    reader = find_reader(path, roles) or registry.resolve("reader", "texts")
    rows = reader.read(path, roles, skip_bad_rows, False)
    if reader.name == "texts":
        stream: RowStream = rows
        return stream
    warn_of_skipped(rows)
    return list(rows.rows)


def refuse_same_file(input: Path | None, output: Path | None) -> None:
    """Raise ConfigError when the output file is the input file."""
    if input is not None and output is not None and output.exists() and input.exists() and output.samefile(input):
        raise ConfigError(f"--output is the file that --input reads, {input}: choose another name for the results.")


def warn_of_skipped(rows: FoundRows | RowStream) -> None:
    """Warn of skipped rows. Call it after the last row was read."""
    warn_of_left_out(rows.num_skipped)


def warn_of_left_out(num_skipped: int) -> None:
    """Warn of this number of skipped rows, if there are any."""
    if num_skipped:
        warn(f"{plural(num_skipped, 'bad row is', 'bad rows are')} left out.")


def warn_of_cuts(counts: TextCounts) -> None:
    """Report truncated texts and unknown tokens."""
    if counts.cut_texts or counts.all_unknown:
        warn(counts.note())
    elif counts.unknown_tokens:
        note(counts.note())


def calibration_texts(
    settings: InferenceHardware, rows: Sequence[AnyRow] | RowStream | None = None
) -> list[Text] | None:
    """Calibration texts for int8: of a file, else the first of `rows`; None for another precision.

    Raises ConfigError where there are none, or for a file with another precision.
    """
    if settings.precision != "int8":
        if settings.calibrate_on is not None:
            raise ConfigError("--calibrate-on goes with --precision int8.")
        return None
    from itertools import islice

    from ..inference.ready import CALIBRATION_TEXTS
    from ..tasks.examples import content_of

    source = rows if settings.calibrate_on is None else read_any_rows(settings.calibrate_on)
    if source is None or getattr(source, "num_rows", 0) is None:
        raise ConfigError("--precision int8 needs calibration texts: pass a file with --calibrate-on.")
    found = islice(iter(source), CALIBRATION_TEXTS)
    return [content_of(row) for row in found]


def tell_int8_loss(model: Model) -> None:
    """Report the accuracy loss of int8."""
    from ..inference.ready import loss_of

    loss = loss_of(model)
    if loss is not None:
        note(str(loss))


@dataclass(frozen=True, kw_only=True)
class Page:
    """Where a command writes its page."""

    output: Path | None = option(None, "Write an HTML page to this file.", short="-o")


def check_page(output: Path | None) -> None:
    """Raise ConfigError for a page that does not end in .html, or that cannot be written at its path."""
    if output is None:
        return
    check(output.suffix.lower() == ".html", f"{output} is not a page: use a file name that ends in .html.")
    check(not output.is_dir(), f"{output} is a folder: use the name of a file.")
    nearest = next(part for part in output.absolute().parents if part.exists())
    check(nearest.is_dir(), f"{output} cannot be written: {nearest} is a file. Choose another folder.")
