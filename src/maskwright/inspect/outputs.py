"""The output of a model that is explained: the class of a text, the tag of a word, the token of a mask, an answer span.

An output has one logit per possible answer. The same functions read it from the last hidden states, for a prediction,
and from those of every layer below.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ..core.errors import InputError
from ..data.batch import Batch
from ..models.heads import SequenceClassificationHead, SpanHead, TokenClassificationHead, TokenCrfHead
from ..models.model import tokenizer_of
from ..text.words import Span, split_words, whole_words, word_edges
from .reading import TokenizedText

MASKED_LM_HEADS = ("mlm", "pretraining")
MAX_ANSWER_TOKENS = 30  # of an answer span, as in question answering
NO_ANSWER = "no answer"


@dataclass(frozen=True, eq=False)
class Output(ABC):
    """One output of a model for a text that was read.

    places: tokens whose hidden states the head reads (all, if it reads their mean); temperature: divides the logits;
    segment: finds the words of a text.
    """

    reading: TokenizedText
    places: tuple[int, ...]
    temperature: float = 1.0
    segment: Callable[[str], Sequence[Span]] = split_words

    @abstractmethod
    def logits(self, hidden: Tensor, pack: Batch) -> Tensor:
        """Compute the logits of texts as long as this one: float [texts, answers].

        hidden: float [tokens, hidden] of a layer for the texts of `pack`.
        """

    @abstractmethod
    def name(self, index: int) -> str:
        """Return the name of an answer."""

    @abstractmethod
    def index(self, name: str) -> int:
        """Return the index of an answer. Raises InputError if there is none of this name."""

    def knows(self, name: str) -> bool:
        """Whether `index` finds an answer of this name."""
        try:
            self.index(name)
        except InputError:
            return False
        return True

    @property
    def span(self) -> tuple[int, int, int] | None:
        """Text (0 or 1), start and end character of what is labeled; None for an output of the whole text."""
        return None

    @property
    def is_number(self) -> bool:
        """Whether the output is a number, without probabilities."""
        return False

    def scores(self, logits: Tensor) -> Tensor:
        """Return probabilities, or the number of a regression model: float64, the shape of `logits`."""
        return (logits.double() / self.temperature).softmax(dim=-1)

    def again(self, reading: TokenizedText, shift: int = 0) -> Output:
        """Return this output for another text. shift: by how many characters the labeled word has moved."""
        return type(self)(reading, self.places, self.temperature)

    def pack(self, count: int = 1) -> Batch:
        source = self.reading.source
        types = [list(source.types)] * count if any(source.types) else None
        device: torch.device = self.reading.model.word_embeddings.device
        return Batch.from_sequences([list(source.ids)] * count, types).to(device)

    def _rows(self, hidden: Tensor) -> Tensor:
        """Return the vector of the place in each text: float [texts, hidden]."""
        length = len(self.reading.source)
        return hidden.view(-1, length, hidden.shape[-1])[:, self.places[0]]


class ClassOutput(Output):
    """The classes of a text, or its number."""

    def logits(self, hidden: Tensor, pack: Batch) -> Tensor:
        return self.reading.model.head_logits(hidden, pack).float()

    @property
    def names(self) -> list[str]:
        return ["the number"] if self.is_number else list(self.reading.model.labels)

    def name(self, index: int) -> str:
        return self.names[index]

    def index(self, name: str) -> int:
        if name not in self.names:
            raise InputError(f"'{name}' is not a label of this model; its labels are {', '.join(self.names[:12])}.")
        return self.names.index(name)

    @property
    def is_number(self) -> bool:
        return self.reading.model.num_labels == 1

    def scores(self, logits: Tensor) -> Tensor:
        """Return probabilities: of each label alone for a multi-label classifier."""
        if self.is_number:
            return logits.double()
        if self.reading.model.problem_type == "multi_label_classification":
            return (logits.double() / self.temperature).sigmoid()
        return super().scores(logits)


class MaskOutput(Output):
    """The token of a mask."""

    def logits(self, hidden: Tensor, pack: Batch) -> Tensor:
        return self.reading.model.mlm_logits(self._rows(hidden)).float()

    def name(self, index: int) -> str:
        return tokenizer_of(self.reading.model).id_to_token(index) or str(index)

    def index(self, name: str) -> int:
        tokenizer = tokenizer_of(self.reading.model)
        direct = tokenizer.token_to_id(name)
        ids = tokenizer.encode_plain([name])[0] if direct is None else [direct]
        if len(ids) != 1 or ids[0] == tokenizer.unk_id:
            raise InputError(f"'{name}' is not one token of this model: only single tokens can fill a mask.")
        return int(ids[0])

    @property
    def span(self) -> tuple[int, int, int]:
        return _characters(self.reading, self.places[0])

    def again(self, reading: TokenizedText, shift: int = 0) -> Output:
        return MaskOutput(reading, (masks_of(reading)[masks_of(self.reading).index(self.places[0])],), self.temperature)


class TagOutput(Output):
    """The tag of a word, read at its first token."""

    def logits(self, hidden: Tensor, pack: Batch) -> Tensor:
        head = self.reading.model.head
        assert isinstance(head, TokenClassificationHead)
        logits: Tensor = head(self._rows(hidden))
        return logits.float()

    def name(self, index: int) -> str:
        return self.reading.model.labels[index]

    def index(self, name: str) -> int:
        labels = self.reading.model.labels
        if name not in labels:
            raise InputError(f"'{name}' is not a tag of this model; its tags are {', '.join(labels[:12])}.")
        return labels.index(name)

    @property
    def span(self) -> tuple[int, int, int]:
        return _characters(self.reading, self.places[0])

    def again(self, reading: TokenizedText, shift: int = 0) -> Output:
        return replace(self, reading=reading, places=(_token_at(reading, self.span[1] + shift),))


class SpanOutput(Output):
    """The answer span of a question: a logit for each start and end, the sum of both; index 0 is "no answer"."""

    def logits(self, hidden: Tensor, pack: Batch) -> Tensor:
        """Return the logits of all spans, start major; -inf for invalid spans."""
        length = len(self.reading.source)
        both = self.reading.model.head_logits(hidden, pack).float().view(-1, length, 2)
        spans = both[:, :, None, 0] + both[:, None, :, 1]  # [texts, starts, ends]
        inside = torch.tensor([number == 1 for number in self.reading.source.texts], device=spans.device)
        allowed = inside[:, None] & inside[None] & torch.ones_like(spans[0], dtype=torch.bool).triu()
        allowed &= torch.ones_like(allowed).tril(MAX_ANSWER_TOKENS - 1)
        allowed[0, 0] = True
        return spans.masked_fill(~allowed, -torch.inf).flatten(1)

    def name(self, index: int) -> str:
        """Return the words of a span: whole ones, as in answers."""
        return NO_ANSWER if index == 0 else self._words[divmod(index, len(self.reading.source))]

    def index(self, name: str) -> int:
        """Return the index of the first span of these words, as wide as they are."""
        if name == NO_ANSWER:
            return 0
        found = next((span for span, words in self._words.items() if words == name), None)
        if found is None:
            raise InputError(f"'{name}' is not an answer in this context: pass whole words of it.")
        return found[0] * len(self.reading.source) + found[1]

    @cached_property
    def _words(self) -> dict[tuple[int, int], str]:
        """The words of each span by first and last token, the widest span first of those that begin with a token."""
        source, context = self.reading.source, self.reading.source.text_pair or ""
        tokens = [index for index, number in enumerate(source.texts) if number == 1]
        edges = whole_words(word_edges(context), np.array([source.offsets[index] for index in tokens], dtype=np.int64))
        return {
            (first, tokens[last]): context[edges[place][0] : edges[last][1]]
            for place, first in enumerate(tokens)
            for last in range(min(place + MAX_ANSWER_TOKENS, len(tokens)) - 1, place - 1, -1)
        }

    def at(self, index: int) -> SpanOutput:
        """Return this output with the tokens of an answer as its places."""
        first, last = divmod(index, len(self.reading.source))
        return SpanOutput(self.reading, (first,) if first == last else (first, last), self.temperature)

    @property
    def span(self) -> tuple[int, int, int] | None:
        if self.places == (0,):
            return None
        offsets = self.reading.source.offsets
        return 1, offsets[self.places[0]][0], offsets[self.places[-1]][1]

    def again(self, reading: TokenizedText, shift: int = 0) -> Output:
        return SpanOutput(reading, (0,), self.temperature)


def output_of(
    reading: TokenizedText,
    place: int = 0,
    start: int = 0,
    temperature: float = 1.0,
    segment: Callable[[str], Sequence[Span]] = split_words,
) -> Output:
    """Return the output to explain.

    place: for a masked language model the number of the mask, from 0; start: for a tagger, a character of the word;
    temperature: of a calibrated classifier; segment: finds the words for a tagger, `Tagging.segment`. Raises InputError
    for models without such an output, for a mask or word that is not in the text, for a question without context, and
    for a tagger that decodes all tags jointly.
    """
    model = reading.model
    if model.graph_precision is not None:
        raise InputError("An exported model cannot be explained: use the folder that it was exported from.")
    if isinstance(model.head, SequenceClassificationHead):
        last = len(reading.source) - 1
        pooled = last if model.config.pools_last_token else 0
        takes_mean = model.head.takes_mean and not model.head.needs_pooler
        return ClassOutput(reading, tuple(range(last + 1)) if takes_mean else (pooled,), temperature)
    if isinstance(model.head, TokenCrfHead):
        raise InputError("This tagger decodes the tags of a sentence jointly (CRF): single tags cannot be explained.")
    if isinstance(model.head, TokenClassificationHead):
        return TagOutput(reading, (_token_at(reading, start),), segment=segment)
    if isinstance(model.head, SpanHead):
        if reading.source.text_pair is None:
            raise InputError("An answer needs a question and a context: pass both as a pair.")
        return SpanOutput(reading, (0,))
    if model.head_name not in MASKED_LM_HEADS or model.config.pools_last_token:
        raise InputError(
            "Attributions require a model that predicts a class, a number, a tag, an answer or a masked token."
        )
    masks = masks_of(reading)
    if not 0 <= place < len(masks):
        raise InputError(f"The text has {len(masks)} masks, so there is no mask {place} (counted from 0).")
    return MaskOutput(reading, (masks[place],))


def masks_of(reading: TokenizedText) -> list[int]:
    """Return the token indices of the masks."""
    mask_id = tokenizer_of(reading.model).mask_id
    return [] if mask_id is None else [index for index, id in enumerate(reading.source.ids) if id == mask_id]


def predict(outputs: Sequence[Output]) -> list[Tensor]:
    """Compute the logits of outputs of one model in one pass: float [answers] each."""
    model = outputs[0].reading.model
    sources = [output.reading.source for output in outputs]
    types = [list(source.types) for source in sources] if any(any(source.types) for source in sources) else None
    pack = Batch.from_sequences([list(source.ids) for source in sources], types).to(model.word_embeddings.device)
    with torch.inference_mode():
        parts = model.hidden_for_head(pack).split(pack.lengths)
        return [output.logits(part, output.pack())[0] for output, part in zip(outputs, parts, strict=True)]


def _token_at(reading: TokenizedText, start: int) -> int:
    """Return the first token of the first text that ends after a character."""
    source = reading.source
    for index, (_, end) in enumerate(source.offsets):
        if source.texts[index] == 0 and end > start:
            return index
    raise InputError(f"The text has no word at character {start}.")


def _characters(reading: TokenizedText, index: int) -> tuple[int, int, int]:
    source = reading.source
    return source.texts[index] or 0, *source.offsets[index]
