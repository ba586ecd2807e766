"""`maskwright generate`: continue prompts, or suggest continuations."""

from __future__ import annotations

import sys
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
    in_a_line,
    print_json,
    print_table,
    print_text,
    set_threads,
    with_default,
)
from .using import WindowOption, read_rows

if TYPE_CHECKING:
    from ..inference.generate import Continuation, Generation, TextGenerator
    from ..inference.mask_writer import MaskedLMGenerator

PromptsArgument = Annotated[list[str] | None, typer.Argument(help="Prompts to continue.")]
MAX_NEW_TOKENS, SUGGESTED_TOKENS = 50, 8
RESULTS, SUGGESTIONS = 1, 3


def generate(
    model: Annotated[
        str, typer.Argument(help="Causal (or masked) language model: a folder, or a Hugging Face Hub model ID.")
    ],
    prompts: PromptsArgument = None,
    prompt: Annotated[list[str] | None, typer.Option("--prompt", help="Prompt to continue. Repeatable.")] = None,
    input: Annotated[
        Path | None, typer.Option("--input", help="File of prompts: .txt, .csv, .tsv, .jsonl, .parquet, or -.")
    ] = None,
    suggest: Annotated[
        bool,
        typer.Option("--suggest", help="Print short continuations that start with the most probable next tokens."),
    ] = False,
    max_new_tokens: Annotated[
        int | None,
        typer.Option(
            help=with_default("Maximum tokens to generate.", f"{MAX_NEW_TOKENS}; {SUGGESTED_TOKENS} with --suggest"),
            show_default=False,
        ),
    ] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="Use greedy decoding: no sampling.")] = False,
    temperature: Annotated[
        float, typer.Option(help="Sampling temperature; below 1 sharpens the distribution, above 1 flattens it.")
    ] = 1.0,
    top_k: Annotated[
        int | None, typer.Option(help=with_default("Sample from the k most probable tokens.", "all tokens"))
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            help=with_default("Nucleus sampling: the smallest set of tokens with this total probability.", "all tokens")
        ),
    ] = None,
    repetition_penalty: Annotated[
        float, typer.Option(help="Repetition penalty; above 1 lowers the probability of earlier tokens.")
    ] = 1.0,
    beams: Annotated[int, typer.Option(help="Beam size; 1 disables beam search.")] = 1,
    length_penalty: Annotated[
        float, typer.Option(help="Length penalty of beam search; above 0 favors longer texts.")
    ] = 1.0,
    results: Annotated[
        int | None,
        typer.Option(
            "--results",
            "--suggestions",
            "-k",
            help=with_default("Number of continuations per prompt.", f"{RESULTS}; {SUGGESTIONS} with --suggest"),
            show_default=False,
        ),
    ] = None,
    stop: Annotated[list[str] | None, typer.Option("--stop", help="Stop before this string. Repeatable.")] = None,
    seed: SeedOption = None,
    max_length: WindowOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    threads: ThreadsOption = None,
    skip_bad_rows: SkipBadRowsFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Generate continuations of prompts with a language model.

    A single continuation is streamed. A masked language model (BERT) appends masks and fills them.

    Examples:

        maskwright generate runs/g/model "Once upon a time" --top-k 40 --max-new-tokens 50

        maskwright generate runs/g/model --prompt "The river" --greedy --stop "." --json

        maskwright generate runs/g/model "The old house" --beams 5 --results 3

        maskwright generate runs/g/model "Neurocomputing is" --suggest -k 5
    """
    texts = [*(prompts or []), *(prompt or [])]
    if bool(texts) == (input is not None):
        raise ConfigError("Pass either prompts or --input FILE.")
    from ..inference.generate import Generation
    from ..models.decoding.rules import Rules

    rules = Rules(greedy, temperature, top_k, top_p, repetition_penalty)
    if suggest and (rules != Rules() or beams != 1 or length_penalty != 1.0 or stop):
        raise ConfigError(
            "--suggest ranks continuations without sampling: remove --greedy, --temperature, --top-k, --top-p, "
            "--repetition-penalty, --beams, --length-penalty and --stop."
        )
    set_threads(threads)
    if input is not None:
        texts = [row.text for row in read_rows(input, skip_bad_rows=skip_bad_rows)]
    if suggest:
        from ..api import open_generator

        opened = open_generator(model, max_length=max_length, device=device, precision=precision)
        number = SUGGESTIONS if results is None else results
        length = SUGGESTED_TOKENS if max_new_tokens is None else max_new_tokens
        for text in texts:
            _show_suggestions(text, opened.complete(text, number, length), json)
        return
    settings = Generation(
        MAX_NEW_TOKENS if max_new_tokens is None else max_new_tokens,
        rules,
        RESULTS if results is None else results,
        beams,
        length_penalty,
        stop=tuple(stop or ()),
        seed=seed or 0,
    )
    from ..api import open_writer

    generator = open_writer(model, max_length=max_length, device=device, precision=precision)
    if len(texts) == 1 and settings.num_results == 1 and beams == 1 and not json:
        _stream(generator, texts[0], settings)
        return
    for found in generator.generate(texts, settings):
        if json:
            print_json({"prompt": found[0].prompt, "continuations": [one.to_json() for one in found]})
        else:
            _show(found)


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
    rows = [(number, f"{one.score:.2f}", in_a_line(f"{text}{one.text}")) for number, one in enumerate(found, start=1)]
    print_table(("", "log probability", "text"), rows, right=("log probability",))
