"""Multiple choice: which of several texts goes with a context (SWAG, CODAH, CosmosQA, ARC).

Devlin et al. 2019, section 4.4: every choice is a sequence of its own, (context, choice); the head gives each one
score, and the softmax runs over the choices of a row. Its logits are float32 [rows, choices].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch.nn.functional as F
from torch import Tensor, from_numpy, tensor

from ..core.errors import InputError, RowError, RowErrors
from ..data.batch import Batch
from ..objectives.outcome import Outcome
from ..text.choices import ChoiceRow, ChoiceTable, read_choices
from ..text.encoding import TextCounts
from . import metrics as scores
from .base import Evaluation, Task
from .choice_examples import ChoiceExamples, tokenize_choices
from .ensemble import mean_probabilities
from .examples import Examples, as_logits, map_batches

if TYPE_CHECKING:
    from ..models.model import Model
    from ..text.tokenizer import Tokenizer


class Choice(Task):
    """One of several choices, by number from 0. The rows of a file share how many there are; files may differ."""

    name: ClassVar[str] = "choice"
    head = "choice"
    main_metric = "accuracy"
    num_labels = 0  # the head scores one choice at a time
    problem_type = None

    def __init__(self) -> None:
        self.labels: list[str] = []

    # -- rows and examples -----------------------------------------------------------------------------------

    @classmethod
    def read(
        cls,
        path: Path | str,
        *,
        columns: Mapping[str, str] | None = None,
        multi_label: bool | None = None,
        skip_bad_rows: bool = False,
    ) -> ChoiceTable:
        """Rows with the number of the right choice; see `text.choices.read_choices`."""
        if columns:
            raise InputError("Multiple choice has no columns to choose: name them context, question, choices, label.")
        return read_choices(path, skip_bad_rows=skip_bad_rows)

    @classmethod
    def from_rows(
        cls,
        train_rows: Sequence[ChoiceRow],
        dev_rows: Sequence[ChoiceRow] = (),
        *,
        train_file: str | None = None,
        dev_file: str | None = None,
    ) -> Choice:
        """Check the labels. Raises RowErrors for rows without a usable one, InputError for no rows."""
        if not train_rows:
            raise InputError(f"{train_file or 'The training data'} has no row: rows with choices are needed.")
        task = cls()
        task.check(train_rows, train_file)
        task.check(dev_rows, dev_file)
        return task

    def check(
        self, rows: Sequence[ChoiceRow], file: str | None = None, *, skip_bad_rows: bool = False
    ) -> list[ChoiceRow]:
        """The rows whose label is one of their choices. Raises RowErrors with all others unless `skip_bad_rows`."""
        good, bad = [], []
        for row in rows:
            if row.label is not None and 0 <= row.label < len(row.choices):
                good.append(row)
                continue
            what = "is missing" if row.label is None else f"{row.label} is none of the {len(row.choices)} choices"
            bad.append(RowError(file or row.file, row.line, "label", what))
        if bad and not skip_bad_rows:
            raise RowErrors(bad)
        return good

    def examples(
        self,
        rows: Sequence[ChoiceRow],
        tokenizer: Tokenizer,
        max_length: int | None = None,
        *,
        file: str | None = None,
        skip_bad_rows: bool = False,
    ) -> ChoiceExamples:
        """Rows with their right choices, at most `max_length` tokens a choice; see `Task.examples`."""
        good = self.check(rows, file, skip_bad_rows=skip_bad_rows)
        if not good:
            raise InputError(f"{file or 'The data'} has no usable row: give at least one with its right choice.")
        targets = tensor([row.label for row in good])
        return tokenize_choices(good, tokenizer, max_length, targets, num_skipped=len(rows) - len(good))

    def unlabelled(
        self, rows: Sequence[Any], tokenizer: Tokenizer, max_length: int | None = None, *, counts: TextCounts
    ) -> ChoiceExamples:
        """Rows as sequences, without targets. Raises InputError for a text that has no choices."""
        for row in rows:
            if not isinstance(row, ChoiceRow):
                raise InputError(
                    f"{row.file}, line {row.line}: this model chooses between texts, and there is nothing to choose "
                    "from: give a file of rows with choices, or --choice twice or more."
                )
        return tokenize_choices(rows, tokenizer, max_length, counts=counts)

    def remarks(self, examples: Examples, name: str, max_length: int) -> list[str]:
        """Rows that are cut."""
        if not examples.num_truncated:
            return []
        return [
            f"{examples.num_truncated:,} of {len(examples):,} {name} rows have a choice that is cut to {max_length} "
            "tokens, the longer of context and choice first."
        ]

    # -- training --------------------------------------------------------------------------------------------

    def counts(self, batch: Batch) -> dict[str, int]:
        """Rows of a batch."""
        return {self.name: len(batch.labels["example"])}

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """One score for each choice of each row of a batch: float32 [rows, choices]."""
        flat = model.logits(batch).float().squeeze(-1)  # [sequences]
        return flat[batch.labels["places"]]

    def outcome(self, model: Model, batch: Batch) -> Outcome:
        """Summed loss and right answers of a batch with the label "sequence"."""
        logits, targets = self.scores(model, batch), batch.labels["sequence"]
        total = F.cross_entropy(logits, targets, reduction="sum")
        correct = (logits.detach().argmax(dim=-1) == targets).sum()
        return Outcome({self.name: total}, self.counts(batch), {self.name: correct})

    # -- answers ---------------------------------------------------------------------------------------------

    def outputs(self, model: Model, examples: Examples, batch_tokens: int | None) -> Tensor:
        """float32 [rows, choices]."""
        device = next(model.parameters()).device
        return map_batches(examples, lambda batch: self.scores(model, batch), device=device, batch_tokens=batch_tokens)

    @staticmethod
    def probabilities(logits: Tensor) -> Tensor:
        """Softmax over the choices of each row: float64 [rows, choices]."""
        return logits.double().softmax(dim=-1)

    def answers(self, logits: Tensor, examples: Examples) -> list[dict[str, Any]]:
        """{"label", "choice", "score", "choices", "probabilities"} for each row: number and text of the chosen one."""
        found = []
        for row, shares in zip(examples.rows, self.probabilities(logits).tolist(), strict=True):
            best = max(range(len(shares)), key=shares.__getitem__)
            answer = {"label": best, "choice": row.choices[best], "score": shares[best]}
            found.append({**answer, "choices": list(row.choices), "probabilities": shares})
        return found

    def unite(self, logits: Sequence[Tensor], examples: Sequence[Examples]) -> Tensor:
        """Logits float32 [rows, choices] whose probabilities are the mean of the models' probabilities."""
        shares = [self.probabilities(part).numpy() for part in logits]
        return as_logits(from_numpy(mean_probabilities(shares))).float()

    def losses(self, logits: Tensor, examples: Examples) -> Tensor:
        """float32 [rows]."""
        return F.cross_entropy(logits, _targets(examples), reduction="none")

    def score(self, logits: Tensor, examples: Examples) -> Evaluation:
        """accuracy and ece, and the mean loss over rows."""
        targets = _targets(examples)
        shares = self.probabilities(logits).numpy()
        found = {
            "accuracy": scores.accuracy(targets.numpy(), shares.argmax(axis=1)),
            "ece": scores.ece(targets.numpy(), shares),
        }
        return Evaluation(found, logits, float(F.cross_entropy(logits, targets)))

    def is_right(self, examples: Examples, row: int, answer: Mapping[str, Any]) -> bool:
        """Whether the chosen number is the right one."""
        return bool(answer["label"] == int(_targets(examples)[row]))

    # -- files -----------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """{"task": "choice"}."""
        return {"task": self.name}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Choice:
        """The task of `to_json`; it has no facts to check."""
        return cls()


def _targets(examples: Examples) -> Tensor:
    if examples.targets is None:
        raise InputError("Rows with their right choices are needed.")
    return examples.targets
