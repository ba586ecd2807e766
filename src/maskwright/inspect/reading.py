"""Tokenizes a text and runs a forward pass that returns hidden states and attention weights.

The pass uses the explicit attention implementation, which returns weights; tests verify that its outputs equal those of
the fused kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..core.errors import InputError
from ..data.batch import Batch
from ..inference.ready import room_of
from ..models.decoder import Decoded
from ..models.decoding.search import Beams
from ..models.decoding.translation import start_token
from ..models.encoder_decoder import EncoderDecoder
from ..models.model import Model, tokenizer_of
from ..models.transformer import Encoded
from ..tasks.translation import Translation, end_id
from ..text.readers.inputs import Text
from .tokens import Tokens, source_tokens, target_tokens, tokens_of, written_tokens

# -- Captures inputs and outputs of modules in call order with forward hooks -----------------------------------------


@contextmanager
def calls_of(modules: Iterable[nn.Module]) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Collect (input, output) of every call of `modules` within the block: float [tokens, size] each.

    A layer with shared weights is called and recorded once per depth.
    """
    found: list[tuple[Tensor, Tensor]] = []

    def record(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        found.append((inputs[0].detach(), output.detach()))

    handles = [module.register_forward_hook(record) for module in dict.fromkeys(modules)]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


@dataclass(frozen=True, eq=False)
class TokenizedText:
    """A tokenized text with its model.

    source: tokens; target: decoder tokens of an encoder-decoder, else None; is_given: False if the model generated the
    target.
    """

    model: Model
    source: Tokens
    target: Tokens | None = None
    is_given: bool = True

    def batch(self) -> Batch:
        """Return the source as a batch of one on the model's device."""
        return _pack(self.model, self.source)

    def target_batch(self) -> Batch:
        """Return the target as a batch of one. Raises InputError if there is none."""
        if self.target is None:
            raise InputError("This model has no decoder.")
        return _pack(self.model, self.target)

    def run(self) -> tuple[Encoded, Decoded | None]:
        """Return hidden states and attention weights of all layers; weights are None without attention."""
        batch = self.batch()
        encoded = self.model.encode(batch, hidden_states=True, attentions=self.model.config.attends)
        if self.target is None or not isinstance(self.model, EncoderDecoder):
            return encoded, None
        wanted = {"hidden_states": True, "attentions": True}
        return encoded, self.model.decode(self.target_batch(), encoded.hidden, batch, **wanted)


def read(
    model: Model, text: Text, *, target: str | None = None, max_length: int | None = None, beams: int = 1
) -> TokenizedText:
    """Tokenize a text or pair, and the target of an encoder-decoder.

    target: decoder text, None to generate it with beam size `beams`. Longer texts than `max_length` (None: the model's
    maximum) are truncated with a warning. Sets the model to evaluation mode. Raises InputError for a text without
    tokens, and for a target without a decoder.
    """
    model.eval()
    tokenizer = tokenizer_of(model)
    most = room_of(model, max_length)
    if not isinstance(model, EncoderDecoder):
        if target is not None:
            raise InputError("A target requires an encoder-decoder: remove it, or pass a text pair.")
        return TokenizedText(model, tokens_of(model, tokenizer, text, most))
    if not isinstance(text, str):
        raise InputError("An encoder-decoder reads a single text: pass the second text as the target.")
    source = source_tokens(tokenizer, text, end_id(tokenizer), most)
    own, start = model.target_tokenizer or tokenizer, start_token(model)
    if target is not None:
        side = source_tokens(own, target, end_id(own), most)
        return TokenizedText(model, source, target_tokens(own, side, start))
    if model.head is None:
        raise InputError("This model has no generation head: pass a target.")
    ids = np.array(source.ids, dtype=np.int32)
    grown = Translation().generate(model, [ids], Beams(beams), None)[0][0]
    end = model.config.eos_token_id if model.config.eos_token_id is not None else end_id(own)
    return TokenizedText(model, source, written_tokens(own, grown.ids, start, end, grown.is_ended), is_given=False)


def _pack(model: Model, tokens: Tokens) -> Batch:
    types = [list(tokens.types)] if any(tokens.types) else None
    batch = Batch.from_sequences([list(tokens.ids)], types)
    device: torch.device = model.word_embeddings.device
    return batch.to(device)
