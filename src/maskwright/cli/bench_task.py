"""`maskwright bench-task`: a well-known benchmark from a folder of its files, over seeds, beside what was published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..core.errors import ConfigError
from .common import (
    DebugFlag,
    JsonFlag,
    QuietFlag,
    RecipeDeviceOption,
    RecipePrecisionOption,
    SeedOption,
    SkipBadRowsFlag,
    ThreadsOption,
    print_json,
    print_table,
    print_text,
    set_threads,
)
from .training_options import (
    LearningRateOption,
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
    from ..train.benchmark.plan import Plan
    from ..train.benchmark.suite import BenchmarkResult

Benchmark = Literal["glue", "squad", "conll", "swag"]


def bench_task(
    benchmark: Annotated[Benchmark | None, typer.Argument(help="Which one.")] = None,
    data: Annotated[Path | None, typer.Option("--data", help="The folder that holds its files.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="The model folder that every run starts from.")] = None,
    output: OutputOption = None,
    tasks: Annotated[
        str | None, typer.Option("--tasks", help="Only these, such as cola,mrpc.  [default: all there are]")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Runs of each task; mean and deviation.  [default: 1]")] = None,
    epochs: Annotated[int | None, typer.Option(help="Times that every row is seen.  [default: 3]")] = None,
    lr: LearningRateOption = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows of one step.  [default: 32]")] = None,
    max_length: MaxLengthOption = None,
    max_train_rows: Annotated[
        int | None, typer.Option(help="Train on so many rows of each task, drawn once; the results say so.")
    ] = None,
    grid: Annotated[
        bool,
        typer.Option("--grid", help="Try batch 16/32, lr 5e-5/3e-5/2e-5, 2 to 4 epochs; the best on dev is taken."),
    ] = False,
    submission: Annotated[
        bool, typer.Option("--submission", help="GLUE: write the leaderboard's files of the test rows.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show rows, runs and steps, and stop.")] = False,
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
    """Fine-tune on the tasks of a benchmark and put the scores beside the published ones.

    Files are read as they are given out (GLUE's folders, SQuAD's .json, eng.train of CoNLL-2003, SWAG's .csv) or with
    plain columns. The same command goes on with a run that was interrupted.

    Examples:

        maskwright bench-task glue --data glue_data --model runs/a/model --seeds 5 -o runs/glue

        maskwright bench-task glue --data glue_data --model runs/a/model --tasks cola,mrpc --grid -o runs/two

        maskwright bench-task squad --data squad --model runs/a/model --max-train-rows 10000 --dry-run -o runs/q

        maskwright bench-task conll --data conll2003 --model runs/a/model --seeds 5 -o runs/ner
    """
    flags = dict(locals())
    from ..train.benchmark.config import BenchmarkConfig

    names = tuple(name.strip() for name in (tasks or "").split(",") if name.strip())
    if tasks is not None and not names:
        raise ConfigError("--tasks is empty: name tasks, as in --tasks cola,mrpc, or leave it out for all.")
    recipe = load_recipe(BenchmarkConfig, config, {**flags, "tasks": names or None})
    if print_config:
        print_recipe(recipe, json)
        return
    set_threads(threads)
    if dry_run:
        from ..train.benchmark.plan import plan_benchmark

        _show_plan(plan_benchmark(recipe), json)
        return
    from ..train.benchmark.suite import run_benchmark

    _show_result(run_benchmark(recipe, restart=restart), json)


def _show_plan(plan: Plan, json: bool) -> None:
    if json:
        from ..train.benchmark.plan import to_json

        print_json(to_json(plan))
        return
    columns = ("task", "train rows", "sequences", "rows to score", "settings", "runs", "steps")
    rows = [
        (
            part.name,
            f"{part.rows['train']:,}"
            + ("" if part.rows["train"] == part.rows_in_file else f" of {part.rows_in_file:,}"),
            f"{part.sequences:,}",
            ", ".join(f"{count:,} {split.replace('_', ' ')}" for split, count in part.rows.items() if split != "train"),
            part.settings[0] if len(part.settings) == 1 else f"{len(part.settings)} settings",
            part.runs,
            f"{part.steps:,}",
        )
        for part in plan.parts
    ]
    print_table(columns, rows, right=("train rows", "sequences", "runs", "steps"))
    for name, reason in plan.missing.items():
        print_text(f"{name} is left out: {reason}.")
    size = plan.disk_bytes / 1e9
    print_text(f"{plan.runs:,} runs, {plan.steps:,} steps; the models take about {size:,.1f} GB. Nothing was run.")


def _show_result(result: BenchmarkResult, json: bool) -> None:
    if json:
        print_json({"run": str(result.output), "report": str(result.report), **result.to_json()})
        return
    from ..train.benchmark import tables

    tell_if_finished(result.already_finished)
    results = result.results
    columns = tables.OWN_COLUMNS
    print_table(columns, tables.own_rows(results), title="Measured here, per cent", right=columns[2:6])
    if tables.average_line(results):
        print_text(tables.average_line(results))
    for name, reason in results.missing.items():
        print_text(f"{name} is not measured: {reason}.")
    for table in tables.published_tables(results):
        names = ["system", *(column.name for column in table.columns)]
        print_table(names, tables.published_rows(table), title=tables.published_title(table), right=names[1:])
    if result.submission is not None:
        print_text(f"for the leaderboard: {result.submission['archive']}")
    print_text(f"models: {result.output / 'models'}\ntable:  {result.output / 'table.md'}\nreport: {result.report}")
    print_text("next:   open the report; its last part shows the command that unites the seeds of each task")
