"""What a model that writes, left to right or for a source, writes for the first dev rows, beside what was wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..hub.folders import load_model
from ..models.device import DTYPES
from ..tasks.alignments import alignments, attends
from ..tasks.generation import Generation
from ..tasks.translation import Translation
from ..text.encoding import TextCounts
from .alignments_page import NOTE, map_of
from .report import Block, Section, WorstError, WorstErrors

if TYPE_CHECKING:
    from .finetune import Bench

SHOWN, DRAWN = 12, 3  # rows with their texts, and with a map of what looked at what


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
    answers = task.predict(model, examples)
    errors = [
        WorstError(
            row.text,
            str(row.label),
            answer.get("generated") or answer.get("translation", ""),
            loss=-answer["score"],
            line=row.line,
        )
        for row, answer in zip(rows, answers, strict=True)
    ]
    how = "with beams" if isinstance(task, Translation) else "taking the most probable token each time"
    note = f"The first dev rows. Predicted is what the model writes, {how}; the loss is minus the log probability of it"
    note += ", divided by its length." if isinstance(task, Translation) else "."
    written: Block = WorstErrors(errors, title="Written texts", note=note)
    if not isinstance(task, Translation) or not attends(model):
        return [written]
    pairs = [(row.text, answer["translation"]) for row, answer in zip(rows[:DRAWN], answers, strict=False)]
    maps = [map_of(one) for one in alignments(model, task, pairs, bench.config.max_length)]
    return [written, Section("What the written words looked at", maps, NOTE)]
