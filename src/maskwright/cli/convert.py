"""`maskwright convert`: pytorch_model.bin as safetensors, an adapter as a whole model, or weights in half the size."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from ..core.config import option
from .common import JsonFlag, print_json, print_text
from .settings import takes_settings


@dataclass(frozen=True, kw_only=True)
class ConvertSettings:
    """Settings of `maskwright convert`."""

    COMMAND: ClassVar[str] = "convert"

    model: str = option(
        help="Folder with pytorch_model.bin (or its shards), that file, a Hugging Face Hub model ID, or an adapter; "
        "with --weights any model folder.",
        is_argument=True,
    )
    output: Path = option(help="New model folder.", short="-o")
    weights: str | None = option(
        None,
        "Store the weights as fp16 or bf16 (half the size), int8 (a quarter; read only by Maskwright) or fp32; they "
        "load as float32.",
    )


@takes_settings(ConvertSettings)
def convert(settings: ConvertSettings, json: JsonFlag = False) -> None:
    """Convert pickled weights (pytorch_model.bin), or an adapter, to a whole safetensors model folder.

    A pickle can run code when it is opened. A restricted reader runs none of it, in a separate process without network
    or file access and with a time limit. It rejects anything that is not a plain table of weights.

    An adapter is merged with its base model.

    With --weights, write a copy of a model folder whose weights have that format.

    Examples:

        maskwright convert old-bert/ -o bert/

        maskwright convert old-bert/pytorch_model.bin -o bert/ --json

        maskwright convert runs/a/model -o small/ --weights fp16

        maskwright convert runs/adapter/model -o merged/
    """
    from ..hub.convert import convert as run
    from ..hub.convert import store_as

    model, output, weights = settings.model, settings.output, settings.weights
    done = run(model, output) if weights is None else store_as(model, output, weights)
    if json:
        print_json(asdict(done))
        return
    kinds = ", ".join(f"{count:,} {dtype}" for dtype, count in done.dtypes.items())
    print_text(f"{done.num_tensors:,} tensors ({kinds}), {done.num_bytes:,} bytes: {done.folder}")
    if done.tied:
        print_text(f"Stored once, as loading ties them: {', '.join(done.tied)}")
