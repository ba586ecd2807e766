"""`maskwright bench complexity`: cost of each layer type by sequence length, published and measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...core.config import option
from ...core.errors import ConfigError
from ...core.util import DEVICE, THREADS, Device
from ..common import JsonFlag
from ..pages import Page, check_page, show_results
from ..settings import takes_settings


@dataclass(frozen=True, kw_only=True)
class ComplexitySettings(Page):
    """Settings of `maskwright bench complexity`. Raises ConfigError for lengths that are not numbers."""

    COMMAND: ClassVar[str] = "bench complexity"

    lengths: str = option(
        "128,256,512,1024,2048,4096",
        "Sequence lengths in tokens, at least three, increasing.",
        metavar="N,N,...",
    )
    width: int = option(64, "Hidden size d.", minimum=1)
    filter_width: int = option(3, "Filter width k in tokens, odd.", minimum=1)
    window: int = option(64, "Window r of restricted attention, in tokens.", minimum=1)
    device: Device = option("auto", DEVICE)
    threads: int | None = option(None, THREADS)

    def __post_init__(self) -> None:
        _ = self.sizes

    @property
    def sizes(self) -> list[int]:
        """The sequence lengths."""
        try:
            return [int(part) for part in self.lengths.split(",")]
        except ValueError:
            raise ConfigError(
                f"--lengths is {self.lengths!r}; it must be numbers with commas between, as 128,256,512."
            ) from None


@takes_settings(ComplexitySettings)
def complexity(settings: ComplexitySettings, json: JsonFlag = False) -> None:
    """Compare the cost of self-attention, recurrent, convolutional and restricted layers by sequence length.

    Shows the published complexity, operation counts, and measured times with the fitted exponent of the length.

    Examples:

        maskwright bench complexity

        maskwright bench complexity --lengths 256,512,1024,2048 --width 128 --threads 1 -o complexity.html

        maskwright bench complexity --json
    """
    from ...models.device import resolve_device
    from ...speed.complexity import headline, measure, table, write_complexity

    sizes, width = settings.sizes, settings.width
    check_page(settings.output)
    found = measure(sizes, width, settings.filter_width, settings.window, str(resolve_device(settings.device)))
    if settings.output is not None:
        write_complexity(settings.output, sizes, width, found)
    as_json = {"lengths": sizes, "width": width, "layers": [one.to_json() for one in found]}
    columns, rows = table(sizes, found)
    show_results(settings, as_json, columns, rows, headline(found), json=json, right=columns[4:])
