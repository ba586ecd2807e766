"""`maskwright inspect lengths`: BLEU by source length."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ...core.config import check, option
from ..common import JsonFlag
from ..pages import Page, check_page, show_results
from ..settings import takes_settings
from ..using import BEAM, MAX_LENGTH, Hardware, Rows

COLUMNS = ("model", "words", "texts", "BLEU", "token accuracy", "exact")


@dataclass(frozen=True, kw_only=True)
class LengthsSettings(Hardware, Rows, Page):
    """Settings of `maskwright inspect lengths`. Raises ConfigError unless there are one or two files."""

    COMMAND: ClassVar[str] = "inspect lengths"

    models: tuple[str, ...] = option(help="Folders of translation models.", is_argument=True)
    data: tuple[Path, ...] = option((), "Sentence pairs (.tsv, .csv, .jsonl), or twice for two line-aligned files.")
    groups: int = option(8, "Maximum number of length groups.", minimum=2)
    beam: int = option(1, BEAM)
    max_length: int | None = option(None, MAX_LENGTH)

    def __post_init__(self) -> None:
        check(len(self.data) in (1, 2), "Pass --data FILE with pairs, or --data twice: sources and translations.")


@takes_settings(LengthsSettings)
def lengths(settings: LengthsSettings, json: JsonFlag = False) -> None:
    """Score translation models by source length.

    Examples:

        maskwright inspect lengths runs/attention/model runs/plain/model --data dev.de --data dev.en -o lengths.html

        maskwright inspect lengths runs/t/model --data dev.tsv --groups 4 --json
    """
    check_page(settings.output)
    from ...api import open_translator
    from ...inspect.lengths import by_length
    from ...inspect.reports import lengths_headline as headline
    from ...inspect.reports import write_lengths
    from ...tasks.translation import Translation

    path = settings.data[0] if len(settings.data) == 1 else (settings.data[0], settings.data[1])
    table = Translation.read(path, columns=settings.columns, skip_bad_rows=settings.skip_bad_rows)
    found = []
    for place in settings.models:
        opened = open_translator(
            place, max_length=settings.max_length, device=settings.device, precision=settings.precision
        )
        own = by_length(
            opened.model,
            opened.task,
            table.rows,
            name=place,
            max_length=opened.max_length,
            groups=settings.groups,
            beams=settings.beam,
        )
        found.append(own)
    if settings.output is not None:
        write_lengths(settings.output, found)
    rows = [
        [one.name, f"{words:.1f}", f"{count:,}", "-" if one.bleu is None else f"{one.bleu[place]:.1f}",
         f"{one.token_accuracy[place]:.3f}", f"{one.exact[place]:.3f}"]
        for one in found
        for place, (words, count) in enumerate(zip(one.words, one.rows, strict=True))
    ]  # fmt: skip
    show_results(settings, [one.to_json() for one in found], COLUMNS, rows, headline(found), json=json)
