"""What BERT is pre-trained for: masked tokens (Devlin et al. 2019, section 3.1, task 1) and next sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.errors import InputError
from ..data.batch import Batch
from ..models.model import Model, tokenizer_of
from ..tasks.examples import Forward, each, map_batches, rows_of, tokenize_rows
from ..text.tokenizers.encoding import TextCounts
from .prepared import Prepared, Streams
from .ready import require, room_of

BLOCK_TEXTS = 128  # texts per block: the probabilities of all their masks are in memory at once
Span = tuple[int, int]


@dataclass(frozen=True)
class Candidate:
    """A predicted token of one mask.

    token: token ID; token_str: its text as it is decoded alone, with its space (`##` marks a subword that continues a
    word); score: probability; rank: rank in the vocabulary, from 1; sequence: the text with this mask filled.
    """

    token: int
    token_str: str
    score: float
    rank: int
    sequence: str


@dataclass(frozen=True)
class Mask:
    """One mask of a text: its characters (`start` to `end`, without spaces) and candidates, most probable first."""

    start: int
    end: int
    candidates: list[Candidate]


@dataclass(frozen=True)
class FilledText:
    """A text with its masks; filled: the text with the most probable token in place of every mask."""

    text: str
    masks: list[Mask]
    filled: str

    def to_json(self) -> dict[str, Any]:
        """Return {"text", "filled", "masks": [{"start", "end", "predictions": [{"token", "score", ...}]}]}."""
        masks = [
            {"start": mask.start, "end": mask.end, "predictions": [vars(entry) for entry in mask.candidates]}
            for mask in self.masks
        ]
        return {"text": self.text, "filled": self.filled, "masks": masks}


@dataclass(frozen=True)
class MaskProbabilities(Forward):
    """Probabilities of the vocabulary at the masks of each sequence. mask_id: token ID of a mask."""

    mask_id: int

    def launch(self, batch: Batch) -> Callable[[], Sequence[Tensor]]:
        """float64 [masks, vocab] for each sequence."""
        is_mask = batch.input_ids.eq(self.mask_id)  # [tokens]
        logits = self.model.token_logits(batch, is_mask)  # [masks of the batch, vocab]
        counts = [int(part.sum()) for part in is_mask.cpu().split(batch.lengths)]
        return each(logits.double().softmax(dim=-1), counts)


class MaskFiller(Streams):
    """Fills masks with a masked language model. Each mask is predicted while the others remain masked.

    The words of the text stay as they are, with their case and spaces; where a mask touches a letter and the token is
    another word, a space is put between them. A tokenizer whose tokens hold the spaces
    (byte-level, SentencePiece) needs its ids decoded, as transformers does: with several masks, `sequence` then shows
    the special tokens.
    """

    def __init__(self, model: Model) -> None:
        if model.config.pools_last_token:
            raise InputError(
                "A causal language model cannot fill masks. Use a masked language model (pretrain --objective mlm)."
            )
        self.model = model.eval()
        self.tokenizer = tokenizer_of(model)
        if self.tokenizer.mask_id is None:
            raise InputError("The model's tokenizer has no mask token, so it cannot fill masks.")
        self.mask_id = self.tokenizer.mask_id
        self.mask_token = str(self.tokenizer.id_to_token(self.mask_id))
        self.holds_spaces = self.tokenizer.word_markers.words in ("bytes", "")
        self.begins_words = self.tokenizer.word_markers.words in ("prefix", "whole")
        self.max_length = room_of(model)

    def fill(self, texts: Sequence[str], top_k: int | None = 5, words: Sequence[str] | None = None) -> list[FilledText]:
        """Predict the most probable tokens for every mask of every text.

        top_k: number of tokens (None: the whole vocabulary); words: return only these, each a single token. Raises
        InputError for a text without a mask, a text above the maximum length, or a word that is not a single token.
        """
        filled: list[FilledText] = []
        for start in range(0, len(texts), BLOCK_TEXTS):
            filled += self.prepare(texts[start : start + BLOCK_TEXTS], top_k, words, start).run()
        return filled

    predict = fill

    def prepare(
        self, texts: Sequence[str], top_k: int | None = 5, words: Sequence[str] | None = None, first: int = 0
    ) -> Prepared[list[FilledText]]:
        """Tokenize at least one text, for the result of `fill`. first: number of texts before these, for messages."""
        if top_k is not None and top_k < 1:
            raise InputError(f"top_k is {top_k}; it must be at least 1.")
        wanted = None if words is None else np.array([self.token_of(word) for word in words], dtype=np.int64)
        masks = self._mask_spans(texts, first)

        def finish(outputs: Sequence[Tensor]) -> list[FilledText]:
            return [
                self._fill_one(text, ids, spans, rows.numpy(), top_k, wanted)
                for text, (ids, spans), rows in zip(texts, masks, outputs, strict=True)
            ]

        return replace(self._prepared(texts), finish=finish)

    def probabilities(self, text: str) -> np.ndarray:
        """Return the probabilities of the vocabulary at each mask: float64 [masks, vocab], rows sum to 1."""
        self._mask_spans([text], 0)
        found: np.ndarray = self._prepared([text]).run()[0].numpy()
        return found

    def _prepared(self, texts: Sequence[str]) -> Prepared[Any]:
        """The step whose result is float64 [masks, vocab] for each text."""
        counts = TextCounts()
        examples = tokenize_rows(rows_of(texts), self.tokenizer, self.max_length, counts=counts)
        return Prepared(MaskProbabilities(self.model, self.mask_id), examples, counts, list)

    def token_of(self, word: str) -> int:
        """Return the token ID of a word. Raises InputError if it is not a single token of the vocabulary."""
        direct = self.tokenizer.token_to_id(word)
        ids = self.tokenizer.encode_plain([word])[0] if direct is None else [direct]
        if len(ids) != 1 or ids[0] == self.tokenizer.unk_id:
            tokens = " ".join(str(self.tokenizer.id_to_token(id)) for id in ids) or "none"
            raise InputError(f"'{word}' is not one token of this model ({tokens}): only single tokens can be ranked.")
        return int(ids[0])

    def _mask_spans(self, texts: Sequence[str], first: int) -> list[tuple[list[int], list[Span]]]:
        """Return the ids of each text, and the start and end of every mask."""
        found = []
        encodings = self.tokenizer.encode_batch(texts)
        for number, (text, encoding) in enumerate(zip(texts, encodings, strict=True), start=first + 1):
            tokens = zip(encoding.ids, encoding.offsets, strict=True)
            spans = [
                (
                    end - len(text[start:end].lstrip()),
                    start + len(text[start:end].rstrip()),
                )  # tokens may take in spaces
                for token, (start, end) in tokens
                if token == self.mask_id
            ]
            if not spans:
                raise InputError(f"Text {number} has no {self.mask_token}: insert one at the position to predict.")
            if len(encoding) > self.max_length:
                raise InputError(
                    f"Text {number} has {len(encoding):,} tokens, but the model accepts {self.max_length:,}: "
                    f"shorten it around its {self.mask_token}."
                )
            found.append((encoding.ids, spans))
        return found

    def _fill_one(
        self,
        text: str,
        ids: list[int],
        spans: Sequence[Span],
        rows: np.ndarray,
        top_k: int | None,
        wanted: np.ndarray | None,
    ) -> FilledText:
        """Fill one text. rows: probabilities, float64 [masks, vocab]."""
        masks, filled, filled_ids = [], text, list(ids)
        places = [place for place, id in enumerate(ids) if id == self.mask_id]
        is_single = len(places) == 1
        backward = zip(places[::-1], reversed(spans), rows[::-1], strict=True)  # so that offsets stay valid
        for place, span, row in backward:
            next_one = text[span[1] : span[1] + 1]
            order = np.argsort(-row, kind="stable")  # [vocab]
            ranks = np.empty(len(order), dtype=np.int64)
            ranks[order] = np.arange(1, len(order) + 1)
            chosen = order[:top_k] if wanted is None else wanted[np.argsort(ranks[wanted])][:top_k]
            candidates = [
                Candidate(
                    token=int(token),
                    token_str=self.tokenizer.decode([token], skip_special_tokens=False),
                    score=float(row[token]),
                    rank=int(ranks[token]),
                    sequence=self._decoded([*ids[:place], int(token), *ids[place + 1 :]], is_single)
                    if self.holds_spaces
                    else self._replace(text, span, int(token), next_one),
                )
                for token in chosen
            ]
            masks.append(Mask(*span, candidates))
            filled = self._replace(filled, span, int(order[0]), next_one)
            filled_ids[place] = int(order[0])
        if self.holds_spaces:
            filled = self._decoded(filled_ids)
        return FilledText(text, masks[::-1], filled)

    def _decoded(self, ids: list[int], skip_special_tokens: bool = True) -> str:
        return self.tokenizer.decode([id for id in ids if id != self.tokenizer.pad_id], skip_special_tokens)

    def _replace(self, text: str, span: Span, token: int, next_one: str) -> str:
        """Replace a mask with a token; a continuation subword is joined to the preceding word.

        next_one: the character after the mask, while a mask there was not filled; "" at the end.
        """
        shown = self.tokenizer.id_to_token(token) or ""
        before, after = text[: span[0]], text[span[1] :]
        if shown.startswith("##") and before.strip():
            before, word = before.rstrip(), shown[2:]
        else:
            word = self.tokenizer.decode([token], skip_special_tokens=False).strip() or shown
            if (
                self.begins_words
                and _is_letter(word[:1])
                and (before.endswith(self.mask_token) or _is_letter(before[-1:]))
            ):
                before += " "
        if self.begins_words and _is_letter(word[-1:]) and (after.startswith(self.mask_token) or _is_letter(next_one)):
            word += " "
        return before + word + after


def _is_letter(character: str) -> bool:
    """Whether it is a letter or digit, but none of Chinese or Japanese, which have no spaces between words."""
    code = ord(character or " ")
    return character.isalnum() and not (0x2E80 <= code <= 0x9FFF or 0xF900 <= code <= 0xFAFF or code >= 0x20000)


# -- Next-sentence prediction (Devlin et al. 2019, task 2) -----------------------------------------------------------


class NextSentence(Streams):
    """Predicts whether one sentence follows another. counts: truncated and unknown tokens in all calls so far."""

    def __init__(self, model: Model) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer_of(model)
        self.max_length = room_of(model)
        self.counts = TextCounts()

    def probabilities(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Return the probability that B follows A for each (A, B): float64 [pairs]."""
        if not pairs:
            return np.zeros(0)
        rows = rows_of(pairs)
        single = next((row.line for row in rows if row.text_pair is None), None)
        if single is not None:
            raise InputError(f"Item {single} is a single text: next-sentence prediction requires pairs.")
        examples = tokenize_rows(rows, self.tokenizer, self.max_length, counts=self.counts)
        logits = map_batches(examples, self.model.pair_logits, device=self.model.word_embeddings.device)
        follows: np.ndarray = logits.double().softmax(dim=-1)[:, 0].numpy()
        return follows

    predict = probabilities


# -- One text through a bidirectional and a causal language model: what each predicts for every word -------------------


@dataclass(frozen=True)
class SideBySide:
    """Predictions of both models.

    words: tokens of the text; ids: their IDs; masked: P(x_i | all others), causal: P(x_i | x_<i), each float [tokens,
    vocab].
    """

    words: list[str]
    ids: list[int]
    masked: Tensor
    causal: Tensor

    def loss(self, distributions: Tensor) -> float:
        """Return the mean of -log P over the tokens, in nats."""
        return float(-distributions[range(len(self.ids)), self.ids].log().mean())


@torch.inference_mode()
def predict_side_by_side(masked: Model, causal: Model, text: str) -> SideBySide:
    """Predict every token of a text: a masked model reads it once per token, with that token masked; a causal one once.

    Raises InputError for an empty text, for another head, and if the vocabularies differ.
    """
    require(masked, "the masked model", "fill-mask")
    require(causal, "the causal model", "predict-next")
    tokenizer = tokenizer_of(masked)
    if tokenizer.tokens != tokenizer_of(causal).tokens:
        raise InputError("The models have different vocabularies: compare models that share a tokenizer.")
    (ids,) = tokenizer.encode_plain([text])
    if not ids:
        raise InputError("The text has no tokens: pass a sentence.")
    frame = tokenizer(text).ids
    start = next(index for index in range(len(frame)) if frame[index : index + len(ids)] == ids)
    assert tokenizer.mask_id is not None
    rows = [[*frame[: start + n], tokenizer.mask_id, *frame[start + n + 1 :]] for n in range(len(ids))]
    batch = Batch.from_sequences(rows)
    positions = batch.cu_seqlens[:-1] + start + torch.arange(len(ids))
    both = masked.mlm_logits(masked.encode(batch).hidden[positions]).float().softmax(dim=-1)
    # A causal model predicts a token at the previous position; the first follows the start token.
    read = Batch.from_sequences([frame[: start + len(ids)]])
    hidden = causal.encode(read).hidden[start - 1 : start - 1 + len(ids)]
    left = causal.mlm_logits(hidden).float().softmax(dim=-1)
    return SideBySide([tokenizer.tokens[one] for one in ids], ids, both, left)
