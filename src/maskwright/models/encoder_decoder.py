"""Encoder-decoder models: the original Transformer (Vaswani et al. 2017), or two recurrent networks with or without
attention between them (Sutskever et al. 2014; Bahdanau et al. 2015).

Packed calls: `encode` the sources, `decode` the targets, `mlm_logits` for the next tokens. Padded call (`forward`): as
in transformers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core.config import check
from ..core.errors import InputError
from ..data.batch import Batch
from ..nn.embeddings import Table
from ..nn.layers import ACTIVATIONS, Linear
from .config import ModelConfig
from .decoder import Decoded, Decoder, decoder_config
from .model import Model
from .padded import ModelOutput, PaddedRows
from .pretraining_heads import MaskedLanguageModelHead
from .recurrent import RecurrentTargetDecoder

if TYPE_CHECKING:
    from ..text.tokenizers.tokenizer import Tokenizer
    from .decoding.rules import StartedDecoder

IGNORED = -100  # label without loss


class TargetHead(MaskedLanguageModelHead):
    """Next-token prediction in the target: the target embedding table, and a bias per token."""

    def __init__(self, config: ModelConfig) -> None:
        check(
            config.num_decoder_layers > 0,
            "Head seq2seq needs a decoder, which this network does not have: use one that does (preset "
            "transformer-mini, a Marian or BART folder, num_decoder_layers), or another head.",
        )
        nn.Module.__init__(self)
        vocab, size = config.target_vocab_size, config.hidden_size
        self.dense = self.norm = None
        self.bias = nn.Parameter(torch.empty(vocab))
        self.decoder = None if config.tie_word_embeddings else nn.Parameter(torch.empty(vocab, size))
        self.act = ACTIVATIONS[config.hidden_act]


class EncoderDecoder(Model):
    """A model with a decoder. head: "seq2seq", or None for the bare network.

    decoder: the decoder stack; target_tokenizer: of the targets if they have a separate vocabulary, else None.
    """

    has_decoder: ClassVar[bool] = True

    def __init__(
        self, config: ModelConfig, head_name: str | None = None, *, labels: Sequence[str] | int | None = None
    ) -> None:
        check(
            head_name in (None, "seq2seq"),
            f"An encoder-decoder does not support head '{head_name}': use seq2seq or none. Train it with "
            "maskwright finetune translation.",
        )
        super().__init__(config, head_name, labels=labels, with_pooler=False)
        self.decoder = (
            Decoder(decoder_config(config))
            if config.recurrent is None
            else cast("Decoder", RecurrentTargetDecoder(config))
        )
        if config.decoder_vocab_size is None:
            self.decoder.embeddings.word = self.encoder.embeddings.word
        self.target_tokenizer: Tokenizer | None = None
        if config.scale_embeddings:
            self._draw_as_published()

    def _draw_as_published(self) -> None:
        """Sets the initial weights as published: tables with deviation hidden ** -0.5, which the scale brings to 1;
        matrices after Glorot and Bengio 2010, equation 16.
        """
        usual = self.config.initializer_range
        for name, part in self.named_modules():
            if isinstance(part, Table):
                part.spread = part.weight.shape[1] ** -0.5 / usual
            elif isinstance(part, Linear):
                joined = {"qkv": 3, "key_value": 2}.get(name.rpartition(".")[2], 1)
                size = part.weight.shape[1] + part.weight.shape[0] // joined
                part.spread *= (2 / size) ** 0.5 / usual

    @property
    def scored_words(self) -> Tensor:
        """The target embedding table: float [vocab, size]."""
        return self.decoder.embeddings.word.weight

    def decode(
        self,
        target: Batch,
        memory: Tensor,
        source: Batch,
        *,
        hidden_states: bool = False,
        attentions: bool = False,
    ) -> Decoded:
        """Decodes a pack of targets, each beginning with the start token: `.hidden` [tokens, hidden].

        memory: float [source tokens, hidden] from `encode(source)`. Raises InputError for ids or lengths out of range.
        """
        if target.input_ids.device.type == "cpu":
            self.check_target(target, source)
        return self.decoder.decode(
            target, memory, source, self.compute_dtype, hidden_states=hidden_states, attentions=attentions
        )

    def own_target_decoder(self, source: Batch, max_new_tokens: int) -> StartedDecoder | None:
        """As `own_decoder`, for the targets of `source`, one per row."""
        return None

    def check_target(self, target: Batch, source: Batch) -> None:
        """Raises InputError for targets that do not match the decoder or the sources."""
        if len(target) != len(source) or 0 in source.lengths:
            raise InputError(f"{len(target)} targets need as many non-empty sources; got {len(source)}.")
        if not target.num_tokens:
            return
        longest, most = max(target.lengths), self.config.max_position_embeddings
        if longest > most:
            raise InputError(f"A target has {longest:,} tokens; this model supports at most {most:,}: truncate it.")
        lowest, highest = (int(value) for value in torch.aminmax(target.input_ids))
        if lowest < 0 or highest >= self.config.target_vocab_size:
            wrong = lowest if lowest < 0 else highest
            raise InputError(
                f"Token id {wrong:,} is not in the vocabulary of the targets, "
                f"0 to {self.config.target_vocab_size - 1:,}."
            )

    # -- padded ----------------------------------------------------------------------------------------------

    def forward(  # type: ignore[override]  # transformers' names of a decoder's arguments
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> ModelOutput:
        """The padded call, in transformers' names and shapes.

        input_ids, attention_mask, token_type_ids: int [batch, seq]; decoder_input_ids, decoder_attention_mask, labels:
        int [batch, target seq]; labels of -100 are ignored. By default decoder_input_ids are the labels, or else the
        input, shifted right after the start token. Only right padding is supported; it is 0 in the output. Raises
        InputError.
        """
        if labels is not None and self.head is None:
            raise InputError("A bare network has no loss for labels: load or build it with head seq2seq.")
        if decoder_input_ids is None:
            decoder_input_ids, decoder_attention_mask = self._shifted(labels, input_ids, attention_mask)
        source = _packed(input_ids, attention_mask, token_type_ids)
        target = _packed(decoder_input_ids, decoder_attention_mask, None)
        shown = output_attentions and self.config.attends
        encoded = self.encode(source.batch, hidden_states=output_hidden_states, attentions=shown)
        decoded = self.decode(
            target.batch,
            encoded.hidden,
            source.batch,
            hidden_states=output_hidden_states,
            attentions=output_attentions,
        )
        logits = loss = None
        if self.head is not None:
            logits = target.spread_tokens(self.mlm_logits(decoded.hidden))
        if logits is not None and labels is not None:
            if labels.shape != decoder_input_ids.shape:
                raise InputError(f"labels are {list(labels.shape)}, the targets {list(decoder_input_ids.shape)}.")
            loss = F.cross_entropy(logits.float().flatten(0, 1), labels.flatten().long(), ignore_index=IGNORED)

        def states(own: tuple[Tensor, ...] | None, rows: PaddedRows) -> tuple[Tensor, ...] | None:
            return None if own is None else tuple(map(rows.spread_tokens, own))

        def weights(
            own: tuple[tuple[Tensor, ...], ...] | None, rows: PaddedRows, keys: PaddedRows
        ) -> tuple[Tensor, ...] | None:
            return None if own is None else tuple(rows.spread_attention(one, len(one[0]), keys) for one in own)

        return ModelOutput(
            target.spread_tokens(decoded.hidden),
            loss=loss,
            logits=logits,
            decoder_hidden_states=states(decoded.hidden_states, target),
            decoder_attentions=weights(decoded.attentions, target, target),
            cross_attentions=weights(decoded.cross_attentions, target, source),
            encoder_last_hidden_state=source.spread_tokens(encoded.hidden),
            encoder_hidden_states=states(encoded.hidden_states, source),
            encoder_attentions=weights(encoded.attentions, source, source),
        )

    def _shifted(self, labels: Tensor | None, input_ids: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The input shifted right for labels, or for the input itself, and its mask."""
        start = self.config.decoder_start_token_id
        if start is None:
            raise InputError("The model has no decoder_start_token_id: pass decoder_input_ids.")
        wanted = input_ids if labels is None else labels
        counts = mask if labels is None else (labels != IGNORED).long()
        if labels is None and self.config.decoder_vocab_size is not None:
            raise InputError("Source and target have separate vocabularies: pass decoder_input_ids or labels.")
        before = torch.full_like(wanted[:, :1], start)
        return torch.cat([before, wanted[:, :-1].clamp(min=0)], dim=1), counts


def _packed(ids: Tensor, mask: Tensor | None, types: Tensor | None) -> PaddedRows:
    """Packs rows of int [batch, seq] without their right padding."""
    rows = PaddedRows(ids, mask, types, sort=False)
    if rows.batch.places is not None or len(rows.rows) < len(ids) or not bool(rows.keep[:, :1].all()):
        raise InputError("An encoder-decoder needs non-empty rows with padding on the right only.")
    return rows
