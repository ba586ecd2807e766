"""`maskwright bench speed`: inference speed on this machine, compared with transformers where it is installed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ...core.config import option
from ...core.util import DEVICE, THREADS, Device
from ..common import JsonFlag, print_json, print_table, print_text
from ..settings import takes_settings
from ..using import INPUT, MAX_LENGTH, read_rows

if TYPE_CHECKING:
    from ...speed.bench import BenchResult, Row


@dataclass(frozen=True, kw_only=True)
class SpeedSettings:
    """Settings of `maskwright bench speed`."""

    COMMAND: ClassVar[str] = "bench speed"

    model: str = option(help="Model folder with a tokenizer, or a Hugging Face Hub model ID.", is_argument=True)
    input: Path | None = option(None, INPUT)
    precision: tuple[str, ...] = option((), "Precision to measure. Repeatable.", default_help="all available")
    max_length: int | None = option(None, MAX_LENGTH)
    seconds: float = option(60.0, "Approximate total time.", unit="seconds", minimum=1.0)
    no_peer: bool = option(False, "Do not measure transformers for comparison.")
    device: Device = option("auto", DEVICE)
    threads: int | None = option(None, THREADS)


@takes_settings(SpeedSettings)
def speed(settings: SpeedSettings, json: JsonFlag = False) -> None:
    """Measure the throughput and latency of a model on this machine, in every precision.

    Each candidate runs in a separate process; candidates alternate, and their embeddings are compared first. Without
    --input, the texts are sentences of the Python documentation.

    Examples:

        maskwright bench speed runs/a/model

        maskwright bench speed runs/a/model --input texts.txt --seconds 120 --threads 2 --json
    """
    from ...speed.bench import BenchSettings, bench

    texts = None
    if settings.input is not None:
        texts = [row.text for row in read_rows(settings.input) if row.text.strip()]
    found = bench(
        BenchSettings(
            settings.model,
            texts,
            settings.precision or None,
            settings.seconds,
            not settings.no_peer,
            settings.max_length,
            settings.threads,
            settings.device,
        )
    )
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
    print_text(f"x: speed relative to the first row. cosine: lowest to its embeddings. Took {result.seconds:.0f} s.")


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
