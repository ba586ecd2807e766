"""`maskwright probe`: what each layer of a model knows of some labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
    print_table,
    print_text,
    set_threads,
)
from .complexity import PageOption, check_page
from .using import MaxLengthOption

POOLINGS = ("mean", "cls", "max")


def probe(
    model: Annotated[str, typer.Argument(help="Any model folder, or a name of the hub.")],
    train: Annotated[Path, typer.Option(help="Tagged sentences, or texts with a label, to learn from.")],
    dev: Annotated[
        Path | None, typer.Option(help="The same to score on.  [default: a quarter of --train]", show_default=False)
    ] = None,
    pooling: Annotated[str, typer.Option(help="What makes one vector of a text: mean, cls or max.")] = "mean",
    most: Annotated[int, typer.Option(min=2, help="Words or texts of either file, from its beginning.")] = 10_000,
    columns: ColumnsOption = None,
    output: PageOption = None,
    max_length: MaxLengthOption = None,
    seed: SeedOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "fp32",
    threads: ThreadsOption = None,
    skip_bad_rows: SkipBadRowsFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Show what each layer knows: a linear probe on its frozen vectors, beside a control task with random labels.

    Accuracy in the control task is what a probe learns by heart; accuracy less that is the selectivity.

    Examples:

        maskwright probe runs/a/model --train train.conll --dev dev.conll --columns token=0,tag=1 -o probe.html

        maskwright probe runs/a/model --train tickets.tsv --pooling cls --json
    """
    from ..api import open_model
    from ..core.config import check
    from ..core.progress import warn
    from ..core.registry import unknown_name
    from ..inspect.probe import MAX_STEPS
    from ..inspect.probe import probe as probe_layers
    from ..inspect.probe_page import COLUMNS, headline, probe_rows, write_probes
    from ..inspect.probe_rows import read_labelled

    check_page(output)
    check(pooling in POOLINGS, unknown_name("pooling", pooling, POOLINGS))
    set_threads(threads)
    named = parse_columns(columns)
    rows, held = (
        None if path is None else read_labelled(path, columns=named, skip_bad_rows=skip_bad_rows)
        for path in (train, dev)
    )
    opened = open_model(model, None, device, precision)
    found = probe_layers(
        opened, rows or (), held, pooling=pooling, max_length=max_length, most=most, seed=0 if seed is None else seed
    )
    if found.num_unfinished:
        warn(f"{found.num_unfinished} probes were still improving after {MAX_STEPS:,} steps.")
    if output is not None:
        write_probes(output, found, Path(model).name)
    if json:
        print_json(found.to_json())
        return
    print_table(COLUMNS, probe_rows(found), right=COLUMNS)
    print_text(headline(found))
    if output is not None:
        print_text(f"page: {output}")
