"""`maskwright bench`: one model on this machine, in about a minute.

Each number format is a contender in a process of its own (`contest`), and so is transformers where it is installed. All
get the same texts and are asked in turn. Their vectors are compared before anything is timed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from statistics import median
from typing import Any

import numpy as np
import torch

from ..api import load
from ..core.errors import ConfigError, InputError
from ..core.progress import track, warn
from ..doctor.machine import machine_facts
from ..hub.download import find_folder
from ..inference.calibration import CALIBRATION_TEXTS
from ..inference.engine.choice import choose
from ..models.device import DTYPES, resolve_device, resolve_precision
from .bench_texts import built_in_texts, text_of_length
from .ceiling import matrix_ceiling
from .contender import PEER, PEER_PRECISIONS
from .contest import Contender, ContenderError
from .timed import centred_cosines, percentile
from .utilisation import forward_flops

OURS = "maskwright"
COMPARED, FIRST_TEXTS, MOST_TEXTS = 32, 64, 20_000
LATENCY_LENGTHS = (32, 128)
ROUNDS = 3
BULK_SHARE, LATENCY_SHARE = 0.5, 0.3  # of the time that was asked for; the rest goes into loading
MOST_TIMES = 200


@dataclass(frozen=True)
class BenchSettings:
    """precisions: None for all that this device has; seconds: for everything, about; peer: whether transformers is
    measured where it is installed; texts: None for built-in ones; max_length: None for what the model takes."""

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
    """What one contender reached. Rates are medians of rounds, spread their range; latency: seconds by tokens, p50 and
    p95; memory: peak of its process, bytes; cosine: the lowest centred one to our float32; share: of the ceiling."""

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
    """rows: ours first, float32 first; missing: contender -> why it was not measured; ceilings: operations a second by
    number format; mean_tokens: of a text."""

    model: str
    rows: list[Row]
    missing: dict[str, str]
    ceilings: dict[str, float]
    num_texts: int
    mean_tokens: float
    machine: dict[str, Any]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def bench(settings: BenchSettings) -> BenchResult:
    """Measure. Raises ContenderError when our own model cannot be measured, ConfigError for a precision that is not."""
    started = time.monotonic()
    device = resolve_device(settings.device)
    precisions = settings.precisions or available_precisions(device)
    for name in precisions:
        resolve_precision(name, device)
    model = load(settings.model)
    config, tokenizer = model.config, model.tokenizer
    if tokenizer is None:
        raise InputError(f"{settings.model} has no tokenizer: bench measures from text to vectors.")
    length = min(settings.max_length or config.max_position_embeddings, config.max_position_embeddings)
    texts = list(settings.texts if settings.texts is not None else built_in_texts(MOST_TEXTS))
    if not texts:
        raise InputError("There is no text to time: --input is empty.")
    lengths = np.array([len(ids) for ids in tokenizer.encode_ids(texts, length)[0]])
    requests = {size: text_of_length(tokenizer, texts, size) for size in LATENCY_LENGTHS if size <= length}
    del model
    ceilings = {
        name: matrix_ceiling(config.hidden_size, config.intermediate_size, name, device)
        for name in precisions
        if name in DTYPES
    }
    contest = _Contest(settings, length, str(device), texts, lengths, requests)
    with contest.children(precisions) as children:
        contest.measure(children)
    token_flops = _mean_flops(config, lengths[: contest.count])
    for row in contest.rows:
        if row.precision in ceilings:
            row.share_of_ceiling = row.tokens_per_second * token_flops / ceilings[row.precision]
        row.ratio_to_first = row.tokens_per_second / contest.rows[0].tokens_per_second
    return BenchResult(
        settings.model,
        contest.rows,
        contest.missing,
        ceilings,
        contest.count,
        float(lengths[: contest.count].mean()),
        machine_facts(),
        time.monotonic() - started,
    )


def available_precisions(device: torch.device) -> tuple[str, ...]:
    """Number formats worth measuring on this device: bfloat16 only where it is fast, int8 where it is exact."""
    found = []
    for name in DTYPES:
        try:
            resolve_precision(name, device)
        except ConfigError:
            continue
        if name != "bf16" or resolve_precision("auto", device) == "bf16":
            found.append(name)
    return (*found, "int8") if choose("int8", device).products == "int8" else tuple(found)


def _mean_flops(config: Any, lengths: np.ndarray) -> float:
    """Operations of a token, the mean over the tokens of texts of these lengths."""
    return forward_flops(config, lengths) / float(lengths.sum())


@dataclass
class _Contest:
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
    def children(self, precisions: Sequence[str]) -> Iterator[list[Contender]]:
        """Contenders that are loaded, with their rows; what could not be loaded is missing, with why."""
        wanted = [(OURS, precision) for precision in precisions]
        if not self.settings.peer:
            self.missing[PEER] = "it was not asked for"
        elif find_spec(PEER) is None:
            self.missing[PEER] = f"it is not installed (pip install {PEER})"
        else:
            wanted += [(PEER, precision) for precision in precisions if precision in PEER_PRECISIONS]
        children: list[Contender] = []
        try:
            for name, precision in wanted:
                child = Contender(f"{name} {precision}", self._command(name), self.settings.threads)
                children.append(child)
                if not self._loads(child, name, precision):
                    children.pop().close()
            yield children
        finally:
            for child in children:
                child.close()

    def measure(self, children: list[Contender]) -> None:
        """Compare, then time: bulk and latency, in turn."""
        self._compare(children)
        seconds = self.settings.seconds / len(children)
        self.count = self._affordable(children, BULK_SHARE * seconds / ROUNDS)
        rates: list[list[float]] = [[] for _ in children]
        delays: list[dict[int, list[float]]] = [{size: [] for size in self.requests} for _ in children]
        with track("bench", ROUNDS * len(children), "measurements") as progress:
            for number in range(ROUNDS):
                for index, child in enumerate(children):
                    rates[index].append(int(self.lengths[: self.count].sum()) / child.ask("bulk", count=self.count))
                    for size, text in self.requests.items():
                        most = LATENCY_SHARE * seconds / ROUNDS / len(self.requests)
                        delays[index][size] += child.ask("latency", text=text, times=MOST_TIMES, most_seconds=most)
                    progress.update(number * len(children) + index + 1, child.name)
        for row, child, found, waits in zip(self.rows, children, rates, delays, strict=True):
            row.tokens_per_second, row.spread = median(found), (min(found), max(found))
            row.texts_per_second = row.tokens_per_second * self.count / int(self.lengths[: self.count].sum())
            row.latency = {size: (percentile(all_, 0.5), percentile(all_, 0.95)) for size, all_ in waits.items()}
            row.memory = child.ask("memory")

    def _command(self, name: str) -> list[str]:
        return [sys.executable, "-m", "maskwright.speed.contender", name]

    def _loads(self, child: Contender, name: str, precision: str) -> bool:
        folder = str(find_folder(self.settings.model)[0].resolve())
        model = folder if name == PEER else self.settings.model
        try:
            # The last texts: where there are many, not those that are timed and compared.
            calibration = self.texts[-CALIBRATION_TEXTS:]
            settings = {"model": model, "precision": precision, "device": self.device, "max_length": self.max_length}
            child.ask("load", **settings, calibration=calibration)
            child.ask("texts", texts=self.texts)
        except ContenderError as error:
            if name == OURS:
                raise
            self.missing[child.name] = str(error)
            return False
        self.rows.append(Row(name, precision))
        return True

    def _compare(self, children: list[Contender]) -> None:
        """Every contender's vectors beside our first; one that computes something else is told of."""
        count = min(COMPARED, len(self.texts))
        vectors = [np.array(child.ask("vectors", count=count)) for child in children]
        for row, own in zip(self.rows, vectors, strict=True):
            row.cosine = float(centred_cosines(own, vectors[0]).min()) if count > 1 else 1.0
            if row.cosine < 0.95:
                warn(
                    f"{row.name} {row.precision} gives other vectors (cosine {row.cosine:.3f}): its speed says little."
                )

    def _affordable(self, children: list[Contender], seconds: float) -> int:
        """Texts that the slowest contender does in `seconds`."""
        first = min(FIRST_TEXTS, len(self.texts))
        for child in children:
            child.ask("bulk", count=first)  # warm
        slowest = max(child.ask("bulk", count=first) for child in children)
        return max(min(int(first * seconds / slowest), len(self.texts)), first)
