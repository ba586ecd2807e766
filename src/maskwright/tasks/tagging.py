"""A tag for every word: named entities (BIO, BIOES, IO) or parts of speech (Devlin et al. 2019, section 5.3).

A word is judged at its first piece. With a CRF the tags of a sentence are judged together (`nn.crf`). Its logits are
float32 [words, labels] over all sentences, end to end, and the largest of each row is the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.errors import InputError, ModelFolderError, RowError, RowErrors
from ..core.plural import plural
from ..core.registry import unknown_name
from ..data.batch import Batch
from ..models.heads import TokenCrfHead, require
from ..models.probes import TokenProbe
from ..nn.crf import LinearChainCrf
from ..objectives.outcome import Outcome
from ..text.encoding import TextCounts
from ..text.tagged import Sentence, TaggedTable, as_sentences, read_tagged
from . import metrics as scores
from .base import Evaluation, Task
from .calibration import Decisions, Temperature, calibration_errors, honest_probabilities, row_keys
from .ensemble import mean_probabilities
from .examples import Examples, as_logits, packed_batches
from .schemes import OUTSIDE, SCHEMES, agreement, find_scheme, repair, scheme_tags, spans, split_tag, strict_spans
from .tagged_examples import TaggedExamples, window_sentences

if TYPE_CHECKING:
    from ..models.model import Model
    from ..text.tokenizer import Tokenizer


class Tagging(Task):
    """Tags by name.

    labels: in the order of the head's outputs; scheme: how they spell entities (a name of schemes.SCHEMES), None where
    each is a name by itself, "auto" to see by the labels; crf: whether the tags of a sentence are judged together.
    """

    name: ClassVar[str] = "tagging"
    settings: ClassVar[tuple[str, ...]] = ("crf",)
    problem_type = None

    def __init__(self, labels: Sequence[str], scheme: str | None = "auto", crf: bool = False) -> None:
        self.labels = list(labels)
        self.scheme = find_scheme(self.labels) if scheme == "auto" else scheme
        self.crf = crf
        self.head = "tagging-crf" if crf else "tagging"
        self.main_metric = "accuracy" if self.scheme is None else "entity_f1"
        self._number = {label: number for number, label in enumerate(self.labels)}
        if len(self._number) != len(self.labels):
            raise InputError("Two tags have the same name: give each a name of its own.")
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
        multi_label: bool | None = None,
        skip_bad_rows: bool = False,
    ) -> TaggedTable:
        """Tagged sentences; see `text.tagged.read_tagged`."""
        return read_tagged(path, columns=columns, skip_bad_rows=skip_bad_rows)

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
        """Take the tags from the training rows: with a scheme all that it has for their types, else those there are.

        Raises RowErrors for training tags outside the scheme and dev tags that training does not know, InputError when
        there is only one tag.
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
        """entity_f1 and accuracy; without a scheme accuracy and macro_f1."""
        return ("accuracy", "macro_f1") if self.scheme is None else ("entity_f1", "strict_entity_f1", "accuracy")

    @property
    def num_labels(self) -> int:
        """Number of tags."""
        return len(self.labels)

    def check(
        self, rows: Sequence[Sentence], file: str | None = None, *, skip_bad_rows: bool = False
    ) -> tuple[list[Sentence], list[int], int]:
        """The sentences whose tags are all known, the number of every tag, and how many tags had to be repaired.

        Raises RowErrors with every unknown tag, unless `skip_bad_rows` leaves such sentences out.
        """
        good, targets, bad, num_repaired = [], [], [], 0
        for row in rows:
            faults = self._faults(row, file)
            bad += faults
            if faults:
                continue
            tags, changed = self.mend(row.tags or ())
            targets += [self._number[tag] for tag in tags]
            num_repaired += changed
            good.append(row)
        if bad and not skip_bad_rows:
            raise RowErrors(bad)
        return good, targets, num_repaired

    def mend(self, tags: Sequence[str]) -> tuple[Sequence[str], int]:
        """Known tags spelt as the scheme says, and how many of them that changed; as they are without a scheme."""
        if self.scheme is None:
            return tags, 0
        mended, changed = repair(tags, self.scheme)
        return (mended, changed) if all(tag in self._number for tag in mended) else (tags, 0)

    def _faults(self, row: Sentence, file: str | None) -> list[RowError]:
        where = file or row.file
        if row.tags is None:
            return [RowError(where, row.line, "tags", "are missing")]
        if len(row.tags) != len(row.words):
            return [RowError(where, row.line, "tags", f"has {len(row.tags)} tags for {len(row.words)} tokens")]
        types = {split_tag(label)[1] for label in self.labels}
        return [
            RowError(where, row.line_of(word), "tag", unknown_name("tag", tag, self.labels[:20]))
            for word, tag in enumerate(row.tags)
            if tag not in self._number
            and (self.scheme is None or tag == OUTSIDE or not split_tag(tag)[1] or split_tag(tag)[1] not in types)
        ]

    def examples(
        self,
        rows: Sequence[Sentence],
        tokenizer: Tokenizer,
        max_length: int | None = None,
        *,
        file: str | None = None,
        skip_bad_rows: bool = False,
    ) -> TaggedExamples:
        """Sentences as windows of at most `max_length` tokens, with tags; see `Task.examples`."""
        good, targets, num_repaired = self.check(rows, file, skip_bad_rows=skip_bad_rows)
        if not good:
            raise InputError(f"{file or 'The data'} has no usable sentence: give at least one with its tags.")
        left_out = len(rows) - len(good)
        return window_sentences(
            good, tokenizer, max_length, torch.tensor(targets), num_skipped=left_out, num_repaired=num_repaired
        )

    def unlabelled(
        self, rows: Sequence[Any], tokenizer: Tokenizer, max_length: int | None = None, *, counts: TextCounts
    ) -> TaggedExamples:
        """Sentences, or texts that are split into words, as windows without tags."""
        return window_sentences(as_sentences(rows), tokenizer, max_length, counts=counts)

    def remarks(self, examples: Examples, name: str, max_length: int) -> list[str]:
        """Repaired tags, and sentences that became windows."""
        assert isinstance(examples, TaggedExamples)
        found = []
        if examples.num_repaired:
            are = "is" if examples.num_repaired == 1 else "are"
            found.append(
                f"{examples.num_repaired:,} of {plural(examples.num_words, f'{name} tag')} {are} not spelt as "
                f"{self.scheme} says and {are} repaired; the entities stay."
            )
        if len(examples) > examples.num_rows:
            make = plural(examples.num_rows, f"{name} sentence makes", f"{name} sentences make")
            found.append(f"{make} {len(examples):,} windows of at most {max_length} tokens; every word is judged once.")
        return found

    # -- training --------------------------------------------------------------------------------------------

    def prime(self, model: Model, examples: Examples) -> None:
        """Give a new CRF the neighbours that the training tags have: fine-tuning rates are too small to find them."""
        assert isinstance(examples, TaggedExamples)
        if self.crf and examples.targets is not None:
            self._crf(model).prime(examples.targets, examples.num_words_by_row)

    def counts(self, batch: Batch) -> dict[str, int]:
        """Words of a batch."""
        return {self.name: len(batch.labels["places"])}

    def outcome(self, model: Model, batch: Batch) -> Outcome:
        """Summed loss and right answers of a batch with the labels of TaggedExamples.batch."""
        logits = model.logits(batch).float()[batch.labels["places"]]  # [words, labels]
        tags, counts = batch.labels["tags"], self.counts(batch)
        if not self.crf:
            total = F.cross_entropy(logits, tags, reduction="sum")
            return Outcome({self.name: total}, counts, {self.name: (logits.argmax(dim=-1) == tags).sum()})
        lengths = batch.labels["chain"]
        kept = lengths > 0
        losses = self._crf(model).losses(
            logits, tags, lengths[kept].tolist(), batch.labels["is_first"][kept], batch.labels["is_last"][kept]
        )
        return Outcome({self.name: losses.sum()}, counts)

    # -- answers ---------------------------------------------------------------------------------------------

    def outputs(self, model: Model, examples: Examples, batch_tokens: int | None) -> Tensor:
        """float32 [words, labels]; with a CRF the score of the best tags of the sentence through each tag."""
        assert isinstance(examples, TaggedExamples)
        device = next(model.parameters()).device
        result = torch.zeros(examples.num_words, self.num_labels)
        with torch.inference_mode():
            for batch in packed_batches(examples, device, batch_tokens):
                found = model.logits(batch).float()[batch.labels["places"]]  # [words, labels]
                result[batch.labels["words"].cpu()] = found.cpu()
            if self.crf:
                lengths = examples.num_words_by_row
                result = self._crf(model).best_scores(result.to(device), lengths).cpu()
        return result.clone()

    @staticmethod
    def _crf(model: Model) -> LinearChainCrf:
        head = require(model.head, (TokenCrfHead, TokenProbe), "judge tags together")
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

        entities: {"type", "text", "start", "end", "score"}, start and end being characters of the text as given, score
        the mean probability of its tags. Without a scheme there are none, and "scores" has that of each tag.
        """
        assert isinstance(examples, TaggedExamples)
        scaled = logits.double() / (1.0 if self.temperature is None else self.temperature.value)
        sure = scaled.softmax(dim=-1).amax(dim=-1).tolist() if len(logits) else []
        found = []
        for row, tags, start in zip(
            as_sentences(examples.rows), self.tags_of(logits, examples), examples.starts, strict=False
        ):
            own = sure[start : start + len(tags)]
            answer: dict[str, Any] = {"tokens": list(row.words), "tags": tags}
            found.append(answer | ({"scores": own} if self.scheme is None else {"entities": _entities(row, tags, own)}))
        return found

    def unite(self, logits: Sequence[Tensor], examples: Sequence[Examples]) -> Tensor:
        """Logits float32 [words, labels] of the mean of the probabilities of each word.

        Each word alone decides, so its neighbours may not fit: tags that are not spelt as the scheme says are repaired,
        the one that a word gets changing places with the one that it had.
        """
        shares = [part.double().softmax(dim=-1).numpy() for part in logits]
        united = as_logits(torch.from_numpy(mean_probabilities(shares))).float()
        assert isinstance(examples[0], TaggedExamples)
        for start, tags in zip(examples[0].starts.tolist(), self.tags_of(united, examples[0]), strict=False):
            for place, (old, new) in enumerate(zip(tags, self.mend(tags)[0], strict=True), start=start):
                if old != new:
                    pair = [self._number[old], self._number[new]]
                    united[place, pair] = united[place, pair[::-1]]
        return united

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
        """entity_f1, entity_precision, entity_recall as conlleval and seqeval count them, the same under seqeval's
        strict mode, and accuracy over words; without a scheme accuracy and macro_f1 over tags; and the calibration
        errors over words.
        """
        assert isinstance(examples, TaggedExamples) and examples.targets is not None
        loss = float(F.cross_entropy(logits, examples.targets))
        found = self.metrics(self.gold_of(examples), self.tags_of(logits, examples))
        decisions = self.decisions(logits, examples)
        errors = calibration_errors(decisions.gold, honest_probabilities(decisions, self.temperature))
        return Evaluation(found | errors, logits, loss)

    def metrics(self, gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
        """The same of tags, sentence by sentence."""
        truth, guess = ([tag for tags in side for tag in tags] for side in (gold, predicted))
        accuracy = scores.accuracy(truth, guess)
        if self.scheme is None:
            return {"accuracy": accuracy, "macro_f1": scores.macro_f1(truth, guess)}
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
        """Whether every tag of a sentence is the gold one."""
        assert isinstance(examples, TaggedExamples) and examples.targets is not None
        start, end = examples.starts[row : row + 2].tolist()
        return answer["tags"] == [self.labels[number] for number in examples.targets[start:end].tolist()]

    # -- files -----------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """{"task", "labels", "scheme", "crf"}, and "temperature" where one was fitted."""
        fitted = {} if self.temperature is None else {"temperature": self.temperature.to_json()}
        return {"task": self.name, "labels": self.labels, "scheme": self.scheme, "crf": self.crf, **fitted}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Tagging:
        """The task of `to_json`. Raises ModelFolderError when the facts do not fit."""
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


def _entities(row: Sentence, tags: Sequence[str], sure: Sequence[float]) -> list[dict[str, Any]]:
    found = []
    for type, first, end in spans(tags):
        start, stop = row.spans[first][0], row.spans[end - 1][1]
        score = sum(sure[first:end]) / (end - first)
        found.append({"type": type, "text": row.text[start:stop], "start": start, "end": stop, "score": score})
    return found
