"""Word alignments from cross-attention weights (Bahdanau et al. 2015, figure 3).

Recurrent models have one attention; for Transformers the weights are the mean over the heads of the second-to-last
layer, which aligns best (Garg et al. 2019). Weights are summed over the subword tokens of a source word and averaged
over those of a target word, so each row sums to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch

from ...core.errors import InputError
from ...data.batch import Batch
from ...models.encoder_decoder import EncoderDecoder
from ...models.model import Model
from ...text.tokenizers.encoding import TextCounts
from ...text.tokenizers.tokenizer import Tokenizer
from .task import Translation, source_ids, target_ids

Group = tuple[str, list[int]]  # a word and the positions of its subword tokens
NO_ATTENTION = (
    "This network has no attention, so there are no alignments: train one with attention with maskwright finetune "
    "translation --preset seq2seq-small."
)


@dataclass(frozen=True)
class Aligned:
    """Alignment of a text and its translation. Special tokens are included.

    source, target: words; weights: float64 [target words, source words], rows summing to 1.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: np.ndarray


def alignments(
    model: Model, task: Translation, pairs: Sequence[tuple[str, str]], max_length: int | None = None
) -> list[Aligned]:
    """Aligns each source with its translation. Leaves the model in evaluation mode.

    max_length: maximum tokens of each side. Raises InputError for a model without cross-attention.
    """
    check_attends(model)
    assert isinstance(model, EncoderDecoder) and model.tokenizer is not None
    task.bind(model)
    model.eval()
    own = model.target_tokenizer or model.tokenizer
    start = task.start_id if task.start_id is not None else own.bos_id
    if start is None:
        raise InputError("Neither the model nor the tokenizer has a start token.")
    found = []
    for source, target in pairs:
        (ids,) = source_ids([source], model.tokenizer, max_length, TextCounts())
        (targets,) = target_ids([target], own, start, max_length, TextCounts())
        weights = _weights(model, ids, targets[:-1])  # [target tokens, source tokens]
        across, down = words_of(source, model.tokenizer, ids), words_of(target, own, targets[1:])
        summed = np.stack([weights[:, places].sum(axis=1) for _, places in across], axis=1)
        averaged = np.stack([summed[places].mean(axis=0) for _, places in down])
        found.append(Aligned(tuple(word for word, _ in across), tuple(word for word, _ in down), averaged))
    return found


def attends(model: Model) -> bool:
    """Whether the model has cross-attention."""
    config = model.config
    return isinstance(model, EncoderDecoder) and (config.recurrent is None or config.attention_score != "none")


def check_attends(model: Model) -> None:
    """Raises InputError for a model without cross-attention."""
    if not isinstance(model, EncoderDecoder) or model.tokenizer is None:
        raise InputError("Only an encoder-decoder with a tokenizer aligns texts.")
    if not attends(model):
        raise InputError(NO_ATTENTION)


def shown_attention(model: Model) -> str:
    """A sentence about the attention that the weights are from."""
    layers = model.config.num_decoder_layers
    if model.config.recurrent is not None:
        return "The weights are those of the decoder's attention to the source."
    return f"The weights are the mean over the heads of the decoder's layer {_last_but_one(layers) + 1} of {layers}."


def words_of(text: str, tokenizer: Tokenizer, ids: np.ndarray) -> list[Group]:
    """Groups `ids`, int [tokens], with or without special tokens, by the words of a text; special tokens are separate
    groups.
    """
    encoding = tokenizer.encode_batch([text])[0]
    tokens = list(zip(encoding.ids, encoding.sequence_ids, encoding.word_ids, encoding.offsets, strict=True))
    if tokens and tokens[0][1] is None and (not len(ids) or tokens[0][0] != ids[0]):
        tokens = tokens[1:]  # the start token is not among the ids
    keys: list[tuple[int, str | None, tuple[int, int]]] = []  # word number, text of a special token, character range
    for place, index in enumerate(ids.tolist()):
        owner = tokens[place] if place < len(tokens) and tokens[place][0] == index else None
        if owner is None or owner[1] is None or owner[2] is None:
            keys.append((-1 - place, tokenizer.id_to_token(index) or "", (0, 0)))
        else:
            keys.append((owner[2], None, owner[3]))
    found: list[Group] = []
    for _, group in groupby(enumerate(keys), key=lambda one: one[1][0]):
        places = list(group)
        special, begin, end = places[0][1][1], places[0][1][2][0], places[-1][1][2][1]
        found.append((text[begin:end].strip() if special is None else special, [place for place, _ in places]))
    return found


@torch.inference_mode()
def _weights(model: EncoderDecoder, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """float64 [target tokens, source tokens]. source, target: int [tokens], the target with its start token."""
    device = model.word_embeddings.device
    encoder_batch, decoder_batch = (Batch.from_sequences([side]).to(device) for side in (source, target))
    hidden = model.encode(encoder_batch).hidden
    decoded = model.decode(decoder_batch, hidden, encoder_batch, attentions=True)
    assert decoded.cross_attentions is not None
    layers = [layer[0].double().cpu().numpy() for layer in decoded.cross_attentions]  # each [heads, target, source]
    chosen: np.ndarray = layers[_last_but_one(len(layers))].mean(axis=0)
    return chosen


def _last_but_one(num_layers: int) -> int:
    """Index of the second-to-last layer, or of the only one."""
    return max(num_layers - 2, 0)
