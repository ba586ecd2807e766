"""Multiple choice: which of several texts goes with a context (SWAG, CODAH, CosmosQA, ARC).

Devlin et al. 2019, section 4.4: every choice is a sequence of its own, (context, choice); the head gives each one
score, and the softmax runs over the choices of a row. Its logits are float32 [rows, choices]. A context that does not
fit is cut, or read in windows, whose scores of a choice are pooled (`long_texts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch.nn.functional as F
from torch import Tensor, from_numpy, tensor

from ..core.errors import InputError, RowError, RowErrors
from ..core.plural import plural
from ..data.batch import Batch
from ..objectives.outcome import Outcome
from ..text.choices import ChoiceRow, ChoiceTable, read_choices
from ..text.encoding import TextCounts
from . import metrics as scores
from .base import Evaluation, Task
from .choice_examples import ChoiceExamples, tokenize_choices
from .ensemble import mean_probabilities
from .examples import Examples, as_logits, map_batches
from .long_examples import LongExamples
from .long_texts import LONG_SETTINGS, LongTexts

if TYPE_CHECKING:
    from ..models.model import Model
    from ..text.tokenizer import Tokenizer


class Choice(Task):
    """One of several choices, by number from 0. The rows of a file share how many there are; files may differ.

    long: how contexts are read that do not fit into one sequence; None where they are cut.
    """

    name: ClassVar[str] = "choice"
    head = "choice"
    settings: ClassVar[tuple[str, ...]] = LONG_SETTINGS
    main_metric = "accuracy"
    num_labels = 0  # the head scores one choice at a time
    problem_type = None

    def __init__(self, long: LongTexts | None = None) -> None:
        self.labels: list[str] = []
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
        **long: Any,
    ) -> Choice:
        """Check the labels. Raises RowErrors for rows without a usable one, InputError for no rows.

        long, stride, pool, max_windows: see `LongTexts.of`.
        """
        if not train_rows:
            raise InputError(f"{train_file or 'The training data'} has no row: rows with choices are needed.")
        task = cls(LongTexts.of(**long))
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
        left_out = len(rows) - len(good)
        return tokenize_choices(good, tokenizer, max_length, targets, num_skipped=left_out, long=self.long)

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
        return tokenize_choices(rows, tokenizer, max_length, counts=counts, long=self.long)

    def for_training(self, examples: Examples) -> Examples:
        """With at most as many windows of each choice as training may read."""
        if self.long is None or not isinstance(examples, ChoiceExamples):
            return examples
        return examples.thinned(self.long.max_windows)

    def remarks(self, examples: Examples, name: str, max_length: int) -> list[str]:
        """Rows that are cut, or become windows."""
        assert isinstance(examples, ChoiceExamples)
        found, windows = [], examples.windows
        if windows is not None and len(windows.input_ids) + windows.num_left_out > len(windows):
            found.append(
                f"{len(windows):,} choices of {plural(len(examples), f'{name} row')} make "
                f"{len(windows.input_ids) + windows.num_left_out:,} windows of at most {max_length} tokens."
            )
            if windows.num_thinned:
                found.append(f"{windows.num_left_out:,} of them are left out in training (--max-windows).")
        if examples.num_truncated:
            whole = "the longer of context and choice first" if windows is None else "beside its context"
            have = "has" if examples.num_truncated == 1 else "have"
            rows = f"{examples.num_truncated:,} of {plural(len(examples), f'{name} row')}"
            found.append(f"{rows} {have} a choice that is cut to {max_length} tokens, {whole}.")
        return found

    # -- training --------------------------------------------------------------------------------------------

    def counts(self, batch: Batch) -> dict[str, int]:
        """Rows of a batch."""
        return {self.name: len(batch.labels["example"])}

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """One score for each choice of each row of a batch: float32 [rows, choices]."""
        flat = model.logits(batch).float()  # [sequences, 1]
        if self.long is not None and "windows" in batch.labels:
            flat = self.long.pooled(flat[batch.labels["order"]], batch.labels["windows"].tolist())  # [choices, 1]
        return flat.squeeze(-1)[batch.labels["places"]]

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
        if _windows(examples) is not None:
            return self._united(self._heard(model, examples, batch_tokens), examples)
        return map_batches(examples, lambda batch: self.scores(model, batch), device=device, batch_tokens=batch_tokens)

    def _heard(self, model: Model, examples: Examples, batch_tokens: int | None) -> Tensor:
        """The score of every window of every choice: float32 [windows, 1]."""
        windows = _windows(examples)
        assert windows is not None
        return windows.map(model.logits, next(model.parameters()).device, batch_tokens)

    def _united(self, heard: Tensor, examples: Examples) -> Tensor:
        """From the scores of windows to those of choices: float32 [rows, choices]."""
        assert self.long is not None and isinstance(examples, ChoiceExamples) and examples.windows is not None
        pooled = self.long.pooled(heard, examples.windows.num_windows.tolist())  # [rows * choices, 1]
        return pooled.reshape(-1, examples.num_choices)

    def predict(self, model: Model, examples: Examples, batch_tokens: int | None = None) -> list[dict[str, Any]]:
        """One answer for each row, as `answers` words it; of a choice of several windows also which was the loudest.

        "loudest" is {"window" (from 0), "windows" (how many), "start", "end" (characters of the context), "score"}: the
        window that gives the chosen text its highest score.
        """
        windows = _windows(examples)
        if windows is None or not len(examples):
            return super().predict(model, examples, batch_tokens)
        assert isinstance(examples, ChoiceExamples)
        heard = self.in_evaluation(model, lambda: self._heard(model, examples, batch_tokens))
        answers = self.answers(self._united(heard, examples), examples)
        for row, answer in enumerate(answers):
            choice = row * examples.num_choices + answer["label"]
            start, end = windows.starts[choice : choice + 2].tolist()
            if end - start == 1:
                continue
            best = int(heard[start:end, 0].argmax())
            first, last = windows.spans[start + best].tolist()
            score = float(heard[start + best, 0])
            place = {"window": best, "windows": end - start, "start": first, "end": last, "score": score}
            answer["loudest"] = place
        return answers

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
        """{"task": "choice"}, and "long" for windows."""
        return {"task": self.name} | ({} if self.long is None else {"long": self.long.to_json()})

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Choice:
        """The task of `to_json`. Raises ModelFolderError when the facts do not fit."""
        return cls(LongTexts.from_json(facts))


def _windows(examples: Examples) -> LongExamples | None:
    """The windows of the choices, None where each is one sequence."""
    assert isinstance(examples, ChoiceExamples)
    return examples.windows


def _targets(examples: Examples) -> Tensor:
    if examples.targets is None:
        raise InputError("Rows with their right choices are needed.")
    return examples.targets
