"""One text as a model reads it: its tokens, and one pass through the network that keeps what is to be looked at.

The pass takes the explicit product of attention, which can show its weights; everything else in the product goes on
with the fused kernels, and the tests hold both to the same outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..core.errors import InputError
from ..data.batch import Batch
from ..inference.ready import room_of, tokenizer_of
from ..models.decoder import Decoded
from ..models.decoding.beam import Beams
from ..models.decoding.translating import start_token
from ..models.encoder_decoder import EncoderDecoder
from ..models.model import Model
from ..models.transformer import Encoded
from ..tasks.translation import Translation
from ..tasks.translation_examples import end_id
from ..text.inputs import Text
from .tokens import Tokens, source_tokens, target_tokens, tokens_of, written_tokens


@dataclass(frozen=True, eq=False)
class Reading:
    """A text that a model is given. source: its tokens; target: of an encoder-decoder, what its decoder is given and
    writes, else None; is_given: whether that text was given, or written by the model.
    """

    model: Model
    source: Tokens
    target: Tokens | None = None
    is_given: bool = True

    def batch(self) -> Batch:
        """The source as a pack of one, on the model's device."""
        return _pack(self.model, self.source)

    def target_batch(self) -> Batch:
        """The target as a pack of one. Raises InputError where there is none."""
        if self.target is None:
            raise InputError("This model writes no second text.")
        return _pack(self.model, self.target)

    def run(self) -> tuple[Encoded, Decoded | None]:
        """Hidden states and attention weights of all layers, by the explicit path, with the model as it stands.

        What attends to nothing, such as a recurrent encoder, has None instead of weights.
        """
        batch = self.batch()
        encoded = self.model.encode(batch, hidden_states=True, attentions=self.model.config.attends)
        if self.target is None or not isinstance(self.model, EncoderDecoder):
            return encoded, None
        wanted = {"hidden_states": True, "attentions": True}
        return encoded, self.model.decode(self.target_batch(), encoded.hidden, batch, **wanted)


def read(
    model: Model, text: Text, *, target: str | None = None, max_length: int | None = None, beams: int = 1
) -> Reading:
    """The tokens of a text or a pair, and of an encoder-decoder its target too.

    target: the second text, None for what the model writes itself, with so many `beams`. What is longer than
    `max_length` (None: what the model takes) is cut, and that is told. The model goes into evaluation mode. Raises
    InputError for a text without tokens, and for a target where the model writes none.
    """
    model.eval()
    tokenizer = tokenizer_of(model)
    most = room_of(model, max_length)
    if not isinstance(model, EncoderDecoder):
        if target is not None:
            raise InputError("Only an encoder-decoder takes a target: leave it out, or give a pair of texts.")
        return Reading(model, tokens_of(model, tokenizer, text, most))
    if not isinstance(text, str):
        raise InputError("An encoder-decoder reads one text: give the other one as its target.")
    source = source_tokens(tokenizer, text, end_id(tokenizer), most)
    own, start = model.target_tokenizer or tokenizer, start_token(model)
    if target is not None:
        side = source_tokens(own, target, end_id(own), most)
        return Reading(model, source, target_tokens(own, side, start))
    if model.head is None:
        raise InputError("This network has no head that writes: give the target too.")
    ids = np.array(source.ids, dtype=np.int32)
    grown = Translation().write(model, [ids], Beams(beams), None)[0][0]
    end = model.config.eos_token_id if model.config.eos_token_id is not None else end_id(own)
    return Reading(model, source, written_tokens(own, grown.ids, start, end, grown.is_ended), is_given=False)


def _pack(model: Model, tokens: Tokens) -> Batch:
    """A pack of one sequence."""
    types = [list(tokens.types)] if any(tokens.types) else None
    batch = Batch.from_sequences([list(tokens.ids)], types)
    device: torch.device = model.word_embeddings.device
    return batch.to(device)
