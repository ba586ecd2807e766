"""Settings of an export."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from ..core.config import check
from ..core.options import HARDWARE, option

Format = Literal["onnx", "openvino", "torch"]
Precision = Literal["fp32", "fp16", "int8"]
OLDEST_OPSET, NEWEST_OPSET = 18, 23  # layer normalization is one operator from 17 on; torch's exporter begins at 18


@dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """Settings of `maskwright export`. Raises ConfigError for values that do not go together."""

    COMMAND: ClassVar[str] = "export"

    model: str = option(help="Model folder, or a Hugging Face Hub model ID.", is_argument=True)
    output: Path = option(help="New folder of the exported model.", short="-o")
    to: Format = option("onnx", "Format of the graph.", old_flag="--format")
    precision: Precision = option("fp32", "Precision of the graph; int8 is calibrated on texts.", panel=HARDWARE)
    calibrate_on: Path | None = option(None, "File of calibration texts for --precision int8.", panel=HARDWARE)
    head: Literal["stored", "none"] = option("stored", "Export the model's head, or only its encoder.")
    max_length: int | None = option(
        None, "Maximum sequence length, recorded for the programs that run the graph.", default_help="as in training"
    )
    min_cosine: float = option(0.98, "With int8: lowest cosine similarity to the embeddings of the model.")
    opset: int = option(20, "Version of the ONNX operators.", minimum=1)
    replace: bool = option(False, "Replace an exported folder.")

    def __post_init__(self) -> None:
        check(
            (self.precision == "int8") == (self.calibrate_on is not None),
            "--precision int8 needs calibration texts: pass a file with --calibrate-on."
            if self.precision == "int8"
            else "--calibrate-on goes with --precision int8.",
        )
        check(
            self.to != "torch" or self.precision != "int8",
            "int8 is for --to onnx and --to openvino: a torch program has fp32 or fp16.",
        )
        check(
            OLDEST_OPSET <= self.opset <= NEWEST_OPSET,
            f"opset is {self.opset}; the graph needs {OLDEST_OPSET} to {NEWEST_OPSET}.",
        )
        check(0 < self.min_cosine <= 1, f"min_cosine is {self.min_cosine}; it must be above 0 and at most 1.")
