"""`maskwright generate`: text that goes on, shown while it grows."""

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
    print_json,
    print_text,
    set_threads,
)
from .using import WindowOption, read_rows

if TYPE_CHECKING:
    from ..inference.generate import Continuation, Generation, TextGenerator
    from ..inference.mask_writer import MaskWriter

PromptsArgument = Annotated[list[str] | None, typer.Argument(help="Texts to go on with.")]


def generate(
    model: Annotated[
        str, typer.Argument(help="A language model, left-to-right at best: a folder, or a name of the hub.")
    ],
    prompts: PromptsArgument = None,
    prompt: Annotated[list[str] | None, typer.Option("--prompt", help="The same as an option. Repeatable.")] = None,
    input: Annotated[
        Path | None, typer.Option("--input", help="A file of prompts: .txt, .csv, .tsv, .jsonl, .parquet, or -.")
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(help="How long a continuation may be.")] = 50,
    greedy: Annotated[bool, typer.Option("--greedy", help="Take the most probable token each time.")] = False,
    temperature: Annotated[float, typer.Option(help="Below 1 surer, above 1 more varied.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Draw among the k most probable tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw among the most probable that have this share.")] = None,
    repetition_penalty: Annotated[float, typer.Option(help="Above 1: less of what was said before.")] = 1.0,
    beams: Annotated[int, typer.Option(help="Follow so many continuations and take the best.")] = 1,
    length_penalty: Annotated[float, typer.Option(help="With beams: above 0 prefers long texts.")] = 1.0,
    results: Annotated[int, typer.Option(help="Continuations of each prompt.")] = 1,
    stop: Annotated[list[str] | None, typer.Option("--stop", help="End before this string. Repeatable.")] = None,
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
    """Go on with texts, by a left-to-right language model. The text is shown while it grows.

    A masked language model (BERT) fills masks behind the text instead, to see the difference.

    Examples:

        maskwright generate runs/g/model "Once upon a time" --top-k 40 --max-new-tokens 50

        maskwright generate runs/g/model --prompt "The river" --greedy --stop "." --json

        maskwright generate runs/g/model "The old house" --beams 5 --results 3
    """
    texts = [*(prompts or []), *(prompt or [])]
    if bool(texts) == (input is not None):
        raise ConfigError("Give either prompts or --input FILE.")
    from ..inference.generate import Generation
    from ..models.decoding.rules import Rules

    settings = Generation(
        max_new_tokens,
        Rules(greedy, temperature, top_k, top_p, repetition_penalty),
        results,
        beams,
        length_penalty,
        stop=tuple(stop or ()),
        seed=seed or 0,
    )
    set_threads(threads)
    from ..api import open_writer

    if input is not None:
        texts = [row.text for row in read_rows(input, skip_bad_rows=skip_bad_rows)]
    generator = open_writer(model, max_length=max_length, device=device, precision=precision)
    if len(texts) == 1 and results == 1 and beams == 1 and not json:
        _stream(generator, texts[0], settings)
        return
    for found in generator.generate(texts, settings):
        print_json({"prompt": found[0].prompt, "continuations": [one.to_json() for one in found]}) if json else _show(
            found
        )


def _stream(generator: TextGenerator | MaskWriter, text: str, settings: Generation) -> None:
    """Write the prompt and every part of what follows as soon as it is certain; of a refused wish, nothing."""
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
        if not unwritten:  # what was shown ends its line, also where it was interrupted
            write("\n")
        raise


def _show(found: list[Continuation]) -> None:
    for one in found:
        print_text(f"{one.prompt}{one.text}")
    print_text("")
