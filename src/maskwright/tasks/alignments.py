"""Which words of a source each word of its translation looks at (Bahdanau et al. 2015, figure 3).

Weights are those of the attention to the source while the translation is written: of a recurrent network its only one,
of a Transformer the mean over the heads of the last layer but one, which follows the words best (Garg et al. 2019). The
pieces of a word of the source are added up, those of a word that is written are averaged, so every row sums to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch

from ..core.errors import InputError
from ..data.batch import Batch
from ..models.encoder_decoder import EncoderDecoder
from ..models.model import Model
from ..text.encoding import TextCounts
from ..text.tokenizer import Tokenizer
from .translation import Translation
from .translation_examples import source_ids, target_ids

Group = tuple[str, list[int]]  # a word, and the places of its pieces
NO_ATTENTION = (
    "This network has no attention, so no word looks at another: finetune translation --preset seq2seq-small trains "
    "one that has."
)


@dataclass(frozen=True)
class Aligned:
    """A text and its translation, word by word; special tokens stand by their names.

    source: what was read; target: what was written; weights: float64 [target words, source words], rows summing to 1.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: np.ndarray


def alignments(
    model: Model, task: Translation, pairs: Sequence[tuple[str, str]], max_length: int | None = None
) -> list[Aligned]:
    """For each source with its translation, what looked at what. The model is left in evaluation mode.

    max_length: tokens of a side; the rest is cut. Raises InputError for a model that attends to no source.
    """
    check_attends(model)
    assert isinstance(model, EncoderDecoder) and model.tokenizer is not None
    task.meet(model)
    model.eval()
    own = model.target_tokenizer or model.tokenizer
    start = task.start_id if task.start_id is not None else own.bos_id
    if start is None:
        raise InputError("Neither model nor tokenizer names a token that begins a text.")
    found = []
    for source, target in pairs:
        (read,) = source_ids([source], model.tokenizer, max_length, TextCounts())
        (written,) = target_ids([target], own, start, max_length, TextCounts())
        weights = _weights(model, read, written[:-1])  # [target tokens, source tokens]
        across, down = words_of(source, model.tokenizer, read), words_of(target, own, written[1:])
        summed = np.stack([weights[:, places].sum(axis=1) for _, places in across], axis=1)
        meant = np.stack([summed[places].mean(axis=0) for _, places in down])
        found.append(Aligned(tuple(word for word, _ in across), tuple(word for word, _ in down), meant))
    return found


def attends(model: Model) -> bool:
    """Whether what a model writes looks at what it reads."""
    config = model.config
    return isinstance(model, EncoderDecoder) and (config.recurrent is None or config.attention_score != "none")


def check_attends(model: Model) -> None:
    """Raise InputError for a model that attends to no source."""
    if not isinstance(model, EncoderDecoder) or model.tokenizer is None:
        raise InputError("Only an encoder-decoder with a tokenizer aligns texts.")
    if not attends(model):
        raise InputError(NO_ATTENTION)


def shown_attention(model: Model) -> str:
    """Which attention the weights are, in a sentence."""
    layers = model.config.num_decoder_layers
    if model.config.recurrent is not None:
        return "The weights are those of the network's attention while it writes."
    return f"The weights are the mean over the heads of the decoder's layer {_last_but_one(layers) + 1} of {layers}."


def words_of(text: str, tokenizer: Tokenizer, ids: np.ndarray) -> list[Group]:
    """The words of a text with the places of their pieces in `ids`, int [tokens], framed or not; special tokens stand
    alone.
    """
    encoding = tokenizer.encode_batch([text])[0]
    pieces = list(zip(encoding.ids, encoding.sequence_ids, encoding.word_ids, encoding.offsets, strict=True))
    if pieces and pieces[0][1] is None and (not len(ids) or pieces[0][0] != ids[0]):
        pieces = pieces[1:]  # what begins a text is not among the ids
    keys: list[tuple[int, str | None, tuple[int, int]]] = []  # number of the word, its name if special, its letters
    for place, index in enumerate(ids.tolist()):
        owner = pieces[place] if place < len(pieces) and pieces[place][0] == index else None
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
    """float64 [target tokens, source tokens]. source, target: int [tokens], the target behind its start token."""
    device = model.word_embeddings.device
    read, written = (Batch.from_sequences([side]).to(device) for side in (source, target))
    decoded = model.decode(written, model.encode(read).hidden, read, attentions=True)
    assert decoded.cross_attentions is not None
    layers = [layer[0].double().cpu().numpy() for layer in decoded.cross_attentions]  # each [heads, target, source]
    chosen: np.ndarray = layers[_last_but_one(len(layers))].mean(axis=0)
    return chosen


def _last_but_one(num_layers: int) -> int:
    """The place of that layer; of a single layer, its own."""
    return max(num_layers - 2, 0)
