"""`maskwright translate`: texts in one language in, in another out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ..core.config import option
from ..core.errors import ConfigError
from ..core.progress import note, warn
from ..core.util import plural
from ..train.settings import SEED, SKIP_BAD_ROWS
from .common import JsonFlag, print_json, print_text
from .settings import takes_settings
from .using import BEAM, INPUT, MAX_LENGTH, Hardware, warn_of_cuts, warn_of_skipped

if TYPE_CHECKING:
    from ..inference.translate import TextTranslator, Translated, TranslationSettings
    from ..tasks.base import AnyRow

STDIN = Path("-")
JSONL = ".jsonl"
TABLES = (".csv", ".tsv", ".parquet", ".json")  # that --output does not write
DRAWN = 50  # texts whose alignments are drawn


@dataclass(frozen=True, kw_only=True)
class TranslateSettings(Hardware):
    """Settings of `maskwright translate`. Raises ConfigError for options that exclude each other."""

    COMMAND: ClassVar[str] = "translate"

    model: str = option(
        help="Translation model: a fine-tuned, Marian or BART folder, or a Hugging Face Hub model ID.",
        is_argument=True,
    )
    texts: tuple[str, ...] = option((), "Texts to translate.", is_argument=True, default_help="standard input")
    input: Path | None = option(None, INPUT)
    output: Path | None = option(None, "Output file: text, one translation per line, or .jsonl with scores.")
    beam: int = option(5, BEAM, minimum=None)
    length_penalty: float = option(1.0, "Length penalty; above 0 favors longer translations.")
    results: int = option(1, "Number of translations per text, with scores.")
    max_new_tokens: int | None = option(
        None, "Maximum tokens of a translation.", default_help="50 more than its source"
    )
    to: str | None = option(None, "Target language of a multilingual model.")
    brackets: str | None = option(
        None,
        "For models that generate bracket strings: rank well-formed ones first (flag), or allow no others (enforce).",
    )
    alignments: Path | None = option(
        None, f"Write cross-attention alignments to .svg, .png or .html, for at most {DRAWN} texts."
    )
    max_length: int | None = option(None, MAX_LENGTH)
    seed: int = option(0, SEED)
    skip_bad_rows: bool = option(False, SKIP_BAD_ROWS)

    def __post_init__(self) -> None:
        if self.texts and self.input is not None:
            raise ConfigError("Pass either texts or --input FILE.")
        if self.output is not None and self.output.suffix in TABLES:
            raise ConfigError(
                f"{self.output} would contain one translation per line, which is not a table: use .txt or .jsonl."
            )
        if self.output is not None and self.results > 1 and self.output.suffix != JSONL:
            raise ConfigError(f"{self.output} takes one translation per line: use .jsonl for several with scores.")

    @property
    def decoding(self) -> TranslationSettings:
        """How translations are searched for. Raises ConfigError for values out of range."""
        from ..inference.translate import TranslationSettings

        return TranslationSettings(
            self.beam, self.results, self.length_penalty, self.max_new_tokens, self.to, self.brackets
        )


@takes_settings(TranslateSettings)
def translate(settings: TranslateSettings, json: JsonFlag = False) -> None:
    """Translate texts. --json and --results add scores.

    Examples:

        maskwright translate runs/t/model "Ein Hund läuft." --beam 5

        maskwright translate runs/t/model --beam 5 < in.txt > out.txt

        maskwright translate runs/t/model --input in.txt --results 3 --output out.jsonl

        maskwright translate runs/m/model "Ein Hund läuft." --to fr

        maskwright translate runs/t/model "Ein Hund läuft." --alignments dog.svg
    """
    output, alignments = settings.output, settings.alignments
    if output is not None and json:
        raise ConfigError("--json prints; --output FILE.jsonl writes the same into a file.")
    decoding, translator = settings.decoding, _open(settings)
    from ..tasks.examples import rows_of
    from ..text.readers.tables import RowStream

    stream = None if settings.texts else RowStream(settings.input or STDIN, skip_bad_rows=settings.skip_bad_rows)
    rows = rows_of(list(settings.texts)) if stream is None else stream
    faulty = Faulty(translator.stream(rows, decoding))
    drawn = Kept(faulty, 0 if alignments is None else DRAWN)
    found = iter(drawn)
    if output is not None:
        _write(found, output)
        print_text(f"translations: {output}")
    else:
        _print(found, json, settings.results)
    if stream is not None:
        warn_of_skipped(stream)
    warn_of_cuts(translator.counts)
    faulty.warn_of_faults()
    if alignments is not None:
        pairs = [(translator.source_of(text, settings.to), written) for text, written in drawn.pairs]
        _draw(alignments, pairs, drawn.more, translator, settings.model)


def _open(settings: TranslateSettings) -> TextTranslator:
    from ..report.pictures import check_picture

    if settings.alignments is not None:
        check_picture(settings.alignments)
    from ..api import open_translator
    from ..tasks.translation import check_attends

    translator = open_translator(
        settings.model, max_length=settings.max_length, device=settings.device, precision=settings.precision
    )
    if settings.alignments is not None:
        check_attends(translator.model)
    return translator


def _print(found: Iterator[tuple[AnyRow, list[Translated]]], json: bool, results: int) -> None:
    for row, own in found:
        if json:
            print_json(_as_json(row, own))
        elif results == 1:
            print_text(_line(own[0].text))
        else:
            print_text("\n".join(f"{one.score:8.3f}  {_line(one.text)}" for one in own))


class Faulty:
    """Passes results on, and counts the texts whose best one is a bracket string with a fault."""

    def __init__(self, found: Iterator[tuple[AnyRow, list[Translated]]]) -> None:
        self.found, self.count, self.first = found, 0, ""

    def __iter__(self) -> Iterator[tuple[AnyRow, list[Translated]]]:
        """The same results."""
        for row, own in self.found:
            if own[0].fault is not None:
                self.first = self.first or own[0].fault
                self.count += 1
            yield row, own

    def warn_of_faults(self) -> None:
        """Reports the number of invalid results."""
        if self.count:
            what = plural(self.count, "result is not a well-formed tree", "results are not well-formed trees")
            warn(f"{what}; the first: {self.first}.")


class Kept:
    """Passes results on, and keeps the first `most` sources with their best translations. more: results beyond them."""

    def __init__(self, found: Iterable[tuple[AnyRow, list[Translated]]], most: int) -> None:
        self.found, self.most, self.more = found, most, 0
        self.pairs: list[tuple[str, str]] = []

    def __iter__(self) -> Iterator[tuple[AnyRow, list[Translated]]]:
        """The same results."""
        for row, own in self.found:
            if len(self.pairs) < self.most:
                self.pairs.append((row.text, own[0].text))
            else:
                self.more += 1
            yield row, own


def _draw(path: Path, pairs: list[tuple[str, str]], more: int, translator: TextTranslator, model: str) -> None:
    """Draw sources with their translations; nothing where there is none. more: texts that are not drawn."""
    from ..inference.pages import write_alignments
    from ..tasks.translation import alignments

    if not pairs:
        warn(f"There is no text, so {path} is not drawn.")
        return
    maps = alignments(translator.model, translator.task, pairs, translator.max_length)
    write_alignments(path, maps, Path(model).name)
    note(f"alignments are drawn in {path}")
    if more:
        warn(f"The first {len(pairs)} texts are drawn, {more:,} more are not.")


def _write(found: Iterator[tuple[AnyRow, list[Translated]]], output: Path) -> None:
    """The file appears complete or not at all."""
    from json import dumps

    from ..core.storage import open_new

    is_jsonl = output.suffix == JSONL
    with open_new(output) as handle:
        for row, own in found:
            line = dumps(_as_json(row, own), ensure_ascii=False) if is_jsonl else _line(own[0].text)
            handle.write((line + "\n").encode())


def _line(text: str) -> str:
    """Returns a translation without line breaks, so that line n belongs to source n."""
    return re.sub(r"[\r\n]+", " ", text)


def _as_json(row: AnyRow, own: list[Translated]) -> dict[str, object]:
    each = [
        {"translation": one.text, "score": one.score, "ended": one.is_ended}
        | ({} if one.fault is None else {"fault": one.fault})
        for one in own
    ]
    return {"source": row.text, **each[0]} | ({} if len(own) == 1 else {"results": each})
