"""Probing: what the hidden states of each layer of a frozen encoder tell about labels.

Hidden states by layer (`make_features`, `embed_labeled`) -> a probe (`fit_and_score`) -> scores (`probe`). Used by
`probe`, `experiment layers`, and the probes of a pre-training run.

In the control task of `probe` every word type has a random label, so its accuracy measures memorization. Selectivity is
accuracy minus control accuracy (Hewitt and Liang 2019, section 2.3).
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core import storage
from ..core.config import check
from ..core.errors import InputError
from ..core.progress import note, track
from ..core.randomness import generator
from ..data.batch import chunks_by_tokens, order_by_length
from ..models.device import DTYPES
from ..models.model import Model, tokenizer_of
from ..report.numbers import file_size
from ..tasks.classification import Classification
from ..tasks.examples import BATCH_TOKENS_CPU, BATCH_TOKENS_GPU
from ..tasks.tagging.examples import TaggedExamples, window_sentences
from ..text.fingerprints import hold_out
from ..text.readers.tables import Row
from ..text.readers.tagged import is_tagged, read_tagged
from ..text.words import Sentence, split_words
from .embed import LayerChoice, TextEncoder, check_pooling
from .ready import room_of

BLOCK_WORDS = 4096
TEST_SHARE = 0.25
MAX_EXAMPLES = 10_000  # default maximum of words or texts per split
PENALTY = 10.0
MAX_STEPS = 1_000  # optimizer iterations of a probe


# -- hidden states of words by layer: those of the first subword token, as in token classification ---------------------


@dataclass(frozen=True)
class Features:
    """Word embeddings by layer, of all examples, concatenated.

    layers: float [words, hidden] each, in the stored precision; layer 0 is the embeddings. They can be memory-mapped.
    """

    layers: Sequence[Tensor]

    @property
    def hidden_size(self) -> int:
        return self.layers[0].shape[1]

    def of_layers(self, rows: Tensor, numbers: Sequence[int]) -> list[Tensor]:
        """Layers of selected words, float32 [chosen, hidden] each. rows: int64 [chosen] on the CPU."""
        return [self.layers[number][rows].float() for number in numbers]

    def chosen(self, rows: Tensor, choice: LayerChoice) -> Tensor:
        """The combined layers of selected words: float32 [chosen, choice.size(hidden)]."""
        selected = replace(choice, numbers=tuple(range(len(choice.numbers))))  # renumbered to the loaded layers
        return selected.apply(self.of_layers(rows, choice.numbers))


def make_features(
    model: Model, parts: Sequence[TaggedExamples], folder: Path, dtype_name: str, memory_bytes: float
) -> Features:
    """The features of `parts`, concatenated. dtype_name: "fp32" or "bf16".

    folder: for features larger than `memory_bytes`, one file per layer, so that a probe reads only its layer; writing
    needs only one block of words in memory. Raises StorageError if writing fails.
    """
    dtype, num_words = DTYPES[dtype_name], sum(part.num_words for part in parts)
    num_layers, hidden = model.config.num_hidden_layers + 1, model.config.hidden_size
    size_bytes = num_words * num_layers * hidden * dtype.itemsize
    is_mapped = size_bytes > memory_bytes
    note(
        f"Features: {num_words:,} words, {num_layers} layers, {hidden} dimensions ({dtype_name}), "
        f"{file_size(size_bytes)}, {f'in {folder}' if is_mapped else 'in memory'}."
    )
    if not is_mapped:
        return Features(list(torch.cat(list(feature_blocks(model, parts, dtype)), dim=1)))
    files = [f"layer-{number:02d}.bin" for number in range(num_layers)]
    with storage.new_folder(folder, replace=True) as new, ExitStack() as stack:
        handles = [stack.enter_context(storage.fs.open(new / file, "wb")) for file in files]
        for block in feature_blocks(model, parts, dtype):
            for handle, layer in zip(handles, block, strict=True):
                storage.fs.write(handle, layer.contiguous().view(torch.uint8).numpy().tobytes())
    mapped = [torch.from_file(str(folder / file), False, num_words * hidden, dtype=dtype) for file in files]
    return Features([layer.view(num_words, hidden) for layer in mapped])


def feature_blocks(
    model: Model, parts: Sequence[TaggedExamples], dtype: torch.dtype = torch.float32, block_words: int = BLOCK_WORDS
) -> Iterator[Tensor]:
    """Every layer of all words in order: float [layers + 1, block, hidden], on the CPU."""
    model.eval()
    done = 0
    with track("features", sum(part.num_words for part in parts), "words") as progress:
        for part in parts:
            first = words = 0
            for window, labeled in enumerate(part.words):
                words += len(labeled)
                if words >= block_words or (words and window == len(part) - 1):
                    yield (block := _encode_windows(model, part, first, window + 1, dtype))
                    first, words, done = window + 1, 0, done + block.shape[1]
                    progress.update(done)


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


# -- labeled words or texts, with their embeddings in every layer ------------------------------------------------------


Labeled = Sentence | Row


@dataclass(frozen=True, eq=False)
class LabeledVectors:
    """Embeddings of labeled words or texts.

    unit: "words" or "texts"; vectors: float32 [layers + 1, examples, hidden]; types: word, or first word of the text.
    """

    unit: str
    vectors: np.ndarray
    labels: Sequence[str]
    types: Sequence[str]


def read_labeled(
    path: Path | str, *, columns: Mapping[str, str] | None = None, skip_bad_rows: bool = False
) -> Sequence[Labeled]:
    """Read tagged sentences (CoNLL columns, or JSON lines with tokens and tags) or labeled texts.

    Raises RowErrors and InputError as the readers do.
    """
    if is_tagged(path, columns):
        return read_tagged(path, columns=columns, skip_bad_rows=skip_bad_rows).rows
    return Classification.read(path, columns=columns, skip_bad_rows=skip_bad_rows).rows


def split_rows(rows: Sequence[Labeled], seed: int = 0) -> tuple[list[Labeled], list[Labeled]]:
    """Three quarters of the rows for training and one for evaluation, both in order (see `text.fingerprints`)."""
    if len(rows) < 2:
        raise InputError("A probe requires at least two rows, one for training and one for evaluation.")
    labels = [set(row.label or ()) if isinstance(row, Sentence) else (str(row.label),) for row in rows]
    held = hold_out(labels, [(row.text, row.text_pair) for row in rows], TEST_SHARE, seed)
    return [row for index, row in enumerate(rows) if index not in held], [rows[index] for index in sorted(held)]


def embed_labeled(
    model: Model, rows: Sequence[Labeled], pooling: str, max_length: int | None, most: int
) -> LabeledVectors:
    """Embed the first rows, up to about `most` words or texts.

    Raises InputError for no rows, rows without a label, or rows of both kinds.
    """
    sentences = [row for row in rows if isinstance(row, Sentence)]
    texts = [row for row in rows if isinstance(row, Row)][:most]
    if not rows or (sentences and texts):
        raise InputError("A probe requires at least one row, and either tagged sentences or labeled texts.")
    for row in rows:
        if row.label is None:
            raise InputError(f"{row.file}, line {row.line:,}: the row has no label.")
    if sentences:
        before = np.cumsum([0, *(len(row) for row in sentences)])
        sentences = sentences[: max(int(np.searchsorted(before, most)), 1)]
        examples = window_sentences(sentences, tokenizer_of(model), room_of(model, max_length))
        vectors = torch.cat(list(feature_blocks(model, [examples])), dim=1).numpy()
        labels = [tag for row in sentences for tag in row.tags or ()]
        return LabeledVectors("words", vectors, labels, [word for row in sentences for word in row.words])
    layers = list(range(model.config.num_hidden_layers + 1))
    encoder = TextEncoder(model, layers, pooling, max_length=max_length)
    pairs = [row.text if row.text_pair is None else (row.text, row.text_pair) for row in texts]
    vectors = encoder.vectors(pairs).reshape(len(texts), len(layers), -1).transpose(1, 0, 2)  # [layers, texts, hidden]
    first = [next(iter(split_words(row.text)), (0, 0)) for row in texts]
    types = [row.text[start:end] for row, (start, end) in zip(texts, first, strict=True)]
    return LabeledVectors("texts", vectors, [str(row.label) for row in texts], types)


# -- linear probes with a control task ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class LayerProbe:
    """Probe of one layer; layer 0 is the embeddings. accuracy, control: dev accuracy on labels and control task."""

    layer: int
    accuracy: float
    control: float

    @property
    def selectivity(self) -> float:
        """Accuracy minus control accuracy."""
        return self.accuracy - self.control


@dataclass(frozen=True)
class ProbeResult:
    """Result of layer-wise probing.

    unit: "words" or "texts"; labels: training labels; layers: one probe per layer; majority, control_majority: accuracy
    of the majority-class baseline; known: fraction of dev examples whose type occurs in training; num_train, num_dev:
    words or texts; num_unfinished: probes that did not converge.
    """

    unit: str
    labels: tuple[str, ...]
    layers: tuple[LayerProbe, ...]
    majority: float
    control_majority: float
    known: float
    num_train: int
    num_dev: int
    num_unfinished: int = 0

    @property
    def best(self) -> LayerProbe:
        """Layer with the highest accuracy."""
        return max(self.layers, key=lambda one: one.accuracy)

    @property
    def most_selective(self) -> LayerProbe:
        """Layer with the highest selectivity."""
        return max(self.layers, key=lambda one: one.selectivity)

    def to_json(self) -> dict[str, Any]:
        """JSON values; layers as a list of {"layer", "accuracy", "control", "selectivity"}."""
        layers = [{**vars(one), "selectivity": one.selectivity} for one in self.layers]
        best, selective = self.best.layer, self.most_selective.layer
        return {**vars(self), "layers": layers, "best": best, "most_selective": selective}


def probe(
    model: Model,
    rows: Sequence[Labeled],
    dev: Sequence[Labeled] | None = None,
    *,
    pooling: str = "mean",
    max_length: int | None = None,
    most: int = MAX_EXAMPLES,
    penalty: float = PENALTY,
    seed: int = 0,
) -> ProbeResult:
    """Probe every layer for the labels of tagged sentences or texts, as returned by `read_labeled`.

    dev: evaluation rows, None for a random quarter of `rows`; pooling: text embedding as in `embed` (words use their
    first subword token); max_length: maximum tokens; most: maximum words or texts per split; penalty: L2 penalty, 1 / C
    of scikit-learn; seed: of the split and the control labels. Raises InputError for missing labels, fewer than two
    labels, or dev examples of another kind or without common labels; ConfigError for settings out of range.
    """
    check_pooling(pooling)
    check(most >= 1, f"most is {most}; it must be at least 1.")
    train, held = split_rows(rows, seed) if dev is None else (rows, dev)
    parts = [embed_labeled(model, part, pooling, max_length, most) for part in (train, held)]
    return probe_vectors(*parts, penalty=penalty, seed=seed)


def probe_vectors(
    train: LabeledVectors, dev: LabeledVectors, *, penalty: float = PENALTY, seed: int = 0
) -> ProbeResult:
    """Probe embeddings; see `probe`."""
    check(penalty > 0, f"penalty is {penalty}; it must be above 0.")
    labels = _labels_of(train, dev)
    drawn = control_labels([*train.types, *dev.types], train.labels, seed)
    tasks = [(train.labels, dev.labels), ([drawn[one] for one in train.types], [drawn[one] for one in dev.types])]
    layers, num_unfinished = [], 0
    with track("probes", len(train.vectors), "layers") as progress:
        for layer, (vectors, held) in enumerate(zip(train.vectors, dev.vectors, strict=True)):
            scores = [fit_and_score(vectors, own, held, wanted, penalty) for own, wanted in tasks]
            layers.append(LayerProbe(layer, scores[0][0], scores[1][0]))
            num_unfinished += sum(not is_finished for _, is_finished in scores)
            progress.update(layer + 1)
    known = set(train.types)
    return ProbeResult(
        train.unit,
        labels,
        tuple(layers),
        majority=majority(*tasks[0]),
        control_majority=majority(*tasks[1]),
        known=sum(one in known for one in dev.types) / len(dev.types),
        num_train=len(train.labels),
        num_dev=len(dev.labels),
        num_unfinished=num_unfinished,
    )


def _labels_of(train: LabeledVectors, dev: LabeledVectors) -> tuple[str, ...]:
    """The sorted training labels. Raises InputError if a probe cannot be scored on `dev`."""
    if train.unit != dev.unit:
        raise InputError(
            f"The training examples have labels of {train.unit}, the dev examples of {dev.unit}: use one kind for both."
        )
    labels = tuple(sorted(set(train.labels)))
    if len(labels) < 2:
        raise InputError(
            f"All training {train.unit} have the label '{labels[0]}': a probe requires at least two labels."
        )
    if not set(labels) & set(dev.labels):
        raise InputError(
            f"No label of the dev {dev.unit}, such as '{dev.labels[0]}', is one of the training {train.unit}, such as "
            f"'{labels[0]}': use the same labels in both."
        )
    return labels


def control_labels(types: Sequence[str], labels: Sequence[str], seed: int = 0) -> dict[str, str]:
    """Sample a label for each type with the frequencies of `labels`; it depends only on the type and the seed."""
    counts = sorted(Counter(labels).items())
    edges = np.cumsum([count for _, count in counts]) / len(labels)
    draws = {one: generator(seed, f"control label of {one}").random() for one in set(types)}
    places = {one: min(int(np.searchsorted(edges, draw, side="right")), len(counts) - 1) for one, draw in draws.items()}
    return {one: counts[place][0] for one, place in places.items()}


def majority(train: Sequence[str], dev: Sequence[str]) -> float:
    """The accuracy on `dev` of the majority label of `train`; ties use the first by name."""
    counts = Counter(train)
    most_common = min(counts, key=lambda label: (-counts[label], label))
    return sum(label == most_common for label in dev) / len(dev)


def fit_and_score(
    train: np.ndarray, labels: Sequence[Any], dev: np.ndarray, dev_labels: Sequence[Any], penalty: float = PENALTY
) -> tuple[float, bool]:
    """The dev accuracy of logistic regression, and whether it converged.

    train, dev: float [examples, hidden], standardized with the training statistics.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    if len(set(labels)) == 1:
        return majority(labels, dev_labels), True
    scaler = StandardScaler().fit(train)
    classifier = LogisticRegression(C=1 / penalty, max_iter=MAX_STEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # reported in the return value
        classifier.fit(scaler.transform(train), labels)
    found = classifier.predict(scaler.transform(dev))
    return float(np.mean(found == np.asarray(dev_labels))), bool(np.max(classifier.n_iter_) < MAX_STEPS)
