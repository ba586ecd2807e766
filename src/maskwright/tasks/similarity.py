"""Texts to vectors whose cosine says how near their meanings are, trained by contrast. No head: the pooled encoder.

Reimers and Gurevych 2019 (Sentence-BERT, section 3): both texts of a pair go through the same encoder, each alone.
What the rows are decides the loss, see `objectives.contrastive`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.errors import InputError, ModelFolderError, RowError, RowErrors
from ..core.plural import plural
from ..data.batch import Batch
from ..models.pooling import join_windows, pool
from ..objectives.contrastive import cosine_loss, in_batch_logits, in_batch_loss
from ..objectives.outcome import Outcome
from ..text.encoding import TextCounts
from ..text.tables import Row, Table
from . import metrics as scores
from .base import Evaluation, Task
from .examples import Examples, map_batches
from .long_examples import window_remarks
from .long_texts import LONG_SETTINGS, LongTexts
from .regression import as_range, stored_range
from .similar_rows import KINDS, PairExamples, kind_of, read_similar, target_of, tokenize_pairs

if TYPE_CHECKING:
    from ..models.model import Model
    from ..text.tokenizer import Tokenizer

DEV_ROWS = 32  # pairs that the dev loss sets against each other, as a step of the usual size does
BLOCK_ROWS = 1024
DIGITS = 6  # of cosines that are told apart when they are ranked


class Similarity(Task):
    """Cosines of pairs against their gold scores. Its logits are the unit vectors of both texts: [rows, 2, size].

    trained_on: "scores", "pairs" or "texts", what the training rows are; scale: the scores that mean cosine 0 and
    cosine 1, the lowest and the highest of training (None: of the rows that are scored); score_range: the least and the
    greatest score that a row may have, and then the scale (None: any); long: how long texts are read, None where they
    are cut. Pooling is the model's (`model.sentence`), mean by default; it also joins the windows of a text.
    """

    name: ClassVar[str] = "similarity"
    head = None
    settings: ClassVar[tuple[str, ...]] = ("score_range", *LONG_SETTINGS)
    read_settings: ClassVar[tuple[str, ...]] = ("score_range",)

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
    def num_labels(self) -> int:
        """0: there is no head."""
        return 0

    @property
    def problem_type(self) -> None:
        """None: there is no head."""
        return None

    # -- rows and examples -----------------------------------------------------------------------------------

    @classmethod
    def read(
        cls,
        path: Path | str,
        *,
        columns: Mapping[str, str] | None = None,
        multi_label: bool | None = None,
        skip_bad_rows: bool = False,
        score_range: Sequence[float] | None = None,
    ) -> Table:
        """Scored pairs, pairs, or texts; see `similar_rows.read_similar`."""
        return read_similar(path, columns=columns, span=as_range(score_range), skip_bad_rows=skip_bad_rows)

    def read_known(
        self, path: Path | str, *, columns: Mapping[str, str] | None = None, skip_bad_rows: bool = False
    ) -> Table:
        """The same for scoring, in the range of training."""
        return self.read(path, columns=columns, skip_bad_rows=skip_bad_rows, score_range=self.score_range)

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
        """What the rows pose. Raises InputError for rows that teach nothing, or dev rows that can judge nothing.

        long, stride, pool, max_windows: see `LongTexts.of`.
        """
        kind = kind_of(train_rows)
        task = cls(kind, long=LongTexts.of(**long), score_range=score_range)
        if kind != "scores" and task.score_range is not None:
            raise InputError(f"{train_file or 'The training data'} has no scores, which --score-range is for.")
        if len(train_rows) < 2:
            rows = plural(len(train_rows), "row")
            raise InputError(f"{train_file or 'The training data'} has {rows}; contrast needs two.")
        golds = {target_of(row, kind) for row in task.check(train_rows, kind, train_file)}
        task.scale = task.score_range or ((min(golds), max(golds)) if kind == "scores" else None)
        if kind == "scores" and len(golds) == 1:
            raise InputError(f"{train_file or 'The training data'} has one score for all pairs: no order to learn.")
        if kind == "pairs" and 1.0 not in golds:
            raise InputError(f"{train_file or 'The training data'} has no pair that belongs together.")
        if dev_rows:
            dev_kind = kind_of(dev_rows)
            if dev_kind == "texts":
                raise InputError(
                    f"{dev_file or 'The dev data'} holds single texts, which cannot say how good vectors are: give "
                    "--dev with pairs (text, text_pair and a score)."
                )
            judged = {target_of(row, dev_kind) for row in task.check(dev_rows, dev_kind, dev_file)}
            task.main_metric = "accuracy" if dev_kind == "pairs" and len(judged) == 1 else "spearman"
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
        """Tokenise rows, each text of a pair by itself; see `Task.examples`."""
        kind = kind_of(rows)
        good = self.check(rows, kind, file, skip_bad_rows=skip_bad_rows)
        if not good:
            raise InputError(f"{file or 'The data'} has no usable row: give pairs of texts with a score.")
        return tokenize_pairs(
            good,
            tokenizer,
            max_length,
            targets=[target_of(row, kind) for row in good],
            is_scored=kind == "scores",
            num_skipped=len(rows) - len(good),
            long=self.long,
        )

    def unlabelled(
        self, rows: Sequence[Row], tokenizer: Tokenizer, max_length: int | None = None, *, counts: TextCounts
    ) -> PairExamples:
        """Tokenise pairs without their scores. Raises InputError for single texts: a cosine needs two."""
        if any(row.text_pair is None for row in rows):
            raise InputError(
                "This model compares two texts: give pairs (--pair, or a column text_pair); for the vector of one "
                "text use maskwright embed."
            )
        return tokenize_pairs(rows, tokenizer, max_length, counts=counts, long=self.long)

    def for_training(self, examples: Examples) -> Examples:
        """With at most as many windows of each text as training may read."""
        if self.long is None or not isinstance(examples, PairExamples):
            return examples
        return examples.thinned(self.long.max_windows)

    def check(
        self, rows: Sequence[Row], kind: str, file: str | None = None, *, skip_bad_rows: bool = False
    ) -> list[Row]:
        """The rows whose target is usable. Raises RowErrors with the others unless they are to be skipped."""
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

    def remarks(self, examples: Examples, name: str, max_length: int) -> list[str]:
        """Texts that are cut or become windows."""
        if isinstance(examples, PairExamples) and examples.has_windows:
            return window_remarks(examples.texts, name, max_length, "text")
        if not examples.num_truncated:
            return []
        are = "is" if examples.num_truncated == 1 else "are"
        texts = f"{examples.num_truncated:,} of {plural(examples.counts.texts, f'{name} text')}"
        return [f"{texts} {are} cut to {max_length} tokens."]

    # -- training --------------------------------------------------------------------------------------------

    def counts(self, batch: Batch) -> dict[str, int]:
        """Pairs of a batch that the loss is a mean over."""
        golds = batch.labels["sequence"]
        return {self.name: len(golds) if self.trained_on == "scores" else int((golds > 0).sum())}

    def outcome(self, model: Model, batch: Batch) -> Outcome:
        """The summed loss of a batch. Without scores its rows are set against each other, and a text that finds its
        partner is right."""
        gold = batch.labels["sequence"]
        first, second = self.vectors(model, batch).unbind(1)
        if self.trained_on == "scores":
            loss = cosine_loss((first * second).sum(-1), self._scaled(gold))
            return Outcome({self.name: loss * len(gold)}, self.counts(batch))
        logits = in_batch_logits(first, second, batch.labels["twins"])
        loss = in_batch_loss(logits, gold > 0)
        return Outcome({self.name: loss}, self.counts(batch), {self.name: _found(logits.detach(), gold > 0).sum()})

    def vectors(self, model: Model, batch: Batch) -> Tensor:
        """Unit vectors of the two texts of each row: float32 [rows, 2, size].

        A single text is its own partner; in training it is encoded twice, and dropout makes the two differ.
        """
        one = _unit(model, batch)
        first = one[batch.labels["first"]]
        if "second" in batch.labels:
            return torch.stack([first, one[batch.labels["second"]]], dim=1)
        other = _unit(model, batch) if model.training else one
        return torch.stack([first, other[batch.labels["first"]]], dim=1)

    # -- answers ---------------------------------------------------------------------------------------------

    def outputs(self, model: Model, examples: Examples, batch_tokens: int | None) -> Tensor:
        """float32 [rows, 2, size]. Windows go through the model by themselves, so a row may be of any length."""
        device = next(model.parameters()).device
        if isinstance(examples, PairExamples) and examples.has_windows:
            texts, pooling = examples.texts, _pooling(model)
            heard = texts.map(lambda batch: _pooled(model, batch), device, batch_tokens)  # [windows, size]
            lengths = torch.from_numpy(texts.sequences.lengths)
            vectors = F.normalize(join_windows(heard, lengths, texts.num_windows.tolist(), pooling), dim=-1)
            sides = vectors.view(examples.num_sides, len(examples), -1)  # [1 or 2, rows, size]
            return sides[[0, -1]].transpose(0, 1)  # [rows, 2, size]
        return map_batches(examples, lambda batch: self.vectors(model, batch), device=device, batch_tokens=batch_tokens)

    def unite(self, logits: Sequence[Tensor], examples: Sequence[Examples]) -> Tensor:
        """Vectors end to end, float32 [rows, 2, sizes of all models]: their cosine is the mean of the cosines."""
        return torch.cat(list(logits), dim=-1) / len(logits) ** 0.5

    def cosines(self, logits: Tensor) -> Tensor:
        """float32 [rows], -1 to 1."""
        return (logits[:, 0] * logits[:, 1]).sum(-1).clamp(-1, 1)

    def answers(self, logits: Tensor, examples: Examples) -> list[dict[str, Any]]:
        """{"score": cosine} for each pair."""
        return [{"score": value} for value in self.cosines(logits).tolist()] if len(examples) else []

    def losses(self, logits: Tensor, examples: Examples) -> Tensor:
        """The squared distance between the cosine of each row and its score, brought to 0 to 1: float32 [rows]."""
        gold = _gold(examples)
        return (self.cosines(logits) - (self._scaled(gold) if _is_scored(examples) else gold)).square()

    def score(self, logits: Tensor, examples: Examples) -> Evaluation:
        """pearson and spearman of cosines against scores; accuracy (the partner is the nearest of all second texts)
        where pairs belong together."""
        gold, cosines = _gold(examples), self.cosines(logits).numpy()
        found: dict[str, float] = {}
        if len(gold.unique()) > 1:
            order = cosines.round(DIGITS)  # a pair that comes twice is one rank, whatever the rounding of its sums
            found = {"spearman": scores.spearman(gold, order), "pearson": scores.pearson(gold, cosines)}
        if not _is_scored(examples):
            found["accuracy"] = _accuracy(logits, gold > 0, _twins(examples))
        elif not found:
            found = {"spearman": 0.0, "pearson": 0.0}  # one score for all rows: there is no order
        return Evaluation(found, logits, self._dev_loss(logits, examples))

    def is_right(self, examples: Examples, row: int, answer: Mapping[str, Any]) -> bool:
        """Never: a cosine is nearer or farther, not right."""
        return False

    def _dev_loss(self, logits: Tensor, examples: Examples) -> float:
        """Of scored rows the mean squared distance; of pairs the mean over rows taken `DEV_ROWS` at a time."""
        gold, total = _gold(examples), 0.0
        if _is_scored(examples):
            return float(self.losses(logits, examples).mean())
        for start in range(0, len(gold), DEV_ROWS):
            block, own = logits[start : start + DEV_ROWS], gold[start : start + DEV_ROWS]
            twins = _twins(examples)[start : start + DEV_ROWS]
            total += float(in_batch_loss(in_batch_logits(block[:, 0], block[:, 1], twins), own > 0))
        return total / max(int((gold > 0).sum()), 1)

    def _scaled(self, gold: Tensor) -> Tensor:
        """Scores brought to 0 to 1 by `scale`: float [rows]."""
        low, high = self.scale or (float(gold.min()), float(gold.max()))
        return (gold - low) / max(high - low, 1e-12)

    # -- files -----------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """{"task", "trained_on", "main_metric", "scale"}, and "long" and "score_range" where they are given."""
        scale = None if self.scale is None else list(self.scale)
        facts: dict[str, Any] = {"task": self.name, "trained_on": self.trained_on, "main_metric": self.main_metric}
        facts |= {"scale": scale}
        facts |= {} if self.long is None else {"long": self.long.to_json()}
        return facts if self.score_range is None else {**facts, "score_range": list(self.score_range)}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Similarity:
        """The task of `to_json`. Raises ModelFolderError for rows of a kind that does not exist."""
        kind, metric = facts.get("trained_on", "scores"), facts.get("main_metric", "spearman")
        if kind not in KINDS or metric not in ("spearman", "accuracy"):
            raise ModelFolderError(f"maskwright.json says that it was trained on '{kind}' and judged by '{metric}'.")
        scale = facts.get("scale")
        is_span = isinstance(scale, list) and len(scale) == 2 and all(isinstance(end, (int, float)) for end in scale)
        if scale is not None and not is_span:
            raise ModelFolderError(f"maskwright.json says that its scores go from and to {scale!r}.")
        return cls(kind, metric, scale, LongTexts.from_json(facts), stored_range(facts))


def _unit(model: Model, batch: Batch) -> Tensor:
    """Vectors of length 1 of all texts of a batch: float32 [texts, size]."""
    pooled, lengths = _pooled(model, batch), torch.tensor(batch.lengths)
    if len(pooled) > len(batch.labels["windows"]):
        order = batch.labels["order"]
        counts = batch.labels["windows"].tolist()
        pooled = join_windows(pooled[order], lengths[order.cpu()], counts, _pooling(model))
    return F.normalize(pooled, dim=-1)


def _pooled(model: Model, batch: Batch) -> Tensor:
    """float32 [sequences, size]."""
    return pool(model.encode(batch).hidden.float(), batch, _pooling(model))


def _pooling(model: Model) -> str:
    return getattr(model.sentence, "pooling", "mean")


def _found(logits: Tensor, is_positive: Tensor) -> Tensor:
    """Whether each text that has a partner finds it: bool [positives]. logits: float [rows, rows]."""
    rows = is_positive.nonzero().flatten()
    return logits[rows].argmax(dim=-1) == rows


def _accuracy(logits: Tensor, is_positive: Tensor, twins: Tensor) -> float:
    """The share of first texts whose partner, or a twin of it, is the nearest of all second ones.

    logits: float [rows, 2, size]; twins: int64 [rows].
    """
    rows, right = is_positive.nonzero().flatten(), 0
    for start in range(0, len(rows), BLOCK_ROWS):
        block = rows[start : start + BLOCK_ROWS]
        nearest = (logits[block, 0] @ logits[:, 1].T).argmax(dim=-1)
        right += int((twins[nearest] == twins[block]).sum())
    return right / max(len(rows), 1)


def _gold(examples: Examples) -> Tensor:
    if examples.targets is None:
        raise InputError("Labelled rows are needed.")
    return examples.targets


def _twins(examples: Examples) -> Tensor:
    assert isinstance(examples, PairExamples), "similarity makes no other examples"
    return examples.twins


def _is_scored(examples: Examples) -> bool:
    return isinstance(examples, PairExamples) and examples.is_scored
