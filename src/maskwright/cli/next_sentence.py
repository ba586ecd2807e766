"""`maskwright next-sentence`: next-sentence prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ..core.config import check, option
from ..core.errors import ConfigError
from ..train.settings import COLUMNS
from .common import JsonFlag, print_json, print_table
from .settings import takes_settings
from .using import Hardware, read_rows, warn_of_cuts


@dataclass(frozen=True, kw_only=True)
class NextSentenceSettings(Hardware):
    """Settings of `maskwright next-sentence`. Raises ConfigError unless there is one source of pairs."""

    COMMAND: ClassVar[str] = "next-sentence"

    model: str = option(
        help="Model pre-trained with mlm+nsp: a folder, or a Hugging Face Hub model ID.", is_argument=True
    )
    first: str | None = option(None, "First sentence.", is_argument=True)
    second: tuple[str, ...] = option((), "Candidate next sentences.", is_argument=True)
    input: Path | None = option(None, "File of sentence pairs: .csv, .tsv, .jsonl or .parquet.")
    columns: dict[str, str] = option({}, COLUMNS)

    def __post_init__(self) -> None:
        is_one = (self.first is None) != (self.input is None) and (self.first is None) != bool(self.second)
        check(is_one, "Pass a sentence and at least one candidate, or --input FILE.")


@takes_settings(NextSentenceSettings)
def next_sentence(settings: NextSentenceSettings, json: JsonFlag = False) -> None:
    """Predict whether one sentence follows another.

    Examples:

        maskwright next-sentence runs/a/model "The man went to the store." "He bought a gallon of milk."

        maskwright next-sentence runs/a/model --input pairs.tsv --json
    """
    if settings.input is None:
        pairs = [(str(settings.first), candidate) for candidate in settings.second]
    else:
        pairs = _read(settings.input, settings.columns)
    from ..api import open_next_sentence

    judge = open_next_sentence(settings.model, device=settings.device, precision=settings.precision)
    found = [
        {"text": a, "text_pair": b, "label": "IsNext" if share >= 0.5 else "NotNext", "is_next": share}
        for (a, b), share in zip(pairs, judge.probabilities(pairs).tolist(), strict=True)
    ]
    warn_of_cuts(judge.counts)
    if json:
        for row in found:
            print_json(row)
        return
    rows = [(row["text"], row["text_pair"], row["label"], f"{row['is_next']:.4f}") for row in found]
    print_table(("first", "second", "label", "P(IsNext)"), rows, right=("P(IsNext)",))


def _read(path: Path, columns: Mapping[str, str]) -> list[tuple[str, str]]:
    rows = read_rows(path, columns)
    if any(row.text_pair is None for row in rows):
        raise ConfigError(f"{path} contains single texts; next-sentence needs two columns, text and text_pair.")
    return [(row.text, str(row.text_pair)) for row in rows]
