"""What a fine-tuned left-to-right model writes for the first dev rows, beside what was wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..hub.folders import load_model
from ..models.device import DTYPES
from ..tasks.generation import Generation
from ..text.encoding import TextCounts
from .report import Block, WorstError, WorstErrors

if TYPE_CHECKING:
    from .finetune import Bench

SHOWN = 12


def written_blocks(task: Generation, bench: Bench) -> list[Block]:
    """The first dev rows with the text that the run's model writes for them; none where it is not saved alone."""
    folder = bench.config.output / "model"
    if not folder.is_dir():
        return []
    model, _ = load_model(folder)
    model.to(bench.device)
    model.compute_dtype = DTYPES[bench.config.precision]
    rows = bench.dev.rows[:SHOWN]
    examples = task.unlabelled(rows, bench.tokenizer, bench.config.max_length, counts=TextCounts())
    errors = [
        WorstError(row.text, str(row.label), answer["generated"], loss=-answer["score"], line=row.line)
        for row, answer in zip(rows, task.predict(model, examples), strict=True)
    ]
    note = "The first dev rows. Predicted is what the model writes, taking the most probable token each time; the loss "
    return [WorstErrors(errors, title="Written texts", note=note + "is minus the log probability of what it wrote.")]
