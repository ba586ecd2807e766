"""`maskwright experiment ablations`: pre-training objectives, masking rates and model sizes compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..common import DebugFlag, JsonFlag, QuietFlag, ThreadsOption, print_json, print_text, set_threads


def ablations(
    output: Annotated[Path, typer.Option("--output", "-o", help="Run folder. Rerun the same command to resume.")],
    corpus: Annotated[
        list[Path] | None, typer.Option(help="Raw text for pre-training. Repeatable.  \\[default: the settings' file]")
    ] = None,
    train: Annotated[
        Path | None, typer.Option(help="Tagged sentences to fine-tune on (CoNLL).  \\[default: the settings' file]")
    ] = None,
    dev: Annotated[
        Path | None, typer.Option(help="Tagged sentences to score on (CoNLL).  \\[default: the settings' file]")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(envvar="MASKWRIGHT_DATA", help="Folder of the files that the settings name.")
    ] = None,
    settings: Annotated[
        Path | None, typer.Option(help="TOML file of runs and comparisons.  \\[default: the shipped ablations.toml]")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds.")] = 3,
    print_settings: Annotated[bool, typer.Option("--print-settings", help="Print the settings file and stop.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
    table: Annotated[bool, typer.Option("--table", help="Write the results of finished runs and stop.")] = False,
    threads: ThreadsOption = None,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Compare pre-training objectives, masking rates and model sizes at equal tokens, by fine-tuned accuracy.

    Pre-trains each model with several seeds, fine-tunes it at every checkpoint on tagged sentences, and writes
    table.md, accuracy.svg and results.json. The shipped settings take about 2.5 hours of one core.

    Examples:

        maskwright experiment ablations --corpus news.txt --train train.conll --dev dev.conll -o runs/ablations

        maskwright experiment ablations --data data/ --dry-run -o runs/ablations

        maskwright experiment ablations --print-settings -o . > my.toml
    """
    from ...experiments.ablations.run import SETTINGS, ablate, collect, describe, plan, read_settings, resolve_files

    if print_settings:
        print_text((settings or SETTINGS).read_text(encoding="utf-8").rstrip())
        return
    set_threads(threads)
    output = output.resolve()
    chosen = resolve_files(read_settings(settings), corpus or [], train, dev, data)
    if dry_run:
        lines = describe(plan(chosen, output, seeds))
        print_json({"plan": lines}) if json else print_text("\n".join(lines))
        return
    results = collect(chosen, output, seeds) if table else ablate(chosen, output, seeds)
    places = {"table": output / "table.md", "plot": output / "accuracy.svg", "all": output / "results.json"}
    if json:
        print_json({**places, "runs": results.found})
        return
    print_text((output / "table.md").read_text(encoding="utf-8"))
    for name, path in places.items():
        print_text(f"{name}: {path}")
