"""Sentence embeddings whose cosine similarity measures semantic similarity. No head: the pooled encoder output.

Reimers and Gurevych 2019 (Sentence-BERT, section 3): both texts of a pair are encoded separately by the same encoder.
The kind of rows determines the loss; see `objectives.contrastive`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ...core.errors import InputError, ModelFolderError, RowError, RowErrors
from ...core.plural import plural
from ...data.batch import Batch
from ...models.pooling import join_windows
from ...objectives.contrastive import cosine_loss, in_batch_logits, in_batch_loss
from ...objectives.outcome import LossSums
from ...text.formats.cells import number_error
from ...text.readers.tables import Row, Table
from ...text.tokenizers.encoding import TextCounts
from ..base import Evaluation, Task
from ..data import Baseline, TaskData
from ..evaluation import metrics as scores
from ..evaluation.unscored import Unscored
from ..regression.task import stored_range
from ..rows.examples import Examples
from ..rows.forward import Forward, stacked
from ..rows.long_examples import window_notes
from ..rows.long_texts import LongTexts
from ..rows.settings import as_range
from .pooled import PooledVectors, pooling_of, unit
from .retrieval import finds_its_pair, retrieval_accuracy
from .rows import KINDS, PairExamples, kind_of, read_similar, target_of, tokenize_pairs

if TYPE_CHECKING:
    from ...models.model import Model
    from ...text.tokenizers.tokenizer import Tokenizer

DEV_ROWS = 32  # pairs per in-batch loss on dev, the usual training batch size
DIGITS = 6  # cosine similarities are rounded to this many digits before ranking


class Similarity(Task):
    """Cosine similarity of pairs compared with gold scores. Its logits are unit embeddings: float32 [rows, 2, size].

    Pooling is that of the model (`model.sentence`), mean by default; it also pools the windows of a text.

    Args:
        trained_on: kind of the training rows: "scores", "pairs" or "texts".
        main_metric: "spearman" or "accuracy".
        scale: scores mapped to cosine 0 and 1: the lowest and highest of training (default: of the scored rows).
        long: window settings for long texts; None to truncate them.
        score_range: smallest and largest valid score, which then is the scale (default: any).
    """

    name: ClassVar[str] = "similarity"
    report: ClassVar[str] = "maskwright.tasks.similarity.report:SimilarityReport"
    rating: ClassVar[str] = "maskwright.tasks.similarity.rating:rate"
    head = None

    def __init__(
        self,
        trained_on: str = "scores",
        main_metric: str = "spearman",
        scale: Sequence[float] | None = None,
        long: LongTexts | None = None,
        score_range: Sequence[float] | None = None,
    ) -> None:
        self.labels: list[str] = []
        self.trained_on, self.main_metric = trained_on, main_metric
        self.scale = None if scale is None else (float(scale[0]), float(scale[1]))
        self.long, self.score_range = long, as_range(score_range)

    @property
    def predicts(self) -> str:
        """What the model predicts, for messages."""
        return "the similarity of the two texts of a pair"

    @property
    def num_labels(self) -> int:
        """0: the task has no head."""
        return 0

    @property
    def problem_type(self) -> None:
        """None: the task has no head."""
        return None

    # -- rows and examples -----------------------------------------------------------------------------------

    @classmethod
    def read(
        cls,
        path: Path | str,
        *,
        columns: Mapping[str, str] | None = None,
        skip_bad_rows: bool = False,
        score_range: Sequence[float] | None = None,
    ) -> Table:
        """Reads scored pairs, positive pairs, or texts; see `read_similar`."""
        return read_similar(path, columns=columns, span=as_range(score_range), skip_bad_rows=skip_bad_rows)

    def read_known(
        self, path: Path | str, *, columns: Mapping[str, str] | None = None, skip_bad_rows: bool = False
    ) -> Table:
        """As `read`, for scoring, with the score range of training."""
        return self.read(path, columns=columns, skip_bad_rows=skip_bad_rows, score_range=self.score_range)

    def why_unscored(self, rows: Sequence[Row]) -> Unscored | None:
        """Returns a reason if rows are not pairs, or have labels that are not scores."""
        labels = {row.label for row in rows if row.label is not None}
        if any(row.text_pair is None for row in rows):
            single = "contains single texts"
            return Unscored.of_labels(labels, f"{single} with") if labels else Unscored(single, None)
        if not labels:  # accuracy: the second text of the pair is retrieved among all second texts
            return None if len({row.text_pair for row in rows}) > 1 else Unscored("contains one pair, no score", None)
        if kind_of(rows) == "pairs" or any(number_error(label) is None for label in labels):
            return None
        return Unscored.of_labels(labels)

    @classmethod
    def from_rows(
        cls,
        train_rows: Sequence[Row],
        dev_rows: Sequence[Row] = (),
        *,
        train_file: str | None = None,
        dev_file: str | None = None,
        score_range: Sequence[float] | None = None,
        **long: Any,
    ) -> Similarity:
        """Builds the task from training data. Raises InputError for rows that cannot be learned from or scored.

        long, stride, pool, max_windows: see `LongTexts.of`.
        """
        kind = kind_of(train_rows)
        task = cls(kind, long=LongTexts.of(**long), score_range=score_range)
        if kind != "scores" and task.score_range is not None:
            raise InputError(f"--score-range needs scores, and {train_file or 'the training data'} has none.")
        if len(train_rows) < 2:
            rows = plural(len(train_rows), "row")
            raise InputError(
                f"{train_file or 'The training data'} has {rows}; contrastive training needs at least two."
            )
        golds = {target_of(row, kind) for row in task.check(train_rows, kind, train_file)}
        task.scale = task.score_range or ((min(golds), max(golds)) if kind == "scores" else None)
        if kind == "scores" and len(golds) == 1:
            raise InputError(
                f"{train_file or 'The training data'} has the same score for all pairs: pass different scores."
            )
        if kind == "pairs" and 1.0 not in golds:
            raise InputError(f"{train_file or 'The training data'} has no positive pair.")
        if dev_rows:
            dev_kind = kind_of(dev_rows)
            if dev_kind == "texts":
                raise InputError(
                    f"{dev_file or 'The dev data'} contains single texts, on which embeddings cannot be scored: pass "
                    "--dev with pairs (text, text_pair and a score)."
                )
            dev_golds = {target_of(row, dev_kind) for row in task.check(dev_rows, dev_kind, dev_file)}
            task.main_metric = "accuracy" if dev_kind == "pairs" and len(dev_golds) == 1 else "spearman"
        return task

    def examples(
        self,
        rows: Sequence[Row],
        tokenizer: Tokenizer,
        max_length: int | None = None,
        *,
        file: str | None = None,
        skip_bad_rows: bool = False,
    ) -> PairExamples:
        """Tokenizes rows, each text of a pair separately; see `Task.examples`."""
        kind = kind_of(rows)
        good = self.check(rows, kind, file, skip_bad_rows=skip_bad_rows)
        if not good:
            raise InputError(f"{file or 'The data'} has no usable row: pass pairs of texts with a score.")
        return tokenize_pairs(
            good,
            tokenizer,
            max_length,
            targets=[target_of(row, kind) for row in good],
            is_scored=kind == "scores",
            num_skipped=len(rows) - len(good),
            long=self.long,
        )

    def unlabeled(
        self, rows: Sequence[Row], tokenizer: Tokenizer, max_length: int | None = None, *, counts: TextCounts
    ) -> PairExamples:
        """Tokenizes pairs without scores. Raises InputError for single texts."""
        if any(row.text_pair is None for row in rows):
            raise InputError(
                "This model compares two texts: pass pairs (--pair, or a column text_pair); to embed a single text use "
                "maskwright embed."
            )
        return tokenize_pairs(rows, tokenizer, max_length, counts=counts, long=self.long)

    def for_training(self, examples: Examples) -> Examples:
        """Keeps at most `max_windows` windows of each text."""
        if self.long is None or not isinstance(examples, PairExamples):
            return examples
        return examples.limit_windows(self.long.max_windows)

    def check(
        self, rows: Sequence[Row], kind: str, file: str | None = None, *, skip_bad_rows: bool = False
    ) -> list[Row]:
        """Returns the rows with a valid target. Raises RowErrors for the others unless `skip_bad_rows`."""
        good, bad = [], []
        for row in rows:
            try:
                target_of(row, kind, self.score_range)
            except ValueError as error:
                bad.append(RowError(file or row.file, row.line, "label", str(error)))
            else:
                good.append(row)
        if bad and not skip_bad_rows:
            raise RowErrors(bad)
        return good

    def notes(self, examples: Examples, name: str, max_length: int) -> list[str]:
        """Notes about truncated texts and windows."""
        if isinstance(examples, PairExamples) and examples.has_windows:
            return window_notes(examples.texts, name, max_length, "text")
        if not examples.num_truncated:
            return []
        are = "is" if examples.num_truncated == 1 else "are"
        texts = f"{examples.num_truncated:,} of {plural(examples.counts.texts, f'{name} text')}"
        return [f"{texts} {are} truncated to {max_length} tokens."]

    # -- training --------------------------------------------------------------------------------------------

    def counts(self, batch: Batch) -> dict[str, int]:
        """Number of pairs in a batch that the loss is averaged over."""
        golds = batch.labels["sequence"]
        return {self.name: len(golds) if self.trained_on == "scores" else int((golds > 0).sum())}

    def outcome(self, model: Model, batch: Batch) -> LossSums:
        """Summed loss of a batch. Without scores it uses in-batch negatives, and counts texts that rank their pair
        first as correct.
        """
        gold = batch.labels["sequence"]
        first, second = self.vectors(model, batch).unbind(1)
        if self.trained_on == "scores":
            loss = cosine_loss((first * second).sum(-1), self._scaled(gold))
            return LossSums({self.name: loss * len(gold)}, self.counts(batch))
        logits = in_batch_logits(first, second, batch.labels["twins"])
        loss = in_batch_loss(logits, gold > 0)
        return LossSums(
            {self.name: loss}, self.counts(batch), {self.name: finds_its_pair(logits.detach(), gold > 0).sum()}
        )

    def vectors(self, model: Model, batch: Batch) -> Tensor:
        """Unit embeddings of the two texts of each row: float32 [rows, 2, size].

        A single text is paired with itself; in training it is encoded twice with different dropout (SimCSE).
        """
        one = unit(model, batch)
        first = one[batch.labels["first"]]
        if "second" in batch.labels:
            return torch.stack([first, one[batch.labels["second"]]], dim=1)
        other = unit(model, batch) if model.training else one
        return torch.stack([first, other[batch.labels["first"]]], dim=1)

    def baseline(self, data: TaskData) -> Baseline:
        """The score of the model before training."""
        return data.untrained()

    # -- answers ---------------------------------------------------------------------------------------------

    def forward(self, model: Model) -> Forward:
        """Pooled vector of each sequence: float32 [size]."""
        return PooledVectors(model)

    def gather(self, outputs: Sequence[Tensor], model: Model, examples: Examples) -> Tensor:
        """float32 [rows, 2, size]: unit embeddings, of windows combined, of the texts of each row."""
        assert isinstance(examples, PairExamples)
        vectors, texts = stacked(outputs), examples.texts
        if examples.has_windows:
            lengths = torch.from_numpy(texts.sequences.lengths)
            vectors = join_windows(vectors, lengths, texts.num_windows.tolist(), pooling_of(model))
        sides = F.normalize(vectors, dim=-1).view(examples.num_sides, len(examples), -1)  # [1 or 2, rows, size]
        return sides[[0, -1]].transpose(0, 1)  # [rows, 2, size]

    def combine_predictions(self, logits: Sequence[Tensor], examples: Sequence[Examples]) -> Tensor:
        """Concatenates embeddings, float32 [rows, 2, sum of sizes]: their cosine is the mean cosine similarity."""
        return torch.cat(list(logits), dim=-1) / len(logits) ** 0.5

    def cosines(self, logits: Tensor) -> Tensor:
        """Cosine similarity of each pair: float32 [rows], -1 to 1."""
        return (logits[:, 0] * logits[:, 1]).sum(-1).clamp(-1, 1)

    def answers(self, logits: Tensor, examples: Examples) -> list[dict[str, Any]]:
        """{"score": cosine} for each pair."""
        return [{"score": value} for value in self.cosines(logits).tolist()] if len(examples) else []

    def losses(self, logits: Tensor, examples: Examples) -> Tensor:
        """Squared difference between the cosine of each row and its score scaled to [0, 1]: float32 [rows]."""
        gold = _gold(examples)
        return (self.cosines(logits) - (self._scaled(gold) if _is_scored(examples) else gold)).square()

    def score(self, logits: Tensor, examples: Examples) -> Evaluation:
        """Computes pearson and spearman between cosine similarities and scores; for positive pairs the retrieval
        accuracy among all second texts. Raises InputError for single texts.
        """
        if isinstance(examples, PairExamples) and not examples.has_pairs:
            raise InputError("Single texts cannot be scored: pass pairs of texts with a score.")
        gold, cosines = _gold(examples), self.cosines(logits).numpy()
        found: dict[str, float] = {}
        if len(gold.unique()) > 1:
            order = cosines.round(DIGITS)  # equal pairs share a rank despite rounding errors
            found = {"spearman": scores.spearman(gold, order), "pearson": scores.pearson(gold, cosines)}
        if not _is_scored(examples):
            found["accuracy"] = retrieval_accuracy(logits, gold > 0, _duplicate_groups(examples))
        elif not found:
            found = {"spearman": 0.0, "pearson": 0.0}  # all rows have the same score
        return Evaluation(found, logits, self._dev_loss(logits, examples))

    def is_right(self, examples: Examples, row: int, answer: Mapping[str, Any]) -> bool:
        """Always False: a cosine similarity is not right or wrong."""
        return False

    def _dev_loss(self, logits: Tensor, examples: Examples) -> float:
        """Mean squared error for scored rows; for pairs the in-batch loss over blocks of `DEV_ROWS` rows."""
        gold, total = _gold(examples), 0.0
        if _is_scored(examples):
            return float(self.losses(logits, examples).mean())
        for start in range(0, len(gold), DEV_ROWS):
            block, own = logits[start : start + DEV_ROWS], gold[start : start + DEV_ROWS]
            groups = _duplicate_groups(examples)[start : start + DEV_ROWS]
            total += float(in_batch_loss(in_batch_logits(block[:, 0], block[:, 1], groups), own > 0))
        return total / max(int((gold > 0).sum()), 1)

    def _scaled(self, gold: Tensor) -> Tensor:
        """Scores scaled to [0, 1] by `scale`: float [rows]."""
        low, high = self.scale or (float(gold.min()), float(gold.max()))
        return (gold - low) / max(high - low, 1e-12)

    # -- files -----------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """{"task", "trained_on", "main_metric", "scale"}, and "long" and "score_range" if set."""
        scale = None if self.scale is None else list(self.scale)
        facts: dict[str, Any] = {"task": self.name, "trained_on": self.trained_on, "main_metric": self.main_metric}
        facts |= {"scale": scale}
        facts |= {} if self.long is None else {"long": self.long.to_json()}
        return facts if self.score_range is None else {**facts, "score_range": list(self.score_range)}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Similarity:
        """Builds the task from the result of `to_json`. Raises ModelFolderError for invalid values."""
        kind, metric = facts.get("trained_on", "scores"), facts.get("main_metric", "spearman")
        if kind not in KINDS or metric not in ("spearman", "accuracy"):
            raise ModelFolderError(f"maskwright.json has an invalid trained_on '{kind}' or main_metric '{metric}'.")
        scale = facts.get("scale")
        is_span = isinstance(scale, list) and len(scale) == 2 and all(isinstance(end, (int, float)) for end in scale)
        if scale is not None and not is_span:
            raise ModelFolderError(f"maskwright.json has an invalid scale {scale!r}: it must be two numbers.")
        return cls(kind, metric, scale, LongTexts.from_json(facts), stored_range(facts))


def _gold(examples: Examples) -> Tensor:
    if examples.targets is None:
        raise InputError("Unlabeled rows cannot be scored: pass labeled rows.")
    return examples.targets


def _duplicate_groups(examples: Examples) -> Tensor:
    assert isinstance(examples, PairExamples)
    return examples.duplicate_groups


def _is_scored(examples: Examples) -> bool:
    return isinstance(examples, PairExamples) and examples.is_scored
