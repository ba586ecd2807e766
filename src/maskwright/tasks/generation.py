"""Text-to-text generation with a causal language model, such as summarization (Radford et al. 2018 and 2019).

A row is one sequence, source <delimiter> target <end>; the loss covers the target and <end>. For prediction the model
continues source <delimiter> until <end>. Its logits are sums per row: float32 [rows, 3], loss in nats, correct tokens,
and tokens.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.errors import InputError, MissingExtraError
from ..core.progress import warn
from ..core.util import plural
from ..data.batch import Batch
from ..models.build import with_tokenizer
from ..models.decoding.causal import decoder_of
from ..models.decoding.rules import Rules
from ..models.decoding.search import grow
from ..models.model import Model, tokenizer_of
from ..objectives.outcome import LossSums
from ..text.readers.parallel import read_pairs
from ..text.readers.tables import Row, Table
from ..text.tokenizers.encoding import TextCounts
from ..text.words import words_and_numbers
from .base import Baseline, ColumnNames, Evaluation, Rows, Targets, Task, TaskData, require_rows
from .examples import Examples, map_batches

if TYPE_CHECKING:
    from ..text.tokenizers.tokenizer import Tokenizer

# -- ROUGE (Lin 2004) by rouge-score: word overlap of generated and reference texts ---------------------------------

NAMES = ("rouge1", "rouge2", "rougeL")  # unigrams, bigrams, longest common subsequence


def rouge_scores(generated: Sequence[str], references: Sequence[str]) -> tuple[dict[str, float], dict[str, str]]:
    """Returns {"rouge1", "rouge2", "rougeL"}, mean F1 as fractions, and {"rouge": signature}.

    Words are lowercase, of any script (see `words_and_numbers`); for ASCII the scores are rouge-score's own. Warns of
    references without words, and of those of one word, which have no pair. Raises MissingExtraError if rouge-score is
    not installed.
    """
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        raise MissingExtraError("ROUGE", "translation") from None
    # rouge-score's own tokenizer knows only a to z and 0 to 9.
    words = SimpleNamespace(tokenize=lambda text: words_and_numbers(text.lower()))
    scorer = RougeScorer(list(NAMES), use_stemmer=False, tokenizer=words)
    found = [scorer.score(reference, own) for own, reference in zip(generated, references, strict=True)]
    scores = {name: sum(one[name].fmeasure for one in found) / max(len(found), 1) for name in NAMES}
    sizes = [len(words_and_numbers(reference)) for reference in references]
    if empty := sizes.count(0):
        warn(f"{empty} of {plural(len(sizes), 'reference')} without a letter or digit: ROUGE counts 0 for each.")
    if single := sizes.count(1):
        warn(f"{single} of {plural(len(sizes), 'reference')} of one word: rouge2 counts 0 for each, right or wrong.")
    return scores, {"rouge": f"rouge_score {version('rouge-score')}|F1|case:lower|stemmer:no|tok:words of any script"}


# -- Base class of text generation tasks: loss and scores over the tokens of a target text --------------------------

LARGEST_LOSS = 700.0  # its exponential still fits in a float64


class TargetTask(Task):
    """Predicts each token of a target given the previous ones; the main metric is token accuracy.

    target_label: batch label with the target tokens, [target tokens]; the label "owner" has the row of each.
    """

    target_label: ClassVar[str]
    num_labels = 0
    problem_type = None

    label_smoothing: float = 0.0

    @abstractmethod
    def target_states(self, model: Model, batch: Batch) -> Tensor:
        """Hidden states that predict each target token: float [target tokens, hidden]."""

    def row_target(self, row: Row) -> str:
        if not row.label:
            raise ValueError("is missing: each row needs a source and a target")
        return row.label

    def counts(self, batch: Batch) -> dict[str, int]:
        return {self.name: len(batch.labels[self.target_label])}

    def outcome(self, model: Model, batch: Batch) -> LossSums:
        labels = batch.labels[self.target_label]
        loss, right = model.mlm_loss(self.target_states(model, batch), labels, self.label_smoothing)
        return LossSums({self.name: loss}, self.counts(batch), {self.name: right})

    def baseline(self, data: TaskData) -> Baseline:
        return data.untrained()

    def forward(self, model: Model) -> None:
        return None

    def outputs(self, model: Model, examples: Examples, batch_tokens: int | None) -> Tensor:
        """float32 [rows, 3]: summed loss, correct tokens and tokens of the target of each row."""

        def sums(batch: Batch) -> Tensor:
            logits, target = model.mlm_logits(self.target_states(model, batch)).float(), batch.labels[self.target_label]
            losses = F.cross_entropy(logits, target, reduction="none")  # [target tokens]
            each = torch.stack([losses, (logits.argmax(dim=-1) == target).float(), torch.ones_like(losses)], dim=1)
            return torch.zeros(len(batch), 3, device=each.device).index_add(0, batch.labels["owner"], each)

        return map_batches(examples, sums, device=model.word_embeddings.device, batch_tokens=batch_tokens)

    def answers(self, logits: Tensor, examples: Examples) -> list[dict[str, Any]]:
        """{"score", "perplexity"} of the target of each row; score is its token accuracy."""
        return [
            {"score": correct / tokens, "perplexity": _perplexity(loss / tokens)}
            for loss, correct, tokens in logits.tolist()
        ]

    def losses(self, logits: Tensor, examples: Examples) -> Tensor:
        return logits[:, 0] / logits[:, 2]

    def score(self, logits: Tensor, examples: Examples) -> Evaluation:
        """Token accuracy and perplexity over all target tokens; the loss is the mean per token."""
        loss, correct, tokens = logits.double().sum(dim=0).tolist()
        found = {self.main_metric: correct / tokens, "perplexity": _perplexity(loss / tokens)}
        return Evaluation(found, logits, loss / tokens)

    def is_right(self, examples: Examples, row: int, answer: Mapping[str, Any]) -> bool:
        return bool(answer["score"] == 1.0)


def _perplexity(loss: float) -> float:
    return math.exp(min(loss, LARGEST_LOSS))


# -- Text-to-text generation with a causal language model, such as summarization (Radford et al. 2018 and 2019) -----

ROWS = 16  # generation batch size
LONGEST = 64  # default maximum of new tokens


@dataclass(frozen=True)
class TargetExamples(Examples):
    """Rows as one sequence each; `targets` int64 [rows]: position of the first target token; None: sources only."""

    longest: int = field(default=LONGEST, repr=False)

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """Packs rows. Additional batch labels, int64 [target tokens] each: "clm_positions", the position before each
        target token, "clm", the token, and "owner", its sequence.
        """
        batch = super().batch(indices)
        if self.targets is None:
            return batch
        starts = batch.labels["sequence"] + batch.first_tokens  # [sequences]
        ends = batch.last_tokens + 1
        positions = torch.cat([torch.arange(int(a), int(b)) for a, b in zip(starts, ends, strict=True)])
        owner = torch.arange(len(batch)).repeat_interleave(ends - starts)
        return batch.with_labels(clm_positions=positions - 1, clm=batch.input_ids[positions], owner=owner)


@dataclass(eq=False)
class Generation(TargetTask):
    """Generates a target text for a source text.

    delimiter: token between source and target, such as "<to-fr>", added to the vocabulary if missing; None for the
    end-of-text token; max_new_tokens: maximum length of generated texts, after training that of the longest target.
    """

    name: ClassVar[str] = "generation"
    written = "generated"
    report: ClassVar[str] = "maskwright.tasks.report:GenerationReport"
    head = "clm"
    target_label = "clm"
    main_metric = "clm_accuracy"

    delimiter: str | None = None
    max_new_tokens: int = LONGEST

    def __post_init__(self) -> None:
        if self.delimiter is not None and not self.delimiter.strip():
            raise InputError('The delimiter is empty: specify a token, such as "<to-fr>", or omit it.')
        if self.max_new_tokens < 1:
            raise InputError(f"max_new_tokens is {self.max_new_tokens}; it must be 1 or more.")

    # -- rows and examples -----------------------------------------------------------------------------------

    @classmethod
    def read(cls, path: Path | str, *, columns: ColumnNames = None, skip_bad_rows: bool = False) -> Table:
        return read_pairs(path, columns=columns, skip_bad_rows=skip_bad_rows)

    @classmethod
    def from_rows(
        cls, train_rows: Rows, dev_rows: Rows = (), *, train_file: str | None = None, delimiter: str | None = None
    ) -> Generation:
        require_rows(train_rows, train_file, "sources with targets")
        return cls(delimiter)

    def extend_vocabulary(self, model: Model) -> Model:
        if self.delimiter is None or model.tokenizer is None or model.tokenizer.token_to_id(self.delimiter) is not None:
            return model
        return with_tokenizer(model, model.tokenizer.with_tokens([self.delimiter]))

    def tokenize(
        self, rows: Rows, tokenizer: Tokenizer, max_length: int | None, targets: Targets, counts: TextCounts
    ) -> TargetExamples:
        """Tokenizes rows to at most `max_length` tokens: the target gets up to half (without one it is left free), the
        source is truncated first.
        """
        sources = tokenizer.encode_plain([row.text for row in rows])
        if targets is None:
            room = None if max_length is None else max(max_length - self.max_new_tokens, max_length // 2, 1)
            prompts = [self._before(source, tokenizer, room, counts) for source in sources]
            return TargetExamples([np.array(ids, dtype=np.int32) for ids in prompts], rows=rows, counts=counts)
        end, sequences, starts = self._end(tokenizer), [], []
        encoded = tokenizer.encode_plain(list(targets))
        for source, target in zip(sources, encoded, strict=True):
            kept = target if max_length is None else target[: max(max_length // 2 - 1, 1)]
            learned = [*kept, end] if len(kept) == len(target) else kept  # no <end> after a truncated target
            room = None if max_length is None else max_length - len(learned)
            before = self._before(source, tokenizer, room, counts, len(target) - len(kept))
            sequences.append(np.array([*before, *learned], dtype=np.int32))
            starts.append(len(before))
        longest = max(map(len, encoded)) + 1
        return TargetExamples(sequences, targets=torch.tensor(starts), rows=rows, counts=counts, longest=longest)

    def for_training(self, examples: Examples) -> Examples:
        if isinstance(examples, TargetExamples):
            self.max_new_tokens = examples.longest
        return examples

    def _before(
        self, source: list[int], tokenizer: Tokenizer, room: int | None, counts: TextCounts, cut_target: int = 0
    ) -> list[int]:
        """The tokens before a target, at most `room`: the source is truncated at its end.

        cut_target: truncated tokens of the target, so that a row with a truncated side is counted once.
        """
        opening = tokenizer.opening_ids
        delimiter = self._end(tokenizer) if self.delimiter is None else tokenizer.token_to_id(self.delimiter)
        if delimiter is None:
            raise InputError(f"The tokenizer has no token '{self.delimiter}': use the model that was trained with it.")
        kept = source if room is None else source[: max(room - len(opening) - 1, 0)]
        unknown = 0 if tokenizer.unk_id is None else kept.count(tokenizer.unk_id)
        cut = len(source) - len(kept) + cut_target
        counts.add(len(opening) + len(kept) + 1, cut, unknown, len(opening) + 1)
        return [*opening, *kept, delimiter]

    @staticmethod
    def _end(tokenizer: Tokenizer) -> int:
        if tokenizer.eos_id is None:
            raise InputError("The tokenizer has no end-of-text token, so generation could not stop.")
        return tokenizer.eos_id

    # -- training --------------------------------------------------------------------------------------------

    def target_states(self, model: Model, batch: Batch) -> Tensor:
        return model.encode(batch).hidden[batch.labels["clm_positions"]]

    # -- answers ---------------------------------------------------------------------------------------------

    def predict(self, model: Model, examples: Examples, batch_tokens: int | None = None) -> list[dict[str, Any]]:
        """{"generated", "score"} for each row: greedily generated text and its log probability."""
        tokenizer, rules = tokenizer_of(model), Rules(greedy=True)
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
        """As `evaluate`, with ROUGE of greedily generated texts; without rouge-score it warns and omits ROUGE."""
        evaluation = self.evaluate(model, examples, batch_tokens)
        try:
            rouge_scores([], [])  # check the dependency before generating
        except MissingExtraError as error:
            warn(str(error))
            return evaluation
        room = model.config.max_position_embeddings
        sources = self.unlabeled(examples.rows, tokenizer_of(model), room, counts=TextCounts())
        generated = [answer["generated"] for answer in self.predict(model, sources, batch_tokens)]
        scores, signatures = rouge_scores(generated, [str(row.label) for row in examples.rows])
        return Evaluation(evaluation.metrics | scores, evaluation.logits, evaluation.loss, signatures)
