"""Report blocks for text-to-text generation."""

from __future__ import annotations

from pathlib import Path

from ...report import Command
from ..rows.targets import TargetReport
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
        evaluate, _, use_on_file = super().next_steps(model, test)
        return [evaluate, self.use(model, "generate text"), use_on_file]
