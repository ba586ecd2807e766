"""Settings of an export."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from ..core import registry
from ..core.config import check, option
from ..core.errors import ConfigError

if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[tuple(registry.names("export_format"))]
INT8 = "int8"
OLDEST_OPSET, NEWEST_OPSET = 18, 23  # layer normalization is one operator from 17 on; torch's exporter begins at 18


@dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """Settings of `maskwright export`. Raises ConfigError for values that do not go together."""

    COMMAND: ClassVar[str] = "export"

    model: str = option(help="Model folder, or a Hugging Face Hub model ID.", is_argument=True)
    output: Path = option(help="New folder of the exported model.", short="-o")
    to: FormatName = option("onnx", "Format of the graph.", old_flag="--format")
    head: Literal["stored", "none"] = option("stored", "Export the model's head, or only its encoder.")
    max_length: int | None = option(
        None, "Maximum sequence length, recorded for the programs that run the graph.", default_help="as in training"
    )
    precision: Literal["fp32", "fp16", "bf16", "int8"] = option(
        "fp32",
        "Precision of the graph: fp32, fp16 (weights of half the size), bf16 (OpenVINO computes in it) or int8, which "
        "needs --calibrate-on.",
    )
    calibrate_on: Path | None = option(
        None, "File of typical texts, on which int8 is calibrated and compared with the model."
    )
    min_cosine: float = option(
        0.98, "Minimum cosine similarity of the sentence embeddings of an int8 graph with those of the model."
    )
    opset: int = option(20, "Version of the ONNX operators.", minimum=1)
    replace: bool = option(False, "Replace an exported folder.")

    def __post_init__(self) -> None:
        check(
            OLDEST_OPSET <= self.opset <= NEWEST_OPSET,
            f"opset is {self.opset}; the graph needs {OLDEST_OPSET} to {NEWEST_OPSET}.",
        )
        check(0 < self.min_cosine <= 1, f"min_cosine is {self.min_cosine:g}; it must be above 0 and at most 1.")
        if self.precision == INT8 and self.calibrate_on is None:
            raise ConfigError("--precision int8 needs typical texts: pass a file with --calibrate-on.")
        if self.precision != INT8 and self.calibrate_on is not None:
            raise ConfigError("--calibrate-on goes with --precision int8.")
