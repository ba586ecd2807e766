"""`maskwright experiment benchmark`: a public benchmark over several seeds, compared with published scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...experiments.benchmark.config import BenchmarkConfig
from ..common import JsonFlag, print_json, print_table, print_text
from ..settings import DryRunFlag, RestartFlag, takes_settings, tell_if_finished

if TYPE_CHECKING:
    from ...experiments.benchmark.suite import BenchmarkResult, Plan


@takes_settings(BenchmarkConfig, has_recipe=True)
def benchmark(
    recipe: BenchmarkConfig, dry_run: DryRunFlag = False, restart: RestartFlag = False, json: JsonFlag = False
) -> None:
    """Fine-tune on the tasks of a benchmark and compare with published scores.

    Reads the original files (GLUE folders, SQuAD .json, CoNLL-2003 eng.train, SWAG .csv) or files with plain columns.
    Rerun the same command to resume.

    Examples:

        maskwright experiment benchmark glue --data glue_data --model runs/a/model --seeds 5 -o runs/glue

        maskwright experiment benchmark glue --data glue_data --model runs/a/model --tasks cola,mrpc --grid -o runs/two

        maskwright experiment benchmark squad --data squad --model minilm --max-train-rows 10000 --dry-run -o runs/q

        maskwright experiment benchmark conll --data conll2003 --model runs/a/model --seeds 5 -o runs/ner
    """
    if dry_run:
        from ...experiments.benchmark.suite import plan_benchmark

        _show_plan(plan_benchmark(recipe), json)
        return
    from ...experiments.benchmark.suite import run_benchmark

    _show_result(run_benchmark(recipe, restart=restart), json)


def _show_plan(plan: Plan, json: bool) -> None:
    if json:
        from ...experiments.benchmark.suite import to_json

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
        print_text(f"{name} is skipped: {reason}.")
    size = plan.disk_bytes / 1e9
    print_text(f"{plan.runs:,} runs, {plan.steps:,} steps; the models take about {size:,.1f} GB. Nothing was run.")


def _show_result(result: BenchmarkResult, json: bool) -> None:
    if json:
        print_json({"run": str(result.output), "report": str(result.report), **result.to_json()})
        return
    from ...experiments.benchmark import results as tables

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
    print_text("next:   open the report; its last part shows the ensemble command for the seeds of each task")
