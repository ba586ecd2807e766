"""`maskwright inspect probe`: layer-wise linear probing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..common import (
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
from ..pages import PageOption, check_page
from ..using import MaxLengthOption

POOLINGS = ("mean", "cls", "max")


def probe(
    model: Annotated[str, typer.Argument(help="Model folder, or a Hugging Face Hub model ID.")],
    train: Annotated[Path, typer.Option(help="Training data: tagged sentences or labeled texts.")],
    dev: Annotated[
        Path | None, typer.Option(help="Dev data.  \\[default: a quarter of --train]", show_default=False)
    ] = None,
    pooling: Annotated[str, typer.Option(help="Pooling of text embeddings: mean, cls or max.")] = "mean",
    most: Annotated[int, typer.Option(min=2, help="Maximum words or texts per file.")] = 10_000,
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
    """Train linear probes on each frozen layer, with a control task of random labels.

    Control-task accuracy measures memorization; selectivity is accuracy minus control-task accuracy.

    Examples:

        maskwright inspect probe runs/a/model --train train.conll --dev dev.conll --columns token=0,tag=1 -o probe.html

        maskwright inspect probe runs/a/model --train tickets.tsv --pooling cls --json
    """
    from ...api import open_model
    from ...core.config import check
    from ...core.progress import warn
    from ...core.registry import unknown_name
    from ...inspect.probe import MAX_STEPS
    from ...inspect.probe import probe as probe_layers
    from ...inspect.probe_page import COLUMNS, headline, probe_rows, write_probes
    from ...inspect.probe_rows import read_labeled

    check_page(output)
    check(pooling in POOLINGS, unknown_name("pooling", pooling, POOLINGS))
    set_threads(threads)
    named = parse_columns(columns)
    rows, held = (
        None if path is None else read_labeled(path, columns=named, skip_bad_rows=skip_bad_rows)
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
