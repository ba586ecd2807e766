"""Texts written for texts by a left-to-right model: translations, summaries (Radford et al. 2018 and 2019).

A row is one sequence, source <delimiter> target <end>, and what is learnt is the target: each of its tokens, and that
it ends, guessed from what stands before. Asked, the model is given source <delimiter> and goes on until it ends the
text.
Its logits are sums: float32 [rows, 3], the loss in nats, right guesses, and tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..core.errors import InputError, MissingExtraError, ModelFolderError
from ..core.progress import warn
from ..data.batch import Batch
from ..models.decoding.choice import decoder_of
from ..models.decoding.rules import Rules
from ..models.decoding.search import grow
from ..models.growing import with_tokenizer
from ..objectives.outcome import Outcome
from ..text.encoding import TextCounts
from ..text.pairs import read_pairs
from ..text.tables import Row, Table
from .base import Evaluation
from .examples import Examples
from .summary_scores import rouge_scores
from .targets import TargetTask, require_rows, with_targets

if TYPE_CHECKING:
    from ..models.model import Model
    from ..text.tokenizer import Tokenizer

ROWS = 16  # that are written side by side
LONGEST = 64  # new tokens, where training did not say


@dataclass(frozen=True)
class TargetExamples(Examples):
    """Rows as one sequence each; `targets` says where the target begins: int64 [rows]. Without them all is source."""

    longest: int = field(default=LONGEST, repr=False)

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """Pack rows. Labels beside those of Examples: "clm_positions", before each token of a target, "clm", which it
        is, and "owner", of which sequence: int64 [labels] each.
        """
        batch = super().batch(indices)
        if self.targets is None:
            return batch
        starts = batch.labels["sequence"] + batch.first_tokens  # [sequences]
        ends = batch.last_tokens + 1
        guessed = torch.cat([torch.arange(int(a), int(b)) for a, b in zip(starts, ends, strict=True)])
        owner = torch.arange(len(batch)).repeat_interleave(ends - starts)
        return batch.with_labels(clm_positions=guessed - 1, clm=batch.input_ids[guessed], owner=owner)


class Generation(TargetTask):
    """What is written for a text.

    delimiter: the token between source and target, as "<to-fr>", added to the vocabulary where it is not there; None
    for the token that closes a text; max_new_tokens: how long an answer may be, as long as the longest of training.
    """

    name: ClassVar[str] = "generation"
    head = "clm"
    wanted = "clm"
    settings: ClassVar[tuple[str, ...]] = ("delimiter",)
    main_metric = "clm_accuracy"

    def __init__(self, delimiter: str | None = None, max_new_tokens: int = LONGEST) -> None:
        self.labels: list[str] = []
        self.delimiter, self.max_new_tokens = delimiter, max_new_tokens

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
        """Sources with their targets; see `text.pairs.read_pairs`."""
        return read_pairs(path, columns=columns, skip_bad_rows=skip_bad_rows)

    @classmethod
    def from_rows(
        cls,
        train_rows: Sequence[Row],
        dev_rows: Sequence[Row] = (),
        *,
        train_file: str | None = None,
        dev_file: str | None = None,
        delimiter: str | None = None,
    ) -> Generation:
        """The task. Raises InputError for no rows."""
        require_rows(train_rows, train_file)
        if delimiter is not None and not delimiter.strip():
            raise InputError('The delimiter is empty: name a token, as "<to-fr>", or leave it out.')
        return cls(delimiter)

    def adapt(self, model: Model) -> Model:
        """The model with a row for the delimiter."""
        if self.delimiter is None or model.tokenizer is None or model.tokenizer.token_to_id(self.delimiter) is not None:
            return model
        return with_tokenizer(model, model.tokenizer.with_tokens([self.delimiter]))

    def examples(
        self,
        rows: Sequence[Row],
        tokenizer: Tokenizer,
        max_length: int | None = None,
        *,
        file: str | None = None,
        skip_bad_rows: bool = False,
    ) -> TargetExamples:
        """Rows as sequences of at most `max_length` tokens; the source gives way, and a target has half of them."""
        good = with_targets(rows, file, skip_bad_rows)
        end = self._end(tokenizer)
        counts, sequences, starts = TextCounts(), [], []
        sources = tokenizer.encode_plain([row.text for row in good])
        targets = tokenizer.encode_plain([str(row.label) for row in good])
        for source, target in zip(sources, targets, strict=True):
            kept = target if max_length is None else target[: max(max_length // 2 - 1, 1)]
            wanted = [*kept, end] if len(kept) == len(target) else kept  # a target that is cut does not end there
            room = None if max_length is None else max_length - len(wanted)
            before = self._before(source, tokenizer, room, counts, len(target) - len(kept))
            sequences.append(np.array([*before, *wanted], dtype=np.int32))
            starts.append(len(before))
        return TargetExamples(
            sequences,
            targets=torch.tensor(starts),
            rows=good,
            counts=counts,
            num_skipped=len(rows) - len(good),
            longest=max(map(len, targets)) + 1,
        )

    def unlabelled(
        self, rows: Sequence[Any], tokenizer: Tokenizer, max_length: int | None = None, *, counts: TextCounts
    ) -> TargetExamples:
        """Sources with the delimiter behind them, and room for an answer."""
        room = None if max_length is None else max(max_length - self.max_new_tokens, max_length // 2, 1)
        sources = tokenizer.encode_plain([row.text for row in rows])
        before = [self._before(source, tokenizer, room, counts) for source in sources]
        return TargetExamples([np.array(ids, dtype=np.int32) for ids in before], rows=rows, counts=counts)

    def for_training(self, examples: Examples) -> Examples:
        """The examples; how long their targets are is how long answers may be."""
        if isinstance(examples, TargetExamples):
            self.max_new_tokens = examples.longest
        return examples

    def _before(
        self, source: list[int], tokenizer: Tokenizer, room: int | None, counts: TextCounts, cut_target: int = 0
    ) -> list[int]:
        """What stands before a target, in at most `room` tokens: the source gives way at its end.

        cut_target: tokens that the target lost, so that a row of which either side is cut is counted, once.
        """
        opening, delimiter = tokenizer.opening_ids, self._delimiter(tokenizer)
        kept = source if room is None else source[: max(room - len(opening) - 1, 0)]
        unknown = 0 if tokenizer.unk_id is None else kept.count(tokenizer.unk_id)
        cut = len(source) - len(kept) + cut_target
        counts.add(len(opening) + len(kept) + 1, cut, unknown, len(opening) + 1)
        return [*opening, *kept, delimiter]

    def _delimiter(self, tokenizer: Tokenizer) -> int:
        if self.delimiter is None:
            return self._end(tokenizer)
        found = tokenizer.token_to_id(self.delimiter)
        if found is None:
            raise InputError(f"The tokenizer has no token '{self.delimiter}': use the model that was trained with it.")
        return found

    @staticmethod
    def _end(tokenizer: Tokenizer) -> int:
        if tokenizer.eos_id is None:
            raise InputError("The tokenizer has no token that ends a text, so no answer could end.")
        return tokenizer.eos_id

    def remarks(self, examples: Examples, name: str, max_length: int) -> list[str]:
        """Rows that are cut."""
        if not examples.num_truncated:
            return []
        return [f"{examples.num_truncated:,} of {len(examples):,} {name} rows are cut to {max_length} tokens."]

    # -- training --------------------------------------------------------------------------------------------

    def outcome(self, model: Model, batch: Batch) -> Outcome:
        """Summed loss and right guesses of the targets' tokens."""
        loss, right = model.mlm_loss(self.guessing(model, batch), batch.labels["clm"])
        return Outcome({self.name: loss}, self.counts(batch), {self.name: right})

    def guessing(self, model: Model, batch: Batch) -> Tensor:
        """What guesses each token of the targets: float [labels, hidden]."""
        return model.encode(batch).hidden[batch.labels["clm_positions"]]

    # -- answers ---------------------------------------------------------------------------------------------

    def predict(self, model: Model, examples: Examples, batch_tokens: int | None = None) -> list[dict[str, Any]]:
        """{"generated", "score"} for each row: what the model writes, greedily, and its log probability."""
        tokenizer, rules = model.tokenizer, Rules(greedy=True)
        ends = {self._end(tokenizer)}
        found: list[dict[str, Any]] = []
        model.eval()
        for start in range(0, len(examples), ROWS):
            prompts = [ids.tolist() for ids in examples.input_ids[start : start + ROWS]]
            decoder = decoder_of(model, prompts, self.max_new_tokens)
            for one in grow(decoder, prompts, rules, max_new_tokens=self.max_new_tokens, end_ids=ends):
                found.append({"generated": tokenizer.decode(one.ids).strip(), "score": one.score})
        return found

    def full_evaluation(self, model: Model, examples: Examples, batch_tokens: int | None = None) -> Evaluation:
        """The same with ROUGE of what the model writes, greedily, for the sources.

        Where rouge-score is missing that is said, and the other metrics stand alone.
        """
        evaluation = self.evaluate(model, examples, batch_tokens)
        try:
            rouge_scores([], [])  # before anything is written for nothing
        except MissingExtraError as error:
            warn(str(error))
            return evaluation
        room = model.config.max_position_embeddings
        sources = self.unlabelled(examples.rows, model.tokenizer, room, counts=TextCounts())
        written = [answer["generated"] for answer in self.predict(model, sources, batch_tokens)]
        scores, signatures = rouge_scores(written, [str(row.label) for row in examples.rows])
        return Evaluation(evaluation.metrics | scores, evaluation.logits, evaluation.loss, signatures)

    # -- files -----------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """{"task": "generation", "delimiter", "max_new_tokens"}."""
        return {"task": self.name, "delimiter": self.delimiter, "max_new_tokens": self.max_new_tokens}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Generation:
        """The task of `to_json`."""
        delimiter, longest = facts.get("delimiter"), facts.get("max_new_tokens", LONGEST)
        if not (delimiter is None or isinstance(delimiter, str)) or not isinstance(longest, int) or longest < 1:
            raise ModelFolderError("maskwright.json: delimiter must be text or null, max_new_tokens a number above 0.")
        return cls(delimiter, longest)
