"""Token classification: named entities (BIO, BIOES, IO) or parts of speech (Devlin et al. 2019, section 5.3).

A word is classified at its first subword token. With a CRF the tags of a sentence are decoded jointly (`nn.crf`). Its
logits are float32 [words, labels] over all sentences, concatenated; the largest logit of a word is its tag.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ...core.errors import InputError, ModelFolderError, RowError, RowErrors
from ...core.plural import plural
from ...core.registry import unknown_name
from ...data.batch import Batch
from ...models.heads import TokenCrfHead, require
from ...models.probes import TokenProbe
from ...nn.crf import LinearChainCrf
from ...objectives.outcome import LossSums
from ...text.readers.tagged import Sentence, TaggedTable, as_sentences, read_tagged
from ...text.tokenizers.encoding import TextCounts
from ..base import Evaluation, Task
from ..data import Baseline, TaskData
from ..evaluation import metrics as scores
from ..evaluation.calibration import Decisions, Temperature, calibration_errors, out_of_fold_probabilities, row_keys
from ..evaluation.ensemble import mean_probabilities
from ..evaluation.unscored import Unscored, named
from ..rows.examples import Examples, as_logits
from ..rows.forward import Forward, TokenLogits
from .baseline import most_frequent_tags
from .examples import TaggedExamples, entities_of, window_sentences
from .schemes import OUTSIDE, SCHEMES, agreement, find_scheme, repair, scheme_tags, spans, split_tag, strict_spans

if TYPE_CHECKING:
    from ...models.model import Model
    from ...text.tokenizers.tokenizer import Tokenizer


class Tagging(Task):
    """Token classification.

    labels: in the order of the outputs; scheme: a name of schemes.SCHEMES, None for plain tags, "auto" to detect it
    from the labels; crf: whether a CRF decodes the tags of a sentence jointly.
    """

    name: ClassVar[str] = "tagging"
    table = "maskwright.tasks.tagging.table:word_rows"
    report: ClassVar[str] = "maskwright.tasks.tagging.report:TaggingReport"
    rating: ClassVar[str] = "maskwright.tasks.tagging.rating:rate"
    problem_type = None

    def __init__(self, labels: Sequence[str], scheme: str | None = "auto", crf: bool = False) -> None:
        self.labels = list(labels)
        self.scheme = find_scheme(self.labels) if scheme == "auto" else scheme
        self.crf = crf
        self.head = "tagging-crf" if crf else "tagging"
        self.main_metric = "accuracy" if self.scheme is None else "entity_f1"
        self._number = {label: number for number, label in enumerate(self.labels)}
        self._types = {split_tag(label)[1] for label in self.labels}
        if len(self._number) != len(self.labels):
            raise InputError("Two tags have the same name: tag names must be unique.")
        if len(self.labels) < 2:
            raise InputError("A tagger needs at least two tags.")
        if self.scheme is not None and self.scheme not in SCHEMES:
            raise InputError(unknown_name("tagging scheme", self.scheme, SCHEMES))

    # -- rows and examples -----------------------------------------------------------------------------------

    @classmethod
    def read(
        cls,
        path: Path | str,
        *,
        columns: Mapping[str, str] | None = None,
        skip_bad_rows: bool = False,
    ) -> TaggedTable:
        """Reads tagged sentences; see `text.readers.tagged.read_tagged`."""
        return read_tagged(path, columns=columns, skip_bad_rows=skip_bad_rows)

    @classmethod
    def strata(cls, rows: Sequence[Sentence]) -> list[Collection[str]]:
        """The different tags of each sentence."""
        return [sorted(set(row.tags or ())) for row in rows]

    def why_unscored(self, rows: Sequence[Sentence]) -> Unscored | None:
        """Returns a reason if no word has a tag of this model."""
        found = {tag for row in rows for tag in row.tags or ()} - ({OUTSIDE} if self.scheme else set())
        if not found or any(self._is_known(tag) for tag in found):
            return None
        return Unscored(f"contains the tags {named(sorted(found))}", self.name)

    @classmethod
    def from_rows(
        cls,
        train_rows: Sequence[Sentence],
        dev_rows: Sequence[Sentence] = (),
        *,
        crf: bool = False,
        train_file: str | None = None,
        dev_file: str | None = None,
    ) -> Tagging:
        """Collects the tags of the training rows; with a scheme, all of its tags for their entity types.

        Raises RowErrors for training tags outside the scheme and for dev tags that the training rows do not have,
        InputError if there is only one tag.
        """
        tags = {tag for row in train_rows for tag in row.tags or ()}
        scheme = find_scheme(tags)
        labels = sorted(tags) if scheme is None else scheme_tags(scheme, {split_tag(tag)[1] for tag in tags} - {""})
        if len(labels) < 2:
            found = f"only the tag '{labels[0]}'" if labels else "no tag"
            raise InputError(f"{train_file or 'The training data'} has {found}: a tagger needs at least two.")
        task = cls(labels, scheme, crf)
        task.check(train_rows, train_file)
        task.check(dev_rows, dev_file)
        return task

    @property
    def deciding_metrics(self) -> tuple[str, ...]:
        """entity_f1, strict_entity_f1 and accuracy; without a scheme accuracy and macro_f1."""
        return ("accuracy", "macro_f1") if self.scheme is None else ("entity_f1", "strict_entity_f1", "accuracy")

    @property
    def num_labels(self) -> int:
        """Number of tags."""
        return len(self.labels)

    def check(
        self, rows: Sequence[Sentence], file: str | None = None, *, skip_bad_rows: bool = False
    ) -> tuple[list[Sentence], list[int], int]:
        """Returns the sentences whose tags are all known, the tag numbers, and how many tags were repaired.

        Raises RowErrors listing every unknown tag; with `skip_bad_rows` such sentences are skipped.
        """
        good, targets, bad, num_repaired = [], [], [], 0
        for row in rows:
            faults = self._faults(row, file)
            bad += faults
            if faults:
                continue
            tags, changed = self.repair_tags(row.tags or ())
            targets += [self._number[tag] for tag in tags]
            num_repaired += changed
            good.append(row)
        if bad and not skip_bad_rows:
            raise RowErrors(bad)
        return good, targets, num_repaired

    def repair_tags(self, tags: Sequence[str]) -> tuple[Sequence[str], int]:
        """Re-encodes tags to be valid in the scheme; returns them and how many changed. Without a scheme: unchanged."""
        if self.scheme is None:
            return tags, 0
        repaired, changed = repair(tags, self.scheme)
        return (repaired, changed) if all(tag in self._number for tag in repaired) else (tags, 0)

    def _faults(self, row: Sentence, file: str | None) -> list[RowError]:
        where = file or row.file
        if row.tags is None:
            return [RowError(where, row.line, "tags", "are missing")]
        if len(row.tags) != len(row.words):
            return [RowError(where, row.line, "tags", f"has {len(row.tags)} tags for {len(row.words)} tokens")]
        return [
            RowError(where, row.line_of(word), "tag", unknown_name("tag", tag, self.labels[:20]))
            for word, tag in enumerate(row.tags)
            if not self._is_known(tag)
        ]

    def _is_known(self, tag: str) -> bool:
        """Whether the model has the tag, or with a scheme its entity type."""
        if tag in self._number:
            return True
        kind = "" if self.scheme is None or tag == OUTSIDE else split_tag(tag)[1]
        return bool(kind) and kind in self._types

    def examples(
        self,
        rows: Sequence[Sentence],
        tokenizer: Tokenizer,
        max_length: int | None = None,
        *,
        file: str | None = None,
        skip_bad_rows: bool = False,
    ) -> TaggedExamples:
        """Tokenizes tagged sentences as windows of at most `max_length` tokens; see `Task.examples`."""
        good, targets, num_repaired = self.check(rows, file, skip_bad_rows=skip_bad_rows)
        if not good:
            raise InputError(f"{file or 'The data'} has no usable sentence: pass at least one with its tags.")
        num_skipped = len(rows) - len(good)
        return window_sentences(
            good, tokenizer, max_length, torch.tensor(targets), num_skipped=num_skipped, num_repaired=num_repaired
        )

    def unlabeled(
        self, rows: Sequence[Any], tokenizer: Tokenizer, max_length: int | None = None, *, counts: TextCounts
    ) -> TaggedExamples:
        """Tokenizes sentences, or texts split into words, as windows without tags."""
        return window_sentences(as_sentences(rows), tokenizer, max_length, counts=counts)

    def notes(self, examples: Examples, name: str, max_length: int) -> list[str]:
        """Notes about repaired tags and windows."""
        assert isinstance(examples, TaggedExamples)
        found = []
        if examples.num_repaired:
            are = "is" if examples.num_repaired == 1 else "are"
            found.append(
                f"{examples.num_repaired:,} of {plural(examples.num_words, f'{name} tag')} {are} invalid in "
                f"{self.scheme} and {are} repaired; the entities do not change."
            )
        if len(examples) > examples.num_rows:
            make = plural(examples.num_rows, f"{name} sentence makes", f"{name} sentences make")
            found.append(
                f"{make} {len(examples):,} windows of at most {max_length} tokens; each word is classified once."
            )
        return found

    # -- training --------------------------------------------------------------------------------------------

    def init_from_counts(self, model: Model, examples: Examples) -> None:
        """Initializes a new CRF from tag bigram counts: fine-tuning learning rates are too small to learn them."""
        assert isinstance(examples, TaggedExamples)
        if self.crf and examples.targets is not None:
            self._crf(model).init_from_counts(examples.targets, examples.num_words_by_row)

    def counts(self, batch: Batch) -> dict[str, int]:
        """Number of words in a batch."""
        return {self.name: len(batch.labels["places"])}

    def outcome(self, model: Model, batch: Batch) -> LossSums:
        """Summed loss and number of correct tags of a batch with the labels of TaggedExamples.batch."""
        logits = model.logits(batch).float()[batch.labels["places"]]  # [words, labels]
        tags, counts = batch.labels["tags"], self.counts(batch)
        if not self.crf:
            total = F.cross_entropy(logits, tags, reduction="sum")
            return LossSums({self.name: total}, counts, {self.name: (logits.argmax(dim=-1) == tags).sum()})
        lengths = batch.labels["chain"]
        kept = lengths > 0
        losses = self._crf(model).losses(
            logits, tags, lengths[kept].tolist(), batch.labels["is_first"][kept], batch.labels["is_last"][kept]
        )
        return LossSums({self.name: losses.sum()}, counts)

    def baseline(self, data: TaskData) -> Baseline:
        """The score of the most frequent tag of each word."""
        gold = [self.repair_tags(row.tags or ())[0] for row in data.dev_rows]
        found = most_frequent_tags(data.train_rows, data.dev_rows)
        return Baseline(self.metrics(gold, found)[self.main_metric], "each word's most common tag")

    # -- answers ---------------------------------------------------------------------------------------------

    def forward(self, model: Model) -> Forward:
        """Logits of every token."""
        return TokenLogits(model)

    def gather(self, outputs: Sequence[Tensor], model: Model, examples: Examples) -> Tensor:
        """float32 [words, labels]; with a CRF the max-marginals: score of the best tag sequence through each tag."""
        assert isinstance(examples, TaggedExamples)
        result = torch.zeros(examples.num_words, self.num_labels)
        for output, places, words in zip(outputs, examples.places, examples.words, strict=True):
            result[words] = output[places].float()
        if self.crf:
            with torch.inference_mode():
                crf = self._crf(model)
                device = next(crf.parameters()).device
                result = crf.best_scores(result.to(device), examples.num_words_by_row).cpu()
        return result.clone()

    @staticmethod
    def _crf(model: Model) -> LinearChainCrf:
        head = require(model.head, (TokenCrfHead, TokenProbe), "decode tags with a CRF")
        crf: LinearChainCrf = head.crf
        return crf

    def tags_of(self, logits: Tensor, examples: TaggedExamples) -> list[list[str]]:
        """The tags of each sentence. logits: float32 [words, labels]."""
        return self._names(logits.argmax(dim=-1), examples)

    def gold_of(self, examples: TaggedExamples) -> list[list[str]]:
        """The gold tags of each sentence, repaired."""
        if examples.targets is None:
            raise InputError("Tagged sentences are needed.")
        return self._names(examples.targets, examples)

    def _names(self, numbers: Tensor, examples: TaggedExamples) -> list[list[str]]:
        names = [self.labels[number] for number in numbers.tolist()]
        return [names[start:end] for start, end in pairwise(examples.starts.tolist())]

    def answers(self, logits: Tensor, examples: Examples) -> list[dict[str, Any]]:
        """{"tokens", "tags", "entities"} for each sentence.

        entities: {"type", "text", "start", "end", "score"}, start and end in characters of the original text, score the
        mean probability of its tags. Without a scheme instead "spans" (start, end) and "scores" of the words.
        """
        assert isinstance(examples, TaggedExamples)
        scaled = logits.double() / (1.0 if self.temperature is None else self.temperature.value)
        confidences = scaled.softmax(dim=-1).amax(dim=-1).tolist() if len(logits) else []
        found = []
        for row, tags, start in zip(
            as_sentences(examples.rows), self.tags_of(logits, examples), examples.starts, strict=False
        ):
            own = confidences[start : start + len(tags)]
            answer: dict[str, Any] = {"tokens": list(row.words), "tags": tags}
            words = {"spans": [list(span) for span in row.spans], "scores": own}
            found.append(answer | (words if self.scheme is None else {"entities": entities_of(row, tags, own)}))
        return found

    def combine_predictions(self, logits: Sequence[Tensor], examples: Sequence[Examples]) -> Tensor:
        """Averages probabilities; returns the logits float32 [words, labels] of their mean.

        Each word is averaged separately, so the tags of a sentence can be invalid in the scheme: these are repaired by
        swapping the logits of the old and the new tag.
        """
        shares = [part.double().softmax(dim=-1).numpy() for part in logits]
        mean = as_logits(torch.from_numpy(mean_probabilities(shares))).float()
        assert isinstance(examples[0], TaggedExamples)
        for start, tags in zip(examples[0].starts.tolist(), self.tags_of(mean, examples[0]), strict=False):
            for place, (old, new) in enumerate(zip(tags, self.repair_tags(tags)[0], strict=True), start=start):
                if old != new:
                    pair = [self._number[old], self._number[new]]
                    mean[place, pair] = mean[place, pair[::-1]]
        return mean

    def losses(self, logits: Tensor, examples: Examples) -> Tensor:
        """Mean cross-entropy over the words of each sentence: float32 [sentences]."""
        assert isinstance(examples, TaggedExamples) and examples.targets is not None
        words = F.cross_entropy(logits, examples.targets, reduction="none")
        return torch.stack([part.sum() / max(len(part), 1) for part in words.split(examples.num_words_by_row)])

    def decisions(self, logits: Tensor, examples: Examples) -> Decisions:
        """The tag of each word."""
        assert isinstance(examples, TaggedExamples) and examples.targets is not None
        rows = row_keys(as_sentences(examples.rows))
        keys = [key for key, words in zip(rows, examples.num_words_by_row, strict=True) for _ in range(words)]
        return Decisions(logits.double().numpy(), examples.targets.numpy(), keys)

    def score(self, logits: Tensor, examples: Examples) -> Evaluation:
        """Computes entity_f1, entity_precision, entity_recall (as conlleval and seqeval), the same in the strict mode
        of seqeval, word accuracy (without a scheme accuracy and macro_f1), and calibration errors over words.
        """
        assert isinstance(examples, TaggedExamples) and examples.targets is not None
        loss = float(F.cross_entropy(logits, examples.targets))
        found = self.metrics(self.gold_of(examples), self.tags_of(logits, examples))
        decisions = self.decisions(logits, examples)
        errors = calibration_errors(decisions.gold, out_of_fold_probabilities(decisions, self.temperature))
        return Evaluation(found | errors, logits, loss)

    def metrics(self, gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
        """Computes the same metrics from tags, except for calibration errors."""
        truth, guess = ([tag for tags in side for tag in tags] for side in (gold, predicted))
        accuracy = scores.accuracy(truth, guess)
        if self.scheme is None:
            return {"accuracy": accuracy, **scores.measure(("macro_f1",), truth, guess)}
        scheme = self.scheme
        lenient = agreement(gold, predicted, spans)[""]
        strict = agreement(gold, predicted, lambda tags: strict_spans(tags, scheme))[""]
        return {
            "entity_f1": lenient.f1,
            "entity_precision": lenient.precision,
            "entity_recall": lenient.recall,
            "strict_entity_f1": strict.f1,
            "strict_entity_precision": strict.precision,
            "strict_entity_recall": strict.recall,
            "accuracy": accuracy,
        }

    def is_right(self, examples: Examples, row: int, answer: Mapping[str, Any]) -> bool:
        """Whether all tags of a sentence are correct."""
        return all(gold == predicted for gold, predicted in self.class_pairs(examples, row, answer))

    def class_pairs(self, examples: Examples, row: int, answer: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Gold and predicted tag of each word of a sentence."""
        assert isinstance(examples, TaggedExamples) and examples.targets is not None
        start, end = examples.starts[row : row + 2].tolist()
        gold = [self.labels[number] for number in examples.targets[start:end].tolist()]
        return list(zip(gold, answer["tags"], strict=True))

    # -- files -----------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """{"task", "labels", "scheme", "crf"}, and "temperature" if fitted."""
        fitted = {} if self.temperature is None else {"temperature": self.temperature.to_json()}
        return {"task": self.name, "labels": self.labels, "scheme": self.scheme, "crf": self.crf, **fitted}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Tagging:
        """Builds the task from the result of `to_json`. Raises ModelFolderError for invalid values."""
        labels = facts.get("labels")
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise ModelFolderError("The model's maskwright.json has no list of tag names under 'labels'.")
        try:
            task = cls(labels, facts.get("scheme", "auto"), bool(facts.get("crf", False)))
        except InputError as error:
            raise ModelFolderError(f"The model's maskwright.json does not describe a tagger: {error}") from None
        if facts.get("temperature") is not None:
            task.temperature = Temperature.from_json(facts["temperature"])
        return task
