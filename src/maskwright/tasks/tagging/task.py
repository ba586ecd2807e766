"""Token classification: named entities in any tagging scheme, or parts of speech (Devlin et al. 2019, section 5.3).

Labels are written as in the training data; inside the task tags are those of `schemes`. A word is classified at its
first subword token. With a CRF the tags of a sentence are decoded jointly (`nn.crf`). Its
logits are float32 [words, labels] over all sentences, concatenated; the largest logit of a word is its tag.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ...core.errors import InputError, RowError, RowErrors
from ...core.registry import unknown_name
from ...core.util import plural
from ...data.batch import Batch
from ...models.heads import TokenCrfHead, require
from ...models.probes import TokenProbe
from ...nn.crf import LinearChainCrf
from ...objectives.outcome import LossSums
from ...text.segmenters import DEFAULT_SEGMENTER, SEGMENTERS, find_segmenter, segment
from ...text.tokenizers.encoding import TextCounts
from ...text.words import MISSING, Sentence, Span, as_sentences
from ..base import Baseline, Evaluation, Rows, TableRow, Task, TaskData, Unscored, named
from ..evaluation import metrics as scores
from ..evaluation.calibration import Decisions, Temperature, calibration_errors, out_of_fold_probabilities, row_keys
from ..evaluation.compare import ScoredPredictions, f1, share
from ..evaluation.metrics import mean_probabilities
from ..examples import Examples, Forward, TokenLogits, as_logits
from .examples import IGNORED, GoldTags, TaggedExamples, entities_of, window_sentences
from .schemes import (
    OUTSIDE,
    SCHEMES,
    Notation,
    agreement,
    find_notation,
    repair,
    scheme_tags,
    spans,
    split_tag,
    strict_spans,
)

if TYPE_CHECKING:
    from ...models.model import Model
    from ...text.tokenizers.tokenizer import Tokenizer

# -- The most-frequent-tag baseline ----------------------------------------------------------------------------------


def most_frequent_tags(
    train: Sequence[Sentence], train_tags: Sequence[Sequence[str]], dev: Sequence[Sentence]
) -> list[list[str]]:
    """Returns the most frequent training tag of each dev word; unknown words get the most frequent tag overall."""
    seen: defaultdict[str, Counter[str]] = defaultdict(Counter)
    every: Counter[str] = Counter()
    for row, tags in zip(train, train_tags, strict=True):
        for word, tag in zip(row.words, tags, strict=True):
            if tag != MISSING:
                seen[word][tag] += 1
                every[tag] += 1
    usual = {word: counts.most_common(1)[0][0] for word, counts in seen.items()}
    most_frequent = every.most_common(1)[0][0]
    return [[usual.get(word, most_frequent) for word in row.words] for row in dev]


@dataclass(eq=False)
class Tagging(Task):
    """Token classification.

    labels: in the order of the outputs; tags: the same as in `schemes`; scheme: a name of schemes.SCHEMES, None for
    plain tags, "auto" to detect it from the labels; crf: whether a CRF decodes the tags of a sentence jointly;
    segmenter: a name of segmenters.SEGMENTERS, which splits texts into words, None if words must be given.
    """

    name: ClassVar[str] = "tagging"
    report: ClassVar[str] = "maskwright.tasks.report:TaggingReport"
    problem_type = None

    labels: list[str]
    scheme: str | None = "auto"
    crf: bool = False
    segmenter: str | None = DEFAULT_SEGMENTER
    temperature: Temperature | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self.labels, scheme = list(self.labels), self.scheme
        if len(set(self.labels)) != len(self.labels):
            raise InputError("Two tags have the same name: tag names must be unique.")
        if len(self.labels) < 2:
            raise InputError("A tagger needs at least two tags.")
        if scheme not in (None, "auto", *SCHEMES):
            raise InputError(unknown_name("tagging scheme", str(scheme), SCHEMES))
        if self.segmenter not in (None, *SEGMENTERS):
            raise InputError(unknown_name("segmenter", str(self.segmenter), SEGMENTERS))
        known = None if scheme == "auto" else scheme
        self.notation = None if scheme is None else find_notation(self.labels, scheme=known)
        if self.notation is None and scheme not in (None, "auto"):
            raise InputError(f"The tags {named(self.labels)} have no prefixes, so their scheme is not {scheme}.")
        self.scheme = None if self.notation is None else self.notation.scheme
        self._segmenter_note = ""
        self.head = "tagging-crf" if self.crf else "tagging"
        self.main_metric = "accuracy" if self.scheme is None else "entity_f1"
        self.tags = [(self.notation and self.notation.read(label)) or label for label in self.labels]
        self._label = dict(zip(self.tags[::-1], self.labels[::-1], strict=True))
        self._number = {tag: number for number, tag in reversed(list(enumerate(self.tags)))}
        self._types = {split_tag(tag)[1] for tag in self.tags} - {""}
        self._types_in_any_case = {type.casefold(): type for type in self._types}

    # -- rows and examples -----------------------------------------------------------------------------------

    @classmethod
    def strata(cls, rows: Sequence[Sentence]) -> list[Collection[str]]:
        return [sorted(set(row.tags or ())) for row in rows]

    def why_unscored(self, rows: Sequence[Sentence]) -> Unscored | None:
        read = self._reading(rows)[1]
        found = {tag for row in rows for tag in row.tags or () if read[tag] not in (OUTSIDE, MISSING)}
        if not found or any(self._is_known(read[tag]) for tag in found):
            return None
        return Unscored(f"contains the tags {named(sorted(found))}", self.name)

    @classmethod
    def from_rows(
        cls, train_rows: Rows, dev_rows: Rows = (), *, crf: bool = False, train_file: str | None = None
    ) -> Tagging:
        """Collects the tags of the training rows; with a scheme, all of its tags for their entity types.

        Tags in IOB1 are learned as BIO: the entities are the same. Raises RowErrors for training tags outside the
        scheme and for dev tags that the training rows do not have, InputError if there is only one tag.
        """
        tags = Counter(tag for row in train_rows for tag in row.tags or ())
        notation = find_notation(tags, [row.tags or () for row in train_rows])
        if notation is None:
            labels = sorted(set(tags) - {MISSING})
        else:
            notation = replace(notation, scheme="BIO" if notation.scheme == "IOB1" else notation.scheme)
            types = {split_tag(notation.read(tag) or "")[1] for tag in tags} - {""}
            labels = [notation.write(tag) for tag in scheme_tags(notation.scheme, types)]
        if len(labels) < 2:
            found = f"only the tag '{labels[0]}'" if labels else "no tag"
            raise InputError(f"{train_file or 'The training data'} has {found}: a tagger needs at least two.")
        segmenter = find_segmenter(train_rows)
        task = cls(labels, None if notation is None else notation.scheme, crf, segmenter.name)
        task._segmenter_note = segmenter.description
        return task

    @property
    def deciding_metrics(self) -> tuple[str, ...]:
        return ("accuracy", "macro_f1") if self.scheme is None else ("entity_f1", "strict_entity_f1", "accuracy")

    @property
    def num_labels(self) -> int:
        return len(self.labels)

    def read_labels(
        self, rows: Rows, file: str | None = None, skip_bad_rows: bool = False, target: Any = None
    ) -> tuple[list[Sentence], GoldTags]:
        """Reads the tags of sentences, in whichever scheme and spelling they are; skips sentences without any tag.
        Raises RowErrors listing every unknown tag unless `skip_bad_rows`.
        """
        notation, read = self._reading(rows)
        found = GoldTags(notation)
        bad: list[RowError] = []
        for row in rows:
            faults = self._faults(row, file, read)
            bad += faults
            if faults:
                continue
            tags = [read[tag] for tag in row.tags or ()]
            found.missing.update(tag for tag, known in zip(row.tags or (), tags, strict=True) if known == MISSING)
            if all(tag == MISSING for tag in tags):
                continue
            found.rows.append(row)
            found.targets += [self._target(tag) for tag in found.repaired(tags, self.scheme)]
        if bad and not skip_bad_rows:
            raise RowErrors(bad)
        if not found.rows:
            raise InputError(f"{file or 'The data'} has no usable sentence: pass at least one with its tags.")
        return found.rows, found

    def _reading(self, rows: Sequence[Sentence]) -> tuple[Notation | None, Mapping[str, str]]:
        """Returns how sentences write tags, and what each is in this task; a tag that fits nothing stays as it is."""
        counts = Counter(tag for row in rows for tag in row.tags or ())
        if self.notation is None:
            return None, {tag: tag for tag in counts}
        notation = self.notation
        read = {tag: self._with_known_type(notation.read(tag), tag) for tag in counts}
        own = find_notation(counts) if not all(map(self._is_known, read.values())) else None
        if own is not None:
            other = {tag: self._with_known_type(own.read(tag), tag) for tag in counts}
            if sum(map(self._is_known, other.values())) > sum(map(self._is_known, read.values())):
                notation, read = own, other
        prefixes = {tag.partition("-")[0] for tag in read.values() if split_tag(tag)[1]}
        if prefixes <= set(SCHEMES[notation.scheme]) and not prefixes <= {"B", "I"}:
            return notation, read
        tags = [[read[tag] for tag in row.tags or ()] for row in rows]
        found = find_notation((tag for row in tags for tag in row), tags)
        return notation if found is None else replace(notation, scheme=found.scheme), read

    def _with_known_type(self, tag: str | None, written: str) -> str:
        """Returns a tag with the type of the training data that differs at most in case."""
        if tag is None or tag in self._number:
            return written if tag is None else tag
        prefix, _, type = tag.partition("-")
        known = type if type in self._types else self._types_in_any_case.get(type.casefold(), type)
        return f"{prefix}-{known}" if known else tag

    def label_of(self, tag: str) -> str:
        return self._label.get(tag, tag)

    def _target(self, tag: str) -> int:
        """Returns the output of a known tag; of a tag that a model of others lacks, the first of its type."""
        if tag == MISSING:
            return IGNORED
        type = split_tag(tag)[1]
        return self._number.get(tag, next((n for n, own in enumerate(self.tags) if split_tag(own)[1] == type), 0))

    def repair_tags(self, tags: Sequence[str]) -> Sequence[str]:
        if self.scheme is None:
            return tags
        repaired = repair(tags, self.scheme)[0]
        return repaired if all(tag in self._number for tag in repaired) else tags

    def _faults(self, row: Sentence, file: str | None, read: Mapping[str, str]) -> list[RowError]:
        where = file or row.file
        if row.tags is None:
            return [RowError(where, row.line, "tags", "are missing")]
        if len(row.tags) != len(row.words):
            return [RowError(where, row.line, "tags", f"has {len(row.tags)} tags for {len(row.words)} tokens")]
        return [
            RowError(where, row.line_of(word), "tag", self._why_unknown(tag, read[tag]))
            for word, tag in enumerate(row.tags)
            if not self._is_known(read[tag])
        ]

    def _why_unknown(self, tag: str, read: str) -> str:
        unknown = unknown_name("tag", tag, self.labels[:20])
        if self.notation is None or split_tag(read)[1]:
            return unknown
        return f"{unknown} (tags are {self.notation.description}; '-' is a word without a tag)"

    def _is_known(self, tag: str) -> bool:
        """Whether the model has the tag, or with a scheme its entity type."""
        if tag in self._number or tag == MISSING:
            return True
        return self.scheme is not None and split_tag(tag)[1] in self._types

    def tokenize(
        self, rows: Rows, tokenizer: Tokenizer, max_length: int | None, targets: Any, counts: TextCounts
    ) -> TaggedExamples:
        return window_sentences(rows, tokenizer, max_length, targets, counts=counts)

    def unlabeled(
        self, rows: Sequence[Any], tokenizer: Tokenizer, max_length: int | None = None, *, counts: TextCounts
    ) -> TaggedExamples:
        return window_sentences(as_sentences(rows, self.segment), tokenizer, max_length, counts=counts)

    def segment(self, text: str) -> list[Span]:
        return segment(text, self.segmenter)

    def facts(self, examples: Examples, name: str) -> list[str]:
        assert isinstance(examples, TaggedExamples) and examples.gold is not None
        notation = examples.gold.notation
        found = []
        if name == "train" and self.notation is None:
            prefixed = [tag for tag in self.labels if split_tag(tag)[1]]
            though = f", though {named(prefixed)} {'has a prefix' if len(prefixed) == 1 else 'have prefixes'}"
            found.append(
                f"{name} tags have no scheme of entities{though if prefixed else ''}: each of {len(self.labels)} tags "
                "is a class."
            )
        elif notation is not None and (name == "train" or notation != self.notation):
            changed = "" if notation.scheme == self.scheme else f", read as {self.scheme}"
            types = f"; {plural(len(self._types), 'type of entity', 'types of entity')}: {named(sorted(self._types))}"
            found.append(f"{name} tags are {notation.description}{changed}{types if name == 'train' else ''}.")
        if name == "train" and self.segmenter is not None and self._segmenter_note:
            found.append(self._segmenter_note)
        return found

    def notes(self, examples: Examples, name: str, max_length: int) -> list[str]:
        assert isinstance(examples, TaggedExamples)
        gold = examples.gold
        found = [] if gold is None else self._tag_notes(gold, examples, name)
        if name == "train" and self.segmenter is None and self._segmenter_note:
            found.append(self._segmenter_note)
        if len(examples) > examples.num_rows:
            make = plural(examples.num_rows, f"{name} sentence makes", f"{name} sentences make")
            found.append(
                f"{make} {len(examples):,} windows of at most {max_length} tokens; each word is classified once."
            )
        return found

    def _tag_notes(self, gold: GoldTags, examples: TaggedExamples, name: str) -> list[str]:
        found = []
        if gold.num_repaired:
            found.append(
                f"{gold.num_repaired:,} of {plural(examples.num_words, f'{name} tag')} invalid in "
                f"{gold.notation and gold.notation.scheme}: repaired; the entities do not change."
            )
        if gold.num_merged:
            found.append(
                f"{plural(gold.num_merged, f'{name} entity touches', f'{name} entities touch')} another of the same "
                f"type, which {self.scheme} cannot tell apart."
            )
        if gold.missing:
            marks = named([f"'{tag or '_'}'" for tag in sorted(gold.missing)])
            have = plural(gold.missing.total(), f"{name} word has", f"{name} words have")
            found.append(f"{have} no tag ({marks}); such words are not learned or scored.")
        return found

    # -- training --------------------------------------------------------------------------------------------

    def init_from_counts(self, model: Model, examples: Examples) -> None:
        """Initializes a new CRF from tag bigram counts: fine-tuning learning rates are too small to learn them."""
        assert isinstance(examples, TaggedExamples)
        if self.crf and examples.targets is not None:
            chains = [row for row in examples.targets.split(examples.num_words_by_row) if (row != IGNORED).all()]
            if chains:
                self._crf(model).init_from_counts(torch.cat(chains), list(map(len, chains)))

    def counts(self, batch: Batch) -> dict[str, int]:
        return {self.name: len(batch.labels["places"])}

    def outcome(self, model: Model, batch: Batch) -> LossSums:
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
        assert isinstance(data.train, TaggedExamples) and isinstance(data.dev, TaggedExamples)
        gold = self.gold_of(data.dev)
        found = most_frequent_tags(data.train.rows, self.gold_of(data.train), data.dev.rows)
        return Baseline(self.metrics(gold, found)[self.main_metric], "each word's most common tag")

    # -- answers ---------------------------------------------------------------------------------------------

    def forward(self, model: Model) -> Forward:
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
        """The tags of each sentence, as in `schemes`. logits: float32 [words, labels]."""
        return _by_sentence([self.tags[number] for number in logits.argmax(dim=-1).tolist()], examples)

    def gold_of(self, examples: TaggedExamples) -> list[list[str]]:
        """The gold tags of each sentence, as in `schemes`, repaired; MISSING for words without one."""
        if examples.targets is None:
            raise InputError("Tagged sentences are needed.")
        names = [MISSING if number == IGNORED else self.tags[number] for number in examples.targets.tolist()]
        return _by_sentence(names, examples)

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
            answer: dict[str, Any] = {"tokens": list(row.words), "tags": list(map(self.label_of, tags))}
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
            for place, (old, new) in enumerate(zip(tags, self.repair_tags(tags), strict=True), start=start):
                if old != new:
                    pair = [self._number[old], self._number[new]]
                    mean[place, pair] = mean[place, pair[::-1]]
        return mean

    def losses(self, logits: Tensor, examples: Examples) -> Tensor:
        assert isinstance(examples, TaggedExamples) and examples.targets is not None
        words = F.cross_entropy(logits, examples.targets, reduction="none", ignore_index=IGNORED)
        counts = (examples.targets != IGNORED).split(examples.num_words_by_row)
        parts = words.split(examples.num_words_by_row)
        return torch.stack([part.sum() / max(int(own.sum()), 1) for part, own in zip(parts, counts, strict=True)])

    def decisions(self, logits: Tensor, examples: Examples) -> Decisions:
        assert isinstance(examples, TaggedExamples) and examples.targets is not None
        rows = row_keys(as_sentences(examples.rows))
        keys = [key for key, words in zip(rows, examples.num_words_by_row, strict=True) for _ in range(words)]
        known = (examples.targets != IGNORED).nonzero().flatten()
        kept = [keys[word] for word in known.tolist()]
        return Decisions(logits[known].double().numpy(), examples.targets[known].numpy(), kept)

    def score(self, logits: Tensor, examples: Examples) -> Evaluation:
        """Computes entity_f1, entity_precision, entity_recall (as conlleval and seqeval), the same in the strict mode
        of seqeval, word accuracy (without a scheme accuracy and macro_f1), and calibration errors over words.
        """
        assert isinstance(examples, TaggedExamples) and examples.targets is not None
        loss = float(F.cross_entropy(logits, examples.targets, ignore_index=IGNORED))
        found = self.metrics(self.gold_of(examples), self.tags_of(logits, examples))
        decisions = self.decisions(logits, examples)
        errors = calibration_errors(decisions.gold, out_of_fold_probabilities(decisions, self.temperature))
        return Evaluation(found | errors, logits, loss)

    def metrics(self, gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
        """Computes the same metrics from tags, except for calibration errors. Words whose gold tag is MISSING do not
        count.
        """
        sides = zip(gold, predicted, strict=True)
        pairs = [pair for one, other in sides for pair in zip(one, other, strict=True) if pair[0] != MISSING]
        truth, guess = [one for one, _ in pairs], [other for _, other in pairs]
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

    def rate(self, logits: Tensor, examples: Examples) -> ScoredPredictions:
        assert isinstance(examples, TaggedExamples)
        gold, found = self.gold_of(examples), self.tags_of(logits, examples)
        pairs = [
            [pair for pair in zip(*row, strict=True) if pair[0] != MISSING] for row in zip(gold, found, strict=True)
        ]
        right = np.array([all(one == other for one, other in row) for row in pairs])
        if self.scheme is None:
            counts = [[sum(one == other for one, other in row), len(row)] for row in pairs]
            return ScoredPredictions("accuracy", np.array(counts, dtype=np.float64), share, right)
        each = [agreement([truth], [guess], spans)[""] for truth, guess in zip(gold, found, strict=True)]
        entities = np.array([[one.gold, one.found, one.both] for one in each], dtype=np.float64)
        return ScoredPredictions("entity_f1", entities, f1, right)

    def is_right(self, examples: Examples, row: int, answer: Mapping[str, Any]) -> bool:
        return all(gold == predicted for gold, predicted in self.class_pairs(examples, row, answer))

    def class_pairs(self, examples: Examples, row: int, answer: Mapping[str, Any]) -> list[tuple[str, str]]:
        assert isinstance(examples, TaggedExamples) and examples.targets is not None
        start, end = examples.starts[row : row + 2].tolist()
        pairs = zip(examples.targets[start:end].tolist(), answer["tags"], strict=True)
        return [(self.labels[number], tag) for number, tag in pairs if number != IGNORED]

    def table_rows(self, answer: Mapping[str, Any]) -> list[TableRow]:
        if "entities" not in answer:
            each = zip(answer["tokens"], answer["tags"], answer["scores"], strict=True)
            return [TableRow("", "", None), *(TableRow(word, tag, score) for word, tag, score in each)]
        return [
            TableRow("", "" if answer["entities"] else "-", None),
            *(
                TableRow(f"{one['start']}-{one['end']} {one['text']}", one["type"], one["score"])
                for one in answer["entities"]
            ),
        ]


def _by_sentence(names: list[str], examples: TaggedExamples) -> list[list[str]]:
    return [names[start:end] for start, end in pairwise(examples.starts.tolist())]
