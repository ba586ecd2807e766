"""Multiple choice: select the text that fits a context (SWAG, CODAH, CosmosQA, ARC).

Devlin et al. 2019, section 4.4: each choice is a separate sequence (context, choice); the head computes one score for
it, and the softmax runs over the choices of a row. Its logits are float32 [rows, choices]. A long context is truncated,
or split into windows whose scores are pooled (`long_texts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch.nn.functional as F
from torch import Tensor, from_numpy, tensor

from ...core.errors import InputError, RowError, RowErrors
from ...core.plural import plural
from ...data.batch import Batch
from ...objectives.outcome import LossSums
from ...text.readers.choices import ChoiceRow, ChoiceTable, read_choices
from ...text.tokenizers.encoding import TextCounts
from ..base import Evaluation, Task
from ..data import Baseline, TaskData
from ..evaluation import metrics as scores
from ..evaluation.ensemble import mean_probabilities
from ..rows.examples import Examples, as_logits
from ..rows.forward import stacked
from ..rows.long_examples import LongExamples
from ..rows.long_texts import LongTexts
from .examples import ChoiceExamples, tokenize_choices

if TYPE_CHECKING:
    from ...models.model import Model
    from ...text.tokenizers.tokenizer import Tokenizer


class Choice(Task):
    """Predicts one of several choices, numbered from 0. All rows of a file have the same number of choices.

    long: window settings for long contexts; None to truncate them.
    """

    name: ClassVar[str] = "choice"
    table = "maskwright.tasks.choice.table:choice_rows"
    report: ClassVar[str] = "maskwright.tasks.choice.report:ChoiceReport"
    rating: ClassVar[str] = "maskwright.tasks.choice.rating:rate"
    head = "choice"
    usage = ("predict", {"texts": ("your text",), "choice": ("one ending", "another ending")})
    main_metric = "accuracy"
    num_labels = 0  # the head computes one score per choice
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
        skip_bad_rows: bool = False,
    ) -> ChoiceTable:
        """Reads rows with the number of the correct choice; see `text.readers.choices.read_choices`."""
        if columns:
            raise InputError(
                "Multiple choice has no column mapping: the columns must be named context, question, choices, label."
            )
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
        """Validates the labels. Raises RowErrors for missing or invalid labels, InputError if there are no rows.

        long, stride, pool, max_windows: see `LongTexts.of`.
        """
        if not train_rows:
            raise InputError(f"{train_file or 'The training data'} has no rows: pass rows with choices.")
        task = cls(LongTexts.of(**long))
        task.check(train_rows, train_file)
        task.check(dev_rows, dev_file)
        return task

    def check(
        self, rows: Sequence[ChoiceRow], file: str | None = None, *, skip_bad_rows: bool = False
    ) -> list[ChoiceRow]:
        """Returns the rows with a valid label. Raises RowErrors for all others unless `skip_bad_rows`."""
        good, bad = [], []
        for row in rows:
            if row.label is not None and 0 <= row.label < len(row.choices):
                good.append(row)
                continue
            what = f"{row.label} is out of range for {len(row.choices)} choices (counted from 0)"
            if row.label is None:
                what = "is missing"
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
        """Tokenizes labeled rows to at most `max_length` tokens per choice; see `Task.examples`."""
        good = self.check(rows, file, skip_bad_rows=skip_bad_rows)
        if not good:
            raise InputError(f"{file or 'The data'} has no usable row: pass at least one with its correct choice.")
        targets = tensor([row.label for row in good])
        num_skipped = len(rows) - len(good)
        return tokenize_choices(good, tokenizer, max_length, targets, num_skipped=num_skipped, long=self.long)

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

    def for_training(self, examples: Examples) -> Examples:
        """Keeps at most `max_windows` windows of each choice."""
        if self.long is None or not isinstance(examples, ChoiceExamples):
            return examples
        return examples.limit_windows(self.long.max_windows)

    def notes(self, examples: Examples, name: str, max_length: int) -> list[str]:
        """Notes about truncated rows and windows."""
        assert isinstance(examples, ChoiceExamples)
        found, windows = [], examples.windows
        if windows is not None and len(windows.input_ids) + windows.num_dropped_windows > len(windows):
            found.append(
                f"{len(windows):,} choices of {plural(len(examples), f'{name} row')} make "
                f"{len(windows.input_ids) + windows.num_dropped_windows:,} windows of at most {max_length} tokens."
            )
            if windows.num_limited_rows:
                found.append(f"{windows.num_dropped_windows:,} of them are skipped in training (--max-windows).")
        if examples.num_truncated:
            how = "the longer of context and choice first" if windows is None else "together with its context"
            have = "has" if examples.num_truncated == 1 else "have"
            rows = f"{examples.num_truncated:,} of {plural(len(examples), f'{name} row')}"
            found.append(f"{rows} {have} a choice truncated to {max_length} tokens, {how}.")
        return found

    # -- training --------------------------------------------------------------------------------------------

    def counts(self, batch: Batch) -> dict[str, int]:
        """Number of rows in a batch."""
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
        """Accuracy of random guessing."""
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
        """Whether the predicted choice is correct."""
        return bool(answer["label"] == int(_targets(examples)[row]))

    # -- files -----------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """{"task": "choice"}, and "long" for windows."""
        return {"task": self.name} | ({} if self.long is None else {"long": self.long.to_json()})

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Choice:
        """Builds the task from the result of `to_json`. Raises ModelFolderError for invalid values."""
        return cls(LongTexts.from_json(facts))


def _windows(examples: Examples) -> LongExamples | None:
    """The windows of the choices; None if each choice is one sequence."""
    assert isinstance(examples, ChoiceExamples)
    return examples.windows


def _targets(examples: Examples) -> Tensor:
    if examples.targets is None:
        raise InputError("Unlabeled rows cannot be scored: pass rows with their correct choices.")
    return examples.targets
