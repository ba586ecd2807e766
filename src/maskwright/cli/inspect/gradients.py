"""`maskwright inspect gradients`: decay of the gradient of a recurrent network with distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...core.config import check, option
from ...core.util import THREADS
from ...train.settings import SEED, SKIP_BAD_ROWS
from ..common import JsonFlag
from ..pages import Page, check_page, show_results
from ..settings import takes_settings


@dataclass(frozen=True, kw_only=True)
class GradientsSettings(Page):
    """Settings of `maskwright inspect gradients`. Raises ConfigError without text."""

    COMMAND: ClassVar[str] = "inspect gradients"

    models: tuple[str, ...] = option(
        help="Recurrent language models: folders, or Hugging Face Hub model IDs.", is_argument=True
    )
    text: tuple[str, ...] = option((), "Text file, folder or glob. Repeatable.")
    distance: int = option(50, "Maximum distance in tokens.", minimum=2)
    untrained: bool = option(False, "Also measure the networks with random weights.")
    seed: int = option(0, SEED)
    threads: int | None = option(None, THREADS)
    skip_bad_rows: bool = option(False, SKIP_BAD_ROWS)

    def __post_init__(self) -> None:
        check(bool(self.text), "Pass --text FILE with text for the networks.")


@takes_settings(GradientsSettings)
def gradients(settings: GradientsSettings, json: JsonFlag = False) -> None:
    """Measure how the gradient of the loss decays with distance in recurrent networks.

    Examples:

        maskwright inspect gradients runs/rnn/model runs/lstm/model --text book.txt -o gradients.html

        maskwright inspect gradients runs/lstm/model --text book.txt --untrained --distance 100 --json
    """
    from ...api import open_model
    from ...inspect.gradients import fading
    from ...inspect.reports import gradients_headline as headline
    from ...inspect.reports import table, write_gradients
    from ...inspect.text import documents_of, tokens_of
    from ...models.build import build
    from ...models.model import tokenizer_of

    output, distance = settings.output, settings.distance
    check_page(output)
    documents, found = documents_of(settings.text, skip_bad_rows=settings.skip_bad_rows), []
    for place in settings.models:
        model = open_model(place, "predict-next", "cpu", "fp32")
        ids = tokens_of(documents, tokenizer_of(model)).ids.tolist()
        found.append(fading(model, ids, distance, place))
        if settings.untrained:
            fresh = build(model.config, "clm", seed=settings.seed)
            found.append(fading(fresh, ids, distance, f"{place}, untrained"))
    if output is not None:
        write_gradients(output, found)
    columns, rows = table(found)
    show_results(settings, [one.to_json() for one in found], columns, rows, headline(found), json=json)
