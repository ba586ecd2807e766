"""`maskwright inspect lengths`: BLEU by source length."""

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


def lengths(
    models: Annotated[list[str], typer.Argument(help="Folders of translation models.")],
    data: Annotated[
        list[Path] | None,
        typer.Option("--data", help="Sentence pairs (.tsv, .csv, .jsonl), or twice for two line-aligned files."),
    ] = None,
    groups: Annotated[int, typer.Option(min=2, help="Maximum number of length groups.")] = 8,
    beam: Annotated[int, typer.Option("--beam", min=1, help="Beam size; 1 is greedy decoding.")] = 1,
    columns: ColumnsOption = None,
    output: PageOption = None,
    max_length: MaxLengthOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    threads: ThreadsOption = None,
    skip_bad_rows: SkipBadRowsFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Score translation models by source length.

    Examples:

        maskwright inspect lengths runs/attention/model runs/plain/model --data dev.de --data dev.en -o lengths.html

        maskwright inspect lengths runs/t/model --data dev.tsv --groups 4 --json
    """
    from ...core.errors import ConfigError

    if not data or len(data) > 2:
        raise ConfigError("Pass --data FILE with pairs, or --data twice: sources and translations.")
    check_page(output)
    set_threads(threads)
    from ...api import open_translator
    from ...inspect.lengths import by_length
    from ...inspect.lengths_page import headline, write_lengths
    from ...tasks.translation.task import Translation

    path = data[0] if len(data) == 1 else (data[0], data[1])
    table = Translation.read(path, columns=parse_columns(columns), skip_bad_rows=skip_bad_rows)
    found = []
    for place in models:
        opened = open_translator(place, max_length=max_length, device=device, precision=precision)
        own = by_length(
            opened.model, opened.task, table.rows, name=place, max_length=opened.max_length, groups=groups, beams=beam
        )
        found.append(own)
    if output is not None:
        write_lengths(output, found)
    if json:
        print_json([one.to_json() for one in found])
        return
    rows = [
        [one.name, f"{words:.1f}", f"{count:,}", "-" if one.bleu is None else f"{one.bleu[place]:.1f}",
         f"{one.token_accuracy[place]:.3f}", f"{one.exact[place]:.3f}"]
        for one in found
        for place, (words, count) in enumerate(zip(one.words, one.rows, strict=True))
    ]  # fmt: skip
    print_table(["model", "words", "texts", "BLEU", "token accuracy", "exact"], rows)
    print_text(headline(found))
    if output is not None:
        print_text(f"page: {output}")
