"""`maskwright experiment ablations`: pre-training objectives, masking rates and model sizes compared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ...core.config import option
from ...core.util import THREADS
from ..common import JsonFlag, print_json, print_text
from ..settings import takes_settings


@dataclass(frozen=True, kw_only=True)
class AblationsSettings:
    """Settings of `maskwright experiment ablations`."""

    COMMAND: ClassVar[str] = "experiment ablations"

    output: Path = option(help="Run folder. Rerun the same command to resume.", short="-o")
    corpus: tuple[Path, ...] = option(
        (), "Raw text for pre-training. Repeatable.", default_help="the file named in --settings"
    )
    train: Path | None = option(
        None, "Tagged sentences to fine-tune on (CoNLL).", default_help="the file named in --settings"
    )
    dev: Path | None = option(
        None, "Tagged sentences to score on (CoNLL).", default_help="the file named in --settings"
    )
    data: Path | None = option(None, "Folder that contains the files named in --settings.", envvar="MASKWRIGHT_DATA")
    settings: Path | None = option(
        None, "TOML file of runs and comparisons.", default_help="the shipped ablations.toml"
    )
    seeds: int = option(3, "Number of seeds.", minimum=1)
    print_settings: bool = option(False, "Print the settings file and stop.")
    dry_run: bool = option(False, "Print the plan and stop.")
    table: bool = option(False, "Write the results of finished runs and stop.")
    threads: int | None = option(None, THREADS)


@takes_settings(AblationsSettings)
def ablations(settings: AblationsSettings, json: JsonFlag = False) -> None:
    """Compare pre-training objectives, masking rates and model sizes at equal tokens, by fine-tuned accuracy.

    Pre-trains each model with several seeds, fine-tunes it at every checkpoint on tagged sentences, and writes
    table.md, accuracy.svg and results.json. The shipped settings take about 2.5 hours of one core.

    Examples:

        maskwright experiment ablations --corpus news.txt --train train.conll --dev dev.conll -o runs/ablations

        maskwright experiment ablations --data data/ --dry-run -o runs/ablations

        maskwright experiment ablations --print-settings -o . > my.toml
    """
    from ...experiments.ablations.run import SETTINGS, ablate, collect, describe, plan, read_settings, resolve_files

    if settings.print_settings:
        print_text((settings.settings or SETTINGS).read_text(encoding="utf-8").rstrip())
        return
    output, seeds = settings.output.resolve(), settings.seeds
    chosen = resolve_files(
        read_settings(settings.settings), list(settings.corpus), settings.train, settings.dev, settings.data
    )
    if settings.dry_run:
        lines = describe(plan(chosen, output, seeds))
        print_json({"plan": lines}) if json else print_text("\n".join(lines))
        return
    results = collect(chosen, output, seeds) if settings.table else ablate(chosen, output, seeds)
    places = {"table": output / "table.md", "plot": output / "accuracy.svg", "all": output / "results.json"}
    if json:
        print_json({**places, "runs": results.found})
        return
    print_text((output / "table.md").read_text(encoding="utf-8"))
    for name, path in places.items():
        print_text(f"{name}: {path}")
