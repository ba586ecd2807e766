"""`maskwright generate`: continue prompts, or suggest continuations."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ..core.config import check, option
from ..core.util import on_one_line
from ..train.settings import SEED, SKIP_BAD_ROWS
from .common import JsonFlag, print_json, print_table, print_text
from .settings import takes_settings
from .using import MAX_LENGTH, Hardware, check_one_source, read_rows

if TYPE_CHECKING:
    from ..inference.generate import Continuation, Generation, MaskedLMGenerator, TextGenerator
    from ..models.decoding.rules import Rules

MAX_NEW_TOKENS, SUGGESTED_TOKENS = 50, 8
RESULTS, SUGGESTIONS = 1, 3


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
        None,
        "Maximum tokens to generate.",
        default_help=f"{MAX_NEW_TOKENS}; {SUGGESTED_TOKENS} with --suggest",
    )
    greedy: bool = option(False, "Decode greedily, without sampling.")
    temperature: float = option(1.0, "Sampling temperature; below 1 sharpens the distribution, above 1 flattens it.")
    top_k: int | None = option(None, "Sample from the k most probable tokens.", default_help="all tokens")
    top_p: float | None = option(
        None,
        "Nucleus sampling: the smallest set of tokens with this total probability.",
        default_help="all tokens",
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
def generate(settings: GenerateSettings, json: JsonFlag = False) -> None:
    """Generate continuations of prompts with a language model.

    A single continuation is streamed. A masked language model (BERT) appends masks and fills them.

    Examples:

        maskwright generate runs/g/model "Once upon a time" --top-k 40 --max-new-tokens 50

        maskwright generate runs/g/model --prompt "The river" --greedy --stop "." --json

        maskwright generate runs/g/model "The old house" --beams 5 --results 3

        maskwright generate runs/g/model "Neurocomputing is" --suggest -k 5
    """
    if settings.suggest:
        _suggest(settings, json)
        return
    generation = settings.generation
    texts = _prompts(settings)
    from ..api import open_writer

    generator = open_writer(
        settings.model, max_length=settings.max_length, device=settings.device, precision=settings.precision
    )
    if len(texts) == 1 and generation.num_results == 1 and settings.beams == 1 and not json:
        _stream(generator, texts[0], generation)
        return
    for found in generator.generate(texts, generation):
        if json:
            print_json({"prompt": found[0].prompt, "continuations": [one.to_json() for one in found]})
        else:
            _show(found)


def _prompts(settings: GenerateSettings) -> list[str]:
    if settings.input is None:
        return [*settings.prompts, *settings.prompt]
    return [row.text for row in read_rows(settings.input, skip_bad_rows=settings.skip_bad_rows)]


def _suggest(settings: GenerateSettings, json: bool) -> None:
    """Short continuations that start with the most probable next tokens."""
    from ..models.decoding.rules import Rules

    is_sampled = settings.rules != Rules() or settings.beams != 1 or settings.length_penalty != 1.0 or settings.stop
    check(
        not is_sampled,
        "--suggest ranks continuations without sampling: remove --greedy, --temperature, --top-k, --top-p, "
        "--repetition-penalty, --beams, --length-penalty and --stop.",
    )
    texts = _prompts(settings)
    from ..api import open_generator

    opened = open_generator(
        settings.model, max_length=settings.max_length, device=settings.device, precision=settings.precision
    )
    number = SUGGESTIONS if settings.results is None else settings.results
    length = SUGGESTED_TOKENS if settings.max_new_tokens is None else settings.max_new_tokens
    for text in texts:
        _show_suggestions(text, opened.complete(text, number, length), json)


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


def _show(found: list[Continuation]) -> None:
    for one in found:
        print_text(f"{one.prompt}{one.text}")
    print_text("")


def _show_suggestions(text: str, found: list[Continuation], json: bool) -> None:
    if json:
        print_json({"text": text, "suggestions": [one.to_json() for one in found]})
        return
    rows = [(number, f"{one.score:.2f}", on_one_line(f"{text}{one.text}")) for number, one in enumerate(found, start=1)]
    print_table(("", "log probability", "text"), rows, right=("log probability",))
