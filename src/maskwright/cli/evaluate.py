"""`maskwright evaluate`: the metrics of a fine-tuned model on labelled rows, or of a pre-trained one on text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import InputError
from ..core.progress import warn
from .common import (
    ColumnsOption,
    DebugFlag,
    DeviceOption,
    JsonFlag,
    PrecisionOption,
    QuietFlag,
    SeedOption,
    SkipBadRowsFlag,
    ThreadsOption,
    parse_columns,
    print_json,
    print_metrics,
    print_text,
    set_threads,
)
from .using import BatchTokensOption, MaxLengthOption, warn_of_cuts

if TYPE_CHECKING:
    from ..inference.predict import Predictor
    from ..models.model import Model

ANSWERS = ("label", "labels", "tags", "answer", "is_rare", "score")  # under which a task words what it found


def evaluate(
    model: Annotated[str, typer.Argument(help="A model folder that finetune or pretrain wrote.")],
    file: Annotated[Path, typer.Argument(help="Labelled rows; for a pre-trained model, held-out text.")],
    columns: ColumnsOption = None,
    errors: Annotated[int, typer.Option(min=0, help="Also show so many of the worst errors.")] = 0,
    rare_class: Annotated[
        str | None, typer.Option(metavar="CLASS", help="Also score this class against the rest: pr_auc, f1, recall.")
    ] = None,
    max_length: MaxLengthOption = None,
    batch_tokens: BatchTokensOption = None,
    seed: SeedOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    threads: ThreadsOption = None,
    skip_bad_rows: SkipBadRowsFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Score a model. Metrics are fractions; with two classes, f1 is that of the second.

    A fine-tuned model is scored on labelled rows (.csv, .tsv, .jsonl, .parquet; tagged words in CoNLL columns or
    .jsonl; questions in SQuAD .json or .jsonl), a pre-trained one on text, which is masked, or guessed token by token,
    as in training. An encoder of sentences is scored on pairs: the cosines of their vectors against the gold scores.

    Examples:

        maskwright evaluate runs/b/model dev.tsv

        maskwright evaluate runs/b/model test.csv --columns text=body,label=y --errors 10 --json

        maskwright evaluate runs/b/model test.tsv --rare-class hate_speech

        maskwright evaluate runs/n/model test.conll --columns token=0,tag=3

        maskwright evaluate runs/a/model held-out.txt
    """
    set_threads(threads)
    from ..api import ANSWERING, WORDY, open_model, predictor_of
    from ..inference.ready import role_of

    loaded = open_model(model, (*ANSWERING, *WORDY), device, precision)
    if role_of(loaded) not in ANSWERING:
        result = _score_text(loaded, model, file, max_length, seed or 0, skip_bad_rows)
    else:
        predictor = predictor_of(loaded, model, max_length)
        if rare_class is not None:
            _ask_for(predictor, rare_class)
        result = _score_rows(predictor, file, parse_columns(columns), batch_tokens, skip_bad_rows, errors)
    if json:
        print_json(result)
        return
    print_text(f"{result['task']} on {result['examples']:,} examples of {file}")
    print_metrics(result["metrics"])
    for error in result.get("errors", []):
        found = next(error[name] for name in ANSWERS if name in error)
        pair = f" | {error['text_pair']}" if error["text_pair"] else ""
        print_text(f"line {error['line']}: {error['gold']} taken for {found}: {error['text']}{pair}")


def _ask_for(predictor: Predictor, rare_class: str) -> None:
    """Let the scores be about this class; the threshold of another one stays out of it."""
    from ..tasks import Classification

    if not isinstance(predictor.task, Classification):
        raise InputError(f"--rare-class names a class, and this model does {predictor.task.name}.")
    predictor.task = predictor.task.asked_for(rare_class)


def _score_rows(
    predictor: Predictor,
    file: Path,
    columns: dict[str, str],
    batch_tokens: int | None,
    skip_bad_rows: bool,
    errors: int,
) -> dict[str, Any]:
    from ..tasks.errors import worst_errors

    task = predictor.task
    table = task.read_known(file, columns=columns or None, skip_bad_rows=skip_bad_rows)
    examples, evaluation = predictor.evaluate(table.rows, skip_bad_rows=skip_bad_rows, batch_tokens=batch_tokens)
    num_skipped = table.num_skipped + examples.num_skipped
    if num_skipped:
        warn(f"{num_skipped:,} bad rows are left out.")
    if not examples.num_truncated:
        for remark in task.remarks(examples, file.name, predictor.max_length):
            warn(remark)
    warn_of_cuts(examples.counts)
    result: dict[str, Any] = {
        "task": task.name,
        "examples": examples.num_rows,
        "metrics": evaluation.metrics,
        "loss": evaluation.loss,
        "skipped": num_skipped,
        "truncated": examples.num_truncated,
        "unknown_tokens": examples.counts.unknown_tokens,
    }
    if errors:
        result["errors"] = worst_errors(task, examples, evaluation.logits, errors)
    return result


def _score_text(
    model: Model, name: str, file: Path, max_length: int | None, seed: int, skip_bad_rows: bool
) -> dict[str, Any]:
    from ..hub.download import find_folder
    from ..hub.folders import load_model, read_facts
    from ..inference.held_out_text import score_text, trained_max_length
    from ..text.files import file_format

    if file.is_file() and file_format(file) == "tsv":
        raise InputError(
            f"{name} is a pre-trained model and is scored on text; for the rows of {file}, fine-tune it first: "
            f"maskwright finetune classification --model {name} --train ..."
        )
    folder = find_folder(name)[0]
    length = max_length or trained_max_length(read_facts(folder))
    generator = None
    if model.head_name == "rtd" and (folder / "generator").is_dir():
        generator = load_model(folder / "generator")[0].to(model.word_embeddings.device)
        generator.compute_dtype = model.compute_dtype
    score = score_text(model, file, generator=generator, max_length=length, seed=seed, skip_bad_rows=skip_bad_rows)
    return {"task": "pretraining", "examples": score.examples, "metrics": score.metrics}
