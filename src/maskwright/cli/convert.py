"""`maskwright convert`: a folder with pytorch_model.bin becomes one with safetensors, and nothing in it is executed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from .common import DebugFlag, JsonFlag, QuietFlag, print_json, print_text


def convert(
    model: Annotated[
        str,
        typer.Argument(help="A folder with pytorch_model.bin (or its shards), that file itself, or a name of the hub."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The new model folder.")],
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Make a folder with safetensors of one whose weights are a pickle (pytorch_model.bin).

    A pickle can run code when it is opened. It is read here in a process of its own, without network, files or time
    without end, by a reader that runs nothing of it; what is no plain table of weights is refused.

    Examples:

        maskwright convert old-bert/ -o bert/

        maskwright convert old-bert/pytorch_model.bin -o bert/ --json
    """
    from ..hub.convert import convert as run

    done = run(model, output)
    if json:
        print_json(asdict(done))
        return
    kinds = ", ".join(f"{count:,} {dtype}" for dtype, count in done.dtypes.items())
    print_text(f"{done.num_tensors:,} tensors ({kinds}), {done.num_bytes:,} bytes: {done.folder}")
    if done.tied:
        print_text(f"Stored once, as loading ties them: {', '.join(done.tied)}")
