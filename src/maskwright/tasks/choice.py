"""Multiple choice: select the text that fits a context (SWAG, CODAH, CosmosQA, ARC).

Devlin et al. 2019, section 4.4: each choice is a separate sequence (context, choice); the head computes one score for
it, and the softmax runs over the choices of a row. Its logits are float32 [rows, choices]. A long context is truncated,
or split into windows whose scores are pooled (`long_texts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, from_numpy, tensor

from ..core.errors import InputError
from ..core.util import plural, shorten
from ..data.batch import Batch, order_by_length
from ..objectives.outcome import LossSums
from ..text.readers.choices import ChoiceRow
from ..text.readers.tables import FoundRows, Row
from ..text.tokenizers.encoding import TextCounts
from .base import Baseline, ColumnNames, Evaluation, Rows, TableRow, Targets, Task, TaskData, require_rows
from .base import window_rows as top_rows
from .evaluation import metrics as scores
from .evaluation.compare import ScoredPredictions, mean
from .evaluation.metrics import mean_probabilities
from .examples import Examples, RowCounts, as_logits, stacked, tokenize_rows
from .sequence import labeled
from .windows import FIRST, LongExamples, LongTexts, portions_by_tokens, window_rows

if TYPE_CHECKING:
    from ..models.model import Model
    from ..text.tokenizers.tokenizer import Tokenizer

# -- Multiple choice: select the text that fits a context (SWAG, CODAH, CosmosQA, ARC) ------------------------------

# -- Multiple-choice rows as packed sequences (context, choice), one per choice (Devlin et al. 2019, section 4.4)
#
# All choices of a row are in the same batch, because the softmax runs over them. A batch is sorted by length; its label
# "places" maps the choices of each row to sequences. A long context is truncated, or split into windows that each
# contain the whole choice, so a choice can have several sequences.


@dataclass(frozen=True)
class ChoiceExamples(Examples):
    """Rows with `num_choices` choices each.

    `input_ids` has one entry per choice or window, row by row. Everything else refers to rows: `len`, `lengths` (tokens
    of all choices of a row, int64 [rows]), `targets` (correct choice, int64 [rows]) and the indices of `batch`.
    cut_rows: number of rows with a truncated choice; windows: the choices as windows, one "row" of them per choice;
    None if each choice is one sequence.
    """

    num_choices: int = 2
    cut_rows: int = 0
    windows: LongExamples | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.input_ids if self.windows is None else self.windows) // self.num_choices

    @property
    def num_truncated(self) -> int:
        """Number of rows with a truncated choice."""
        return self.cut_rows

    @cached_property
    def sequence_lengths(self) -> np.ndarray:
        """Tokens of each choice, over all its windows, with special tokens: int64 [rows * choices]."""
        if self.windows is not None:
            return self.windows.lengths
        return np.fromiter((len(ids) for ids in self.input_ids), dtype=np.int64, count=len(self.input_ids))

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of all choices of each row: int64 [rows]."""
        return self.sequence_lengths.reshape(-1, self.num_choices).sum(axis=1)

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """Packs all choices of the rows `indices`.

        Batch labels: "example" int64 [rows], the rows; "places" int64 [rows, choices], sequence of each choice;
        "sequence" int64 [rows], the correct choice, if the examples have targets. With windows also "order" and
        "windows" (see LongExamples.batch), and "places" refers to the pooled windows.
        """
        rows = np.asarray(indices, dtype=np.int64)
        choices = (rows[:, None] * self.num_choices + np.arange(self.num_choices)).ravel()  # [rows * choices]
        order = order_by_length(self.sequence_lengths[choices])
        places = np.empty(len(order), dtype=np.int64)
        places[order] = np.arange(len(order))
        labels = {
            "example": torch.from_numpy(rows),
            "places": torch.from_numpy(places.reshape(-1, self.num_choices)),
        }
        if self.targets is not None:
            labels["sequence"] = self.targets[labels["example"]]
        if self.windows is not None:
            packed = self.windows.batch(choices)
            return replace(packed, labels=labels | {name: packed.labels[name] for name in ("order", "windows")})
        chosen = choices[order]
        types = None if self.token_types is None else [self.token_types[index] for index in chosen]
        return Batch.from_sequences([self.input_ids[index] for index in chosen], types, labels)

    def groups(self) -> list[Sequence[int]]:
        """As of the windows, if there are any."""
        return super().groups() if self.windows is None else self.windows.groups()

    def portions(self, indices: Sequence[int] | np.ndarray) -> list[np.ndarray]:
        """With windows, splits a batch into micro-batches; see `portions_by_tokens`."""
        if self.windows is None:
            return super().portions(indices)
        return portions_by_tokens(indices, self.lengths)

    def limit_windows(self, max_windows: int) -> ChoiceExamples:
        if self.windows is None:
            return self
        fewer = self.windows.limit_windows(max_windows)
        return replace(self, input_ids=fewer.input_ids, token_types=fewer.token_types, windows=fewer)


def tokenize_choices(
    rows: Sequence[ChoiceRow],
    tokenizer: Tokenizer,
    max_length: int | None,
    targets: Tensor | None = None,
    *,
    counts: TextCounts | None = None,
    long: LongTexts | None = None,
) -> ChoiceExamples:
    """Tokenizes each (context, question and choice) to at most `max_length` tokens, truncating the longer side first.

    counts: accumulates truncated and unknown tokens, per choice; long: window settings for long contexts, None to
    truncate them. Raises InputError unless all rows have the same number of choices.
    """
    sizes = {len(row.choices) for row in rows}
    if len(sizes) > 1:
        raise InputError(f"Rows have {' or '.join(map(str, sorted(sizes)))} choices: all must have the same number.")
    counts = TextCounts() if counts is None else counts
    own = RowCounts(total=counts)
    num_choices = sizes.pop() if sizes else 2
    pairs = [Row(*pair, None, row.line, row.file) for row in rows for pair in row.pairs()]
    windows = None if long is None else window_rows(pairs, tokenizer, max_length, long, counts=own, side=FIRST)
    found = tokenize_rows(pairs, tokenizer, max_length, counts=own) if windows is None else windows
    return ChoiceExamples(
        found.input_ids,
        found.token_types,
        targets,
        rows,
        counts,
        num_choices=num_choices,
        cut_rows=int(np.asarray(own.was_cut, dtype=bool).reshape(-1, num_choices).any(axis=1).sum()),
        windows=windows,
    )


@dataclass(eq=False)
class Choice(Task):
    """Predicts one of several choices, numbered from 0. All rows of a file have the same number of choices.

    long: window settings for long contexts; None to truncate them.
    """

    name: ClassVar[str] = "choice"
    report: ClassVar[str] = "maskwright.tasks.report:ChoiceReport"
    head = "choice"
    usage = ("predict", {"texts": ("your text",), "choice": ("one ending", "another ending")})
    main_metric = "accuracy"
    num_labels = 0  # the head computes one score per choice
    problem_type = None

    long: LongTexts | None = None

    # -- rows and examples -----------------------------------------------------------------------------------

    @classmethod
    def read(cls, path: Path | str, *, columns: ColumnNames = None, skip_bad_rows: bool = False) -> FoundRows:
        """Reads rows with the number of the correct choice; see `text.readers.choices.read_choices`."""
        if columns:
            raise InputError(
                "Multiple choice has no column mapping: the columns must be named context, question, choices, label."
            )
        return super().read(path, skip_bad_rows=skip_bad_rows)

    @classmethod
    def from_rows(cls, train_rows: Rows, dev_rows: Rows = (), *, train_file: str | None = None, **long: Any) -> Choice:
        """Builds the task. Raises InputError if there are no rows. long: see `LongTexts.of`."""
        require_rows(train_rows, train_file, "rows with choices")
        return cls(LongTexts.of(**long))

    def row_target(self, row: ChoiceRow) -> int:
        if row.label is None:
            raise ValueError("is missing")
        if not 0 <= row.label < len(row.choices):
            raise ValueError(f"{row.label} is out of range for {len(row.choices)} choices (counted from 0)")
        return row.label

    def tokenize(
        self, rows: Rows, tokenizer: Tokenizer, max_length: int | None, targets: Targets, counts: TextCounts
    ) -> ChoiceExamples:
        """Tokenizes rows to at most `max_length` tokens per choice; see `tokenize_choices`."""
        gold = None if targets is None else tensor(targets)
        return tokenize_choices(rows, tokenizer, max_length, gold, counts=counts, long=self.long)

    def unlabeled(
        self, rows: Sequence[Any], tokenizer: Tokenizer, max_length: int | None = None, *, counts: TextCounts
    ) -> ChoiceExamples:
        """Tokenizes rows without targets. Raises InputError for a text without choices."""
        for row in rows:
            if not isinstance(row, ChoiceRow):
                raise InputError(
                    f"{row.file}, line {row.line}: this multiple-choice model needs choices: pass a file of rows with "
                    "choices, or --choice at least twice."
                )
        return tokenize_choices(rows, tokenizer, max_length, counts=counts, long=self.long)

    def notes(self, examples: Examples, name: str, max_length: int) -> list[str]:
        assert isinstance(examples, ChoiceExamples)
        found, windows = [], examples.windows
        if windows is not None and len(windows.input_ids) + windows.num_dropped_windows > len(windows):
            found.append(
                f"{len(windows):,} choices of {plural(len(examples), f'{name} row')} make "
                f"{len(windows.input_ids) + windows.num_dropped_windows:,} windows of at most {max_length} tokens."
            )
            if windows.num_limited_rows:
                found.append(f"{windows.num_dropped_windows:,} of them are skipped in training (max_windows).")
        if examples.num_truncated:
            how = "the longer of context and choice first" if windows is None else "together with its context"
            have = "has" if examples.num_truncated == 1 else "have"
            rows = f"{examples.num_truncated:,} of {plural(len(examples), f'{name} row')}"
            found.append(f"{rows} {have} a choice truncated to {max_length} tokens, {how}.")
        return found

    # -- training --------------------------------------------------------------------------------------------

    def counts(self, batch: Batch) -> dict[str, int]:
        return {self.name: len(batch.labels["example"])}

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """Scores of the choices of each row of a batch: float32 [rows, choices]."""
        flat = model.logits(batch).float()  # [sequences, 1]
        if self.long is not None and "windows" in batch.labels:
            flat = self.long.pooled(flat[batch.labels["order"]], batch.labels["windows"].tolist())  # [choices, 1]
        return flat.squeeze(-1)[batch.labels["places"]]

    def outcome(self, model: Model, batch: Batch) -> LossSums:
        """Summed loss and number of correct rows of a batch with the label "sequence"."""
        logits, targets = self.scores(model, batch), batch.labels["sequence"]
        total = F.cross_entropy(logits, targets, reduction="sum")
        correct = (logits.detach().argmax(dim=-1) == targets).sum()
        return LossSums({self.name: total}, self.counts(batch), {self.name: correct})

    def baseline(self, data: TaskData) -> Baseline:
        assert isinstance(data.dev, ChoiceExamples)
        return Baseline(1 / data.dev.num_choices, "guessing")

    # -- answers ---------------------------------------------------------------------------------------------

    def gather(self, outputs: Sequence[Tensor], model: Model, examples: Examples) -> Tensor:
        """float32 [rows, choices]. outputs: float32 [1] for each choice, or each window of one."""
        assert isinstance(examples, ChoiceExamples)
        flat = stacked(outputs)  # [sequences, 1]
        if self.long is not None and examples.windows is not None:
            flat = self.long.pooled(flat, examples.windows.num_windows.tolist())  # [rows * choices, 1]
        return flat.reshape(-1, examples.num_choices)

    def finish(self, outputs: Sequence[Tensor], model: Model, examples: Examples) -> list[dict[str, Any]]:
        """Decodes one prediction per row; for a chosen text with several windows it includes the top-scoring one.

        "loudest" is {"window" (from 0), "windows" (their number), "start", "end" (characters of the context), "score"}.
        """
        answers = super().finish(outputs, model, examples)
        windows = _windows(examples)
        if windows is None:
            return answers
        assert isinstance(examples, ChoiceExamples)
        window_logits = stacked(outputs)
        for row, answer in enumerate(answers):
            choice = row * examples.num_choices + answer["label"]
            start, end = windows.starts[choice : choice + 2].tolist()
            if end - start == 1:
                continue
            best = int(window_logits[start:end, 0].argmax())
            first, last = windows.spans[start + best].tolist()
            score = float(window_logits[start + best, 0])
            place = {"window": best, "windows": end - start, "start": first, "end": last, "score": score}
            answer["loudest"] = place
        return answers

    @staticmethod
    def probabilities(logits: Tensor) -> Tensor:
        """Softmax over the choices of each row: float64 [rows, choices]."""
        return logits.double().softmax(dim=-1)

    def answers(self, logits: Tensor, examples: Examples) -> list[dict[str, Any]]:
        """{"label", "choice", "score", "choices", "probabilities"} for each row: number and text of the choice."""
        found = []
        for row, shares in zip(examples.rows, self.probabilities(logits).tolist(), strict=True):
            best = max(range(len(shares)), key=shares.__getitem__)
            answer = {"label": best, "choice": row.choices[best], "score": shares[best]}
            found.append({**answer, "choices": list(row.choices), "probabilities": shares})
        return found

    def combine_predictions(self, logits: Sequence[Tensor], examples: Sequence[Examples]) -> Tensor:
        """Averages probabilities; returns the logits float32 [rows, choices] of their mean."""
        shares = [self.probabilities(part).numpy() for part in logits]
        return as_logits(from_numpy(mean_probabilities(shares))).float()

    def losses(self, logits: Tensor, examples: Examples) -> Tensor:
        """float32 [rows]."""
        return F.cross_entropy(logits, labeled(examples), reduction="none")

    def score(self, logits: Tensor, examples: Examples) -> Evaluation:
        targets = labeled(examples)
        shares = self.probabilities(logits).numpy()
        found = {
            "accuracy": scores.accuracy(targets.numpy(), shares.argmax(axis=1)),
            "ece": scores.ece(targets.numpy(), shares),
        }
        return Evaluation(found, logits, float(F.cross_entropy(logits, targets)))

    def rate(self, logits: Tensor, examples: Examples) -> ScoredPredictions:
        right = logits.argmax(dim=-1).numpy() == labeled(examples).numpy()
        return ScoredPredictions("accuracy", right[:, None].astype(np.float64), mean, right)

    def is_right(self, examples: Examples, row: int, answer: Mapping[str, Any]) -> bool:
        return bool(answer["label"] == int(labeled(examples)[row]))

    def table_rows(self, answer: Mapping[str, Any]) -> list[TableRow]:
        return [TableRow("", f"{answer['label']} {shorten(answer['choice'])}", answer["score"]), *top_rows(answer)]


def _windows(examples: Examples) -> LongExamples | None:
    """The windows of the choices; None if each choice is one sequence."""
    assert isinstance(examples, ChoiceExamples)
    return examples.windows
