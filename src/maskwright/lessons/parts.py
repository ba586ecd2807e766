"""Small computations that lessons show step by step."""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core.errors import InputError
from ..core.randomness import generator
from ..data.batch import Batch
from ..models.encoder_decoder import EncoderDecoder
from ..models.heads import cross_entropy
from ..models.sizes import TRAINING_PASSES, layer_entries
from ..nn.attention import scaled_dot_product
from ..nn.recurrent import PackedRecurrence, RecurrentLayer, fill_recurrent
from ..objectives.audit import AuditedSequence, audit
from ..objectives.masked import Masker
from ..speed.plan_config import PlanConfig
from ..speed.workload import workload_of

# -- The parts of BLEU, for computing it by hand (Papineni et al. 2002, section 2.3) ---------------------------------
#
# Reported scores come from sacrebleu (`translation_scores.py`), which also tokenizes and smooths. Here words are
# separated by whitespace; a test compares both numbers.


LONGEST = 4  # highest n of the n-grams


@dataclass(frozen=True)
class ExplainedBleu:
    """The parts of a BLEU score. matches, rows: number of matching and of generated n-grams, n from 1 to 4, over all
    texts; written, wanted: number of generated and reference words; penalty: brevity penalty; score: 0 to 100.
    """

    matches: tuple[int, ...]
    rows: tuple[int, ...]
    written: int
    wanted: int
    penalty: float
    score: float

    @property
    def precisions(self) -> tuple[float, ...]:
        """Fraction of matching n-grams, by n."""
        return tuple(hits / rows if rows else 0.0 for hits, rows in zip(self.matches, self.rows, strict=True))


def explain_bleu(written: Sequence[str], wanted: Sequence[str]) -> ExplainedBleu:
    """Compute BLEU with one reference per text, without smoothing: 0 if no n-gram of some length matches.

    Counts are summed over all texts before division. Raises InputError for no texts, or unequal numbers of both.
    """
    if not written or len(written) != len(wanted):
        raise InputError(f"BLEU needs a reference for each text: {len(written)} texts, {len(wanted)} references.")
    pairs = [(text.split(), reference.split()) for text, reference in zip(written, wanted, strict=True)]
    matches = tuple(sum((_rows(a, n) & _rows(b, n)).total() for a, b in pairs) for n in range(1, LONGEST + 1))
    rows = tuple(sum(_rows(a, n).total() for a, _ in pairs) for n in range(1, LONGEST + 1))
    length, due = sum(len(a) for a, _ in pairs), sum(len(b) for _, b in pairs)
    penalty = min(1.0, math.exp(1 - due / length)) if length else 0.0
    mean = math.exp(sum(math.log(a / b) for a, b in zip(matches, rows, strict=True)) / LONGEST) if all(matches) else 0.0
    return ExplainedBleu(matches, rows, length, due, penalty, 100 * penalty * mean)


def _rows(words: Sequence[str], length: int) -> Counter[tuple[str, ...]]:
    """Count each n-gram of this length."""
    return Counter(tuple(words[start : start + length]) for start in range(len(words) - length + 1))


# -- The loss of one masked token: the categorical loss of training, and a binary loss over the vocabulary -----------
#
# Training uses the categorical cross-entropy, -log p of the correct word (Devlin et al. 2019, section 3.1). Lectures
# also show a binary one, -1/N sum of t log p + (1 - t) log(1 - p) over all N words. It differs: it also penalizes the
# probability of each wrong word, and divides by N.


@dataclass(frozen=True)
class ExplainedLoss:
    """Two losses of one prediction, in nats. terms: each word's contribution to the binary loss, before the mean."""

    binary: float
    categorical: float
    terms: tuple[float, ...]


def explain_loss(probabilities: Sequence[float], target: Sequence[int]) -> ExplainedLoss:
    """Compute both losses of one prediction.

    probabilities: of each word, between 0 and 1, summing to 1; target: 1 for the correct word, 0 for the others. Raises
    InputError for other values.
    """
    given = torch.tensor(probabilities, dtype=torch.float64)
    wanted = torch.tensor(target, dtype=torch.float64)
    if (
        given.shape != wanted.shape
        or bool((given <= 0).any() or (given >= 1).any())
        or abs(float(given.sum()) - 1) > 1e-6
    ):
        raise InputError("The probabilities must be between 0 and 1, sum to 1, and have the length of the targets.")
    if sorted(target) != [0] * (len(target) - 1) + [1]:
        raise InputError("The targets must be 1 for one word and 0 for all others.")
    terms = F.binary_cross_entropy(given, wanted, reduction="none")
    right = torch.tensor([list(target).index(1)])
    return ExplainedLoss(
        float(terms.mean()), float(cross_entropy(given.log()[None], right, "target")), tuple(terms.tolist())
    )


# -- Kernel regression as attention: a mean of known values, weighted by proximity (Nadaraya 1964, Watson 1964) ------


def kernel_regression(x: Tensor, places: Tensor, values: Tensor, width: float) -> tuple[Tensor, Tensor]:
    """Estimate values at `x` from those known at `places` with a Gaussian kernel, computed as attention.

    exp(-(x - p)^2 / 2 width^2) divided by its sum over p is a softmax of (x p - p^2 / 2) / width^2: a product of a
    query (x, 1) and a key (p, -p^2 / 2), because x^2 is the same for all p. x: float [points]; places, values: float
    [known]. Returns float [points], and the weights [points, known].
    """
    query = torch.stack([x, torch.ones_like(x)], dim=-1) * math.sqrt(2) / width**2  # undoes the scale of head_dim 2
    key = torch.stack([places, -places.square() / 2], dim=-1)  # [known, 2]
    smooth, weights = scaled_dot_product(query, key, values[:, None])
    return smooth[:, 0], weights


# -- A dictionary lookup by attention: an unknown key finds keys with similar spelling -------------------------------
#
# `table["jacky"]` is a KeyError; attention weights each key by similarity and returns the weighted mean of the values.
# Similarity is that of spelling: the vectors count character bigrams.


SHARPNESS = 40.0


@dataclass(frozen=True)
class SoftLookup:
    """Result of a soft lookup. weights: of each key; value: the weighted mean."""

    weights: dict[str, float]
    value: float


def soft_lookup(table: Mapping[str, float], key: str, sharpness: float = SHARPNESS) -> SoftLookup:
    """Look up `key` in `table` by attention over its keys.

    sharpness: factor of the similarity before the softmax; 0 returns the mean of all values, a large one the value of
    the most similar key. Raises InputError for an empty table.
    """
    if not table:
        raise InputError("A soft lookup needs a table with at least one key.")
    vectors = spelling_vectors([key, *table])
    query, keys = vectors[:1], vectors[1:]
    values = torch.tensor(list(table.values()), dtype=torch.float64)[:, None]
    value, weights = scaled_dot_product(query * sharpness * keys.shape[1] ** 0.5, keys, values)
    return SoftLookup(dict(zip(table, weights[0].tolist(), strict=True)), float(value))


def spelling_vectors(words: Sequence[str]) -> Tensor:
    """Return a unit vector of character bigram counts, including word boundaries, for each word: float64 [words,
    pairs].
    """
    pairs = [[first + second for first, second in pairwise(f"\n{word}\n")] for word in words]
    place = {pair: index for index, pair in enumerate(dict.fromkeys(pair for own in pairs for pair in own))}
    counts = torch.zeros(len(words), len(place), dtype=torch.float64)
    for row, own in enumerate(pairs):
        for pair in own:
            counts[row, place[pair]] += 1
    return counts / counts.norm(dim=1, keepdim=True)


# -- The masking of one sentence, word by word: which words are selected, and what replaces them ---------------------


MASK = "[MASK]"


def mask_words(words: Sequence[str], vocabulary: Sequence[str], seed: int, rate: float = 0.15) -> AuditedSequence:
    """Mask a sentence of whole words with the masker of training.

    vocabulary: further words for random replacements; seed: random seed; rate: masking probability.
    """
    known = [MASK, *dict.fromkeys([*words, *vocabulary])]
    number = {word: index for index, word in enumerate(known)}
    masker = Masker(0, frozenset({0}), len(known), rate)
    ids = np.array([number[word] for word in words], dtype=np.int64)
    masked = masker(ids, np.array([len(ids)]), generator(seed, "mask demo"))
    labels = {"mlm_positions": torch.from_numpy(masked.positions), "mlm": torch.from_numpy(masked.labels)}
    batch = Batch.from_sequences([masked.input_ids], labels=labels)
    return audit(batch, known.__getitem__, masker.mask_id)[0]


# -- The source of queries, keys and values in the three kinds of attention, found by changing the texts -------------
#
# Vaswani et al. 2017, section 3.2.3: the encoder has self-attention over the source; the decoder has causal
# self-attention over the target, and cross-attention with queries of the decoder and keys and values of the encoder.


SELF, MASKED, ACROSS = "encoder self-attention", "masked decoder self-attention", "decoder-encoder attention"


@dataclass(frozen=True)
class AttentionSources:
    """One kind of attention. query, key, value: "source" or "target", the text that it depends on; hides_later: whether
    no token attends to a later one.
    """

    kind: str
    query: str
    key: str
    value: str
    hides_later: bool


@torch.inference_mode()
def attention_sources(model: EncoderDecoder, source: list[int], target: list[int]) -> list[AttentionSources]:
    """Find the sources of the three kinds in the first layers of a model by changing each text in turn.

    source, target: token IDs, at least two each. In later layers, the target's vectors depend on the source too.
    """
    model = model.eval()
    other_source = [(id + 1) % model.config.vocab_size for id in source]
    other_target = [(id + 1) % model.config.target_vocab_size for id in target]
    plain = _look(model, source, target)
    changed = {"source": _look(model, other_source, target), "target": _look(model, source, other_target)}

    def origin(kind: str, part: str) -> str:
        found = [text for text, seen in changed.items() if not torch.equal(seen[kind, part], plain[kind, part])]
        return " and ".join(found) or "nothing"

    def sources(kind: str) -> AttentionSources:
        query, key, value = (origin(kind, part) for part in ("query", "key", "value"))
        weights = plain[kind, "weights"]
        hides = weights.shape[1] == weights.shape[2] and not bool(weights.triu(1).any())  # every later key has weight 0
        return AttentionSources(kind, query, key, value, hides)

    return [sources(kind) for kind in (SELF, MASKED, ACROSS)]


def _look(model: EncoderDecoder, source: list[int], target: list[int]) -> dict[tuple[str, str], Tensor]:
    """Return queries, keys, values and weights of each kind in the first layers: float [tokens, hidden], weights
    [heads, queries, keys].
    """
    kept: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[[nn.Module, Any, Tensor], None]:
        return lambda module, inputs, output: kept.__setitem__(name, output)

    own, writer = next(model.encoder.in_order), model.decoder.depths[0]
    watched = {
        SELF: own.attention.qkv,
        MASKED: writer.attention.qkv,
        "query": writer.cross.query,
        "key_value": writer.cross.key_value,
    }
    hooks = [part.register_forward_hook(keep(name)) for name, part in watched.items()]
    try:
        read, written = Batch.from_sequences([source]), Batch.from_sequences([target])
        encoded = model.encode(read, attentions=True)
        decoded = model.decode(written, encoded.hidden, read, attentions=True)
    finally:
        for hook in hooks:
            hook.remove()
    assert encoded.attentions and decoded.attentions and decoded.cross_attentions
    weights = (encoded.attentions[0][0], decoded.attentions[0][0], decoded.cross_attentions[0][0])
    found = {(kind, "weights"): own_weights for kind, own_weights in zip((SELF, MASKED, ACROSS), weights, strict=True)}
    for kind in (SELF, MASKED):
        found |= {
            (kind, part): own for part, own in zip(("query", "key", "value"), kept[kind].chunk(3, -1), strict=True)
        }
    key, value = kept["key_value"].chunk(2, dim=-1)
    return found | {(ACROSS, "query"): kept["query"], (ACROSS, "key"): key, (ACROSS, "value"): value}


# -- The variance of attention scores and its effect on the softmax: the reason for the division by sqrt(head_dim) --

SAMPLES = 100_000
PART = 5_000  # pairs of vectors at once


def attention_weights(scores: Tensor, head_dim: int | None = None) -> Tensor:
    """Return softmax(scores / sqrt(head_dim)); each row sums to 1.

    scores: float [..., keys], as is the result; head_dim: None leaves them unscaled.
    """
    return torch.softmax(scores if head_dim is None else scores / math.sqrt(head_dim), dim=-1)


@dataclass(frozen=True)
class Moments:
    """Mean and variance of `count` numbers."""

    mean: float
    variance: float
    count: int

    @property
    def standard_error(self) -> float:
        return math.sqrt(self.variance / self.count)


def moments(values: Tensor) -> Moments:
    """Compute the moments of float [count]."""
    return Moments(float(values.mean()), float(values.var(correction=0)), values.numel())


def normal(count: int, *shape: int, seed: int = 0, purpose: str = "normal") -> Tensor:
    """Draw standard normal numbers, determined by seed and purpose: float64 [count, ...]."""
    return torch.from_numpy(generator(seed, purpose).standard_normal((count, *shape)))


def sampled_scores(head_dim: int, count: int = SAMPLES, seed: int = 0) -> Tensor:
    """Return q . k of `count` pairs of random vectors: float64 [count]."""
    parts = []
    for start in range(0, count, PART):
        size = min(PART, count - start)
        query, key = (normal(size, head_dim, seed=seed, purpose=f"{what} {start} of {head_dim}") for what in "qk")
        parts.append((query * key).sum(dim=-1))
    return torch.cat(parts)


@dataclass(frozen=True)
class Identity:
    """A rule for means and variances, with the value of the formula and of samples."""

    rule: str
    formula: float
    sampled: float


def identities(count: int = SAMPLES, seed: int = 0) -> list[Identity]:
    """Check the rules for Var(q . k) = d for two independent variables with means 1 and -2, variances 4 and 0.25."""
    mean_x, var_x, mean_y, var_y, c = 1.0, 4.0, -2.0, 0.25, 3.0
    x = mean_x + math.sqrt(var_x) * normal(count, seed=seed, purpose="x")
    y = mean_y + math.sqrt(var_y) * normal(count, seed=seed, purpose="y")
    total, product, scaled = moments(x + y), moments(x * y), moments(c * x)
    return [
        Identity("E[X + Y] = E[X] + E[Y]", mean_x + mean_y, total.mean),
        Identity("Var(X + Y) = Var(X) + Var(Y)", var_x + var_y, total.variance),
        Identity("E[XY] = E[X] E[Y]", mean_x * mean_y, product.mean),
        Identity("Var(XY) = (Var(X) + E[X]²)(Var(Y) + E[Y]²) − E[X]² E[Y]²",
                 (var_x + mean_x**2) * (var_y + mean_y**2) - mean_x**2 * mean_y**2, product.variance),
        Identity("Var(cX) = c² Var(X), c = 3", c**2 * var_x, scaled.variance),
    ]  # fmt: skip


def entropy(weights: Tensor) -> Tensor:
    """Entropy of rows of weights, in nats: 0 for one-hot, log(keys) for uniform weights. float [..., keys] to
    [...]...].
    """
    return torch.special.entr(weights).sum(dim=-1)


def softmax_slope(weights: Tensor) -> Tensor:
    """Sensitivity of the softmax to its scores: the Frobenius norm of the Jacobian diag(p) - p p^T.

    weights: float [..., keys], of a softmax. Returns float [...]; 0 where it is saturated.
    """
    jacobian = torch.diag_embed(weights) - weights[..., :, None] * weights[..., None, :]  # [..., keys, keys]
    return torch.linalg.matrix_norm(jacobian)


@dataclass(frozen=True)
class Saturation:
    """Mean entropy and slope of the softmax over random keys, for unscaled and scaled scores."""

    head_dim: int
    entropy: float
    slope: float
    scaled_entropy: float
    scaled_slope: float


def saturation(head_dim: int, num_keys: int = 16, num_queries: int = 2_000, seed: int = 0) -> Saturation:
    """Measure the softmax of random queries over `num_keys` random keys of `head_dim` components."""
    scores = sampled_scores(head_dim, num_queries * num_keys, seed).view(num_queries, num_keys)
    plain, scaled = attention_weights(scores), attention_weights(scores, head_dim)
    measured = [float(measure(weights).mean()) for weights in (plain, scaled) for measure in (entropy, softmax_slope)]
    return Saturation(head_dim, *measured)


# -- Costs: FLOPs of published training runs, and of layers by text length --------------------------------------------
#
# The timed operations of a layer are those that Vaswani et al. 2017, table 1, count: attention without projections, one
# matrix product per step of an Elman cell, one convolution.


TERA = 1e12
DAY = 86_400.0
TPU_V3 = 123 * TERA  # per chip: Google Cloud TPU v3 documentation
P100_SUSTAINED = 9.5 * TERA  # assumed by Vaswani et al. 2017, footnote 5
FILTER, WINDOW = 3, 16  # width of the convolution, and of restricted attention
REPEATS = 5
MIN_SECONDS = 0.02  # of one timing: shorter calls are repeated


def budget(devices: int, peak: float, seconds: float) -> float:
    """Return the FLOPs of `devices` at their peak, as papers report training cost."""
    return devices * peak * seconds


def transformer_count(hidden: int, inner: int, steps: float, vocab_size: int = 37_000, batch: float = 25_000) -> float:
    """Return training FLOPs of the original encoder-decoder, with `batch` source and target tokens per step.

    6 layers each; attention assumes sentences of 25 tokens, where its cost is negligible; every target is scored.
    """
    encoder, decoder = layer_entries(hidden, inner), layer_entries(hidden, inner, cross=True)
    length = 25
    attention = 4 * hidden * (length + (length + 1) / 2 + length)  # encoder, decoder, cross-attention
    token = 6 * (2 * (encoder + decoder) + attention) + 2 * hidden * vocab_size
    return TRAINING_PASSES * steps * batch * token


def bert_work(name: str) -> float:
    """Return the FLOPs of the original BERT run: 1,000,000 steps of 256 sequences, 90% of length 128, 10% of 512."""
    return sum(
        steps * 256 * length * workload_of(PlanConfig(preset=name, max_length=length)).flops().total
        for steps, length in ((9e5, 128), (1e5, 512))
    )


@dataclass(frozen=True)
class Kind:
    """A row of the published table: complexity per layer, sequential operations, maximum path length."""

    name: str
    cost: str
    sequential: str
    path: str
    power: int  # exponent of n

    def flops(self, n: int, d: int, k: int, r: int) -> float:
        return {
            "self-attention": 4.0 * n * n * d,  # scores and weighted sums
            "recurrent": 4.0 * n * d * d,  # input and recurrent products
            "convolutional": 2.0 * k * n * d * d,
            "restricted attention": 4.0 * r * n * d,
        }[self.name]


KINDS = (
    Kind("self-attention", "n^2 d", "1", "1", 2),
    Kind("recurrent", "n d^2", "n", "n", 1),
    Kind("convolutional", "k n d^2", "1", "log_k n", 1),
    Kind("restricted attention", "r n d", "1", "n / r", 1),
)


def power(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Fit b of cost = a size^b by least squares in log-log space, from at least two points."""
    return float(np.polyfit(np.log(np.asarray(sizes, float)), np.log(np.asarray(costs, float)), 1)[0])


def measure(lengths: Sequence[int], width: int) -> dict[str, list[float]]:
    """Time the forward pass of one layer of each kind on a sequence of each length, in seconds.

    lengths: multiples of WINDOW.
    """
    found = {}
    with torch.inference_mode():
        for kind in KINDS:
            layer = _layer(kind.name, width, FILTER, WINDOW)
            inputs = [torch.randn(n, width, generator=torch.Generator().manual_seed(n)) for n in lengths]
            found[kind.name] = [_time(partial(layer, one)) for one in inputs]
    return found


def _layer(name: str, width: int, filter_width: int, window: int) -> Callable[[Tensor], Tensor]:
    """Build one layer, from float [tokens, width] to the same shape."""
    if name == "self-attention":
        return lambda x: torch.softmax(x @ x.T * width**-0.5, dim=-1) @ x
    if name == "restricted attention":
        return lambda x: _in_blocks(x, window)
    if name == "convolutional":
        source = torch.Generator().manual_seed(filter_width)
        filters = torch.randn(width, width, filter_width, generator=source) * width**-0.5
        return lambda x: F.conv1d(x.T[None], filters, padding=filter_width // 2)[0].T
    layer = RecurrentLayer("rnn", width, width)
    for field, parameter in layer.kernel.named_parameters():
        fill_recurrent(layer.kernel, field, parameter, torch.Generator().manual_seed(0))
    return lambda x: layer(x, PackedRecurrence([len(x)], x.device))[0]


def _in_blocks(x: Tensor, window: int) -> Tensor:
    """Apply attention within blocks of `window` tokens. x and result: float [tokens, width]."""
    blocks = x.view(-1, window, x.shape[1])
    weights = torch.softmax(blocks @ blocks.mT * x.shape[1] ** -0.5, dim=-1)
    return (weights @ blocks).reshape(x.shape)


def _time(run: Callable[[], Tensor]) -> float:
    """Return the median seconds of one call, after a warm-up."""

    def once(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            run()
        return (time.perf_counter() - start) / count

    count = max(int(MIN_SECONDS / max(min(once(1), once(1)), 1e-9)), 1)
    return statistics.median(once(count) for _ in range(REPEATS))


def own_lengths(length: int) -> tuple[int, ...]:
    """Return lengths up to this one to measure, multiples of WINDOW."""
    found = {max(length // part // WINDOW, 1) * WINDOW for part in (8, 4, 2, 1)}
    return tuple(sorted(found | {WINDOW, 2 * WINDOW, 4 * WINDOW}))
