"""Report blocks for translation: translations of dev examples, cross-attention."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...models.model import Model
from ...report import Block, Command, Grid, Section
from ..rows.targets import TargetReport
from .alignments import Aligned, alignments, attends
from .task import Translation

DRAWN = 3  # examples with a cross-attention map
ALIGNMENT_NOTE = "Rows are target words, columns are source words; each row sums to 1, and dark is 1."


class TranslationReport(TargetReport[Translation]):
    """Blocks of a translation model."""

    output = "translation"
    note = (
        "The first dev examples. Predicted is the model's output (beam search); the loss is its negative log "
        "probability, divided by its length."
    )

    def more(self, model: Model, rows: Sequence[Any], answers: Sequence[dict[str, Any]]) -> list[Block]:
        """Returns the cross-attention of the first translations."""
        if not attends(model):
            return []
        pairs = [(row.text, answer["translation"]) for row, answer in zip(rows[:DRAWN], answers, strict=False)]
        maps = [alignment_map(one) for one in alignments(model, self.task, pairs, self.data.max_length)]
        return [Section("Cross-attention of the generated tokens", maps, ALIGNMENT_NOTE)]

    def next_steps(self, model: Path, test: str) -> list[Command]:
        """Returns commands that use the trained model."""
        return [
            Command.suggest("score it on unseen test pairs", "evaluate", model=model, file=test),
            self.use(model, "translate a text"),
            Command.suggest("use it on a file", "translate", model=model, input="texts.txt", output="translations.txt"),
        ]


def alignment_map(one: Aligned, title: str = "", note: str = "") -> Grid:
    """Returns the alignment heatmap of a translation, with the mean largest weight as its caption."""
    strongest = one.weights.max(axis=1).mean()
    caption = f"A target word gives {strongest:.0%} of its attention to one source word, on average."
    return Grid(one.target, one.source, one.weights.tolist(), caption, None, title, note)
