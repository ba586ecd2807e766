"""`maskwright scale`: bulk inference on many files and machines, with Ray Data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..core.config import check
from ..core.hardware import DEVICE, Device
from ..core.options import HARDWARE, Setting, option
from ..core.plural import plural
from ..train.settings import SKIP_BAD_ROWS
from .common import JsonFlag, print_json, print_text
from .groups import make_group
from .settings import takes_settings
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


@takes_settings(ScaleEmbedSettings)
def embed(settings: ScaleEmbedSettings, json: JsonFlag = False) -> None:
    """Encode texts as embeddings, in parts that a rerun does not repeat. Needs the extra 'scale'.

    Each part has the rows of one block of a file, in order: the kept columns, and `vector`.

    Examples:

        maskwright scale embed models/minilm data/*.parquet --keep id -o vectors/

        maskwright scale embed models/minilm s3://bucket/texts/ --workers 8 -o s3://bucket/vectors/
    """
    _run("embed", settings, json)


@takes_settings(ScalePredictSettings)
def predict(settings: ScalePredictSettings, json: JsonFlag = False) -> None:
    """Predict with a fine-tuned model, in parts that a rerun does not repeat. Needs the extra 'scale'.

    Each part has the rows of one block of a file, in order: the kept columns, and the fields of `maskwright predict`.

    Examples:

        maskwright scale predict runs/b/model data/*.jsonl --keep id -o answers/

        maskwright scale predict runs/nli/model pairs/ --column premise --pair hypothesis --format parquet -o answers/
    """
    _run("predict", settings, json)


def _run(kind: str, settings: Any, json: bool) -> None:
    from ..scale.job import Job
    from ..scale.run import digest_of_model, run

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
    if json:
        print_json(found)
        return
    skipped = f", {plural(found['skipped'], 'bad row')} skipped" if found["skipped"] else ""
    print_text(f"{plural(found['rows'], 'row')} in {plural(len(found['parts']), 'part')} in {settings.output}{skipped}")


app = make_group("Bulk inference on many files and machines, with Ray Data.", {"embed": embed, "predict": predict})
