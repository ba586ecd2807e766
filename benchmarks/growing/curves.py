"""The curves of growth.py, each measured in a separate process: python benchmarks/growing/curves.py NAME SIZES.

For each size, smallest first, a line of JSON: the median seconds of a call, the peak memory of the process so far,
above that before the first size, and the work for the size. Each curve defines its unit of work.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from maskwright.core.memory import peak_memory
from maskwright.core.progress import set_quiet
from maskwright.core.randomness import generator
from maskwright.data.batch import Batch
from maskwright.inference.ready import place
from maskwright.models.build import build
from maskwright.models.device import DTYPES
from maskwright.models.model import Model
from maskwright.models.presets import preset
from maskwright.objectives.masked import Masker
from maskwright.speed.workload import forward_flops, training_flops
from maskwright.train.optimizer import adamw

LONGEST, STEP_TOKENS, SHORT, MASK_RATE = 4096, 4096, 32, 0.15
CHUNK_TOKENS = 2048  # of inference on a CPU
MOST_CALLS, FEWEST_CALLS = 50, 3
MEGABYTE = 1_000_000

Call = Callable[[], Any]


@dataclass(frozen=True)
class Curve:
    """prepare: from a size and the options to a call and its work. unit: of sizes; work: in words; memory: the power of
    the size with which memory may grow (0: it must not)."""

    title: str
    unit: str
    work: str
    prepare: Callable[[int, argparse.Namespace], tuple[Call, float]]
    memory: float = 1.0


def model_of(options: argparse.Namespace, vocab_size: int | None = None) -> Model:
    """The network, with room for the longest sequences."""
    changes = {"vocab_size": vocab_size or options.vocab_size, "max_position_embeddings": LONGEST}
    return build(preset(options.preset, **changes), head="mlm")


def batch_curve(size: int, options: argparse.Namespace) -> tuple[Call, float]:
    """So many sequences of 32 tokens through the engine, in chunks as `embed` makes them."""
    model = place(model_of(options).eval(), "cpu", options.precision)
    each = max(CHUNK_TOKENS // SHORT, 1)
    packs = [_pack(min(each, size - at), SHORT, options.vocab_size) for at in range(0, size, each)]

    @torch.inference_mode()
    def call() -> None:
        for pack in packs:
            model.encode(pack)

    return call, forward_flops(model.config, [SHORT] * size)


def length_curve(size: int, options: argparse.Namespace) -> tuple[Call, float]:
    """Encode one sequence of N tokens with the engine."""
    model = place(model_of(options).eval(), "cpu", options.precision)
    pack = _pack(1, size, options.vocab_size)

    @torch.inference_mode()
    def call() -> None:
        model.encode(pack)

    return call, forward_flops(model.config, [size])


def training_length_curve(size: int, options: argparse.Namespace) -> tuple[Call, float]:
    """Train one step of 4,096 tokens in sequences of N tokens."""
    return _step(model_of(options), max(options.step_tokens // size, 1), size, options)


def training_batch_curve(size: int, options: argparse.Namespace) -> tuple[Call, float]:
    """Train one step of N sequences of 128 tokens."""
    return _step(model_of(options), size, 128, options)


def vocabulary_curve(size: int, options: argparse.Namespace) -> tuple[Call, float]:
    """Train one step of 2,048 tokens with a vocabulary of N words and 15% masked tokens."""
    return _step(model_of(options, size), max(options.step_tokens // 256, 1), 128, options)


def corpus_curve(size: int, options: argparse.Namespace) -> tuple[Call, float]:
    """So many megabytes of text to token shards: read, split, tokenized, written."""
    from maskwright.data.prepare import prepare

    folder, tokenizer = Path(options.work), _tokenizer(options)
    text = _text(folder, size)
    numbers = iter(range(10**9))
    return lambda: prepare([str(text)], tokenizer, folder / f"shards-{size}-{next(numbers)}"), size * MEGABYTE


def tokenizer_corpus_curve(size: int, options: argparse.Namespace) -> tuple[Call, float]:
    """Train a WordPiece tokenizer of 8,000 subword tokens on N megabytes."""
    from maskwright.text.tokenizers.tokenizer import Tokenizer

    text = str(_text(Path(options.work), size))
    return lambda: Tokenizer.train([text], kind="wordpiece", vocab_size=8_000), size * MEGABYTE


def tokenizer_vocabulary_curve(size: int, options: argparse.Namespace) -> tuple[Call, float]:
    """Train a WordPiece tokenizer of N subword tokens on two megabytes."""
    from maskwright.text.tokenizers.tokenizer import Tokenizer

    text = str(_text(Path(options.work), options.text_megabytes))
    return lambda: Tokenizer.train([text], kind="wordpiece", vocab_size=size), float(size)


def threads_curve(size: int, options: argparse.Namespace) -> tuple[Call, float]:
    """Encode 256 sequences of 32 tokens with the engine on N threads; work is that of each thread."""
    torch.set_num_threads(size)
    call, work = batch_curve(256, options)
    return call, work / size


def training_threads_curve(size: int, options: argparse.Namespace) -> tuple[Call, float]:
    """Train one step of 4,096 tokens on N threads."""
    torch.set_num_threads(size)
    call, work = _step(model_of(options), max(options.step_tokens // 128, 1), 128, options)
    return call, work / size


FLOPS = "operations of the network"
CURVES: dict[str, Curve] = {
    "batch": Curve("inference, sequences of 32 tokens in a call", "sequences", FLOPS, batch_curve, 0.0),
    "length": Curve("inference, tokens of one sequence", "tokens", FLOPS, length_curve, 1.0),
    "training-batch": Curve("a training step, sequences of 128 tokens", "sequences", FLOPS, training_batch_curve),
    "training-length": Curve("a training step of 4,096 tokens, tokens of a sequence", "tokens", FLOPS,
                             training_length_curve, 1.0),
    "vocabulary": Curve("a training step of 2,048 tokens, words", "words", FLOPS, vocabulary_curve),
    "corpus": Curve("text to token shards", "MB", "bytes", corpus_curve, 0.0),
    "tokenizer-corpus": Curve("training a tokenizer of 8,000 subword tokens", "MB", "bytes", tokenizer_corpus_curve),
    "tokenizer-vocabulary": Curve("training a tokenizer on 2 MB", "pieces", "pieces", tokenizer_vocabulary_curve),
    "threads": Curve("inference, threads", "threads", "operations of a thread", threads_curve, 0.5),
    "training-threads": Curve("a training step, threads", "threads", "operations of a thread",
                              training_threads_curve, 0.5),
}  # fmt: skip


def measure(name: str, sizes: list[int], options: argparse.Namespace) -> None:
    """A line for each size."""
    curve = CURVES[name]
    base = peak_memory()
    for size in sizes:
        call, work = curve.prepare(size, options)
        call()  # warm
        times: list[float] = []
        begin = time.perf_counter()
        while len(times) < FEWEST_CALLS or (len(times) < MOST_CALLS and time.perf_counter() - begin < options.seconds):
            started = time.perf_counter()
            call()
            times.append(time.perf_counter() - started)
            if times[-1] > options.seconds:
                break
        found = {"size": size, "seconds": median(times), "calls": len(times), "work": work}
        print(json.dumps({**found, "memory": peak_memory() - base}), flush=True)


def _pack(sequences: int, length: int, vocab_size: int) -> Batch:
    ids = generator(0, "growth", length).integers(5, vocab_size, size=(sequences, length))
    return Batch.from_sequences(list(ids))


def _step(model: Model, sequences: int, length: int, options: argparse.Namespace) -> tuple[Call, float]:
    """A training step without the loop's own work, which does not grow."""
    model.train()
    model.compute_dtype = DTYPES[options.precision]
    vocab_size = model.config.vocab_size
    pack = _pack(sequences, length, vocab_size)
    masker = Masker(4, frozenset(range(5)), vocab_size, MASK_RATE)
    masked = masker(pack.input_ids.numpy(), np.asarray(pack.lengths), generator(0, "growth masks"))
    positions, labels = torch.from_numpy(masked.positions), torch.from_numpy(masked.labels)
    optimizer = adamw(model, 1e-4, 0.01)

    def call() -> None:
        hidden = model.encode(pack).hidden
        model.mlm_loss(hidden[positions], labels)[0].backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return call, training_flops(model.config, pack.lengths, len(labels))


def _text(folder: Path, megabytes: int) -> Path:
    """Return synthetic text of N megabytes: documents of sentences with Zipf-distributed words."""
    path = folder / f"text-{megabytes}.txt"
    if path.exists():
        return path
    draws = generator(0, "growth text")
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    words = ["".join(draws.choice(letters, size=size)) for size in draws.integers(2, 10, size=30_000)]
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
        written = 0
        while written < megabytes * MEGABYTE:
            chosen = np.minimum(draws.zipf(1.25, size=2_000) - 1, len(words) - 1)
            lines = [" ".join(words[index] for index in row) + "." for row in chosen.reshape(-1, 20)]
            paragraph = "\n".join(lines) + "\n\n"
            file.write(paragraph)
            written += len(paragraph)
    Path(file.name).rename(path)
    return path


def _tokenizer(options: argparse.Namespace) -> Any:
    from maskwright.text.tokenizers.tokenizer import Tokenizer

    folder = Path(options.work) / "tokenizer"
    if not folder.exists():
        text = _text(Path(options.work), 1)
        Tokenizer.train([str(text)], kind="wordpiece", vocab_size=8_000).save(folder)
    return Tokenizer.load(folder)


def main() -> None:
    """One curve."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=list(CURVES))
    parser.add_argument("sizes")
    parser.add_argument("--preset", default="bert-mini")
    parser.add_argument("--vocab-size", type=int, default=8_000)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--step-tokens", type=int, default=STEP_TOKENS)
    parser.add_argument("--text-megabytes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--work", required=True)
    options = parser.parse_args()
    set_quiet(True)
    measure(options.name, [int(size) for size in options.sizes.split(",")], options)


if __name__ == "__main__":
    main()
