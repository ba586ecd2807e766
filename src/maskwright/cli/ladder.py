"""`maskwright ladder`: is BERT worth it on these rows?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .common import (
    ColumnsOption,
    DebugFlag,
    JsonFlag,
    QuietFlag,
    RecipeDeviceOption,
    RecipePrecisionOption,
    SeedOption,
    SkipBadRowsFlag,
    ThreadsOption,
    parse_columns,
    print_json,
    print_table,
    print_text,
    set_threads,
)
from .training_options import (
    MaxLengthOption,
    OutputOption,
    PrintConfigFlag,
    RecipeOption,
    RestartFlag,
    load_recipe,
    print_recipe,
    tell_if_finished,
)

if TYPE_CHECKING:
    from ..train.ladder import LadderResult


def ladder(
    data: Annotated[Path | None, typer.Option(help="Labelled rows to learn from.")] = None,
    dev: Annotated[Path | None, typer.Option(help="Rows that score.  [default: a tenth of --data]")] = None,
    corpus: Annotated[
        list[str] | None, typer.Option(help="Raw text for pre-training. Repeatable.  [default: the texts of --data]")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="A model folder to fine-tune beside them. Repeatable.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="words, static, lstm, bilstm, elmo, gpt, bert-scratch or bert. Repeatable.  [default: all]"),
    ] = None,
    output: OutputOption = None,
    columns: ColumnsOption = None,
    metric: Annotated[str | None, typer.Option(help="The dev metric that is compared, such as macro_f1.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Times that every row is seen.")] = None,
    seeds: Annotated[int | None, typer.Option(help="So many trainings of each rung.  [default: 3]")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows of one step.")] = None,
    max_length: MaxLengthOption = None,
    pretrain_steps: Annotated[int | None, typer.Option(help="Steps of what is pre-trained.")] = None,
    hidden_size: Annotated[int | None, typer.Option(help="Width of every network.")] = None,
    static_method: Annotated[str | None, typer.Option(help="Static vectors: skip-gram or cbow.")] = None,
    seed: SeedOption = None,
    device: RecipeDeviceOption = None,
    precision: RecipePrecisionOption = None,
    threads: ThreadsOption = None,
    skip_bad_rows: SkipBadRowsFlag = False,
    config: RecipeOption = None,
    print_config: PrintConfigFlag = False,
    restart: RestartFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Train counted words, static vectors, LSTM, BiLSTM, ELMo, a GPT and BERTs on one labelled file under one budget.

    One table: score, training time, latency, size, memory. The same command goes on with a run that was interrupted.

    Examples:

        maskwright ladder --data train.tsv --dev dev.tsv -o runs/ladder

        maskwright ladder --data train.tsv --dev dev.tsv --corpus text/ --model runs/a/model --seeds 5 -o runs/l

        maskwright ladder --data train.tsv --corpus text/ --only static --only elmo --only gpt --only bert \
--static-method cbow -o runs/lineage --json
    """
    flags = dict(locals())
    from ..train.ladder_config import LadderConfig

    settings = {**flags, "columns": parse_columns(columns), "models": model, "only": only, "corpus": corpus}
    recipe = load_recipe(LadderConfig, config, settings)
    if print_config:
        print_recipe(recipe, json)
        return
    set_threads(threads)
    from ..train.ladder import ladder as climb

    _show(climb(recipe, restart=restart), json)


def _show(result: LadderResult, json: bool) -> None:
    from ..train.ladder_report import COLUMNS, cells, headline

    if json:
        print_json(
            {
                "run": str(result.output),
                "report": str(result.report),
                "metric": result.metric,
                "rungs": result.rows,
                "left_out": result.left_out,
            }
        )
        return
    tell_if_finished(result.already_finished)
    print_table(COLUMNS, [cells(row) for row in result.rows], right=COLUMNS[1:])
    print_text(headline(result.rows, result.metric))
    print_text(f"report: {result.report}")
