"""Report blocks for sentence embeddings: the pairs with the largest errors."""

from __future__ import annotations

from pathlib import Path

from ...report import Block, Command, WorstError, WorstErrors
from ..base import Evaluation
from ..report import WORST, TaskReport
from ..rows.examples import Examples
from ..rows.long_examples import LongExamples
from .task import PairExamples, Similarity


class SimilarityReport(TaskReport[Similarity]):
    """Blocks of a sentence encoder."""

    def windows(self, examples: Examples) -> LongExamples | None:
        """Returns the windows of both texts of the pairs."""
        return super().windows(examples.texts if isinstance(examples, PairExamples) else examples)

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        """Returns the pairs whose cosine similarities are farthest from their gold scores."""
        dev = self.data.dev
        if dev.targets is None:
            return []
        losses, cosines = self.task.losses(evaluation.logits, dev), self.task.cosines(evaluation.logits)
        errors = [
            WorstError(
                dev.rows[i].text, str(dev.rows[i].label or "together"), f"{cosines[i]:.3f}", loss=float(losses[i]),
                text_pair=dev.rows[i].text_pair, line=dev.rows[i].line,
            )
            for i in losses.argsort(descending=True)[:WORST].tolist()
        ]  # fmt: skip
        note = "Predicted is the cosine similarity; it is compared with the gold score scaled to 0 to 1."
        return [WorstErrors(errors, title="Pairs with the largest error", note=note)]

    def next_steps(self, model: Path, test: str) -> list[Command]:
        """Returns commands that use the trained model."""
        return [
            Command.suggest("score it on unseen test pairs", "evaluate", model=model, file=test),
            Command.suggest(
                "semantic search in a folder of texts", "search", model=model, folder="texts/", queries="your question"
            ),
            Command.suggest(
                "save sentence embeddings", "embed", model=model, input="texts.txt", output="embeddings.npy"
            ),
        ]
