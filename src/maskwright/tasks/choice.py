"""Multiple choice: select the text that fits a context (SWAG, CODAH, CosmosQA, ARC).

Devlin et al. 2019, section 4.4: each choice is a separate sequence (context, choice); the head computes one score for
it, and the softmax runs over the choices of a row. Its logits are float32 [rows, choices]. A long context is truncated,
or split into windows whose scores are pooled (`long_texts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch.nn.functional as F
from torch import Tensor, from_numpy, tensor

from ..core.errors import InputError
from ..core.util import plural, shorten
from ..data.batch import Batch
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
from .windows import FIRST, GroupedExamples, LongTexts, one_window_each, portions_by_tokens, window_rows

if TYPE_CHECKING:
    from ..models.model import Model
    from ..text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True)
class ChoiceExamples(GroupedExamples):
    """Rows with `num_texts` choices each, all in one batch; `targets` are the correct ones, int64 [rows].

    cut_rows: number of rows with a truncated choice; is_long: whether choices are read in windows.
    """

    cut_rows: int = 0
    is_long: bool = False

    @property
    def num_truncated(self) -> int:
        return self.cut_rows

    def portions(self, indices: Sequence[int] | np.ndarray) -> list[np.ndarray]:
        return portions_by_tokens(indices, self.lengths) if self.is_long else super().portions(indices)


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
    if long is None:
        texts = one_window_each(tokenize_rows(pairs, tokenizer, max_length, counts=own))
    else:
        texts = window_rows(pairs, tokenizer, max_length, long, counts=own, side=FIRST)
    return ChoiceExamples(
        texts.input_ids,
        texts.token_types,
        targets,
        rows,
        counts,
        texts=texts,
        num_texts=num_choices,
        cut_rows=int(np.asarray(own.was_cut, dtype=bool).reshape(-1, num_choices).any(axis=1).sum()),
        is_long=long is not None,
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
        gold = None if targets is None else tensor(targets)
        return tokenize_choices(rows, tokenizer, max_length, gold, counts=counts, long=self.long)

    def unlabeled(
        self, rows: Sequence[Any], tokenizer: Tokenizer, max_length: int | None = None, *, counts: TextCounts
    ) -> ChoiceExamples:
        for row in rows:
            if not isinstance(row, ChoiceRow):
                raise InputError(
                    f"{row.file}, line {row.line}: this multiple-choice model needs choices: pass a file of rows with "
                    "choices, or --choice at least twice."
                )
        return tokenize_choices(rows, tokenizer, max_length, counts=counts, long=self.long)

    def notes(self, examples: Examples, name: str, max_length: int) -> list[str]:
        assert isinstance(examples, ChoiceExamples)
        found, windows = [], examples.texts
        if examples.is_long and len(windows.input_ids) + windows.num_dropped_windows > len(windows):
            found.append(
                f"{len(windows):,} choices of {plural(len(examples), f'{name} row')} make "
                f"{len(windows.input_ids) + windows.num_dropped_windows:,} windows of at most {max_length} tokens."
            )
            if windows.num_limited_rows:
                found.append(f"{windows.num_dropped_windows:,} of them are skipped in training (max_windows).")
        if examples.num_truncated:
            how = "the longer of context and choice first" if not examples.is_long else "together with its context"
            have = "has" if examples.num_truncated == 1 else "have"
            rows = f"{examples.num_truncated:,} of {plural(len(examples), f'{name} row')}"
            found.append(f"{rows} {have} a choice truncated to {max_length} tokens, {how}.")
        return found

    # -- training --------------------------------------------------------------------------------------------

    def counts(self, batch: Batch) -> dict[str, int]:
        return {self.name: len(batch.labels["example"])}

    def scores(self, model: Model, batch: Batch) -> Tensor:
        flat = model.logits(batch).float()  # [sequences, 1]
        if self.long is not None:
            flat = self.long.pooled(flat[batch.labels["order"]], batch.labels["windows"].tolist())  # [choices, 1]
        return flat.squeeze(-1)[batch.labels["places"]]

    def outcome(self, model: Model, batch: Batch) -> LossSums:
        logits, targets = self.scores(model, batch), batch.labels["sequence"]
        total = F.cross_entropy(logits, targets, reduction="sum")
        correct = (logits.detach().argmax(dim=-1) == targets).sum()
        return LossSums({self.name: total}, self.counts(batch), {self.name: correct})

    def baseline(self, data: TaskData) -> Baseline:
        assert isinstance(data.dev, ChoiceExamples)
        return Baseline(1 / data.dev.num_texts, "guessing")

    # -- answers ---------------------------------------------------------------------------------------------

    def gather(self, outputs: Sequence[Tensor], model: Model, examples: Examples) -> Tensor:
        assert isinstance(examples, ChoiceExamples)
        flat = stacked(outputs)  # [sequences, 1]
        if self.long is not None:
            flat = self.long.pooled(flat, examples.texts.num_windows.tolist())  # [rows * choices, 1]
        return flat.reshape(-1, examples.num_texts)

    def finish(self, outputs: Sequence[Tensor], model: Model, examples: Examples) -> list[dict[str, Any]]:
        """Decodes one prediction per row, with "loudest" (`LongExamples.place`) if the choice has several windows."""
        answers = super().finish(outputs, model, examples)
        assert isinstance(examples, ChoiceExamples)
        texts, window_logits = examples.texts, stacked(outputs)
        for row, answer in enumerate(answers):
            choice = row * examples.num_texts + answer["label"]
            own = window_logits[texts.starts[choice] : texts.starts[choice + 1], 0]
            if len(own) > 1:
                answer["loudest"] = texts.place(choice, int(own.argmax()), float(own.max()))
        return answers

    @staticmethod
    def probabilities(logits: Tensor) -> Tensor:
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
        shares = [self.probabilities(part).numpy() for part in logits]
        return as_logits(from_numpy(mean_probabilities(shares))).float()

    def losses(self, logits: Tensor, examples: Examples) -> Tensor:
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
