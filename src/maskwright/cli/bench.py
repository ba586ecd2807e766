"""`maskwright bench`: how fast a model runs on this machine, beside transformers where it is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .common import (
    DebugFlag,
    DeviceOption,
    JsonFlag,
    QuietFlag,
    ThreadsOption,
    print_json,
    print_table,
    print_text,
    set_threads,
)
from .using import InputOption, read_rows

if TYPE_CHECKING:
    from ..speed.bench import BenchResult, Row


def bench(
    model: Annotated[str, typer.Argument(help="Any model folder with a tokenizer, or a name of the hub.")],
    input: InputOption = None,
    precision: Annotated[
        list[str] | None,
        typer.Option(help="Only this number format. Repeatable.  [default: all there are]", show_default=False),
    ] = None,
    max_length: Annotated[int | None, typer.Option(help="Cut texts to so many tokens.")] = None,
    seconds: Annotated[float, typer.Option(min=1.0, help="For everything, about.")] = 60.0,
    no_peer: Annotated[bool, typer.Option("--no-peer", help="Do not measure transformers beside it.")] = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Measure a model on this machine: from texts to vectors, in bulk and one at a time, in every number format.

    Every contender is a process of its own; all are measured in turn, and their vectors compared first. Without --input
    the texts are sentences of the documentation that Python carries.

    Examples:

        maskwright bench runs/a/model

        maskwright bench runs/a/model --input texts.txt --seconds 120 --threads 2 --json
    """
    from ..speed.bench import BenchSettings
    from ..speed.bench import bench as measure

    texts = None if input is None else [row.text for row in read_rows(input) if row.text.strip()]
    set_threads(threads)
    wanted = tuple(precision) if precision else None
    found = measure(BenchSettings(model, texts, wanted, seconds, not no_peer, max_length, threads, device))
    if json:
        print_json(found.to_json())
    else:
        _show(found)


def _show(result: BenchResult) -> None:
    title = f"{result.model}: {result.num_texts:,} texts of {result.mean_tokens:.0f} tokens on average"
    bulk = ["in bulk", "tokens/s", "texts/s", "x", "of ceiling", "memory", "cosine"]
    print_table(bulk, [_bulk(row) for row in result.rows], title=title, right=bulk[1:])
    sizes = list(result.rows[0].latency)
    alone = ["one text, ms", *(f"{size} tokens (p95)" for size in sizes)]
    print_table(alone, [_alone(row, sizes) for row in result.rows], right=alone[1:])
    for name, why in result.missing.items():
        print_text(f"{name} is not measured: {why}.")
    ceilings = ", ".join(f"{rate / 1e9:,.0f} GFLOP/s in {name}" for name, rate in result.ceilings.items())
    threads = result.machine["processor"]["threads"]
    print_text(f"Plain matrix products reach {ceilings} here ({threads} threads): the ceiling.")
    print_text(f"x: beside the first line. cosine: the lowest to its vectors. It took {result.seconds:.0f} s.")


def _bulk(row: Row) -> list[str]:
    return [
        f"{row.name} {row.precision}",
        f"{row.tokens_per_second:,.0f}",
        f"{row.texts_per_second:,.0f}",
        f"{row.ratio_to_first:.2f}",
        "-" if row.share_of_ceiling is None else f"{row.share_of_ceiling:.0%}",
        f"{row.memory / 1e6:,.0f} MB",
        f"{row.cosine:.4f}",
    ]


def _alone(row: Row, sizes: list[int]) -> list[str]:
    times = [[1000 * seconds for seconds in row.latency[size][:2]] for size in sizes]
    return [f"{row.name} {row.precision}", *(f"{median:,.1f} ({slow:,.1f})" for median, slow in times)]
