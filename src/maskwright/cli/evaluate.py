"""`maskwright evaluate`: the metrics of a fine-tuned model on labelled rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..core.progress import warn
from .common import (
    ColumnsOption,
    DebugFlag,
    DeviceOption,
    JsonFlag,
    PrecisionOption,
    QuietFlag,
    SkipBadRowsFlag,
    ThreadsOption,
    parse_columns,
    print_json,
    print_metrics,
    print_text,
    set_threads,
)


def evaluate(
    model: Annotated[str, typer.Argument(help="A model folder that finetune wrote, or a name of the hub.")],
    file: Annotated[Path, typer.Argument(help="Labelled rows: .csv, .tsv, .jsonl or .parquet.")],
    columns: ColumnsOption = None,
    errors: Annotated[int, typer.Option(min=0, help="Also show so many of the worst errors.")] = 0,
    max_length: Annotated[
        int | None, typer.Option(help="Tokens of a text, at most.  [default: as in training]", show_default=False)
    ] = None,
    batch_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens computed at once.  [default: by device]", show_default=False)
    ] = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    threads: ThreadsOption = None,
    skip_bad_rows: SkipBadRowsFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Score a fine-tuned model on labelled rows. Metrics are fractions; with two classes, f1 is that of the second.

    Examples:

        maskwright evaluate runs/b/model dev.tsv

        maskwright evaluate runs/b/model test.csv --columns text=body,label=y --errors 10 --json
    """
    set_threads(threads)
    from ..api import open_predictor
    from ..tasks.errors import worst_errors
    from ..text.tables import read_table

    predictor = open_predictor(model, max_length=max_length, device=device, precision=precision)
    task = predictor.task
    is_multi = bool(getattr(task, "multi_label", False))
    table = read_table(
        file,
        columns=parse_columns(columns) or None,
        numeric=not task.labels,
        labels=task.labels or None,
        multi_label=is_multi,
        skip_bad_rows=skip_bad_rows,
    )
    examples, evaluation = predictor.evaluate(table.rows, batch_tokens=batch_tokens)
    if table.num_skipped:
        warn(f"{table.num_skipped:,} bad rows are left out.")
    if examples.num_truncated:
        warn(examples.counts.note())
    result: dict[str, Any] = {
        "task": task.name,
        "examples": len(examples),
        "metrics": evaluation.metrics,
        "loss": evaluation.loss,
        "skipped": table.num_skipped,
        "truncated": examples.num_truncated,
    }
    if errors:
        result["errors"] = worst_errors(task, examples, evaluation.logits, errors)
    if json:
        print_json(result)
        return
    print_text(f"{task.name} on {len(examples):,} rows of {file}")
    print_metrics({**evaluation.metrics, "loss": evaluation.loss})
    for error in result.get("errors", []):
        found = error.get("label", error.get("labels", error.get("score")))
        pair = f" | {error['text_pair']}" if error["text_pair"] else ""
        print_text(f"line {error['line']}: {error['gold']} taken for {found}: {error['text']}{pair}")
