"""`maskwright scale`: corpus preparation and bulk inference on many files and machines, with Ray Data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from ..core import registry
from ..core.config import HARDWARE, Setting, check, check_name, option
from ..core.util import DEVICE, Device, plural
from ..train.settings import KEEP_DUPLICATES, SKIP_BAD_ROWS
from .common import Result
from .settings import make_group, takes_settings
from .using import MAX_LENGTH

Form = Literal["parquet", "jsonl"]
Exact = Literal["fp32", "bf16"]
MODEL = Setting("Model folder, at the same path on all machines, or a Hugging Face Hub model ID.", is_argument=True)
INPUTS = Setting(
    "Parquet or .jsonl files, folders or patterns: local paths, s3://, gs://, abfs://, hdfs://.", is_argument=True
)
FORMAT = Setting("Format of the parts.", flag="--format")


@dataclass(frozen=True, kw_only=True)
class BulkSettings:
    """Settings that the commands share."""

    model: str = option(help=MODEL)
    inputs: tuple[str, ...] = option(help=INPUTS)
    output: str = option(help="Output folder, a path or an address.", short="-o")
    column: str = option("text", "Column of the texts.")
    pair: str | None = option(None, "Column of the second texts.")
    keep: tuple[str, ...] = option((), "Column that is copied. Repeatable.", default_help="the row number or byte")
    max_length: int | None = option(None, MAX_LENGTH)
    skip_bad_rows: bool = option(False, SKIP_BAD_ROWS)
    workers: int | None = option(
        None, "Number of workers.", default_help="one per GPU, or per machine without GPUs", panel=HARDWARE, minimum=1
    )
    device: Device = option("auto", DEVICE)
    precision: Exact = option("fp32", "Precision of the model.", panel=HARDWARE)

    def __post_init__(self) -> None:
        check(bool(self.inputs), "Pass at least one input file, folder or pattern.")


@dataclass(frozen=True, kw_only=True)
class ScaleEmbedSettings(BulkSettings):
    """Settings of `maskwright scale embed`."""

    COMMAND: ClassVar[str] = "scale embed"

    format: Form = option("parquet", FORMAT)


@dataclass(frozen=True, kw_only=True)
class ScalePredictSettings(BulkSettings):
    """Settings of `maskwright scale predict`."""

    COMMAND: ClassVar[str] = "scale predict"

    format: Form = option("jsonl", FORMAT)


@dataclass(frozen=True, kw_only=True)
class ScalePrepareSettings:
    """Settings of `maskwright scale prepare`."""

    COMMAND: ClassVar[str] = "scale prepare"

    inputs: tuple[str, ...] = option(
        help=Setting(
            "Text, Parquet, .jsonl or .csv files, folders or patterns: local paths, s3://, gs://, abfs://, hdfs://.",
            is_argument=True,
        )
    )
    tokenizer: Path = option(help="Folder of the tokenizer, at the same path on all machines.")
    output: str = option(help="Output folder, a path or an address.", short="-o")
    objective: str = option("mlm", "Objective of the pre-training; it decides whether lines are joined.")
    column: str = option("text", "Column of the texts.")
    keep_duplicates: bool = option(False, KEEP_DUPLICATES)
    skip_bad_rows: bool = option(False, SKIP_BAD_ROWS)
    workers: int | None = option(None, "Number of workers.", default_help="one per CPU", panel=HARDWARE, minimum=1)

    def __post_init__(self) -> None:
        check(bool(self.inputs), "Pass at least one input file, folder or pattern.")
        check_name("objective", "objective", self.objective, registry.names("objective"))


@takes_settings(ScalePrepareSettings)
def prepare(settings: ScalePrepareSettings) -> Iterator[Result]:
    """Prepare a corpus for `pretrain` from many files, which a rerun does not tokenize again. Needs the extra 'scale'.

    The result is that of a preparation by `pretrain`, byte for byte, for any number of workers.

    Examples:

        maskwright scale prepare texts/*.parquet --tokenizer tok/ -o corpus/

        maskwright scale prepare s3://bucket/texts/ --tokenizer tok/ -o s3://bucket/corpus/
    """
    from ..scale.prepare import prepare as run

    facts = run(
        settings.inputs,
        str(settings.tokenizer),
        settings.output,
        objective=settings.objective,
        text_field=settings.column,
        keep_duplicates=settings.keep_duplicates,
        skip_bad_rows=settings.skip_bad_rows,
        workers=settings.workers,
    )
    counts = facts["counts"]
    yield (
        facts,
        (
            f"{plural(counts['documents'], 'document')}, {counts['tokens']:,} tokens, "
            f"{counts['duplicates']:,} duplicates removed: {settings.output}",
        ),
    )


@takes_settings(ScaleEmbedSettings)
def embed(settings: ScaleEmbedSettings) -> Iterator[Result]:
    """Encode texts as embeddings, in parts that a rerun does not repeat. Needs the extra 'scale'.

    Each part has the rows of one block of a file, in order: the kept columns, and `vector`.

    Examples:

        maskwright scale embed models/minilm data/*.parquet --keep id -o vectors/

        maskwright scale embed models/minilm s3://bucket/texts/ --workers 8 -o s3://bucket/vectors/
    """
    yield _run("embed", settings)


@takes_settings(ScalePredictSettings)
def predict(settings: ScalePredictSettings) -> Iterator[Result]:
    """Predict with a fine-tuned model, in parts that a rerun does not repeat. Needs the extra 'scale'.

    Each part has the rows of one block of a file, in order: the kept columns, and the fields of `maskwright predict`.

    Examples:

        maskwright scale predict runs/b/model data/*.jsonl --keep id -o answers/

        maskwright scale predict runs/nli/model pairs/ --column premise --pair hypothesis --format parquet -o answers/
    """
    yield _run("predict", settings)


def _run(kind: str, settings: Any) -> Result:
    from ..scale.bulk import Job, digest_of_model, run

    job = Job(
        kind=kind,
        model=settings.model,
        model_digest=digest_of_model(settings.model),
        output=settings.output.rstrip("/"),
        form=settings.format,
        column=settings.column,
        pair=settings.pair,
        keep=settings.keep,
        precision=settings.precision,
        max_length=settings.max_length,
        skip_bad_rows=settings.skip_bad_rows,
    )
    found = run(job, settings.inputs, settings.workers, settings.device)
    skipped = f", {plural(found['skipped'], 'bad row')} skipped" if found["skipped"] else ""
    parts = plural(len(found["parts"]), "part")
    return found, (f"{plural(found['rows'], 'row')} in {parts} in {settings.output}{skipped}",)


app = make_group(
    "Corpora and bulk inference of many files and machines, with Ray Data.",
    {"prepare": prepare, "embed": embed, "predict": predict},
)
