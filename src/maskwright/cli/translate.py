"""`maskwright translate`: texts in one language in, in another out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import ConfigError
from .common import (
    DebugFlag,
    DeviceOption,
    JsonFlag,
    PrecisionOption,
    QuietFlag,
    SeedOption,
    SkipBadRowsFlag,
    ThreadsOption,
    print_json,
    print_text,
    set_threads,
)
from .using import MaxLengthOption, warn_of_cuts

if TYPE_CHECKING:
    from ..inference.translate import TextTranslator, Translated
    from ..tasks.base import AnyRow

STDIN = Path("-")
JSONL = ".jsonl"
TABLES = (".csv", ".tsv", ".parquet", ".json")  # that --output does not write
DRAWN = 50  # texts whose alignments are drawn


def translate(
    model: Annotated[
        str,
        typer.Argument(help="Translation model: a fine-tuned, Marian or BART folder, or a Hugging Face Hub model ID."),
    ],
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to translate.  \\[default: standard input]")] = None,
    input: Annotated[
        Path | None, typer.Option("--input", help="A file of texts: .txt, .csv, .tsv, .jsonl, .parquet, or -.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="Output file: text, one translation per line, or .jsonl with scores."),
    ] = None,
    beam: Annotated[int, typer.Option("--beam", help="Beam size; 1 is greedy decoding.")] = 5,
    length_penalty: Annotated[float, typer.Option(help="Length penalty; above 0 favors longer translations.")] = 1.0,
    results: Annotated[int, typer.Option(help="Number of translations per text, with scores.")] = 1,
    max_new_tokens: Annotated[
        int | None,
        typer.Option(help="Maximum tokens of a translation.  \\[default: 50 more than its source]", show_default=False),
    ] = None,
    to: Annotated[str | None, typer.Option("--to", help="Target language of a multilingual model.")] = None,
    brackets: Annotated[
        str | None,
        typer.Option(
            "--brackets", help="Results are bracket strings; flag: well-formed ones first; enforce: nothing else."
        ),
    ] = None,
    alignments: Annotated[
        Path | None,
        typer.Option(help=f"Write cross-attention alignments to .svg, .png or .html, for at most {DRAWN} texts."),
    ] = None,
    max_length: MaxLengthOption = None,
    seed: SeedOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    threads: ThreadsOption = None,
    skip_bad_rows: SkipBadRowsFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Translate texts. --json and --results add scores.

    Examples:

        maskwright translate runs/t/model "Ein Hund läuft." --beam 5

        maskwright translate runs/t/model --beam 5 < in.txt > out.txt

        maskwright translate runs/t/model --input in.txt --results 3 --output out.jsonl

        maskwright translate runs/m/model "Ein Hund läuft." --to fr

        maskwright translate runs/t/model "Ein Hund läuft." --alignments dog.svg
    """
    if texts and input is not None:
        raise ConfigError("Pass either texts or --input FILE.")
    if output is not None and json:
        raise ConfigError("--json prints; --output FILE.jsonl writes the same into a file.")
    if output is not None:
        _check_output(output, results)
    if alignments is not None:
        from ..report.pictures import check_picture

        check_picture(alignments)
    from ..inference.translate import TranslationSettings

    settings = TranslationSettings(beam, results, length_penalty, max_new_tokens, to, brackets)
    set_threads(threads)
    from ..api import open_translator
    from ..tasks.rows.examples import rows_of
    from ..tasks.translation.alignments import check_attends
    from ..text.readers.row_stream import RowStream

    translator = open_translator(model, max_length=max_length, device=device, precision=precision)
    if alignments is not None:
        check_attends(translator.model)
    stream = None if texts else RowStream(input or STDIN, skip_bad_rows=skip_bad_rows)
    faulty = Faulty(translator.stream(rows_of(texts) if texts else stream or (), settings))
    drawn = Kept(faulty, 0 if alignments is None else DRAWN)
    found = iter(drawn)
    if output is not None:
        _write(found, output)
        print_text(f"translations: {output}")
    else:
        _print(found, json, results)
    if stream is not None and stream.num_skipped:
        from ..core.plural import plural
        from ..core.progress import warn

        warn(f"{plural(stream.num_skipped, 'bad row is', 'bad rows are')} left out.")
    warn_of_cuts(translator.counts)
    faulty.tell()
    if alignments is not None:
        pairs = [(translator.source_of(text, to), written) for text, written in drawn.pairs]
        _draw(alignments, pairs, drawn.more, translator, model)


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

    def tell(self) -> None:
        """Reports the number of invalid results."""
        if self.count:
            from ..core.plural import plural
            from ..core.progress import warn

            what = plural(self.count, "result is no well-formed tree", "results are no well-formed trees")
            warn(f"{what}; of the first, {self.first}.")


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
    from ..core.progress import note, warn
    from ..inference.alignments_page import write_alignments
    from ..tasks.translation.alignments import alignments

    if not pairs:
        warn(f"There is no text, so {path} is not drawn.")
        return
    maps = alignments(translator.model, translator.task, pairs, translator.max_length)
    write_alignments(path, maps, Path(model).name)
    note(f"alignments are drawn in {path}")
    if more:
        warn(f"The first {len(pairs)} texts are drawn, {more:,} more are not.")


def _check_output(output: Path, results: int) -> None:
    """Raise ConfigError for a table, which lines are not, and for several results on a line."""
    if output.suffix in TABLES:
        raise ConfigError(f"{output} would contain one translation per line, which is not a table: use .txt or .jsonl.")
    if results > 1 and output.suffix != JSONL:
        raise ConfigError(f"{output} takes one translation per line: use .jsonl for several with scores.")


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
