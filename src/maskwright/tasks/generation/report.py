"""Report blocks for text-to-text generation."""

from __future__ import annotations

from pathlib import Path

from ...report import Command
from ..rows.target_report import TargetReport
from .task import Generation


class GenerationReport(TargetReport[Generation]):
    """Blocks of a text-to-text model."""

    output = "generated"
    note = (
        "The first dev examples. Predicted is the model's output (greedy decoding); the loss is its negative log "
        "probability."
    )

    def next_steps(self, model: Path, test: str) -> list[Command]:
        """Returns commands that use the trained model."""
        return [
            Command(f"maskwright evaluate {model} {test}", "score it on unseen test rows"),
            Command(f'maskwright predict {model} "your text"', "generate text"),
            Command(f"maskwright predict {model} --input texts.txt --output written.jsonl", "use it on a file"),
        ]
