"""Compares the outputs of a graph with those of the library: nothing is published that differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor

from ..core.errors import ModelFolderError
from ..core.randomness import generator
from ..data.batch import Batch
from ..models.decoding.search import Beams
from ..models.decoding.translation import start_token, translate_ids
from ..models.encoder_decoder import EncoderDecoder
from ..models.heads import ChoiceHead
from ..models.model import Model, tokenizer_of
from ..models.pooling import pool
from ..text.readers.inputs import Text
from .cached import TOKENS, Network
from .config import INT8, ExportConfig
from .network import EMBEDDING, POOLED, STATES, PaddedNetwork
from .runtimes import (
    IDS,
    MASK,
    POSITIONS,
    PRESENT,
    TARGETS,
    TARGETS_MASK,
    TYPES,
    Rows,
    Runtime,
    positions_of,
    run_batch,
)

# -- Batches on which a graph and its model are compared: texts alone and side by side, short and long ---------------


NUM_TEXTS = 72
LONGEST = 1024  # tokens of the longest drawn text: attention over more would take minutes
CHOICES = 3
TARGET_TOKENS = 24
MOST_WORDS = 128
_SHORT = (1, 2, 3, 5)
_WORDS = (*_SHORT, 32, *_SHORT, 64, *_SHORT, MOST_WORDS)  # of cut and of joined texts, by turns
_BATCHES = (1, 1, 7, 16, 31)  # rows of the batches, or questions of multiple choice, by turns


def drawn_trials(network: Network, longest: int) -> list[Rows]:
    """Token IDs from the vocabulary, 1 to `longest` tokens; the shortest share a batch with the longest.

    The lengths are beyond every distance at which positions or windows change, as far as `LONGEST`.
    """
    draw = generator(0, "export trials")
    count = NUM_TEXTS * (CHOICES if isinstance(network.model.head, ChoiceHead) else 1)
    lengths = np.geomspace(1, min(longest, 128), count).round().astype(int)
    draw.shuffle(lengths)
    most = min(longest, LONGEST)
    # Single texts, the longest with one token, and texts with a first pair of tokens at each power of two.
    lengths[:11] = (1, most, 1, most, *(min(most, 2**power + 1) for power in range(3, 10)))
    known = _ordinary_ids(network.model)
    ids = [draw.choice(known, length).tolist() for length in lengths]
    return _trials(network, ids, [[int(place >= len(row) // 2) for place in range(len(row))] for row in ids])


def drawn_texts(model: Model, longest: int) -> list[str]:
    """Texts of tokens drawn from the vocabulary, of about 1 to `longest` tokens."""
    draw = generator(0, "export texts")
    known = _ordinary_ids(model)
    lengths = [*np.geomspace(1, min(longest, LONGEST), 24).round().astype(int), 1, 1, 2, 3, 5, 8, 13, 40]
    draw.shuffle(lengths)
    return [tokenizer_of(model).decode(draw.choice(known, length).tolist()) for length in lengths]


def typical_texts(texts: Sequence[Text]) -> list[Text]:
    """Texts of 1 to 128 words: each text, and by turns its first few words, or it and its neighbors as one text."""
    found: list[Text] = []
    for index, text in enumerate(texts):
        found.append(_first_words(text, MOST_WORDS))
        size = _WORDS[index % len(_WORDS)]
        if size <= max(_SHORT) or not isinstance(text, str):
            found.append(_first_words(text, size if size <= max(_SHORT) else MOST_WORDS // 2))
            continue
        around = (one if isinstance(one, str) else " ".join(one) for one in texts[index : index + size])
        found.append(_first_words(" ".join(around), size))
    return found


def token_trials(
    network: Network, texts: Sequence[Text], max_length: int, sizes: Sequence[int] = _BATCHES
) -> list[Rows]:
    """The tokens of texts. sizes: rows of the batches, or questions of multiple choice, by turns."""
    ids, types = tokenizer_of(network.model).encode_ids(list(texts), max_length)
    return _trials(network, ids, types, sizes)


def check_tokenizer(model: Model, folder: Path, spec: Mapping[str, Any], texts: Sequence[Text]) -> None:
    """Raises ModelFolderError if the folder's tokenizer.json alone gives other tokens than the model's tokenizer."""
    before = spec["preprocessing"]
    tokenizer = Tokenizer.from_file(str(folder / before["tokenizer"]))
    tokenizer.no_padding()
    tokenizer.enable_truncation(spec["max_length"], strategy=before["truncation"]["strategy"])
    found = tokenizer.encode_batch([text if isinstance(text, str) else tuple(text) for text in texts])
    if [one.ids for one in found] != tokenizer_of(model).encode_ids(list(texts), spec["max_length"])[0]:
        raise ModelFolderError(
            "The tokenizer of this model gives other tokens outside of maskwright: its tokenizer.json is not complete."
        )


def _first_words(text: Text, count: int) -> Text:
    if isinstance(text, str):
        return " ".join(text.split()[:count])
    first, second = (" ".join(one.split()[:count]) for one in text)
    return first, second


def _ordinary_ids(model: Model) -> np.ndarray:
    """IDs of the vocabulary without special tokens: int64 [ids]."""
    special = {model.config.pad_token_id, *(() if model.tokenizer is None else model.tokenizer.special_ids)}
    size = model.config.vocab_size if model.tokenizer is None else model.tokenizer.vocab_size
    return np.array([one for one in range(size) if one not in special] or [0], dtype=np.int64)


def _trials(
    network: Network, ids: list[list[int]], types: list[list[int]], sizes: Sequence[int] = _BATCHES
) -> list[Rows]:
    """Batches of rows. A text of an encoder-decoder has its greedy translation by the library, up to a few tokens."""
    model, trials, start = network.model, list[Rows](), 0
    choices = CHOICES if isinstance(model.head, ChoiceHead) else 0
    end = len(ids) // max(choices, 1) * max(choices, 1)
    while start < end:
        part = slice(start, min(start + sizes[len(trials) % len(sizes)] * max(choices, 1), end))
        targets: list[list[int]] = []
        if isinstance(model, EncoderDecoder):
            sources, most = (
                [np.asarray(row) for row in ids[part]],
                min(TARGET_TOKENS, model.config.max_position_embeddings),
            )
            texts = translate_ids(model, sources, Beams(1), end_ids=(), max_new_tokens=most)
            targets = [[start_token(model), *text[0].ids[:-1]] for text in texts]
        trials.append(Rows(ids[part], types[part] if TYPES in network.inputs else None, choices, targets))
        start = part.stop
    return trials


# -- How outputs agree -----------------------------------------------------------------------------------------------


VECTORS = (STATES, EMBEDDING, POOLED)
SPANS = ("start_logits", "end_logits")


@dataclass(frozen=True)
class Limits:
    """What a graph must reach to be published.

    most_difference: of every output, as a fraction of its largest number; min_cosine: of sentence embeddings, and
    correlation of single numbers; same_class: fraction of equal highest-scoring classes.
    """

    most_difference: float = float("inf")
    min_cosine: float = -1.0
    same_class: float = 0.0


LIMITS = {
    "fp32": Limits(most_difference=1e-4),
    "fp16": Limits(most_difference=0.01, min_cosine=0.999, same_class=0.99),
    "bf16": Limits(min_cosine=0.998, same_class=0.99),
}


def limits_of(config: ExportConfig) -> Limits:
    """The limits of a precision; those of int8 are a setting."""
    if config.precision == INT8:
        return Limits(min_cosine=config.min_cosine, same_class=0.99)
    return LIMITS[config.precision]


@dataclass(frozen=True)
class OutputAgreement:
    """How one output of a graph agrees with the library.

    largest_difference: as a fraction of the largest number of the output; min_cosine, mean_cosine: of vectors;
    correlation: of one number per text or token; same_class: fraction of equal highest-scoring classes, of equal
    positions for an answer span. What an output does not have is None. compared: number of vectors or rows of logits.
    """

    largest_difference: float
    compared: int
    min_cosine: float | None = None
    mean_cosine: float | None = None
    correlation: float | None = None
    same_class: float | None = None

    def shortfall(self, name: str, limits: Limits) -> str:
        """Returns how the output is beyond the limits, "" if it is within."""
        if not np.isfinite(self.largest_difference):
            return f"{name} is not finite"
        if self.largest_difference > limits.most_difference:
            return f"{name} differs by {self.largest_difference:.2g} (at most {limits.most_difference:g})"
        if name == EMBEDDING and self.min_cosine is not None and self.min_cosine < limits.min_cosine:
            return f"{name} has a smallest cosine of {self.min_cosine:.4f} (at least {limits.min_cosine:g})"
        if self.correlation is not None and self.correlation < limits.min_cosine:
            return f"{name} has a correlation of {self.correlation:.4f} (at least {limits.min_cosine:g})"
        if self.same_class is not None and self.same_class < limits.same_class:
            return f"{name} has {self.same_class:.1%} equal classes (at least {limits.same_class:.0%})"
        return ""


@dataclass(frozen=True)
class Agreement:
    """Agreement of a graph with the library. runtime: that ran the graph; num_texts: of the comparison."""

    runtime: str
    num_texts: int
    outputs: dict[str, OutputAgreement]

    def shortfalls(self, limits: Limits) -> list[str]:
        """Returns what is beyond the limits."""
        return [found for name, one in self.outputs.items() if (found := one.shortfall(name, limits))]

    def to_json(self) -> dict[str, Any]:
        """The form of maskwright.json."""
        return asdict(self)


class TorchRuntime:
    """A network that torch runs, or the module of a program traced from it."""

    name = f"torch {torch.__version__}"

    def __init__(self, network: Network, module: torch.nn.Module | None = None) -> None:
        self._network, self._module = network, module or network

    @torch.inference_mode()
    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        outputs = self._module(*(torch.from_numpy(inputs[name]) for name in self._network.inputs))
        return {name: one.numpy() for name, one in zip(self._network.outputs, outputs, strict=True)}


def compare(
    networks: Sequence[Network], runtimes: Mapping[str, Runtime], spec: Mapping[str, Any], trials: Sequence[Rows]
) -> Agreement:
    """Runs graphs on batches, and compares their outputs with those of the padded call of the model."""
    network = networks[-1]
    axes = {name: network.axes(name) for name in network.outputs if not name.startswith(PRESENT)}
    pairs: dict[str, list[tuple[np.ndarray, ...]]] = {name: [] for name in axes}
    for rows in trials:
        found = run_batch(runtimes, spec, rows)
        expected, keep = library_outputs(network, found), found[TARGETS_MASK if TARGETS in found else MASK] != 0
        for name, pair in pairs.items():
            both = found[name], expected[name].float().numpy()
            if name in SPANS:
                pair.append(tuple(np.where(keep, one, -np.inf) for one in both))
            else:  # by token, or by row
                pair.append(tuple(one[keep] if TOKENS in axes[name] else one for one in both))
    outputs = {name: _agreement(name, pair) for name, pair in pairs.items()}
    return Agreement(next(iter(runtimes.values())).name, sum(len(rows.ids) for rows in trials), outputs)


@torch.inference_mode()
def library_outputs(network: Network, inputs: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """The outputs of the library in the names of a graph: padded, [rows, tokens, ...] or [rows, ...] each.

    inputs: of `run_batch`.
    """
    names = (IDS, MASK, TYPES, TARGETS, TARGETS_MASK)
    given = {name: torch.from_numpy(inputs[name]) for name in names if name in inputs}
    if TARGETS not in inputs:  # an offset is also that of tokens whose ID is that of padding
        given[POSITIONS] = torch.from_numpy(positions_of(inputs[MASK]) + network.model.config.position_offset)
    found = dict(vars(network.model(**given)))
    if isinstance(network, PaddedNetwork) and EMBEDDING in network.outputs:
        declared, keep = network.declared, inputs[MASK] != 0
        batch = Batch.from_sequences([ids[kept] for ids, kept in zip(inputs[IDS], keep, strict=True)])
        vectors = pool(
            found[STATES][torch.from_numpy(keep)].float(), batch, declared.pooling, declared.normalize_tokens
        )
        after = network.model.projection
        vectors = vectors if after is None else after(vectors)
        vectors = F.normalize(vectors, dim=-1) if declared.normalize else vectors
        found[EMBEDDING] = vectors[:, : declared.dimensions]
    return found


def _agreement(name: str, pairs: Sequence[tuple[np.ndarray, ...]]) -> OutputAgreement:
    """pairs: of each batch the numbers of the graph and of the library, [vectors, size] or [vectors] each; of answer
    spans [rows, tokens], -inf for padding.
    """
    if name in SPANS:
        same = np.concatenate([graph.argmax(axis=1) == library.argmax(axis=1) for graph, library in pairs])
        pairs = [tuple(one[np.isfinite(library)] for one in (graph, library)) for graph, library in pairs]
    found, expected = (
        np.concatenate([pair[side].reshape(len(pair[side]), -1) for pair in pairs]).astype(np.float64)
        for side in (0, 1)
    )
    difference = float(np.abs(found - expected).max(initial=0.0) / max(np.abs(expected).max(initial=0.0), 1e-9))
    if not np.isfinite(found).all():
        difference = float("nan")
    if name in SPANS:
        return OutputAgreement(difference, len(found), same_class=float(same.mean()))
    if name in VECTORS:
        lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
        cosines = (found * expected).sum(axis=1) / np.maximum(lengths, 1e-12)
        return OutputAgreement(difference, len(found), float(cosines.min()), float(cosines.mean()))
    if found.shape[1] == 1:
        return OutputAgreement(difference, len(found), correlation=_correlation(found.ravel(), expected.ravel()))
    same = found.argmax(axis=1) == expected.argmax(axis=1)
    return OutputAgreement(difference, len(found), same_class=float(same.mean()))


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    if one.std() < 1e-9 or other.std() < 1e-9:
        return 1.0 if np.allclose(one, other, atol=1e-3) else 0.0
    return float(np.corrcoef(one, other)[0, 1])
