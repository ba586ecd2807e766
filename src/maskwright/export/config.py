"""Settings of an export."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from ..core import registry
from ..core.config import check
from ..core.options import option

if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[tuple(registry.names("export_format"))]
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
    opset: int = option(20, "Version of the ONNX operators.", minimum=1)
    replace: bool = option(False, "Replace an exported folder.")

    def __post_init__(self) -> None:
        check(
            OLDEST_OPSET <= self.opset <= NEWEST_OPSET,
            f"opset is {self.opset}; the graph needs {OLDEST_OPSET} to {NEWEST_OPSET}.",
        )
