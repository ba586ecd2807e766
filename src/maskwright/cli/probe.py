"""`maskwright probe`: layer-wise linear probing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ..core.config import check, option
from ..core.progress import warn
from ..core.registry import unknown_name
from ..core.util import PRECISION, Precision
from ..train.settings import SEED
from .common import Result, Table
from .settings import takes_settings
from .using import MAX_LENGTH, MODEL, Hardware, Page, Rows, check_page

POOLINGS = ("mean", "cls", "max")


@dataclass(frozen=True, kw_only=True)
class ProbeSettings(Hardware, Rows, Page):
    """Settings of `maskwright probe`. Raises ConfigError for an unknown pooling."""

    COMMAND: ClassVar[str] = "probe"

    model: str = option(help=MODEL)
    train: Path = option(help="Training data: tagged sentences or labeled texts.")
    dev: Path | None = option(None, "Dev data, on which the probes are scored.", default_help="a quarter of --train")
    pooling: str = option("mean", "Pooling of text embeddings: mean, cls or max.")
    most: int = option(10_000, "Maximum words or texts per file.", minimum=2)
    max_length: int | None = option(None, MAX_LENGTH)
    seed: int = option(0, SEED)
    precision: Precision = option("fp32", PRECISION)

    def __post_init__(self) -> None:
        check(self.pooling in POOLINGS, unknown_name("pooling", self.pooling, POOLINGS))


@takes_settings(ProbeSettings)
def probe(settings: ProbeSettings) -> Iterator[Result]:
    """Train linear probes on each frozen layer, with a control task of random labels.

    Control-task accuracy measures memorization; selectivity is accuracy minus control-task accuracy.

    Examples:

        maskwright probe runs/a/model --train train.conll --dev dev.conll --columns token=0,tag=1 -o probe.html

        maskwright probe runs/a/model --train tickets.tsv --pooling cls --json
    """
    check_page(settings.output)
    from ..api import open_model
    from ..inference.probing import MAX_STEPS, read_labeled
    from ..inference.probing import probe as probe_layers
    from ..inspect.reports import COLUMNS, probe_rows, write_probes
    from ..inspect.reports import probe_headline as headline

    rows, held = (
        None if path is None else read_labeled(path, columns=settings.columns, skip_bad_rows=settings.skip_bad_rows)
        for path in (settings.train, settings.dev)
    )
    found = probe_layers(
        open_model(settings.model, (), settings.device, settings.precision, untrained=True),  # its head is not used
        rows or (),
        held,
        pooling=settings.pooling,
        max_length=settings.max_length,
        most=settings.most,
        seed=settings.seed,
    )
    if found.num_unfinished:
        warn(f"{found.num_unfinished} probes were still improving after {MAX_STEPS:,} steps.")
    if settings.output is not None:
        write_probes(settings.output, found, Path(settings.model).name)
    page = None if settings.output is None else f"page: {settings.output}"
    yield found.to_json(), (Table(COLUMNS, probe_rows(found), right=COLUMNS), headline(found), page)
