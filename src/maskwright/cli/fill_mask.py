"""`maskwright fill-mask`: the most probable tokens for each mask."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ..core.config import check, option
from .common import JsonFlag, print_json, print_table, print_text
from .pages import with_default_model
from .settings import takes_settings
from .using import INPUT, Hardware, check_one_source, read_rows

if TYPE_CHECKING:
    from ..inference.fill_mask import FilledText


@dataclass(frozen=True, kw_only=True)
class FillMaskSettings(Hardware):
    """Settings of `maskwright fill-mask`. Raises ConfigError unless there is one source of texts."""

    COMMAND: ClassVar[str] = "fill-mask"

    model: str = option(help="Masked language model: a folder, or a Hugging Face Hub model ID.", is_argument=True)
    texts: tuple[str, ...] = option((), "Texts with at least one [MASK].", is_argument=True)
    input: Path | None = option(None, INPUT)
    top_k: int = option(5, "Number of candidates per mask.", minimum=1)
    whole: bool = option(False, "Show all tokens of the vocabulary.", flag="--all")
    word: tuple[str, ...] = option((), "Score only this word, with its rank. Repeatable.", default_help="all words")
    words: str | None = option(None, "Score only these words.", metavar="WORD,…", default_help="all words")

    def __post_init__(self) -> None:
        check_one_source(self.texts, self.input)
        check(self.words is None or bool(self.wanted), "--words is empty: pass words, as in --words gallon,liter.")

    @property
    def wanted(self) -> list[str]:
        """The words to score, empty for all."""
        return [*self.word, *(part.strip() for part in (self.words or "").split(",") if part.strip())]


@with_default_model
@takes_settings(FillMaskSettings)
def fill_mask(settings: FillMaskSettings, json: JsonFlag = False) -> None:
    """Predict masked tokens.

    Examples:

        maskwright fill-mask runs/a/model "the man went to the [MASK] ." --top-k 5

        maskwright fill-mask runs/a/model "[MASK] is the capital of [MASK] ." --json

        maskwright fill-mask runs/a/model "he bought a [MASK] of milk ." --words gallon,liter
    """
    from ..api import open_mask_filler

    texts = list(settings.texts) if settings.input is None else [row.text for row in read_rows(settings.input)]
    filler = open_mask_filler(settings.model, device=settings.device, precision=settings.precision)
    top_k = None if settings.whole or settings.wanted else settings.top_k
    for found in filler.fill(texts, top_k, settings.wanted or None):
        print_json(found.to_json()) if json else _show(found)


def _show(found: FilledText) -> None:
    for number, mask in enumerate(found.masks, start=1):
        title = found.text if len(found.masks) == 1 else f"{found.text}   (mask {number} of {len(found.masks)})"
        rows = [(entry.rank, entry.token_str, f"{entry.score:.4f}", entry.sequence) for entry in mask.candidates]
        print_table(("rank", "token", "probability", "text"), rows, title=title, right=("rank", "probability"))
    if len(found.masks) > 1:
        print_text(f"filled: {found.filled}\n")
