"""Text, token and word embeddings from any layer of the encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..core.errors import ConfigError, ModelFolderError
from ..core.registry import unknown_name
from ..data.batch import Batch
from ..hub.download import find_folder
from ..hub.folders import read_facts
from ..hub.sentence import declared_by
from ..models.device import one_thread
from ..models.model import Model, SentenceSettings, tokenizer_of
from ..models.pooling import POOLINGS, Projection, join_windows, pool, state_of, unit_length
from ..tasks.examples import Examples, Forward, each, rows_of, stacked, tokenize_rows
from ..tasks.windows import LongExamples, LongTexts, window_rows
from ..text.readers.inputs import Text
from ..text.tokenizers.encoding import Encoding, TextCounts
from .prepared import Prepared, ahead, text_blocks
from .ready import room_of

BLOCK_TEXTS = 4096  # maximum texts per block; a block is sorted by length
BLOCK_CHARACTERS = 1 << 23  # maximum characters per block
MIN_STREAMED = 256  # up to this many texts are one block, without a prefetch thread
Result = TypeVar("Result")
Computed = TypeVar("Computed")
SUBWORDS = ("mean", "first")  # how subword embeddings become a word embedding


# -- Selection and combination of layers -----------------------------------------------------------------------------
#
# Layer 0 is the embeddings, layers 1 to n those of the encoder. The named selections are from Devlin et al. 2019, table
# 7 (feature-based approach).


NAMED_LAYERS = ("embeddings", "last", "second-to-last", "sum-all", "sum-last-4", "concat-last-4")
ALONE = ("state", "none")  # poolings that are not joined with others


@dataclass(frozen=True)
class LayerChoice:
    """Layer numbers and how they are combined: "concat" or "sum"."""

    numbers: tuple[int, ...]
    combine: str

    def size(self, hidden_size: int) -> int:
        """Dimensions of a token embedding."""
        return hidden_size * (len(self.numbers) if self.combine == "concat" else 1)

    def apply(self, hidden_states: Sequence[Tensor]) -> Tensor:
        """Combine hidden states, layers + 1 tensors float [tokens, hidden], to float32 [tokens, size]."""
        chosen = [hidden_states[number].float() for number in self.numbers]
        return torch.cat(chosen, dim=-1) if self.combine == "concat" else torch.stack(chosen).sum(dim=0)


def choose_layers(layers: str | int | Sequence[int], num_layers: int) -> LayerChoice:
    """Return the layers of a name or of numbers in an encoder with `num_layers` layers.

    layers: a name of NAMED_LAYERS ("sum-all" excludes the embeddings), a number, or several ("9,10,11,12" or a list),
    which are concatenated; negative numbers count from the last. Raises ConfigError.
    """
    if isinstance(layers, str) and layers in NAMED_LAYERS:
        if layers.endswith("-4") and num_layers < 4:
            raise ConfigError(
                f"layers '{layers}' requires 4 layers, but this model has {num_layers}: use layer numbers."
            )
        first = {"embeddings": 0, "second-to-last": num_layers - 1, "sum-all": 1, "last": num_layers}
        start = first.get(layers, num_layers - 3)
        stop = num_layers if "-last-" in layers or layers == "sum-all" else start
        return LayerChoice(tuple(range(start, stop + 1)), "sum" if layers.startswith("sum") else "concat")
    parts = [layers] if isinstance(layers, int) else layers.split(",") if isinstance(layers, str) else layers
    try:
        numbers = [int(part) for part in parts]
    except (TypeError, ValueError):
        raise ConfigError(unknown_name("layer selection", str(layers), [*NAMED_LAYERS, "or numbers"])) from None
    numbers = [number + num_layers + 1 if number < 0 else number for number in numbers]
    if not numbers or any(not 0 <= number <= num_layers for number in numbers):
        raise ConfigError(f"layers {layers!r} is out of range: this model has layers 0 (embeddings) to {num_layers}.")
    return LayerChoice(tuple(numbers), "concat")


def check_pooling(pooling: str) -> str:
    """Return `pooling` if it is of `models.pooling.pool`, "state" or "none"; raises ConfigError otherwise."""
    for name in [pooling] if pooling in ALONE else str(pooling).split("+"):
        if name not in (*POOLINGS, *ALONE) or (name in ALONE and name != pooling):
            raise ConfigError(unknown_name("pooling", name, (*POOLINGS, *ALONE)))
    return pooling


# -- Embeddings -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TokenVectors:
    """Token embeddings of one text or pair.

    tokens: subword tokens, including special tokens; words: the word of each token ("" for a special token); spans:
    start and end of that word in its text; texts: 0 or 1, the text of a pair (None for a special token); vectors:
    float32 [tokens, size].
    """

    tokens: list[str]
    words: list[str]
    spans: list[tuple[int, int]]
    texts: list[int | None]
    vectors: np.ndarray

    def by_word(self, subwords: str = "mean") -> TokenVectors:
        """Return one embedding per word: that of its first subword token, or the mean ("mean"); no special tokens."""
        if subwords not in SUBWORDS:
            raise ConfigError(unknown_name("subword pooling", str(subwords), SUBWORDS))
        groups: dict[tuple[int, tuple[int, int]], list[int]] = {}
        for index, (text, span) in enumerate(zip(self.texts, self.spans, strict=True)):
            if text is not None:
                groups.setdefault((text, span), []).append(index)
        vectors = [self.vectors[rows if subwords == "mean" else rows[:1]].mean(axis=0) for rows in groups.values()]
        words = [self.words[rows[0]] for rows in groups.values()]
        found = np.stack(vectors) if vectors else np.zeros((0, self.vectors.shape[1]), dtype=np.float32)
        return TokenVectors(words, words, [span for _, span in groups], [text for text, _ in groups], found)

    def to_json(self) -> list[dict[str, Any]]:
        """Return {"token", "word", "start", "end", "vector"} for each token."""
        return [
            {"token": token, "word": word, "start": span[0], "end": span[1], "vector": vector.tolist()}
            for token, word, span, vector in zip(self.tokens, self.words, self.spans, self.vectors, strict=True)
        ]


class Encoder(Generic[Result]):
    """Base class of what encodes texts.

    role: "query", "document" or None, which chooses the prompt; routes: encoders of roles with their own network.
    """

    role: str | None = None
    routes: Mapping[str, Self] = {}

    def __init__(self, model: Model, declared: SentenceSettings | None, max_length: int | None) -> None:
        self.declared = declared or SentenceSettings()
        self.model, self.tokenizer = model.eval(), tokenizer_of(model)
        if max_length is None and self.declared.max_length is not None:
            max_length = min(self.declared.max_length, room_of(model))
        self.max_length = room_of(model, max_length)
        self.counts = TextCounts()

    def prepare(self, texts: Sequence[Text], prompt: str | None = None) -> Prepared[Result]:
        """Tokenize at least one text or pair. prompt: put before every text; None for the one that is declared."""
        raise NotImplementedError

    def stream_with_texts(
        self, texts: Iterable[Text], batch_tokens: int | None = None
    ) -> Iterator[tuple[list[Text], Result]]:
        """Yield blocks of texts with their embeddings, [block, size].

        At most two blocks are in memory, with a GPU three: it computes one while the results of the one before it are
        read.
        """
        read = text_blocks(texts, BLOCK_TEXTS, BLOCK_CHARACTERS)
        launched: list[tuple[list[Text], Callable[[], Result]]] = []
        for block, prepared in ahead((block, self.prepare(block)) for block in read):
            launched.append((block, self._launch(prepared, batch_tokens)))
            while len(launched) > (prepared.forward.device.type != "cpu"):
                done, wait = launched.pop(0)
                yield done, wait()
        yield from ((done, wait()) for done, wait in launched)

    def for_role(self, role: str) -> Self:
        """The encoder of queries ("query") or of texts that are searched ("document"), with the same counts."""
        found = copy(self.routes.get(role, self))
        found.role, found.counts = role, self.counts
        return found

    def _prompted(self, texts: Sequence[Text], prompt: str | None) -> Sequence[Text]:
        prompt = self._prompt(prompt)
        if not prompt:
            return texts
        return [prompt + text if isinstance(text, str) else (prompt + text[0], *text[1:]) for text in texts]

    def _prompt(self, prompt: str | None) -> str:
        return self.declared.prompt_of(self.role) if prompt is None else prompt

    def _run(self, prepared: Prepared[Computed], batch_tokens: int | None) -> Computed:
        """Compute and finish, and add the counts of the call to those of all calls."""
        return self._launch(prepared, batch_tokens)()

    def _launch(self, prepared: Prepared[Computed], batch_tokens: int | None) -> Callable[[], Computed]:
        """Start this; the function that is returned waits for the result."""
        self.counts.include(prepared.counts)
        return prepared.launch(batch_tokens)


class TextEncoder(Encoder[np.ndarray]):
    """Encodes texts as embeddings.

    Args:
        layers: see `choose_layers`.
        pooling: "cls", "mean", "max", "lasttoken", "weightedmean", "mean_sqrt_len_tokens", or several of them joined by
            "+" (`models.pooling.pool`), "state" (final hidden states of a recurrent network) or "none"
            (`token_vectors` only); None as declared.
        normalize: scale embeddings to unit length; None as declared.
        max_length: maximum sequence length in tokens; None as declared, at most that of the model.
        long: how longer texts are split into windows; None truncates them. Window embeddings are averaged, weighted by
            token count, or combined by maximum if pooling is "max".
        declared: settings of the model's folder. Its prompt is put before every text, not before the texts of token and
            word embeddings. Its projection and dimensions apply to the last layer with the declared pooling: the first
            numbers of the embedding, scaled to unit length again only if `normalize` is True.

    Attributes:
        size: dimensions of an embedding.
        counts: truncated and unknown tokens in all calls so far.
    """

    def __init__(
        self,
        model: Model,
        layers: str | int | Sequence[int] = "last",
        pooling: str | None = None,
        normalize: bool | None = None,
        max_length: int | None = None,
        long: LongTexts | None = None,
        declared: SentenceSettings | None = None,
    ) -> None:
        super().__init__(model, declared, max_length)
        declared = self.declared
        pooling = declared.pooling if pooling is None else pooling
        self.layers = choose_layers(layers, model.config.num_hidden_layers)
        self.pooling = check_pooling(pooling)
        if "cls" in pooling.split("+") and model.config.pools_last_token:
            raise ConfigError(
                "The first token of a causal language model attends only to itself: use pooling 'mean' or 'max'."
            )
        if pooling == "state" and model.config.recurrent is None:
            raise ConfigError("Pooling 'state' requires a recurrent network: use pooling 'mean', 'max' or 'cls'.")
        if pooling == "state" and self.layers.size(1) != 1:
            raise ConfigError("Pooling 'state' requires a single layer: remove --layers, or specify one layer.")
        if long is not None and pooling == "none":
            raise ConfigError(
                "Windows return one embedding per text: remove the stride, or use a pooling other than 'none'."
            )
        self.normalize = (declared.normalize and pooling != "none") if normalize is None else normalize
        self.normalizes_again, self.long = normalize is True, long
        is_declared = layers == "last" and pooling == declared.pooling
        self.dimensions = declared.dimensions if is_declared else None
        self.projection = model.projection if is_declared else None
        whole = self.layers.size(model.config.hidden_size) * len(pooling.split("+"))
        whole = whole if self.projection is None else self.projection.size
        self.size = min(whole, self.dimensions or whole)

    def vectors(self, texts: Sequence[Text], batch_tokens: int | None = None) -> np.ndarray:
        """Encode each text or pair as one embedding, in order: float32 [texts, size]."""
        if 0 < len(texts) <= MIN_STREAMED:  # a thread would cost more than it saves
            return self._run(self.prepare(texts), batch_tokens)
        blocks = [found for _, found in self.stream_with_texts(texts, batch_tokens)]
        return np.concatenate(blocks) if blocks else np.zeros((0, self.size), dtype=np.float32)

    predict = vectors

    def stream(self, texts: Iterable[Text], batch_tokens: int | None = None) -> Iterator[tuple[Text, np.ndarray]]:
        """Yield texts with their embeddings, float32 [size], in order."""
        for block, vectors in self.stream_with_texts(texts, batch_tokens):
            yield from zip(block, vectors, strict=True)

    def stream_with_texts(
        self, texts: Iterable[Text], batch_tokens: int | None = None
    ) -> Iterator[tuple[list[Text], np.ndarray]]:
        """Yield blocks of texts with their embeddings, float32 [block, size]."""
        self._check_pooling()
        return super().stream_with_texts(texts, batch_tokens)

    def prepare(self, texts: Sequence[Text], prompt: str | None = None) -> Prepared[np.ndarray]:
        """Tokenize at least one text or pair; the result is that of `vectors`. prompt: None for the declared one."""
        self._check_pooling()
        counts = TextCounts()
        examples = self._examples(self._prompted(texts, prompt), counts)
        is_long = isinstance(examples, LongExamples)  # the windows are combined before projection and normalization
        forward = PooledStates(
            self.model,
            self.layers,
            self.pooling,
            self.normalize and not is_long,
            self.declared.normalize_tokens,
            None if is_long else self.projection,
            self._skipped(self._prompt(prompt)),
        )

        def finish(outputs: Sequence[Tensor]) -> np.ndarray:
            vectors = stacked(outputs)  # [sequences, hidden]
            if isinstance(examples, LongExamples):
                vectors = self._joined(vectors, examples)
            if self.dimensions is not None:
                vectors = vectors[:, : self.dimensions].contiguous()
                vectors = unit_length(vectors) if self.normalizes_again else vectors
            return vectors.numpy()

        return Prepared(forward, examples, counts, finish)

    def token_vectors(self, texts: Iterable[Text], batch_tokens: int | None = None) -> Iterator[TokenVectors]:
        """Yield the token embeddings of each text, with words and character offsets."""
        yield from self._token_vectors(texts, batch_tokens, self.normalize and self.pooling == "none")

    def prepare_tokens(self, texts: Sequence[Text], normalize: bool = False) -> Prepared[list[TokenVectors]]:
        """Tokenize at least one text or pair; the result is that of `token_vectors`, normalized if asked."""
        encodings = self.tokenizer.encode_batch(texts, self.max_length)
        counts = TextCounts()
        for one in encodings:
            counts.add(len(one), one.num_truncated, one.num_unknown, one.template.num_special)
        has_pairs = any(not isinstance(text, str) for text in texts)
        examples = Examples(
            [np.asarray(one.ids, dtype=np.int32) for one in encodings],
            [np.asarray(one.type_ids, dtype=np.int8) for one in encodings] if has_pairs else None,
        )

        def finish(outputs: Sequence[Tensor]) -> list[TokenVectors]:
            return [
                _with_words(text, encoding, output.numpy())
                for text, encoding, output in zip(texts, encodings, outputs, strict=True)
            ]

        return Prepared(TokenStates(self.model, self.layers, normalize), examples, counts, finish)

    def word_vectors(
        self, texts: Iterable[Text], subwords: str = "mean", batch_tokens: int | None = None
    ) -> Iterator[TokenVectors]:
        """Yield the word embeddings of each text (see `TokenVectors.by_word`), normalized last; no pooling."""
        for found in self._token_vectors(texts, batch_tokens, normalize=False):
            words = found.by_word(subwords)
            if self.normalize:
                words = replace(words, vectors=unit_length(torch.from_numpy(words.vectors)).numpy())
            yield words

    def _token_vectors(
        self, texts: Iterable[Text], batch_tokens: int | None, normalize: bool
    ) -> Iterator[TokenVectors]:
        for block in text_blocks(texts, BLOCK_TEXTS, BLOCK_CHARACTERS):
            yield from self._run(self.prepare_tokens(block, normalize), batch_tokens)

    def _examples(self, texts: Sequence[Text], counts: TextCounts) -> Examples:
        rows = rows_of(texts)
        if self.long is None:
            return tokenize_rows(rows, self.tokenizer, self.max_length, counts=counts)
        return window_rows(rows, self.tokenizer, self.max_length, self.long, counts=counts)

    def _skipped(self, prompt: str) -> int:
        """The tokens of a prompt that are not pooled, with those before it."""
        if self.declared.include_prompt or not prompt:
            return 0
        if self.long is not None:
            raise ConfigError(
                "The tokens of the prompt are not pooled here (include_prompt is false), which windows cannot leave "
                "out: use --long cut, or no prompt."
            )
        mask = self.tokenizer(prompt, max_length=self.max_length).special_tokens_mask
        return len(mask) - mask[-1]

    def _check_pooling(self) -> None:
        if self.pooling == "none":
            raise ConfigError("Pooling 'none' returns token embeddings: use token_vectors.")

    def _joined(self, vectors: Tensor, examples: LongExamples) -> Tensor:
        """Combine window embeddings, float32 [windows, size], to text embeddings, float32 [texts, size]."""
        lengths = torch.from_numpy(examples.sequences.lengths)
        joined = join_windows(vectors, lengths, examples.num_windows.tolist(), self.pooling)  # [texts, size]
        if self.projection is not None:
            with torch.inference_mode():
                joined = self.projection(joined.to(self.model.word_embeddings.device)).cpu()
        return unit_length(joined) if self.normalize else joined


@dataclass(frozen=True)
class TokenStates(Forward):
    """Token embeddings of some layers. normalize: scale them to unit length."""

    layers: LayerChoice
    normalize: bool = False

    def launch(self, batch: Batch) -> Callable[[], Sequence[Tensor]]:
        """float32 [tokens, size] for each sequence."""
        states = token_states(self.model, batch, self.layers)
        return each(unit_length(states) if self.normalize else states, batch.lengths)


@dataclass(frozen=True)
class PooledStates(Forward):
    """Pooled embeddings. pooling, skipped: as in `pool`, or "state"; normalize_tokens: before pooling."""

    layers: LayerChoice
    pooling: str
    normalize: bool
    normalize_tokens: bool = False
    projection: Projection | None = None
    skipped: int = 0

    def launch(self, batch: Batch) -> Callable[[], Sequence[Tensor]]:
        """float32 [size] for each sequence."""
        states = token_states(self.model, batch, self.layers)
        with nullcontext() if self.model.graph_precision is None else one_thread():
            return each(self._pooled(states, batch))

    def _pooled(self, states: Tensor, batch: Batch) -> Tensor:
        """float32 [sequences, size]."""
        if self.pooling == "state":
            pooled = state_of(states, batch, both_ends=not self.model.config.pools_last_token)
        else:
            pooled = pool(states, batch, self.pooling, self.normalize_tokens, self.skipped)
        pooled = pooled if self.projection is None else self.projection(pooled)
        return (unit_length(pooled) if self.normalize else pooled).float()


def token_states(model: Model, batch: Batch, layers: LayerChoice) -> Tensor:
    """Return token embeddings: float32 [tokens, size]."""
    needs_all = layers.numbers != (model.config.num_hidden_layers,)
    encoded = model.encode(batch, hidden_states=needs_all)
    states = encoded.hidden_states
    return encoded.hidden.float() if states is None else layers.apply(states)


def _with_words(text: Text, encoding: Encoding, vectors: np.ndarray) -> TokenVectors:
    """Add words and spans to the token embeddings of a text; tokens with the same word ID belong together."""
    sources = (text,) if isinstance(text, str) else tuple(text)
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    keys = list(zip(encoding.sequence_ids, encoding.word_ids, encoding.offsets, strict=True))
    for source, word, (start, end) in keys:
        if source is not None and word is not None:
            first, last = spans.get((source, word), (start, end))
            spans[source, word] = (min(first, start), max(last, end))
    word_spans = [
        spans[source, word] if source is not None and word is not None else offsets for source, word, offsets in keys
    ]
    words = [
        "" if source is None else sources[source][start:end]
        for (source, _, _), (start, end) in zip(keys, word_spans, strict=True)
    ]
    return TokenVectors(encoding.tokens, words, word_spans, encoding.sequence_ids, vectors)


OTHER_KINDS = {  # of `SentenceSettings.kind`, and what uses them
    "sparse": "sparse embeddings: use maskwright embed --sparse, pipeline(name, 'embed-sparse') or "
    "/embed_sparse of the server",
    "late": "a vector for each token, which MaxSim compares: use maskwright search, "
    "pipeline(name, 'late-interaction') or /rerank of the server",
}


def embedder_of(
    model: Model,
    name: str | Path | Model,
    *,
    layers: str | int | Sequence[int] = "last",
    pooling: str | None = None,
    normalize: bool | None = None,
    max_length: int | None = None,
    long: str | None = None,
    stride: int | None = None,
) -> TextEncoder:
    """The text encoder of a model that was loaded from `name`, with the settings of its folder where None is given.

    A Model has no folder.
    """
    folder = None if isinstance(name, Model) else find_folder(name)[0]
    windows = LongTexts.for_embeddings({} if folder is None else read_facts(folder), long, stride, pooling)
    declared = None if folder is None else model.sentence or declared_by(folder)
    if declared is not None and declared.kind in OTHER_KINDS and pooling is None:
        found = f"{name} makes {OTHER_KINDS[declared.kind]}"
        raise ModelFolderError(f"{found}. Other vectors of it: maskwright embed --pooling mean.")
    encoder = TextEncoder(model, layers, pooling, normalize, max_length, windows, declared)
    encoder.routes = {
        role: TextEncoder(other, layers, pooling, normalize, max_length, windows, other.sentence)
        for role, other in model.routes.items()
    }
    return encoder
