"""Sentence embeddings whose cosine similarity measures semantic similarity. No head: the pooled encoder output.

Reimers and Gurevych 2019 (Sentence-BERT, section 3): both texts of a pair are encoded separately by the same encoder.
The kind of rows determines the loss; see `objectives.outcome`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.errors import ConfigError, InputError, RowError, RowErrors
from ..core.util import plural
from ..data.batch import Batch
from ..models.model import Model, SentenceSettings
from ..models.pooling import join_windows, pool, sparse_pool
from ..objectives.outcome import TEMPERATURE, LossSums, flops, in_batch_logits, in_batch_loss
from ..text.formats.cells import number_error
from ..text.readers.tables import Row, Table, read_texts
from ..text.tokenizers.encoding import TextCounts
from .base import (
    Baseline,
    ColumnNames,
    Evaluation,
    Rows,
    Targets,
    Task,
    TaskData,
    Unscored,
    truncation_notes,
)
from .evaluation import metrics as scores
from .evaluation.compare import ScoredPredictions
from .examples import Examples, Forward, each, stacked, tokenize_rows
from .sequence import APART, TOGETHER, labeled, plain_name
from .specs import SPARSITY, as_range
from .windows import GroupedExamples, LongTexts, one_window_each, portions_by_tokens, window_notes, window_rows

if TYPE_CHECKING:
    from ..text.tokenizers.tokenizer import Tokenizer

# -- Sentence embeddings by pooling, which similarity compares -------------------------------------------------------


@dataclass(frozen=True)
class PooledVectors(Forward):
    """Pooled last hidden states: float32 [size]."""

    def launch(self, batch: Batch) -> Callable[[], Sequence[Tensor]]:
        return each(pooled(self.model, batch))


def unit(model: Model, batch: Batch) -> Tensor:
    """Unit embeddings of all texts of a batch: float32 [texts, size]."""
    vectors, lengths = pooled(model, batch), torch.tensor(batch.lengths)
    if len(vectors) > len(batch.labels["windows"]):
        order = batch.labels["order"]
        counts = batch.labels["windows"].tolist()
        vectors = join_windows(vectors[order], lengths[order.cpu()], counts, pooling_of(model))
    return F.normalize(projected(model, vectors), dim=-1)


def pooled(model: Model, batch: Batch) -> Tensor:
    """Pooled last hidden states of the sequences: float32 [sequences, size]."""
    normalize_tokens = model.sentence is not None and model.sentence.normalize_tokens
    return pool(model.encode(batch).hidden.float(), batch, pooling_of(model), normalize_tokens)


def projected(model: Model, vectors: Tensor) -> Tensor:
    """What follows the pooling of a sentence encoder: float32 [..., size]. vectors: float32 [..., pooled size]."""
    return vectors if model.projection is None else model.projection(vectors.to(model.word_embeddings.device))


def pooling_of(model: Model) -> str:
    """The pooling that a sentence encoder declares; the mean without one."""
    return "mean" if model.sentence is None else model.sentence.pooling


@dataclass(frozen=True)
class SparseStates(Forward):
    """Sparse embeddings. sparse: "max" or "sum" over the tokens; logs: how often log(1 + x) is applied."""

    sparse: str
    logs: int

    @classmethod
    def of(cls, model: Model) -> SparseStates:
        """As the model declares them, else the maximum of log(1 + relu(logit))."""
        declared = model.sentence or SentenceSettings()
        return cls(model, declared.sparse or "max", declared.logs)

    def weights(self, batch: Batch) -> Iterator[Tensor]:
        """float32 [sequences, vocab], in blocks."""
        size, hidden = self.model.config.vocab_size, self.model.encode(batch).hidden
        return sparse_pool(self.model.mlm_logits, hidden, batch, size, self.sparse, self.logs)

    def launch(self, batch: Batch) -> Callable[[], Sequence[tuple[Tensor, Tensor]]]:  # type: ignore[override]
        """Indices, int32 [n], and weights, float32 [n], of each sequence."""
        rows = [row for block in self.weights(batch) for row in block.cpu()]
        places = [row.nonzero(as_tuple=True)[0] for row in rows]
        found = [(place.to(torch.int32), row[place]) for row, place in zip(rows, places, strict=True)]
        return lambda: found


def used_columns(outputs: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Sparse embeddings as rows: float32 [texts, terms], without the columns in which all are 0."""
    counts = torch.tensor([len(ids) for ids, _ in outputs])
    ids, weights = (torch.cat(list(side)) for side in zip(*outputs, strict=True))
    columns, where = ids.unique(return_inverse=True)
    table = weights.new_zeros(len(outputs), len(columns))
    table[torch.repeat_interleave(torch.arange(len(outputs)), counts), where] = weights
    return table


# -- Whether the second text of a pair is found among all second texts -----------------------------------------------

BLOCK_ROWS = 1024


def finds_its_pair(logits: Tensor, is_positive: Tensor) -> Tensor:
    """Whether each positive pair ranks its second text first: bool [positives]. logits: float [rows, rows]."""
    rows = is_positive.nonzero().flatten()
    return logits[rows].argmax(dim=-1) == rows


def retrieval_accuracy(logits: Tensor, is_positive: Tensor, groups: Tensor) -> float:
    """Fraction of first texts whose second text (or a duplicate of it) is the nearest of all second texts.

    logits: float [rows, 2, size]; is_positive: bool [rows]; groups: int64 [rows], duplicate groups of the second texts.
    """
    rows, right = is_positive.nonzero().flatten(), 0
    for start in range(0, len(rows), BLOCK_ROWS):
        block = rows[start : start + BLOCK_ROWS]
        nearest = (logits[block, 0] @ logits[:, 1].T).argmax(dim=-1)
        right += int((groups[nearest] == groups[block]).sum())
    return right / max(len(rows), 1)


# -- Rows for sentence-embedding training as packed batches: scored pairs, positive pairs, or single texts -----------
#
# Each text of a pair is encoded separately, as one sequence or as several windows.

Span = tuple[float, float] | None
MOST = 1e30  # a larger score is an error
KINDS = ("scores", "pairs", "texts")


def read_similar(
    path: Path | str,
    *,
    columns: Mapping[str, str] | None = None,
    span: Span = None,
    skip_bad_rows: bool = False,
) -> Table:
    """Reads rows with `text` and optionally `text_pair` and a score or label; or one text per line (.txt).

    If the file has scores, a score that is missing, not a number, or not within `span` is an error. Raises RowErrors
    like `read_texts`.
    """
    table = read_texts(path, columns=columns, skip_bad_rows=skip_bad_rows)
    if not table.has_pair or kind_of(table.rows) != "scores":
        return table
    column = table.columns["label"]
    bad = [RowError(row.file, row.line, column, why) for row in table.rows if (why := _fault(row, span))]
    if bad and not skip_bad_rows:
        raise RowErrors(bad)
    good = [row for row in table.rows if not _fault(row, span)]
    if not good:
        raise InputError(f"{path} contains no row with a score.")
    return Table(good, [*table.skipped, *bad], table.columns, groups=table.groups)


def kind_of(rows: Sequence[Row]) -> str:
    """Kind of rows: "texts" without a pair, "pairs" without score or with positive/negative labels, else "scores"."""
    if not any(row.text_pair is not None for row in rows):
        return "texts"
    labels = {None if row.label is None else plain_name(row.label) for row in rows}
    return "pairs" if labels == {None} or labels <= TOGETHER | APART else "scores"


def target_of(row: Row, kind: str, span: Span = None) -> float:
    """The score of a row, or 1.0 for a positive and 0.0 for a negative pair. Raises ValueError with the reason.

    span: smallest and largest valid score (default: any).
    """
    if kind == "scores":
        fault = _fault(row, span)
        if fault:
            raise ValueError(fault)
        return float(row.label or "")
    return 0.0 if row.label is not None and plain_name(row.label) in APART else 1.0


def _fault(row: Row, span: Span) -> str | None:
    if row.label is None:
        return "the score is missing"
    return number_error(row.label, (-MOST, MOST) if span is None else span)


@dataclass(frozen=True)
class PairExamples(GroupedExamples):
    """Rows of one or two texts, which are encoded separately.

    is_scored: whether targets, float32 [rows], are scores, not 1 (positive pair) or 0 (negative pair).
    """

    is_by_place = True

    is_scored: bool = False

    @property
    def has_pairs(self) -> bool:
        return self.num_texts == 2

    @cached_property
    def duplicate_groups(self) -> torch.Tensor:
        """Group number of each row; rows with the same second (or single) text share one: int64 [rows]."""
        return self._equal_texts(self.num_texts - 1)

    @cached_property
    def questions(self) -> torch.Tensor:
        """The same for first (or single) texts."""
        return self._equal_texts(0)

    def _equal_texts(self, side: int) -> torch.Tensor:
        numbers: dict[bytes, int] = {}
        starts = self.texts.starts[side * len(self) : (side + 1) * len(self) + 1].tolist()
        windows = [np.asarray(ids).tobytes() for ids in self.input_ids[starts[0] : starts[-1]]]
        ends = [start - starts[0] for start in starts]
        texts = [b"|".join(windows[start:end]) for start, end in pairwise(ends)]
        return torch.tensor([numbers.setdefault(text, len(numbers)) for text in texts])

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """Packs the texts of rows; adds the labels "twins" and "questions", int64 [rows]: those properties."""
        batch = super().batch(indices)
        rows = batch.labels["example"]
        return batch.with_labels(twins=self.duplicate_groups[rows], questions=self.questions[rows])

    def portions(self, indices: Sequence[int] | np.ndarray) -> list[np.ndarray]:
        if not self.is_scored or not self.has_windows:
            return super().portions(indices)
        return portions_by_tokens(indices, self.lengths)

    @property
    def has_windows(self) -> bool:
        return len(self.input_ids) > len(self.texts)


def tokenize_pairs(
    rows: Sequence[Row],
    tokenizer: Tokenizer,
    max_length: int | None,
    *,
    targets: Sequence[float] | None = None,
    is_scored: bool = False,
    counts: TextCounts | None = None,
    long: LongTexts | None = None,
) -> PairExamples:
    """Tokenizes each text of each row separately, to sequences of at most `max_length` tokens.

    long: window settings for long texts, None to truncate them. Raises InputError for pairs mixed with single texts.
    """
    counts = TextCounts() if counts is None else counts
    seconds = [row.text_pair for row in rows if row.text_pair is not None]
    if seconds and len(seconds) != len(rows):
        raise InputError("Some rows are pairs and others single texts: pass only pairs or only single texts.")
    every = [*_texts(rows, [row.text for row in rows]), *_texts(rows if seconds else [], seconds)]
    if long is None:
        texts = one_window_each(tokenize_rows(every, tokenizer, max_length, counts=counts))
    else:
        texts = window_rows(every, tokenizer, max_length, long, counts=counts)
    gold = None if targets is None else torch.tensor(targets, dtype=torch.float32)
    return PairExamples(
        texts.input_ids, None, gold, rows, counts, texts=texts, num_texts=1 + bool(seconds), is_scored=is_scored
    )


def _texts(rows: Sequence[Row], texts: Collection[str]) -> list[Row]:
    return [Row(text, None, None, row.line, row.file) for row, text in zip(rows, texts, strict=True)]


DEV_ROWS = 32  # pairs per in-batch loss on dev, the usual training batch size
DIGITS = 6  # cosine similarities are rounded to this many digits before ranking


@dataclass(eq=False)
class Similarity(Task):
    """Cosine similarity of pairs compared with gold scores. Its logits are unit embeddings: float32 [rows, 2, size].

    Sparse embeddings (SPLADE, Formal et al. 2021) are compared by their dot product, and only those that are trained on
    scores have length 1. Their size is the number of terms in use. Pooling is that of the model (`model.sentence`),
    mean by default; it also pools the windows of a text.

    trained_on: kind of the training rows (KINDS); main_metric: "spearman" or "accuracy"; scale: scores mapped to cosine
    0 and 1: the lowest and highest of training (default: of the scored rows); score_range: smallest and largest valid
    score, which then is the scale; matryoshka: sizes of beginnings of an embedding that are trained, and scored, as
    embeddings too (Kusupati et al. 2022, equation 1), with the mean of all losses; sparsity: weights of the FLOPS
    regularizer for first and second texts, which grow in the first epoch with the square of the steps; None for dense
    ones.
    """

    name: ClassVar[str] = "similarity"
    report: ClassVar[str] = "maskwright.tasks.report:SimilarityReport"
    head = None

    num_labels = 0
    problem_type = None
    predicts = "the similarity of the two texts of a pair"

    trained_on: str = "scores"
    main_metric: str = "spearman"
    scale: tuple[float, float] | None = None
    long: LongTexts | None = None
    score_range: tuple[float, float] | None = None
    matryoshka: tuple[int, ...] = ()
    sparsity: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        self.head = None if self.sparsity is None else "mlm"
        if self.trained_on not in KINDS or self.main_metric not in ("spearman", "accuracy"):
            raise InputError(f"trained_on is '{self.trained_on}' and main_metric '{self.main_metric}'.")
        if self.scale is not None and len(self.scale) != 2:
            raise InputError(f"The scale {self.scale} is not two numbers.")
        self.score_range = as_range(self.score_range)
        self.matryoshka = tuple(self.matryoshka)
        if any(size < 1 for size in self.matryoshka):
            raise ConfigError(f"matryoshka is {self.matryoshka}; it takes numbers of dimensions, as in 64,128.")

    # -- rows and examples -----------------------------------------------------------------------------------

    @classmethod
    def read(
        cls,
        path: Path | str,
        *,
        columns: ColumnNames = None,
        skip_bad_rows: bool = False,
        score_range: Sequence[float] | None = None,
    ) -> Table:
        return read_similar(path, columns=columns, span=as_range(score_range), skip_bad_rows=skip_bad_rows)

    def why_unscored(self, rows: Sequence[Row]) -> Unscored | None:
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
        train_rows: Rows,
        dev_rows: Rows = (),
        *,
        train_file: str | None = None,
        score_range: tuple[float, float] | None = None,
        matryoshka: Sequence[int] = (),
        encoder: str | None = None,
        sparsity: tuple[float, float] | None = None,
        **long: Any,
    ) -> Similarity:
        kind = kind_of(train_rows)
        task = cls(kind, long=LongTexts.of(**long), score_range=score_range, matryoshka=tuple(matryoshka))
        if encoder == "sparse":
            task = replace(task, sparsity=sparsity or SPARSITY)
        if kind != "scores" and task.score_range is not None:
            raise InputError(f"--score-range needs scores, and {train_file or 'the training data'} has none.")
        if len(train_rows) < 2:
            rows = plural(len(train_rows), "row")
            raise InputError(
                f"{train_file or 'The training data'} has {rows}; contrastive training needs at least two."
            )
        golds = set(task.read_labels(train_rows, train_file)[1])
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
                    f"{dev_rows[0].file} contains single texts, on which embeddings cannot be scored: pass "
                    "--dev with pairs (text, text_pair and a score)."
                )
            dev_golds = set(task.read_labels(dev_rows)[1])
            task.main_metric = "accuracy" if dev_kind == "pairs" and len(dev_golds) == 1 else "spearman"
        return task

    def read_labels(
        self, rows: Rows, file: str | None = None, skip_bad_rows: bool = False, target: Any = None
    ) -> tuple[list[Any], Any]:
        kind = kind_of(rows)
        return super().read_labels(rows, file, skip_bad_rows, lambda row: target_of(row, kind, self.score_range))

    def tokenize(
        self, rows: Rows, tokenizer: Tokenizer, max_length: int | None, targets: Targets, counts: TextCounts
    ) -> PairExamples:
        is_scored = targets is not None and kind_of(rows) == "scores"
        return tokenize_pairs(
            rows, tokenizer, max_length, targets=targets, is_scored=is_scored, counts=counts, long=self.long
        )

    def unlabeled(
        self, rows: Sequence[Row], tokenizer: Tokenizer, max_length: int | None = None, *, counts: TextCounts
    ) -> PairExamples:
        if any(row.text_pair is None for row in rows):
            raise InputError(
                "This model compares two texts: pass pairs (--pair, or a column text_pair); to embed a single text use "
                "maskwright embed."
            )
        return self.tokenize(rows, tokenizer, max_length, None, counts)

    def notes(self, examples: Examples, name: str, max_length: int) -> list[str]:
        if isinstance(examples, PairExamples) and examples.has_windows:
            return window_notes(examples.texts, name, max_length, "text")
        return truncation_notes(examples.num_truncated, examples.counts.texts, f"{name} text", max_length)

    def bind(self, model: Model) -> None:
        whole = model.config.hidden_size * len(pooling_of(model).split("+"))
        whole = whole if model.projection is None else model.projection.size
        if self.matryoshka and max(self.matryoshka) >= whole:
            raise ConfigError(f"matryoshka has {max(self.matryoshka)}, but embeddings have only {whole} dimensions.")

    def row_groups(self, examples: Examples) -> np.ndarray | None:
        """Rows of one first text, so that its negatives are in its batch; None without such rows."""
        if not isinstance(examples, PairExamples) or examples.is_scored or bool((labeled(examples) > 0).all()):
            return None
        return examples.questions.numpy()

    # -- training --------------------------------------------------------------------------------------------

    def counts(self, batch: Batch) -> dict[str, int]:
        golds = batch.labels["sequence"]
        return {self.name: len(golds) if self.trained_on == "scores" else int((golds > 0).sum())}

    def outcome(self, model: Model, batch: Batch) -> LossSums:
        """Summed loss of a batch. Without scores it uses in-batch negatives, and counts texts that rank their pair
        first as correct.
        """
        gold, whole, losses = batch.labels["sequence"], self.vectors(model, batch), []
        logits, vectors = None, self._compared(whole)
        for first, second in (one.unbind(1) for one in self._beginnings(vectors)):
            if self.trained_on == "scores":
                # The cosine similarity should equal the score (Reimers and Gurevych 2019, section 3).
                losses.append(F.mse_loss((first * second).sum(-1), self._scaled(gold)) * len(gold))
                continue
            found = in_batch_logits(first, second, batch.labels["twins"], self._temperature)
            questions = batch.labels["questions"]  # a first text may have further answers, in other rows
            others = ((questions[:, None] == questions) & (gold > 0)).fill_diagonal_(False)
            found = found.masked_fill(others, float("-inf"))
            losses.append(in_batch_loss(found, gold > 0))
            logits = found if logits is None else logits
        loss = losses[0] if len(losses) == 1 else torch.stack(losses).mean()
        if self.sparsity is not None:
            costs = [weight * flops(side) for weight, side in zip(self.sparsity, whole.unbind(1), strict=True)]
            loss = loss + sum(costs) * min(self.epoch, 1.0) ** 2 * self.counts(batch)[self.name]
        right = {} if logits is None else {self.name: finds_its_pair(logits.detach(), gold > 0).sum()}
        return LossSums({self.name: loss}, self.counts(batch), right)

    @property
    def _temperature(self) -> float:
        return TEMPERATURE if self.sparsity is None else 1.0

    def _compared(self, vectors: Tensor) -> Tensor:
        """The embeddings, float32 [..., size], as their dot product compares them."""
        is_raw = self.sparsity is not None and self.trained_on != "scores"
        return vectors if is_raw else F.normalize(vectors, dim=-1)

    def _beginnings(self, vectors: Tensor) -> Iterator[Tensor]:
        """The unit embeddings, float32 [rows, 2, size], and those of each size of `matryoshka`."""
        yield vectors
        for size in self.matryoshka:
            yield F.normalize(vectors[..., :size], dim=-1)

    def vectors(self, model: Model, batch: Batch) -> Tensor:
        """Embeddings of the two texts of each row: float32 [rows, 2, size]. A single text is paired with itself; in
        training it is encoded twice with different dropout (SimCSE).
        """

        def encode() -> Tensor:
            """Embeddings of all texts: float32 [texts, size or vocab]."""
            return unit(model, batch) if self.sparsity is None else torch.cat([*SparseStates.of(model).weights(batch)])

        places, one = batch.labels["places"], encode()
        other = encode() if model.training and places.shape[1] == 1 else one
        return torch.stack([one[places[:, 0]], other[places[:, -1]]], dim=1)

    def baseline(self, data: TaskData) -> Baseline:
        return data.untrained()

    # -- answers ---------------------------------------------------------------------------------------------

    def forward(self, model: Model) -> Forward:
        return PooledVectors(model) if self.sparsity is None else SparseStates.of(model)

    def gather(self, outputs: Sequence[Any], model: Model, examples: Examples) -> Tensor:
        assert isinstance(examples, PairExamples)
        if self.sparsity is not None:
            sparse = self._compared(used_columns(outputs)).view(examples.num_texts, len(examples), -1)
            return sparse[[0, -1]].transpose(0, 1)
        vectors, texts = stacked(outputs), examples.texts
        if examples.has_windows:
            lengths = torch.from_numpy(texts.sequences.lengths)
            vectors = join_windows(vectors, lengths, texts.num_windows.tolist(), pooling_of(model))
        with torch.inference_mode():
            vectors = projected(model, vectors).cpu()
        sides = F.normalize(vectors, dim=-1).view(examples.num_texts, len(examples), -1)  # [1 or 2, rows, size]
        return sides[[0, -1]].transpose(0, 1)  # [rows, 2, size]

    def combine_predictions(self, logits: Sequence[Tensor], examples: Sequence[Examples]) -> Tensor:
        """Concatenates embeddings, float32 [rows, 2, sum of sizes]: their cosine is the mean cosine similarity."""
        return torch.cat(list(logits), dim=-1) / len(logits) ** 0.5

    def cosines(self, logits: Tensor) -> Tensor:
        """Cosine similarity of each pair: float32 [rows], -1 to 1; the dot product of sparse embeddings."""
        products = (logits[:, 0] * logits[:, 1]).sum(-1)
        return products.clamp(-1, 1) if self.sparsity is None else products

    def answers(self, logits: Tensor, examples: Examples) -> list[dict[str, Any]]:
        return [{"score": value} for value in self.cosines(logits).tolist()] if len(examples) else []

    def losses(self, logits: Tensor, examples: Examples) -> Tensor:
        """Squared difference between the cosine of each row and its score scaled to [0, 1]: float32 [rows]."""
        gold = labeled(examples)
        return (self.cosines(logits) - (self._scaled(gold) if _pairs(examples).is_scored else gold)).square()

    def score(self, logits: Tensor, examples: Examples) -> Evaluation:
        """Computes pearson and spearman between cosine similarities and scores; for positive pairs the retrieval
        accuracy among all second texts. Raises InputError for single texts.
        """
        if isinstance(examples, PairExamples) and not examples.has_pairs:
            raise InputError("Single texts cannot be scored: pass pairs of texts with a score.")
        found: dict[str, float] = {}
        for size, part in zip(("", *self.matryoshka), self._beginnings(logits), strict=True):
            found |= {f"{name}_{size}".rstrip("_"): value for name, value in self._scores(part, examples).items()}
        if self.sparsity is not None:
            used = (logits > 0).sum(-1).float().mean(0).tolist()
            found |= {"terms_first": used[0], "terms_second": used[1]}
        return Evaluation(found, logits, self._dev_loss(logits, examples))

    def _scores(self, logits: Tensor, examples: Examples) -> dict[str, float]:
        gold, cosines = labeled(examples), self.cosines(logits).numpy()
        found: dict[str, float] = {}
        if len(gold.unique()) > 1:
            order = cosines.round(DIGITS)  # equal pairs share a rank despite rounding errors
            found = {"spearman": scores.spearman(gold, order), "pearson": scores.pearson(gold, cosines)}
        if not _pairs(examples).is_scored:
            found["accuracy"] = retrieval_accuracy(logits, gold > 0, _pairs(examples).duplicate_groups)
        return found or {"spearman": 0.0, "pearson": 0.0}  # all rows have the same score

    def rate(self, logits: Tensor, examples: Examples) -> ScoredPredictions:
        if not isinstance(examples, PairExamples) or not examples.is_scored:
            raise InputError("Sentence embeddings are compared on pairs with scores; these rows have none.")
        parts = np.stack([labeled(examples).numpy(), self.cosines(logits).numpy().round(DIGITS)], axis=1)
        return ScoredPredictions(
            "spearman", parts.astype(np.float64), lambda both: scores.spearman(both[:, 0], both[:, 1])
        )

    def is_right(self, examples: Examples, row: int, answer: Mapping[str, Any]) -> bool:
        return False

    def _dev_loss(self, logits: Tensor, examples: Examples) -> float:
        """Mean squared error for scored rows; for pairs the in-batch loss over blocks of `DEV_ROWS` rows."""
        gold, total = labeled(examples), 0.0
        if _pairs(examples).is_scored:
            return float(self.losses(logits, examples).mean())
        for start in range(0, len(gold), DEV_ROWS):
            block, own = logits[start : start + DEV_ROWS], gold[start : start + DEV_ROWS]
            groups = _pairs(examples).duplicate_groups[start : start + DEV_ROWS]
            found = in_batch_logits(block[:, 0], block[:, 1], groups, self._temperature)
            total += float(in_batch_loss(found, own > 0))
        return total / max(int((gold > 0).sum()), 1)

    def _scaled(self, gold: Tensor) -> Tensor:
        low, high = self.scale or (float(gold.min()), float(gold.max()))
        return (gold - low) / max(high - low, 1e-12)


def _pairs(examples: Examples) -> PairExamples:
    assert isinstance(examples, PairExamples)
    return examples
