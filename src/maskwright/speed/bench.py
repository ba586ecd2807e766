"""Benchmarks the inference of one model on this machine, in about a minute.

Each precision runs in a separate process (`backend`), and so does transformers if it is installed. All get the
same texts and are measured in turn. Their embeddings are compared before anything is timed.
"""

from __future__ import annotations

import re
import sys
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from ..api import load
from ..core.errors import ConfigError, InputError
from ..core.progress import track, warn
from ..doctor.machine import machine_facts
from ..hub.download import find_folder
from ..inference.engine.choice import choose
from ..inference.ready import CALIBRATION_TEXTS
from ..models.device import DTYPES, resolve_device, resolve_precision
from ..text.formats.files import read_lines
from ..text.tokenizers.tokenizer import Tokenizer
from .backend import PEER, PEER_PRECISIONS, BackendError, BackendProcess, centered_cosines, percentile
from .workload import forward_flops, matrix_ceiling

# -- Benchmark texts: from a file, from the Python documentation, or of given lengths --------------------------------


SHORTEST, LONGEST = 20, 600  # characters of a sentence


def built_in_texts(count: int) -> list[str]:
    """Return `count` sentences of the Python documentation, in order, repeated if there are too few."""
    from pydoc_data.topics import topics

    whole = "\n\n".join(topics[name] for name in sorted(topics))
    sentences = [
        " ".join(part.split())
        for paragraph in re.split(r"\n\s*\n", whole)
        for part in re.split(r"(?<=[.!?])\s+(?=[A-Z])", paragraph)
    ]
    kept = [sentence for sentence in sentences if SHORTEST <= len(sentence) <= LONGEST]
    return [text for text, _ in zip(cycle(kept), range(count), strict=False)]


def texts_of_file(path: Path) -> list[str]:
    """Return the non-blank lines of a text file, compressed or not. Raises InputError if it is not text."""
    return [text for text in (line.text.strip() for line in read_lines(path) if line.fault is None) if text]


def text_of_length(tokenizer: Tokenizer, texts: Iterable[str], length: int) -> str:
    """Build a text of exactly `length` tokens, including special tokens, from the words of the texts.

    Raises InputError if no combination of words has that length.
    """
    words = list(islice((word for text in texts for word in text.split()), length))
    most = bisect_right(range(len(words) + 1), length, key=lambda count: _count(tokenizer, words[:count])) - 1
    chosen = words[: max(most, 0)]
    for filler in dict.fromkeys(words):  # fill up with a word that fits
        while _count(tokenizer, [*chosen, filler]) <= length and _count(tokenizer, chosen) < length:
            chosen.append(filler)
    if _count(tokenizer, chosen) != length:
        raise InputError(f"The texts are too few for one of {length} tokens: pass more with --input.")
    return " ".join(chosen)


def _count(tokenizer: Tokenizer, words: list[str]) -> int:
    return len(tokenizer.encode_ids([" ".join(words)], None)[0][0])


OURS = "maskwright"
COMPARED, FIRST_TEXTS, MAX_TEXTS = 32, 64, 20_000
LATENCY_LENGTHS = (32, 128)
ROUNDS = 3
THROUGHPUT_SHARE, LATENCY_SHARE = 0.5, 0.3  # fractions of the requested time; the rest is loading
MAX_REQUESTS = 200


@dataclass(frozen=True)
class BenchSettings:
    """Settings of a benchmark.

    texts: None for built-in texts; precisions: None for all that the device supports; seconds: approximate total time;
    peer: also measure transformers if it is installed; max_length: None for the maximum of the model.
    """

    model: str
    texts: Sequence[str] | None = None
    precisions: tuple[str, ...] | None = None
    seconds: float = 60.0
    peer: bool = True
    max_length: int | None = None
    threads: int | None = None
    device: str = "auto"


@dataclass
class Row:
    """Result of one backend.

    Rates are medians over rounds and `spread` their range; latency: length in tokens -> (p50, p95) in seconds; memory:
    peak of the process in bytes; cosine: minimum centered cosine similarity to Maskwright float32; share_of_ceiling:
    fraction of the matrix multiplication peak.
    """

    name: str
    precision: str
    tokens_per_second: float = 0.0
    texts_per_second: float = 0.0
    spread: tuple[float, float] = (0.0, 0.0)
    latency: dict[int, tuple[float, float]] = field(default_factory=dict)
    memory: int = 0
    cosine: float = 1.0
    share_of_ceiling: float | None = None
    ratio_to_first: float = 1.0


@dataclass(frozen=True)
class BenchResult:
    """Results of a benchmark.

    rows: Maskwright first, float32 first; missing: backend -> why it was not measured; ceilings: precision -> peak in
    FLOP/s; mean_tokens: mean length of a text.
    """

    model: str
    rows: list[Row]
    missing: dict[str, str]
    ceilings: dict[str, float]
    num_texts: int
    mean_tokens: float
    machine: dict[str, Any]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return JSON-serializable values."""
        return asdict(self)


def bench(settings: BenchSettings) -> BenchResult:
    """Run the benchmark.

    Raises:
        BackendError: if the model cannot be measured.
        ConfigError: for an unsupported precision.
        InputError: if the model has no tokenizer or there are no texts.
    """
    started = time.monotonic()
    device = resolve_device(settings.device)
    precisions = settings.precisions or available_precisions(device)
    for name in precisions:
        resolve_precision(name, device)
    model = load(settings.model)
    config, tokenizer = model.config, model.tokenizer
    if tokenizer is None:
        raise InputError(f"{settings.model} has no tokenizer: the benchmark measures from text to embeddings.")
    length = min(settings.max_length or config.max_position_embeddings, config.max_position_embeddings)
    texts = list(settings.texts if settings.texts is not None else built_in_texts(MAX_TEXTS))
    if not texts:
        raise InputError("--input is empty: pass at least one text.")
    lengths = np.array([len(ids) for ids in tokenizer.encode_ids(texts, length)[0]])
    requests = {size: text_of_length(tokenizer, texts, size) for size in LATENCY_LENGTHS if size <= length}
    del model
    ceilings = {
        name: matrix_ceiling(config.hidden_size, config.intermediate_size, name, device)
        for name in precisions
        if name in DTYPES
    }
    benchmark = _Benchmark(settings, length, str(device), texts, lengths, requests)
    with benchmark.children(precisions) as children:
        benchmark.measure(children)
    counted = lengths[: benchmark.count]
    token_flops = forward_flops(config, counted) / float(counted.sum())  # mean of a token
    for row in benchmark.rows:
        if row.precision in ceilings:
            row.share_of_ceiling = row.tokens_per_second * token_flops / ceilings[row.precision]
        row.ratio_to_first = row.tokens_per_second / benchmark.rows[0].tokens_per_second
    return BenchResult(
        settings.model,
        benchmark.rows,
        benchmark.missing,
        ceilings,
        benchmark.count,
        float(counted.mean()),
        machine_facts(),
        time.monotonic() - started,
    )


def available_precisions(device: torch.device) -> tuple[str, ...]:
    """Return the precisions to measure on a device: bfloat16 only if it is fast, int8 only if it is exact."""
    found = []
    for name in DTYPES:
        try:
            resolve_precision(name, device)
        except ConfigError:
            continue
        if name != "bf16" or resolve_precision("auto", device) == "bf16":
            found.append(name)
    return (*found, "int8") if choose("int8", device).products == "int8" else tuple(found)


@dataclass
class _Benchmark:
    settings: BenchSettings
    max_length: int
    device: str
    texts: list[str]
    lengths: np.ndarray
    requests: dict[int, str]
    rows: list[Row] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    count: int = 0

    @contextmanager
    def children(self, precisions: Sequence[str]) -> Iterator[list[BackendProcess]]:
        """Start and load the backends; one that fails is added to `missing` with the reason."""
        wanted = [(OURS, precision) for precision in precisions]
        if not self.settings.peer:
            self.missing[PEER] = "disabled"
        elif find_spec(PEER) is None:
            self.missing[PEER] = f"not installed (pip install {PEER})"
        else:
            wanted += [(PEER, precision) for precision in precisions if precision in PEER_PRECISIONS]
        children: list[BackendProcess] = []
        try:
            for name, precision in wanted:
                child = BackendProcess(
                    f"{name} {precision}",
                    [sys.executable, "-m", "maskwright.speed.backend", name],
                    self.settings.threads,
                )
                children.append(child)
                if not self._loads(child, name, precision):
                    children.pop().close()
            yield children
        finally:
            for child in children:
                child.close()

    def measure(self, children: list[BackendProcess]) -> None:
        """Compare the embeddings, then time throughput and latency in turn."""
        self._compare(children)
        seconds = self.settings.seconds / len(children)
        # As many texts as the slowest backend encodes in its share of the time; the first round is a warm-up.
        first = min(FIRST_TEXTS, len(self.texts))
        _, times = ([child.ask("bulk", count=first) for child in children] for _ in range(2))
        affordable = int(first * THROUGHPUT_SHARE * seconds / ROUNDS / max(times))
        self.count = max(min(affordable, len(self.texts)), first)
        rates: list[list[float]] = [[] for _ in children]
        delays: list[dict[int, list[float]]] = [{size: [] for size in self.requests} for _ in children]
        with track("bench", ROUNDS * len(children), "measurements") as progress:
            for number in range(ROUNDS):
                for index, child in enumerate(children):
                    rates[index].append(int(self.lengths[: self.count].sum()) / child.ask("bulk", count=self.count))
                    for size, text in self.requests.items():
                        most = LATENCY_SHARE * seconds / ROUNDS / len(self.requests)
                        delays[index][size] += child.ask("latency", text=text, times=MAX_REQUESTS, most_seconds=most)
                    progress.update(number * len(children) + index + 1, child.name)
        for row, child, found, waits in zip(self.rows, children, rates, delays, strict=True):
            row.tokens_per_second, row.spread = median(found), (min(found), max(found))
            row.texts_per_second = row.tokens_per_second * self.count / int(self.lengths[: self.count].sum())
            row.latency = {size: (percentile(all_, 0.5), percentile(all_, 0.95)) for size, all_ in waits.items()}
            row.memory = child.ask("memory")

    def _loads(self, child: BackendProcess, name: str, precision: str) -> bool:
        folder = str(find_folder(self.settings.model)[0].resolve())
        model = folder if name == PEER else self.settings.model
        try:
            # The last texts: with enough texts these are not the timed ones.
            calibration = self.texts[-CALIBRATION_TEXTS:]
            settings = {"model": model, "precision": precision, "device": self.device, "max_length": self.max_length}
            child.ask("load", **settings, calibration=calibration)
            child.ask("texts", texts=self.texts)
        except BackendError as error:
            if name == OURS:
                raise
            self.missing[child.name] = str(error)
            return False
        self.rows.append(Row(name, precision))
        return True

    def _compare(self, children: list[BackendProcess]) -> None:
        """Compare the embeddings of every backend with the first; warn if they differ."""
        count = min(COMPARED, len(self.texts))
        vectors = [np.array(child.ask("vectors", count=count)) for child in children]
        for row, found in zip(self.rows, vectors, strict=True):
            row.cosine = float(centered_cosines(found, vectors[0]).min()) if count > 1 else 1.0
            if row.cosine < 0.95:
                warn(
                    f"{row.name} {row.precision} returns different embeddings (cosine {row.cosine:.3f}): "
                    "its speed is not comparable."
                )
