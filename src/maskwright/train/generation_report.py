"""What a model that writes, left to right or for a source, writes for the first dev rows, beside what was wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..hub.folders import load_model
from ..models.device import DTYPES
from ..tasks.generation import Generation
from ..tasks.translation import Translation
from ..text.encoding import TextCounts
from .report import Block, WorstError, WorstErrors

if TYPE_CHECKING:
    from .finetune import Bench

SHOWN = 12


def written_blocks(task: Generation | Translation, bench: Bench) -> list[Block]:
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
        WorstError(
            row.text,
            str(row.label),
            answer.get("generated") or answer.get("translation", ""),
            loss=-answer["score"],
            line=row.line,
        )
        for row, answer in zip(rows, task.predict(model, examples), strict=True)
    ]
    how = "with beams" if isinstance(task, Translation) else "taking the most probable token each time"
    note = f"The first dev rows. Predicted is what the model writes, {how}; the loss is minus the log probability of it"
    note += ", divided by its length." if isinstance(task, Translation) else "."
    return [WorstErrors(errors, title="Written texts", note=note)]
