"""The baseline: torch.nn.Transformer over padded rows, trained by the product's loop on the same batches.

recipes/multi30k.py compares it with the product: the network, its training as a job of the loop, and a decoder for the
product's beam search, which recomputes the whole row in each step, because torch's network has no key-value cache.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from maskwright.data.batch import Batch
from maskwright.models.config import ModelConfig
from maskwright.nn.positions import sinusoidal_positions
from maskwright.objectives.outcome import LossSums
from maskwright.train.finetuning.job import FinetuneJob


class PlainTransformer(nn.Module):
    """torch.nn.Transformer with one table for both sides and the output, and fixed sinusoids. precision: `bf16` trains
    under torch.autocast (torch's fast path for inference rejects it).
    """

    def __init__(self, config: ModelConfig, precision: str = "fp32") -> None:
        super().__init__()
        self.half = precision == "bf16"
        size = config.hidden_size
        self.words = nn.Embedding(config.vocab_size, size)
        nn.init.normal_(self.words.weight, std=size**-0.5)
        self.network = nn.Transformer(
            size,
            config.num_attention_heads,
            config.num_hidden_layers,
            config.num_decoder_layers,
            config.intermediate_size,
            config.hidden_dropout,
            batch_first=True,
        )
        self.register_buffer("places", sinusoidal_positions(config.max_position_embeddings, size), persistent=False)
        self.dropout = nn.Dropout(config.hidden_dropout)
        self.scale = size**0.5

    def forward(self, source: Tensor, target: Tensor, no_source: Tensor, no_target: Tensor) -> Tensor:
        """source, target: int64 [batch, seq]; no_source, no_target: bool of the same shapes, padding. Returns logits
        [batch, target seq, vocab].
        """
        return self.write(target, self.read(source, no_source), no_source, no_target)

    def read(self, source: Tensor, no_source: Tensor) -> Tensor:
        """float [batch, seq, hidden] of the sources."""
        with self._autocast():
            memory: Tensor = self.network.encoder(self._embed(source), src_key_padding_mask=no_source)
        return memory

    def write(self, target: Tensor, memory: Tensor, no_source: Tensor, no_target: Tensor | None = None) -> Tensor:
        """Return logits [batch, target seq, vocab] of targets, given the sources."""
        with self._autocast():
            hidden = self.network.decoder(
                self._embed(target),
                memory,
                tgt_mask=nn.Transformer.generate_square_subsequent_mask(
                    target.shape[1], device=target.device, dtype=torch.bool
                ),
                tgt_key_padding_mask=no_target,
                memory_key_padding_mask=no_source,
                tgt_is_causal=True,
            )
            return F.linear(hidden, self.words.weight)

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.words.weight.device.type, torch.bfloat16, enabled=self.half and self.training)

    def _embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.words(ids) * self.scale + self.places[: ids.shape[1]])


class PlainJob(FinetuneJob):
    """The same rows in the same batches, for the other network. It ends with the mean of its last weights."""

    def outcome(self, batch: Batch) -> LossSums:
        """Return summed loss and correct predictions, as the product counts them."""
        source, target, no_source, no_target = padded(batch)
        logits = self.model(source, target, no_source, no_target)[~no_target]
        words = batch.labels["words"]
        loss = F.cross_entropy(logits.float(), words, reduction="sum", label_smoothing=self.task.label_smoothing)
        right = (logits.detach().argmax(dim=-1) == words).sum()
        return LossSums({self.task.name: loss}, self.counts(batch), {self.task.name: right})

    def scores(self) -> tuple[dict[str, float], list[float]]:
        """Loss of the held-back pairs; the lower the better."""
        total, tokens = 0.0, 0
        with torch.inference_mode():
            for start in range(0, len(self.dev), 64):
                batch = self.dev.batch(range(start, min(start + 64, len(self.dev)))).to(self.device)
                source, target, no_source, no_target = padded(batch)
                logits = self.model(source, target, no_source, no_target)[~no_target]
                total += float(F.cross_entropy(logits.float(), batch.labels["words"], reduction="sum"))
                tokens += len(logits)
        return {"loss": total / tokens}, [-total / tokens]


class PlainDecoder:
    """Decoder of the plain network for `models.decoding.search.search_beams`."""

    def __init__(self, network: PlainTransformer, sources: list[Tensor], start_id: int) -> None:
        self.network, self.start_id = network, start_id
        self.source, self.no_source = pad_rows(sources)

    @torch.inference_mode()
    def start(self) -> Tensor:
        """float32 [rows, vocab] of the first token."""
        self.memory = self.network.read(self.source, self.no_source)
        self.written = self.source.new_zeros(len(self.source), 0)
        return self.step(self.source.new_full((len(self.source),), self.start_id))

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> Tensor:
        """float32 [rows, vocab] of the token after `tokens`, int64 [rows]."""
        self.written = torch.cat([self.written, tokens[:, None]], dim=1)
        return self.network.write(self.written, self.memory, self.no_source)[:, -1].float()

    def keep(self, rows: Tensor, *, same_texts: bool = False) -> None:
        """Keep these rows, int64 [kept]."""
        self.written, self.memory = self.written[rows], self.memory[rows]
        self.no_source = self.no_source[rows]


def padded(batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Source and target as padded rows int64 [batch, seq], and where nothing stands."""
    assert batch.target is not None
    sides = [pad_rows(list(one.input_ids.split(one.lengths))) for one in (batch, batch.target)]
    return sides[0][0], sides[1][0], sides[0][1], sides[1][1]


def pad_rows(rows: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Rows of tokens as int64 [batch, seq], and where nothing stands."""
    own = nn.utils.rnn.pad_sequence([row.long() for row in rows], batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    return own, (torch.arange(own.shape[1]) >= lengths[:, None]).to(own.device)
