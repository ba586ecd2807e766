"""Compares the outputs of a graph with those of the library: nothing is published that differs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..core import storage
from ..core.errors import ModelFolderError, shortened
from ..core.randomness import generator
from ..data.batch import Batch
from ..models.decoding.search import Beams
from ..models.decoding.translation import start_token, translate_ids
from ..models.encoder_decoder import EncoderDecoder
from ..models.heads import ChoiceHead, VectorHead
from ..models.model import Model, SentenceSettings, tokenizer_of
from ..models.pooling import pool
from ..models.pretraining_heads import NextSentenceHead
from ..text.readers.inputs import Text
from .cached import TOKENS, Network
from .config import INT8, ExportConfig
from .network import EMBEDDING, LOGITS, POOLED, STATES, PaddedNetwork
from .runtimes import IDS, MASK, PRESENT, TARGETS, TARGETS_MASK, TYPES, Runtime
from .steps import run_batch

# -- Batches of texts on which a graph and its model are compared: alone and side by side, short and long ------------


NUM_TEXTS = 72
LONGEST = 1024  # tokens of the longest drawn text: attention over more would take minutes
CHOICES = 3
TARGET_TOKENS = 24
MOST_WORDS = 128
_SHORT = (1, 2, 3, 5)
_WORDS = (*_SHORT, 32, *_SHORT, 64, *_SHORT, MOST_WORDS)  # of cut and of joined texts, by turns
_BATCHES = (1, 1, 7, 16, 31)  # rows of the batches, repeated


@dataclass(frozen=True)
class Trial:
    """One batch: texts, or token IDs and types of each row.

    choices: rows of one question, 0 for other models; targets: token IDs of the target of each row, for a decoder.
    """

    texts: Sequence[Text] = ()
    ids: Sequence[Sequence[int]] = ()
    types: Sequence[Sequence[int]] | None = None
    choices: int = 0
    targets: Sequence[Sequence[int]] = ()

    def shaped(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns inputs [rows, seq] as the graph takes them: [questions, choices, seq] for multiple choice."""
        if not self.choices:
            return inputs
        return {name: one.reshape(-1, self.choices, one.shape[1]) for name, one in inputs.items()}

    def to_json(self) -> dict[str, Any]:
        """The form that `reader` reads."""
        found: dict[str, Any] = {"texts": list(self.texts)} if self.texts else {"ids": self.ids, "types": self.types}
        if self.targets:
            found["targets"] = self.targets
        return found | ({"choices": self.choices} if self.choices else {})


def drawn_trials(network: Network, longest: int) -> list[Trial]:
    """Trials of token IDs from the vocabulary, 1 to `longest` tokens; the shortest share a batch with the longest.

    The lengths are beyond every distance at which positions or windows change, as far as `LONGEST`.
    """
    model = network.model
    draw = generator(0, "export trials")
    count = NUM_TEXTS * (CHOICES if isinstance(model.head, ChoiceHead) else 1)
    lengths = np.geomspace(1, min(longest, 128), count).round().astype(int)
    draw.shuffle(lengths)
    most = min(longest, LONGEST)
    # Single texts, the longest with one token, and texts with a first pair of tokens at each power of two.
    lengths[:11] = (1, most, 1, most, *(min(most, 2**power + 1) for power in range(3, 10)))
    known = _ordinary_ids(model)
    ids = [draw.choice(known, length).tolist() for length in lengths]
    types = None
    if TYPES in network.inputs:
        types = [[int(place >= length // 2) for place in range(length)] for length in lengths]
    return _with_targets(model, _batches(ids, types, CHOICES if isinstance(model.head, ChoiceHead) else 0))


def text_trials(texts: Sequence[Text]) -> list[Trial]:
    """Trials of texts."""
    trials: list[Trial] = []
    start = 0
    while start < len(texts):
        size = _BATCHES[len(trials) % len(_BATCHES)]
        trials.append(Trial(texts=texts[start : start + size]))
        start += size
    return trials


def drawn_texts(model: Model, longest: int) -> list[str]:
    """Texts of tokens drawn from the vocabulary, of about 1 to `longest` tokens."""
    assert model.tokenizer is not None
    draw = generator(0, "export texts")
    known = _ordinary_ids(model)
    lengths = [*np.geomspace(1, min(longest, LONGEST), 24).round().astype(int), 1, 1, 2, 3, 5, 8, 13, 40]
    draw.shuffle(lengths)
    return [model.tokenizer.decode(draw.choice(known, length).tolist()) for length in lengths]


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
) -> list[Trial]:
    """Trials of the tokens of texts. sizes: rows of the batches, or questions of multiple choice, by turns."""
    tokenizer = tokenizer_of(network.model)
    choices = CHOICES if isinstance(network.model.head, ChoiceHead) else 0
    ids, types = tokenizer.encode_ids(list(texts), max_length)
    count = len(ids) // max(choices, 1) * max(choices, 1)
    trials = _batches(ids[:count], types[:count] if TYPES in network.inputs else None, choices, sizes)
    return _with_targets(network.model, trials)


def _with_targets(model: Model, trials: list[Trial]) -> list[Trial]:
    """Adds to each text of an encoder-decoder its greedy translation by the library, up to a few tokens."""
    if not isinstance(model, EncoderDecoder):
        return trials
    start, most = start_token(model), min(TARGET_TOKENS, model.config.max_position_embeddings)
    found = []
    for trial in trials:
        sources = [np.asarray(row) for row in trial.ids]
        texts = translate_ids(model, sources, Beams(1), end_ids=(), max_new_tokens=most)
        found.append(replace(trial, targets=[[start, *text[0].ids[:-1]] for text in texts]))
    return found


def _first_words(text: Text, count: int) -> Text:
    if isinstance(text, str):
        return " ".join(text.split()[:count])
    first, second = (" ".join(one.split()[:count]) for one in text)
    return first, second


def _ordinary_ids(model: Model) -> np.ndarray:
    """IDs of the vocabulary without special tokens: int64 [ids]."""
    special = set() if model.tokenizer is None else set(model.tokenizer.special_ids)
    if model.config.pad_token_id is not None:
        special.add(model.config.pad_token_id)
    size = model.config.vocab_size if model.tokenizer is None else model.tokenizer.vocab_size
    return np.array([one for one in range(size) if one not in special] or [0], dtype=np.int64)


def _batches(
    ids: list[list[int]], types: list[list[int]] | None, choices: int, sizes: Sequence[int] = _BATCHES
) -> list[Trial]:
    trials: list[Trial] = []
    start = 0
    while start < len(ids):
        size = sizes[len(trials) % len(sizes)] * max(choices, 1)
        part = slice(start, start + size)
        trials.append(Trial(ids=ids[part], types=None if types is None else types[part], choices=choices))
        start += size
    return trials


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


def measure(networks: Sequence[Network], folder: Path, spec: Mapping[str, Any], trials: Sequence[Trial]) -> Agreement:
    """Runs the graphs of an exported folder on trials in a process without torch, and compares."""
    with TemporaryDirectory() as temporary:
        request, result = Path(temporary) / "request.json", Path(temporary) / "result.npz"
        storage.write_json(request, [trial.to_json() for trial in trials])
        command = [sys.executable, "-m", "maskwright.export.reader", str(folder), str(request), str(result)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode:
            lines = run.stderr.strip().split("\n")
            reason = next((line for line in reversed(lines) if "Error" in line), lines[-1])
            raise ModelFolderError(f"The exported graph does not run: {shortened(reason.rstrip('.'), 500)}.")
        with np.load(result) as found:
            arrays = {name: found[name] for name in found.files}
    return compare(networks, spec, trials, arrays)


class TorchRuntime:
    """A network that torch runs in this process, or the module of a program traced from it."""

    name = f"torch {torch.__version__}"

    def __init__(self, network: Network, module: torch.nn.Module | None = None) -> None:
        self._network, self._module = network, module or network

    @torch.inference_mode()
    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """See Runtime."""
        outputs = self._module(*(torch.from_numpy(inputs[name]) for name in self._network.inputs))
        return {name: one.numpy() for name, one in zip(self._network.outputs, outputs, strict=True)}


def measure_program(network: Network, path: Path, spec: Mapping[str, Any], trials: Sequence[Trial]) -> Agreement:
    """The same for a torch program, in this process; `path` was just written."""
    runtime = TorchRuntime(network, torch.export.load(path).module())
    return measure_runtimes([network], {network.name: runtime}, spec, trials)


def measure_runtimes(
    networks: Sequence[Network], runtimes: Mapping[str, Runtime], spec: Mapping[str, Any], trials: Sequence[Trial]
) -> Agreement:
    """The same for graphs that run in this process."""
    arrays: dict[str, np.ndarray] = {"runtime": np.array(next(iter(runtimes.values())).name)}
    for number, trial in enumerate(trials):
        found = run_batch(runtimes, spec, trial.to_json())
        arrays |= {f"{number}/{name}": one for name, one in found.items()}
    return compare(networks, spec, trials, arrays)


def compare(
    networks: Sequence[Network], spec: Mapping[str, Any], trials: Sequence[Trial], arrays: Mapping[str, np.ndarray]
) -> Agreement:
    """Compares outputs with the library. arrays: as `reader` stores them. Raises ModelFolderError for other tokens."""
    network = networks[-1]
    axes = {name: network.axes(name) for name in network.outputs if not name.startswith(PRESENT)}
    pairs: dict[str, tuple[list[np.ndarray], list[np.ndarray]]] = {name: ([], []) for name in axes}
    best: dict[str, list[np.ndarray]] = {name: [] for name in SPANS if name in pairs}  # bool [rows] each
    count = 0
    for number, trial in enumerate(trials):
        start = f"{number}/"
        own = {name.removeprefix(start): one for name, one in arrays.items() if name.startswith(start)}
        _check_tokens(network.model, trial, own, spec["max_length"])
        expected, keep = _expected(network, own), own[TARGETS_MASK if TARGETS in own else MASK] != 0
        count += len(keep)
        for name, (graph, library) in pairs.items():
            found = own[name][keep] if TOKENS in axes[name] else own[name]  # by token, or by row
            graph.append(found.reshape(len(found), -1))
            library.append(expected[name].reshape(len(found), -1))
            if name in best:
                best[name].append(_same_position(own[name], expected[name], keep))
    outputs = {name: _agreement(name, *pair) for name, pair in pairs.items()}
    outputs |= {name: replace(outputs[name], same_class=float(np.concatenate(b).mean())) for name, b in best.items()}
    return Agreement(str(arrays["runtime"]), count, outputs)


def _agreement(name: str, graph: Sequence[np.ndarray], library: Sequence[np.ndarray]) -> OutputAgreement:
    found, expected = np.concatenate(graph).astype(np.float64), np.concatenate(library).astype(np.float64)
    difference = float(np.abs(found - expected).max(initial=0.0) / max(np.abs(expected).max(initial=0.0), 1e-9))
    if not np.isfinite(found).all():
        difference = float("nan")
    if name in VECTORS:
        cosines = _cosines(found, expected)
        return OutputAgreement(difference, len(found), float(cosines.min()), float(cosines.mean()))
    if name in SPANS:
        return OutputAgreement(difference, len(found))
    if found.shape[1] == 1:
        return OutputAgreement(difference, len(found), correlation=_correlation(found.ravel(), expected.ravel()))
    same = float((found.argmax(axis=1) == expected.argmax(axis=1)).mean())
    return OutputAgreement(difference, len(found), same_class=same)


def _same_position(graph: np.ndarray, library: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """Whether the same token of a row has the highest logit: bool [rows].

    graph: float [rows, seq]; library: float [tokens]; keep: bool [rows, seq].
    """
    rows = np.full(graph.shape, -np.inf)
    rows[keep] = library
    return np.where(keep, graph, -np.inf).argmax(axis=1) == rows.argmax(axis=1)


def _cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Cosine similarity of each row."""
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return (one * other).sum(axis=1) / np.maximum(lengths, 1e-12)


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    if one.std() < 1e-9 or other.std() < 1e-9:
        return 1.0 if np.allclose(one, other, atol=1e-3) else 0.0
    return float(np.corrcoef(one, other)[0, 1])


def _sequences(own: Mapping[str, np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """The unpadded token IDs and types of each row."""
    ids, mask = (own[name].reshape(-1, own[name].shape[-1]) for name in (IDS, MASK))
    types = own[TYPES].reshape(ids.shape) if TYPES in own else None
    for row, keep in enumerate(mask != 0):
        yield ids[row][keep], None if types is None else types[row][keep]


def _check_tokens(model: Model, trial: Trial, own: Mapping[str, np.ndarray], max_length: int) -> None:
    if not trial.texts or model.tokenizer is None:
        return
    expected, _ = model.tokenizer.encode_ids(list(trial.texts), max_length)
    found = [ids.tolist() for ids, _ in _sequences(own)]
    if found != expected:
        raise ModelFolderError(
            "The tokenizer of this model gives other tokens outside of maskwright: its tokenizer.json is not complete."
        )


def _expected(network: Network, own: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of the library for the tokens of a batch: by token in the order of the rows, or by row."""
    rows, model = list(_sequences(own)), network.model
    types = [kinds for _, kinds in rows if kinds is not None]
    batch = Batch.from_sequences([ids for ids, _ in rows], types or None)
    with torch.inference_mode():
        if isinstance(model, EncoderDecoder):
            target = Batch.from_sequences([ids for ids, _ in _sequences({IDS: own[TARGETS], MASK: own[TARGETS_MASK]})])
            found = {LOGITS: model.mlm_logits(model.decode(target, model.encode(batch).hidden, batch).hidden)}
        else:
            declared = network.declared if isinstance(network, PaddedNetwork) else SentenceSettings()
            outputs = tuple(name for name in network.outputs if not name.startswith(PRESENT))
            found = library_outputs(model, batch, declared, outputs)
    if isinstance(network.model.head, ChoiceHead):
        found = {name: one.reshape(own[MASK].shape[:2]) for name, one in found.items()}
    return {name: one.float().numpy() for name, one in found.items()}


def library_outputs(model: Model, batch: Batch, declared: SentenceSettings, names: Sequence[str]) -> dict[str, Tensor]:
    """The outputs of a graph by the packed path: [tokens, ...] or [sequences, ...] each."""
    head = model.head
    if head is None:
        hidden = model.encode(batch).hidden
        vectors = pool(hidden.float(), batch, declared.pooling, declared.normalize_tokens)
        vectors = vectors if model.projection is None else model.projection(vectors)
        vectors = F.normalize(vectors, dim=-1) if declared.normalize else vectors
        found = {STATES: hidden, EMBEDDING: vectors[:, : declared.dimensions]}
        return found | ({POOLED: model.pool(hidden, batch)} if POOLED in names else {})
    if names == SPANS:
        start, end = model.logits(batch).unbind(-1)
        return {"start_logits": start, "end_logits": end}
    if LOGITS in names and (isinstance(head, VectorHead | NextSentenceHead) or not hasattr(head, "before_decoder")):
        return {LOGITS: model.logits(batch)}
    hidden = model.encode(batch).hidden
    words = model.mlm_logits(hidden)
    if names == (LOGITS,):
        return {LOGITS: words}
    return {names[0]: words, names[1]: model.nsp_logits(model.pool(hidden, batch))}
