"""Compare LSTMs with plain torch.nn.LSTM code of the same sizes: a language model and a tagger, inference and training.

python benchmarks/recurrent.py                            2 layers of 256 and 512; 8 and 32 streams, or texts
python benchmarks/recurrent.py --threads 1 --hidden 256 --streams 32
python benchmarks/recurrent.py --quick                    a small network, two turns

Both have the same weights and the same dropout, read the same random tokens, and take a step of the same AdamW with
gradient clipping. The language models carry their state across segments; inference computes the loss of every next
byte. The taggers are bidirectional; their texts have 5 to 40 tokens, which the plain code packs (pack_padded_sequence).

They alternate, and the order changes in every turn. Times are medians; the ratio is the median over turns, above 1 if
we are faster. "apart" is the difference of the two mean losses in the first turn; in training they differ because of
dropout.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from maskwright.data.batch import Batch
from maskwright.data.in_memory import TextsInMemory
from maskwright.models.build import build
from maskwright.models.model import Model
from maskwright.models.presets import preset
from maskwright.objectives.base import Recipe
from maskwright.objectives.causal import ContiguousStreams, StatefulCausalLM, StreamBatches
from maskwright.objectives.masked import special_tokens
from maskwright.train.optimizer import adamw

BYTES, LAYERS, STRETCH = 261, 2, 100
WORDS, TAGS = 8000, 9
LR, WEIGHT_DECAY, CLIP = 2e-3, 0.01, 1.0
Work = Callable[[Batch], float]  # gives the mean loss


class PlainLanguageModel(nn.Module):
    """What one would write by hand, with the weights of ours."""

    def __init__(self, ours: Model) -> None:
        super().__init__()
        hidden, dropout = ours.config.hidden_size, ours.config.hidden_dropout
        self.embedding = nn.Embedding(BYTES, hidden)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(hidden, hidden, LAYERS, batch_first=True, dropout=dropout)
        self.dense = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden, eps=ours.config.layer_norm_eps)
        self.decoder = nn.Linear(hidden, BYTES)
        self.decoder.weight = self.embedding.weight
        self.memory: tuple[Tensor, Tensor] | None = None
        weights = ours.state_dict()
        own = {
            "embedding.weight": weights["encoder.embeddings.word.weight"],
            "decoder.weight": weights["encoder.embeddings.word.weight"],
            "decoder.bias": weights["head.bias"],
            **{
                name: weights[f"head.{name}"]
                for part in ("dense", "norm")
                for name in (f"{part}.weight", f"{part}.bias")
            },
            **{
                f"lstm.{kind}_l{layer}": weights[f"encoder.stack.layers.{layer}.kernel.{kind}_l0"]
                for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
                for layer in range(LAYERS)
            },
        }
        self.load_state_dict(own)

    def forward(self, ids: Tensor, wanted: Tensor) -> Tensor:
        """Return the mean loss of the next bytes. ids, wanted: int64 [streams, segment]."""
        hidden, memory = self.lstm(self.dropout(self.embedding(ids)), self.memory)
        self.memory = (memory[0].detach(), memory[1].detach())
        hidden = self.norm(functional.gelu(self.dense(self.dropout(hidden))))
        return functional.cross_entropy(self.decoder(hidden).flatten(0, 1), wanted.flatten())


class PlainTagger(nn.Module):
    """What one would write by hand, with the weights of ours."""

    def __init__(self, ours: Model) -> None:
        super().__init__()
        hidden, dropout = ours.config.hidden_size, ours.config.hidden_dropout
        self.embedding = nn.Embedding(WORDS, hidden)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(hidden, hidden // 2, LAYERS, batch_first=True, dropout=dropout, bidirectional=True)
        self.classifier = nn.Linear(hidden, TAGS)
        weights = ours.state_dict()
        own = {
            "embedding.weight": weights["encoder.embeddings.word.weight"],
            **{f"classifier.{name}": weights[f"head.classifier.{name}"] for name in ("weight", "bias")},
            **{
                f"lstm.{kind}_l{layer}{end}": weights[f"encoder.stack.layers.{layer}.kernel.{kind}_l0{end}"]
                for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
                for layer in range(LAYERS)
                for end in ("", "_reverse")
            },
        }
        self.load_state_dict(own)

    def forward(self, ids: Tensor, lengths: Tensor, wanted: Tensor) -> Tensor:
        """The mean loss of the tags. ids, wanted: int64 [texts, longest], -100 for no tag; lengths: int64 [texts]."""
        packed = pack_padded_sequence(
            self.dropout(self.embedding(ids)), lengths, batch_first=True, enforce_sorted=False
        )
        hidden, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return functional.cross_entropy(self.classifier(self.dropout(hidden)).flatten(0, 1), wanted.flatten())


class Texts:
    """Batches of texts of 5 to 40 random tokens, each with a tag."""

    def __init__(self, count: int) -> None:
        self.count = count

    def batch(self, turn: int, number: int) -> Batch:
        """The batch of a turn. Labels: "tags", int64 [tokens]."""
        draw = np.random.default_rng((turn, number))
        lengths = draw.integers(5, 41, size=self.count)
        tags = torch.from_numpy(draw.integers(0, TAGS, size=lengths.sum()))
        return Batch.from_sequences([draw.integers(5, WORDS, size=length) for length in lengths]).with_labels(tags=tags)


def main() -> None:
    """Measure and print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="a small network, two turns")
    options.add_argument("--hidden", type=int, nargs="+", default=[256, 512])
    options.add_argument("--streams", type=int, nargs="+", default=[8, 32])
    options.add_argument("--turns", type=int, default=15)
    options.add_argument("--threads", type=int, default=torch.get_num_threads())
    chosen = options.parse_args()
    if chosen.quick:
        chosen.hidden, chosen.streams, chosen.turns = [32], [4], 2
    torch.set_num_threads(chosen.threads)
    print(f"threads: {chosen.threads}; torch {torch.__version__}; {LAYERS} layers, segments of {STRETCH} bytes")
    print(
        "| mode | hidden | streams or texts | ours, ms | theirs, ms | ours, tokens/s | theirs, tokens/s | ratio | apart |"  # noqa: E501
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for hidden in chosen.hidden:
        for streams in chosen.streams:
            compare_language_models(hidden, streams, chosen.turns)
    for hidden in chosen.hidden:
        for texts in chosen.streams:
            compare_taggers(hidden, texts, chosen.turns)


def compare_taggers(hidden: int, texts: int, turns: int) -> None:
    """Print the rows of one size: reading, then training."""
    torch.manual_seed(0)
    config = preset("bilstm-small", vocab_size=WORDS, hidden_size=hidden, num_hidden_layers=LAYERS)
    ours = build(config, head="tagging", labels=TAGS)
    plain = PlainTagger(ours)

    def loss_of_ours(batch: Batch) -> Tensor:
        return functional.cross_entropy(ours.logits(batch), batch.labels["tags"])

    def loss_of_plain(batch: Batch) -> Tensor:
        lengths = torch.tensor(batch.lengths)
        ids, wanted = (
            pad_sequence(list(one.split(batch.lengths)), batch_first=True, padding_value=blank)
            for one, blank in ((batch.input_ids, 0), (batch.labels["tags"], -100))
        )
        return plain(ids, lengths, wanted)

    works = works_of((ours, loss_of_ours), (plain, loss_of_plain))
    for name, sides in works.items():
        print(f"| tagger, {name} | {hidden} | {texts} | {row(sides, Texts(texts), turns)} |", flush=True)


def compare_language_models(hidden: int, streams: int, turns: int) -> None:
    """Print the rows of one size: reading, then training."""
    torch.manual_seed(0)
    config = preset("lstm-small", vocab_size=BYTES, hidden_size=hidden, num_hidden_layers=LAYERS)
    ids = np.random.default_rng(0).integers(5, BYTES, size=streams * STRETCH * (2 * turns + 4))
    recipe = Recipe(0, 1, special_tokens(range(5), BYTES), STRETCH, frames=False)
    objective = StatefulCausalLM(recipe)
    batches = StreamBatches(ContiguousStreams(TextsInMemory([[ids]]), np.arange(1), recipe, streams, None))
    ours = objective.network(config, 0)
    plain = PlainLanguageModel(objective.final_model(ours))

    def loss_of_ours(batch: Batch) -> Tensor:
        return objective.outcome(ours, batch).losses["clm"] / len(batch.labels["clm"])

    works = works_of((ours, loss_of_ours), (plain, lambda batch: plain(*in_rows(batch))))
    for name, sides in works.items():
        plain.memory = None
        print(f"| language model, {name} | {hidden} | {streams} | {row(sides, batches, turns)} |", flush=True)


def works_of(*sides: tuple[nn.Module, Callable[[Batch], Tensor]]) -> dict[str, tuple[Work, ...]]:
    """PackedRecurrence and a step of training of each side. sides: a model, and the mean loss of a batch."""

    def reader(model: nn.Module, loss_of: Callable[[Batch], Tensor]) -> Work:
        def read(batch: Batch) -> float:
            model.eval()
            with torch.inference_mode():
                return float(loss_of(batch))

        return read

    def learner(model: nn.Module, loss_of: Callable[[Batch], Tensor]) -> Work:
        optimizer = adamw(model, LR, WEIGHT_DECAY)

        def learn(batch: Batch) -> float:
            model.train()
            loss = loss_of(batch)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            optimizer.zero_grad()
            return float(loss.detach())

        return learn

    return {"reading": tuple(reader(*side) for side in sides), "training": tuple(learner(*side) for side in sides)}


def in_rows(batch: Batch) -> tuple[Tensor, Tensor]:
    """Return inputs and targets: int64 [streams, segment] each."""
    shape = (len(batch), -1)
    return batch.input_ids.view(shape), batch.labels["clm"].view(shape)


def row(sides: Sequence[Work], batches: StreamBatches | Texts, turns: int) -> str:
    """The figures of one work, in turn on the same stretches."""
    seconds: tuple[list[float], list[float]] = ([], [])
    apart: list[float] = []
    for turn in range(turns + 1):
        batch = batches.batch(turn, 0)
        found = [0.0, 0.0]
        for side in (0, 1) if turn % 2 else (1, 0):
            start = time.perf_counter()
            found[side] = sides[side](batch)
            if turn:  # the first warms
                seconds[side].append(time.perf_counter() - start)
        apart.append(abs(found[0] - found[1]))
    tokens = batch.num_tokens
    ours, plain = map(median, seconds)
    ratio = median(theirs / own for own, theirs in zip(*seconds, strict=True))
    return (
        f"{1000 * ours:.1f} | {1000 * plain:.1f} | {tokens / ours:,.0f} | {tokens / plain:,.0f} | {ratio:.2f} | "
        f"{apart[0]:.1e}"
    )


if __name__ == "__main__":
    main()
