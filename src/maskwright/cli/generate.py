"""`maskwright generate` and `translate`: continuations of prompts, and texts in another language."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..core.config import check, option
from ..core.errors import ConfigError
from ..core.progress import note, warn
from ..core.util import on_one_line, plural
from ..train.settings import SEED, SKIP_BAD_ROWS
from .common import JsonFlag, Part, Result, Table, print_json, print_parts, print_text
from .settings import takes_settings
from .using import BEAM, INPUT, MAX_LENGTH, Hardware, check_one_source, read_rows, warn_of_cuts, warn_of_skipped

if TYPE_CHECKING:
    from ..inference.generate import Generation, MaskedLMGenerator, TextGenerator
    from ..inference.translate import TextTranslator, Translated, TranslationSettings
    from ..models.decoding.rules import Rules
    from ..tasks.base import AnyRow

MAX_NEW_TOKENS, SUGGESTED_TOKENS = 50, 8
RESULTS, SUGGESTIONS = 1, 3
STDIN = Path("-")
JSONL = ".jsonl"
TABLES = (".csv", ".tsv", ".parquet", ".json")  # that --output does not write
DRAWN = 50  # texts whose alignments are drawn


@dataclass(frozen=True, kw_only=True)
class GenerateSettings(Hardware):
    """Settings of `maskwright generate`. Raises ConfigError unless there is one source of prompts."""

    COMMAND: ClassVar[str] = "generate"

    model: str = option(
        help="Causal (or masked) language model: a folder, or a Hugging Face Hub model ID.", is_argument=True
    )
    prompts: tuple[str, ...] = option((), "Prompts to continue.", is_argument=True)
    prompt: tuple[str, ...] = option((), "Prompt to continue. Repeatable.")
    input: Path | None = option(None, "File of prompts: .txt, .csv, .tsv, .jsonl, .parquet, or -.")
    suggest: bool = option(False, "Print short continuations that start with the most probable next tokens.")
    max_new_tokens: int | None = option(
        None, "Maximum tokens to generate.", default_help=f"{MAX_NEW_TOKENS}; {SUGGESTED_TOKENS} with --suggest"
    )
    greedy: bool = option(False, "Decode greedily, without sampling.")
    temperature: float = option(1.0, "Sampling temperature; below 1 sharpens the distribution, above 1 flattens it.")
    top_k: int | None = option(None, "Sample from the k most probable tokens.", default_help="all tokens")
    top_p: float | None = option(
        None, "Nucleus sampling: the smallest set of tokens with this total probability.", default_help="all tokens"
    )
    repetition_penalty: float = option(1.0, "Repetition penalty; above 1 lowers the probability of earlier tokens.")
    beams: int = option(1, "Beam size; 1 disables beam search.")
    length_penalty: float = option(1.0, "Length penalty of beam search; above 0 favors longer texts.")
    results: int | None = option(
        None,
        "Number of continuations per prompt.",
        default_help=f"{RESULTS}; {SUGGESTIONS} with --suggest",
        short="-k",
        old_flag="--suggestions",
    )
    stop: tuple[str, ...] = option((), "Stop before this string. Repeatable.")
    seed: int = option(0, SEED)
    max_length: int | None = option(None, MAX_LENGTH, help="Context length in tokens.", default_help="as in training")
    skip_bad_rows: bool = option(False, SKIP_BAD_ROWS)

    def __post_init__(self) -> None:
        check_one_source((*self.prompts, *self.prompt), self.input, "prompts")

    @property
    def rules(self) -> Rules:
        """How the next token is chosen. Raises ConfigError for values out of range."""
        from ..models.decoding.rules import Rules

        return Rules(self.greedy, self.temperature, self.top_k, self.top_p, self.repetition_penalty)

    @property
    def generation(self) -> Generation:
        """How continuations are generated. Raises ConfigError for values out of range."""
        from ..inference.generate import Generation

        return Generation(
            MAX_NEW_TOKENS if self.max_new_tokens is None else self.max_new_tokens,
            self.rules,
            RESULTS if self.results is None else self.results,
            self.beams,
            self.length_penalty,
            stop=self.stop,
            seed=self.seed,
        )


@takes_settings(GenerateSettings)
def generate(settings: GenerateSettings, json: JsonFlag = False) -> Iterator[Result]:
    """Generate continuations of prompts with a language model.

    A single continuation is streamed. A masked language model (BERT) appends masks and fills them.

    Examples:

        maskwright generate runs/g/model "Once upon a time" --top-k 40 --max-new-tokens 50

        maskwright generate runs/g/model --prompt "The river" --greedy --stop "." --json

        maskwright generate runs/g/model "The old house" --beams 5 --results 3

        maskwright generate runs/g/model "Neurocomputing is" --suggest -k 5
    """
    hardware: Any = {"max_length": settings.max_length, "device": settings.device, "precision": settings.precision}
    if settings.suggest:
        yield from _suggestions(settings, hardware)
        return
    generation, texts = settings.generation, _prompts(settings)
    from ..api import open_writer

    generator = open_writer(settings.model, **hardware)
    if len(texts) == 1 and generation.num_results == 1 and settings.beams == 1 and not json:
        _stream(generator, texts[0], generation)
        return
    for found in generator.generate(texts, generation):
        yield (
            {"prompt": found[0].prompt, "continuations": [one.to_json() for one in found]},
            (*(f"{one.prompt}{one.text}" for one in found), ""),
        )


def _prompts(settings: GenerateSettings) -> list[str]:
    if settings.input is None:
        return [*settings.prompts, *settings.prompt]
    return [row.text for row in read_rows(settings.input, skip_bad_rows=settings.skip_bad_rows)]


def _suggestions(settings: GenerateSettings, hardware: dict[str, Any]) -> Iterator[Result]:
    """Short continuations that start with the most probable next tokens."""
    from ..api import open_generator
    from ..models.decoding.rules import Rules

    is_sampled = settings.rules != Rules() or settings.beams != 1 or settings.length_penalty != 1.0 or settings.stop
    check(
        not is_sampled,
        "--suggest ranks continuations without sampling: remove --greedy, --temperature, --top-k, --top-p, "
        "--repetition-penalty, --beams, --length-penalty and --stop.",
    )
    texts, opened = _prompts(settings), open_generator(settings.model, **hardware)
    number = SUGGESTIONS if settings.results is None else settings.results
    length = SUGGESTED_TOKENS if settings.max_new_tokens is None else settings.max_new_tokens
    for text in texts:
        found = opened.complete(text, number, length)
        rows = [(place, f"{one.score:.2f}", on_one_line(f"{text}{one.text}")) for place, one in enumerate(found, 1)]
        table = Table(("", "log probability", "text"), rows, right=("log probability",))
        yield {"text": text, "suggestions": [one.to_json() for one in found]}, (table,)


def _stream(generator: TextGenerator | MaskedLMGenerator, text: str, settings: Generation) -> None:
    """Write the prompt and every part of what follows as soon as it is final; nothing if the settings are invalid."""
    unwritten = [text]

    def write(part: str) -> None:
        encoding = sys.stdout.encoding or "utf-8"
        shown = "".join((*unwritten, part))
        unwritten.clear()
        sys.stdout.write(shown.encode(encoding, errors="replace").decode(encoding))
        sys.stdout.flush()

    try:
        generator.generate([text], settings, on_text=write)
        write("\n")
    except BaseException:
        if not unwritten:  # end the line, also after an interruption
            write("\n")
        raise


@dataclass(frozen=True, kw_only=True)
class TranslateSettings(Hardware):
    """Settings of `maskwright translate`. Raises ConfigError for options that exclude each other."""

    COMMAND: ClassVar[str] = "translate"

    model: str = option(
        help="Translation model: a fine-tuned, Marian or BART folder, or a Hugging Face Hub model ID.", is_argument=True
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
    check(output is None or not json, "--json prints; --output FILE.jsonl writes the same into a file.")
    decoding, translator = settings.decoding, _open(settings)
    from ..tasks.examples import rows_of
    from ..text.readers.tables import RowStream

    stream = None if settings.texts else RowStream(settings.input or STDIN, skip_bad_rows=settings.skip_bad_rows)
    rows = rows_of(list(settings.texts)) if stream is None else stream
    faults: list[str] = []
    drawn: list[tuple[str, str]] = []
    num_texts = 0

    def followed() -> Iterator[tuple[AnyRow, list[Translated]]]:
        nonlocal num_texts
        for num_texts, (row, own) in enumerate(translator.stream(rows, decoding), 1):  # noqa: B007 (read below)
            if own[0].fault is not None:
                faults.append(own[0].fault)
            if alignments is not None and len(drawn) < DRAWN:
                drawn.append((row.text, own[0].text))
            yield row, own

    if output is not None:
        _write(followed(), output)
        print_text(f"translations: {output}")
    else:
        for row, own in followed():
            print_json(_as_json(row, own)) if json else print_parts(_translations(own, settings.results))
    if stream is not None:
        warn_of_skipped(stream)
    warn_of_cuts(translator.counts)
    if faults:
        what = plural(len(faults), "result is not a well-formed tree", "results are not well-formed trees")
        warn(f"{what}; the first: {faults[0]}.")
    if alignments is not None:
        pairs = [(translator.source_of(text, settings.to), written) for text, written in drawn]
        _draw(alignments, pairs, num_texts - len(pairs), translator, settings.model)


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


def _translations(own: list[Translated], results: int) -> Iterator[Part]:
    for one in own:
        yield _line(one.text) if results == 1 else f"{one.score:8.3f}  {_line(one.text)}"


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
