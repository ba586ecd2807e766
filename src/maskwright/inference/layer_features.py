"""Word embeddings of every layer for layer experiments, computed once, in memory or memory-mapped.

A word embedding is that of its first subword token, as in token classification. Writing files needs only one block of
words in memory.
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
from ..core.errors import CorruptFileError
from ..core.progress import note, track, warn
from ..data.batch import chunks_by_tokens, order_by_length
from ..models.device import DTYPES
from ..models.model import Model
from ..report.numbers import file_size
from ..tasks.examples import BATCH_TOKENS_CPU, BATCH_TOKENS_GPU
from ..tasks.tagging.examples import TaggedExamples
from .layers import LayerChoice

BLOCK_WORDS = 4096


class Features:
    """Word embeddings by layer.

    layers: float [words, hidden] each, in the stored precision; layer 0 is the embeddings. They can be memory-mapped.
    Words of all examples are concatenated.
    """

    def __init__(self, layers: Sequence[Tensor]) -> None:
        self.layers = list(layers)

    @property
    def num_words(self) -> int:
        """Number of words of all examples."""
        return len(self.layers[0])

    @property
    def hidden_size(self) -> int:
        """Dimensions of a layer."""
        return self.layers[0].shape[1]

    def of_layers(self, rows: Tensor, numbers: Sequence[int]) -> list[Tensor]:
        """Return layers of selected words, float32 [chosen, hidden] each. rows: int64 [chosen] on the CPU."""
        return [self.layers[number][rows].float() for number in numbers]

    def chosen(self, rows: Tensor, choice: LayerChoice) -> Tensor:
        """Return the combined layers of selected words: float32 [chosen, choice.size(hidden)]."""
        selected = replace(choice, numbers=tuple(range(len(choice.numbers))))  # renumbered to the loaded layers
        return selected.apply(self.of_layers(rows, choice.numbers))


def feature_bytes(model: Model, num_words: int, dtype: torch.dtype) -> int:
    """Return the size of the features in bytes."""
    return num_words * (model.config.num_hidden_layers + 1) * model.config.hidden_size * dtype.itemsize


def make_features(
    model: Model, parts: Sequence[TaggedExamples], folder: Path, dtype_name: str, memory_bytes: float
) -> Features:
    """Compute the features of `parts`, concatenated.

    folder: stores features larger than `memory_bytes`; complete ones are reused. dtype_name: "fp32" or "bf16". Raises
    StorageError if writing fails.
    """
    dtype = DTYPES[dtype_name]
    num_words = sum(part.num_words for part in parts)
    num_layers, hidden = model.config.num_hidden_layers + 1, model.config.hidden_size
    size_bytes = feature_bytes(model, num_words, dtype)
    is_mapped = size_bytes > memory_bytes
    note(
        f"Features: {num_words:,} words, {num_layers} layers, {hidden} dimensions ({dtype_name}), "
        f"{file_size(size_bytes)}, {f'in {folder}' if is_mapped else 'in memory'}."
    )
    if not is_mapped:
        layers = torch.empty(num_layers, num_words, hidden, dtype=dtype)
        done = 0
        for block in feature_blocks(model, parts, dtype):
            layers[:, done : done + block.shape[1]] = block
            done += block.shape[1]
        return Features(list(layers))
    if not (folder.exists() and _is_whole(folder) and _has(folder, num_layers, size_bytes)):
        _write(folder, feature_blocks(model, parts, dtype), num_layers)
    return Features([_map(folder / _file(number), num_words, hidden, dtype) for number in range(num_layers)])


def feature_blocks(
    model: Model, parts: Sequence[TaggedExamples], dtype: torch.dtype = torch.float32, block_words: int = BLOCK_WORDS
) -> Iterator[Tensor]:
    """Yield every layer of all words in order: float [layers + 1, block, hidden], on the CPU."""
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
    """Yield ranges of consecutive windows with about `block_words` labeled words."""
    first = words = 0
    for window, labeled in enumerate(examples.words):
        words += len(labeled)
        if words >= block_words:
            yield first, window + 1
            first, words = window + 1, 0
    if words:
        yield first, len(examples)


def _encode_windows(model: Model, examples: TaggedExamples, first: int, last: int, dtype: torch.dtype) -> Tensor:
    """Encode windows: float [layers + 1, labeled words of these windows, hidden]."""
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


def _is_whole(folder: Path) -> bool:
    """Return whether the features on disk are intact; otherwise they are recomputed."""
    try:
        storage.verify_folder(folder)
    except CorruptFileError as error:
        warn(f"{error} The features are recomputed.")
        return False
    return True


def _has(folder: Path, num_layers: int, size_bytes: int) -> bool:
    files = [folder / _file(number) for number in range(num_layers)]
    return all(file.is_file() and file.stat().st_size == size_bytes // num_layers for file in files)


def _write(folder: Path, blocks: Iterator[Tensor], num_layers: int) -> None:
    """Write one file per layer, so that a probe reads only its layer."""
    with storage.new_folder(folder, replace=True) as new, ExitStack() as stack:
        handles = [stack.enter_context(storage.fs.open(new / _file(number), "wb")) for number in range(num_layers)]
        for block in blocks:
            for handle, layer in zip(handles, block, strict=True):
                storage.fs.write(handle, layer.contiguous().view(torch.uint8).numpy().tobytes())


def _map(path: Path, num_words: int, hidden: int, dtype: torch.dtype) -> Tensor:
    """Memory-map a layer: float [words, hidden]."""
    return torch.from_file(str(path), shared=False, size=num_words * hidden, dtype=dtype).view(num_words, hidden)
