"""The features of a layer lab: every layer's vector of every word, computed once, in memory or mapped from files.

A word's vector is that of its first piece, as a tagger judges it. Sentences are encoded packed; on the way to the files
a block of words is in memory, and no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..core import storage
from ..core.progress import note, track
from ..data.batch import chunks_by_tokens, order_by_length
from ..inference.layers import LayerChoice
from ..models.device import DTYPES
from ..models.model import Model
from ..tasks.examples import BATCH_TOKENS_CPU, BATCH_TOKENS_GPU
from ..tasks.tagged_examples import TaggedExamples
from .report.numbers import file_size

BLOCK_WORDS = 4096


class Features:
    """Vectors of words, layer by layer.

    layers: float [words, hidden] each, in the number format they are kept in, layer 0 being the embeddings; they may
    be mapped from files. Words are those of all examples, end to end.
    """

    def __init__(self, layers: Sequence[Tensor]) -> None:
        self.layers = list(layers)

    @property
    def num_words(self) -> int:
        """Words of all examples."""
        return len(self.layers[0])

    @property
    def hidden_size(self) -> int:
        """Length of a layer's vector."""
        return self.layers[0].shape[1]

    def of_layers(self, rows: Tensor, numbers: Sequence[int]) -> list[Tensor]:
        """Some layers of some words. rows: int64 [chosen] on the CPU. Returns float32 [chosen, hidden] of each."""
        return [self.layers[number][rows].float() for number in numbers]

    def chosen(self, rows: Tensor, choice: LayerChoice) -> Tensor:
        """The vectors that a choice of layers makes of some words: float32 [chosen, choice.size(hidden)]."""
        own = replace(choice, numbers=tuple(range(len(choice.numbers))))  # the same, of the chosen ones alone
        return own.apply(self.of_layers(rows, choice.numbers))


def feature_bytes(model: Model, num_words: int, dtype: torch.dtype) -> int:
    """How large the features of so many words get."""
    return num_words * (model.config.num_hidden_layers + 1) * model.config.hidden_size * dtype.itemsize


def make_features(
    model: Model, parts: Sequence[TaggedExamples], folder: Path, dtype_name: str, memory_bytes: float
) -> Features:
    """The features of `parts`, end to end.

    folder: where they lie when they are larger than `memory_bytes`; whole ones that are there are taken as they are.
    dtype_name: "fp32" or "bf16". Raises StorageError when the disk refuses.
    """
    dtype = DTYPES[dtype_name]
    num_words = sum(part.num_words for part in parts)
    num_layers, hidden = model.config.num_hidden_layers + 1, model.config.hidden_size
    size_bytes = feature_bytes(model, num_words, dtype)
    is_mapped = size_bytes > memory_bytes
    note(
        f"Features: {num_words:,} words in {num_layers} layers of {hidden} numbers ({dtype_name}) take "
        f"{file_size(size_bytes)}, {f'in {folder}' if is_mapped else 'in memory'}."
    )
    if not is_mapped:
        layers = torch.empty(num_layers, num_words, hidden, dtype=dtype)
        done = 0
        for block in feature_blocks(model, parts, dtype):
            layers[:, done : done + block.shape[1]] = block
            done += block.shape[1]
        return Features(list(layers))
    if not (folder.exists() and storage.verify_folder(folder) and _has(folder, num_layers, size_bytes)):
        _write(folder, feature_blocks(model, parts, dtype), num_layers)
    return Features([_map(folder / _file(number), num_words, hidden, dtype) for number in range(num_layers)])


def feature_blocks(
    model: Model, parts: Sequence[TaggedExamples], dtype: torch.dtype = torch.float32, block_words: int = BLOCK_WORDS
) -> Iterator[Tensor]:
    """Every layer of every word, in the words' order: float [layers + 1, block, hidden], on the CPU."""
    model.eval()
    total = sum(part.num_words for part in parts)
    done = 0
    with track("features", total, "words") as progress:
        for part in parts:
            for first, last in _window_blocks(part, block_words):
                block = _encode_windows(model, part, first, last, dtype)
                done += block.shape[1]
                progress.update(done)
                yield block


def _window_blocks(examples: TaggedExamples, block_words: int) -> Iterator[tuple[int, int]]:
    """Ranges of neighbouring windows that judge about `block_words` words."""
    first = words = 0
    for window, judged in enumerate(examples.words):
        words += len(judged)
        if words >= block_words:
            yield first, window + 1
            first, words = window + 1, 0
    if words:
        yield first, len(examples)


def _encode_windows(model: Model, examples: TaggedExamples, first: int, last: int, dtype: torch.dtype) -> Tensor:
    """float [layers + 1, words that these windows judge, hidden]; neighbouring windows judge neighbouring words."""
    device = model.word_embeddings.device
    start = int(np.concatenate(examples.words[first:last]).min())
    count = sum(len(words) for words in examples.words[first:last])
    block = torch.empty(model.config.num_hidden_layers + 1, count, model.config.hidden_size, dtype=dtype)
    budget = BATCH_TOKENS_CPU if device.type == "cpu" else BATCH_TOKENS_GPU
    order = first + order_by_length(examples.lengths[first:last])
    with torch.inference_mode():
        for chunk in chunks_by_tokens(order, examples.lengths.tolist(), budget):
            batch = examples.batch(chunk).to(device)
            states = model.encode(batch, hidden_states=True).hidden_states
            assert states is not None
            words = batch.labels["words"].cpu() - start
            for number, state in enumerate(states):
                block[number, words] = state[batch.labels["places"]].to(dtype).cpu()
    return block


def _file(number: int) -> str:
    return f"layer-{number:02d}.bin"


def _has(folder: Path, num_layers: int, size_bytes: int) -> bool:
    files = [folder / _file(number) for number in range(num_layers)]
    return all(file.is_file() and file.stat().st_size == size_bytes // num_layers for file in files)


def _write(folder: Path, blocks: Iterator[Tensor], num_layers: int) -> None:
    """One file for each layer, so that a probe of one layer reads that layer only."""
    with storage.new_folder(folder, replace=True) as new, ExitStack() as stack:
        handles = [stack.enter_context(storage.fs.open(new / _file(number), "wb")) for number in range(num_layers)]
        for block in blocks:
            for handle, layer in zip(handles, block, strict=True):
                storage.fs.write(handle, layer.contiguous().view(torch.uint8).numpy().tobytes())


def _map(path: Path, num_words: int, hidden: int, dtype: torch.dtype) -> Tensor:
    """float [words, hidden], read from the file where it is used."""
    return torch.from_file(str(path), shared=False, size=num_words * hidden, dtype=dtype).view(num_words, hidden)
