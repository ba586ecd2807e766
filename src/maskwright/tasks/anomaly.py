"""Texts that are unlike the rest: an autoencoder on frozen features learns one class, and its error finds the others.

The encoder stays as it is, so the vector of every text is computed once. The rows of the normal class alone are learnt
from; `models.autoencoder` gives each text its error, and a text is rare when that is above a threshold. The threshold
is chosen on the dev rows after training: for the best F1 where they hold both kinds, else so that a part of the normal
ones lies below it. Scores of rows that chose it are those of a threshold of other rows (`rare.RareClass.cuts`).
Where long texts are read in windows, each window has a vector and an error, and a text the mean or the largest of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..core.errors import InputError, ModelFolderError, RowError, RowErrors
from ..core.registry import unknown_name
from ..data.batch import Batch
from ..models.autoencoder import AutoencoderHead
from ..objectives.outcome import Outcome
from ..text.tables import Row, Table, read_texts
from .base import Evaluation
from .examples import Examples, map_batches
from .long_examples import LongExamples
from .long_texts import LONG_SETTINGS, LongTexts
from .rare import RareClass, choose_threshold, rare_metrics
from .sequence import SequenceTask, labelled
from .thresholds import Threshold, row_key

if TYPE_CHECKING:
    from ..models.model import Model

QUANTILE = 0.95
FEATURES = "features"  # the label of a batch that holds the vectors of its texts, where they are known


@dataclass(frozen=True)
class Featured(Examples):
    """Examples whose vectors are known. features: float32 [rows, hidden]."""

    features: Tensor | None = None

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """As `Examples.batch`, with the label "features" float32 [sequences, hidden]."""
        return _with_features(super().batch(indices), self.features, "example")


@dataclass(frozen=True)
class FeaturedWindows(LongExamples):
    """Windows whose vectors are known. features: float32 [windows, hidden]."""

    features: Tensor | None = None

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """As `LongExamples.batch`, with the label "features" float32 [sequences, hidden]."""
        return _with_features(super().batch(indices), self.features, "window")


def _with_features(batch: Batch, features: Tensor | None, which: str) -> Batch:
    """A batch with the vectors of its sequences. which: the label that says which of `features` is that of each."""
    return batch if features is None else batch.with_labels(**{FEATURES: features[batch.labels[which]]})


class Anomaly(SequenceTask):
    """Whether a text is unlike those of the normal class.

    normal: the class that is learnt, None where rows have no classes; quantile: the part of normal dev rows below the
    threshold, where dev has no others; threshold: the error above which a text is rare, None until it is chosen; long:
    how long texts are read, None where they are cut.
    """

    name: ClassVar[str] = "anomaly"
    head = "anomaly"
    settings: ClassVar[tuple[str, ...]] = ("normal", "normal_quantile", *LONG_SETTINGS)
    freezes_encoder = True
    num_labels = 0  # its one output has no name
    problem_type = None

    def __init__(
        self,
        normal: str | None = None,
        quantile: float = QUANTILE,
        threshold: Threshold | None = None,
        main_metric: str = "explained_variance",
        long: LongTexts | None = None,
    ) -> None:
        self.labels: list[str] = []
        self.normal, self.quantile, self.threshold, self.main_metric = normal, quantile, threshold, main_metric
        self.long = long

    # -- rows and examples -----------------------------------------------------------------------------------

    @classmethod
    def read(
        cls,
        path: Path | str,
        *,
        columns: Mapping[str, str] | None = None,
        multi_label: bool | None = None,
        skip_bad_rows: bool = False,
    ) -> Table:
        """Texts or pairs, with classes where the file has them; see `text.tables.read_texts`."""
        return read_texts(path, columns=columns, skip_bad_rows=skip_bad_rows)

    @classmethod
    def from_rows(
        cls,
        train_rows: Sequence[Row],
        dev_rows: Sequence[Row] = (),
        *,
        normal: str | None = None,
        normal_quantile: float | None = None,
        train_file: str | None = None,
        dev_file: str | None = None,
        **long: Any,
    ) -> Anomaly:
        """The commonest class of the training rows is normal, if `normal` names no other (of equals the first by name).

        long, stride, pool, max_windows: see `LongTexts.of`.
        pr_auc leads where dev has rows of both kinds, else the explained variance of normal rows. Raises RowErrors
        where only some training rows have a class, InputError where there is nothing normal to learn.
        """
        counts = Counter(row.label for row in train_rows if row.label is not None)
        if counts and sum(counts.values()) < len(train_rows):
            bad = [RowError(train_file or row.file, row.line, "label", "is missing") for row in train_rows]
            raise RowErrors([error for error, row in zip(bad, train_rows, strict=True) if row.label is None])
        if not train_rows:
            raise InputError(f"{train_file or 'The training data'} has no row: give texts of the normal kind.")
        if normal is not None and normal not in counts:
            known = sorted(counts)
            where = unknown_name("class", normal, known[:20]) if known else "The rows have no classes."
            raise InputError(f"--normal {normal}: no row of {train_file or 'the training data'} has it. {where}")
        if normal is None and counts:
            normal = min(counts, key=lambda label: (-counts[label], label))
        kinds = {normal is None or row.label in (None, normal) for row in dev_rows}
        main_metric = "pr_auc" if len(kinds) == 2 else "explained_variance"
        quantile = QUANTILE if normal_quantile is None else normal_quantile
        return cls(normal, quantile, main_metric=main_metric, long=LongTexts.of(**long))

    @classmethod
    def strata(cls, rows: Sequence[Row]) -> list[str]:
        """The class of each row, "" without one."""
        return [row.label or "" for row in rows]

    def learns_from(self, rows: Sequence[Row]) -> list[Row]:
        """The normal rows."""
        return [row for row in rows if not self.target(row.label)]

    def target(self, label: str | None) -> int:
        """1 for a row of a class that is not normal, else 0; a row without a class is normal."""
        return int(self.normal is not None and label is not None and label != self.normal)

    def as_targets(self, values: Sequence[Any]) -> Tensor:
        """int64 [rows]."""
        return torch.tensor(values, dtype=torch.int64)

    def prepare(self, model: Model, examples: Examples) -> Featured | FeaturedWindows:
        """The examples with the vectors that the frozen encoder gives them, or their windows."""
        base, kind = (LongExamples, FeaturedWindows) if isinstance(examples, LongExamples) else (Examples, Featured)
        own = {field.name: getattr(examples, field.name) for field in fields(base)}
        return kind(**own, features=self.features(model, examples))

    def features(self, model: Model, examples: Examples, batch_tokens: int | None = None) -> Tensor:
        """The mean of the last hidden states of each text or window: float32 [sequences, hidden], on the CPU."""

        def vectors(batch: Batch) -> Tensor:
            return model.first(model.encode(batch).hidden, batch)

        was_training = model.training
        model.eval()
        try:
            device = next(model.parameters()).device
            if isinstance(examples, LongExamples):
                return examples.map(vectors, device, batch_tokens)
            return map_batches(examples, vectors, device=device, batch_tokens=batch_tokens)
        finally:
            model.train(was_training)

    # -- training --------------------------------------------------------------------------------------------

    def prime(self, model: Model, examples: Examples) -> None:
        """Give the new head the mean and the spread of the vectors that it is to learn."""
        features = _known(examples)
        head = _head(model)
        head.fit_scale((self.features(model, examples) if features is None else features).to(head.center.device))

    def loss_of(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The mean of the errors, whatever the targets. logits: float32 [rows, 1]; targets: int64 [rows]."""
        return logits.mean()

    def outcome(self, model: Model, batch: Batch) -> Outcome:
        """Summed errors of a batch."""
        errors = self.pooled(_errors(model, batch), batch)  # [rows, 1]
        return Outcome({self.name: errors.sum()}, self.counts(batch))

    def settle(self, logits: Tensor, examples: Examples) -> None:
        """Choose the threshold on the dev rows."""
        errors, is_rare, keys = self._rows(logits, examples)
        if is_rare.any() and not is_rare.all():
            self.threshold = choose_threshold(errors, is_rare, keys)
        else:
            self.threshold = Threshold(float(np.quantile(errors, self.quantile)), frozenset(keys))

    # -- answers ---------------------------------------------------------------------------------------------

    def heard(self, model: Model, examples: Examples, batch_tokens: int | None) -> Tensor:
        """float32 [sequences, 1]: the errors, from vectors that are known where they are."""
        features = _known(examples)
        if features is None:
            return super().heard(model, examples, batch_tokens)
        with torch.inference_mode():
            found = _head(model)(features.to(next(model.parameters()).device)).float().cpu()
        return found.clone()

    def decode(self, logits: Tensor) -> list[dict[str, Any]]:
        """{"score", "is_rare", "threshold"} for each row: its error, and whether that is above the threshold.

        Without a threshold nothing is called rare, and is_rare is None.
        """
        value = None if self.threshold is None else self.threshold.value
        return [
            {"score": error, "is_rare": None if value is None else error > value, "threshold": value}
            for error in logits.squeeze(-1).double().tolist()
        ]

    def loudest(self, heard: Tensor, answer: Mapping[str, Any]) -> dict[str, tuple[int, float]]:
        """The window with the largest error. heard: float32 [windows, 1]."""
        window = int(heard[:, 0].argmax())
        return {"": (window, float(heard[window, 0]))}

    def joined(self, others: Sequence[Anomaly]) -> Anomaly:
        """A text is rare where the mean of the errors is above the mean of the thresholds.

        Raises InputError where the models learnt different classes as normal.
        """
        normals = {task.normal for task in (self, *others)}
        if len(normals) > 1:
            named = ", ".join(sorted(str(normal) for normal in normals))
            raise InputError(f"The models have learnt different classes as normal ({named}): they are no ensemble.")
        known = [task.threshold for task in (self, *others) if task.threshold is not None]
        joined = copy(self)
        if known:
            mean = sum(threshold.value for threshold in known) / len(known)
            joined.threshold = Threshold(mean, frozenset().union(*(threshold.seen for threshold in known)))
        return joined

    def losses(self, logits: Tensor, examples: Examples) -> Tensor:
        """How far each row is from what it should be, float32 [rows]: the error, negative for rare rows."""
        return torch.where(labelled(examples) == 1, -logits.squeeze(-1), logits.squeeze(-1))

    def score(self, logits: Tensor, examples: Examples) -> Evaluation:
        """explained_variance of normal rows; with rows of both kinds pr_auc, f1 and recall_at_precision_90 too.

        The loss is the mean error of normal rows. A vector that is always the mean of those learnt from has an error of
        about 1, so 1 - error is the part of the variance that comes through.
        """
        errors, is_rare, found = self.judged(logits, examples)
        normal = errors[~is_rare]
        loss = float(normal.mean()) if len(normal) else 0.0
        metrics = {"explained_variance": 1.0 - loss}
        if is_rare.any() or self.main_metric == "pr_auc":
            metrics = rare_metrics(is_rare, errors, found) | metrics
        return Evaluation(metrics, logits, loss)

    def judged(self, logits: Tensor, examples: Examples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Errors float64 [rows], whether each row is rare, and whether it is called so: bool [rows].

        By the threshold, or where the rows chose it, each half of them by that of the other.
        """
        errors, is_rare, keys = self._rows(logits, examples)
        return errors, is_rare, errors > RareClass("", threshold=self.threshold).cuts(errors, is_rare, keys)

    def metrics(self, logits: Tensor, targets: Tensor) -> dict[str, float]:
        """pr_auc and recall_at_precision_90, which need no threshold."""
        return rare_metrics(targets.numpy() == 1, logits.squeeze(-1).double().numpy())

    def is_right(self, examples: Examples, row: int, answer: Mapping[str, Any]) -> bool:
        """Whether a rare row is called rare, and a normal one is not."""
        return bool(answer["is_rare"]) == bool(labelled(examples)[row])

    def _rows(self, logits: Tensor, examples: Examples) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """Errors float64 [rows], whether each row is rare bool [rows], and the rows' keys."""
        keys = [row_key(row.text, row.text_pair) for row in examples.rows]
        return logits.squeeze(-1).double().numpy(), labelled(examples).numpy() == 1, keys

    # -- files -----------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """{"task", "normal", "quantile", "threshold"}, and "long" where texts are read in windows."""
        threshold = None if self.threshold is None else self.threshold.to_json()
        facts = {"task": self.name, "normal": self.normal, "quantile": self.quantile, "threshold": threshold}
        return facts if self.long is None else {**facts, "long": self.long.to_json()}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Anomaly:
        """The task of `to_json`. Raises ModelFolderError when the facts do not fit."""
        normal, quantile, threshold = facts.get("normal"), facts.get("quantile", QUANTILE), facts.get("threshold")
        fits = isinstance(normal, str | None) and isinstance(threshold, Mapping | None)
        if not fits or not isinstance(quantile, float) or not 0 < quantile < 1:
            raise ModelFolderError("The model's maskwright.json does not describe a detector of anomalies.")
        known = None if threshold is None else Threshold.from_json(threshold)
        return cls(normal, quantile, known, long=LongTexts.from_json(facts))


def _head(model: Model) -> AutoencoderHead:
    assert isinstance(model.head, AutoencoderHead)
    return model.head


def _known(examples: Examples) -> Tensor | None:
    """The vectors of the sequences, float32 [sequences, hidden], where they have been computed."""
    return examples.features if isinstance(examples, Featured | FeaturedWindows) else None


def _errors(model: Model, batch: Batch) -> Tensor:
    """float [sequences, 1]."""
    errors: Tensor = _head(model)(batch.labels[FEATURES]) if FEATURES in batch.labels else model.logits(batch)
    return errors
