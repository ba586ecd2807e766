"""Generated texts or translations of the first dev examples, compared with their references."""

from __future__ import annotations

from ...hub.folders import load_model
from ...inference.alignments_page import NOTE, map_of
from ...models.device import DTYPES
from ...report import Block, Section, WorstError, WorstErrors
from ...tasks.generation.task import Generation
from ...tasks.translation.alignments import alignments, attends
from ...tasks.translation.task import Translation
from ...text.tokenizers.encoding import TextCounts
from .run_data import RunData

SHOWN, DRAWN = 12, 3  # number of examples with their texts, and with a cross-attention map


def written_blocks(task: Generation | Translation, data: RunData) -> list[Block]:
    """The first dev examples with the model's output; no block for a run without one saved model."""
    folder = data.config.output / "model"
    if not folder.is_dir():
        return []
    model, _ = load_model(folder)
    model.to(data.device)
    model.compute_dtype = DTYPES[data.config.precision]
    rows = data.dev.rows[:SHOWN]
    examples = task.unlabeled(rows, data.tokenizer, data.config.max_length, counts=TextCounts())
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
    how = "beam search" if isinstance(task, Translation) else "greedy decoding"
    note = f"The first dev examples. Predicted is the model's output ({how}); the loss is its negative log probability"
    note += ", divided by its length." if isinstance(task, Translation) else "."
    written: Block = WorstErrors(errors, title="Generated texts", note=note)
    if not isinstance(task, Translation) or not attends(model):
        return [written]
    pairs = [(row.text, answer["translation"]) for row, answer in zip(rows[:DRAWN], answers, strict=False)]
    maps = [map_of(one) for one in alignments(model, task, pairs, data.config.max_length)]
    return [written, Section("Cross-attention of the generated tokens", maps, NOTE)]
