"""Tokenizes documents as a language model is trained on them: concatenated, with start and end tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..text.readers.corpus import read_whole
from ..text.tokenizers.tokenizer import Tokenizer

BETWEEN_DOCUMENTS = "\n\n"


@dataclass(frozen=True)
class ReadText:
    """Tokenized documents.

    text: the documents, separated by blank lines; ids: int64 [tokens], with start and end tokens; ends: end character
    of each token, -1 for special tokens, int64 [tokens].
    """

    text: str
    ids: np.ndarray
    ends: np.ndarray

    def first(self, most: int) -> ReadText:
        ends = self.ends[:most]
        last = int(ends.max(initial=-1))
        return ReadText(self.text[: max(last, 0)], self.ids[:most], ends)


def documents_of(sources: str | Sequence[str], *, skip_bad_rows: bool = False) -> list[str]:
    """Read the documents of a corpus; skipped rows are counted in a warning."""
    return ["\n".join(document.sentences) for document in read_whole(sources, skip_bad_rows=skip_bad_rows)]


def tokens_of(documents: Iterable[str], tokenizer: Tokenizer) -> ReadText:
    """Tokenize documents as a language model is trained on them."""
    texts, ids, ends, start = [], [], [], 0
    opening = list(tokenizer.opening_ids)
    closing = [] if tokenizer.eos_id is None else [tokenizer.eos_id]
    for text in documents:
        encoding = tokenizer(text)
        inside = [not is_special for is_special in encoding.special_tokens_mask]
        own = [id for id, is_text in zip(encoding.ids, inside, strict=True) if is_text]
        places = [start + end for (_, end), is_text in zip(encoding.offsets, inside, strict=True) if is_text]
        ids += [*opening, *own, *closing]
        ends += [*[-1] * len(opening), *places, *[-1] * len(closing)]
        texts.append(text)
        start += len(text) + len(BETWEEN_DOCUMENTS)
    return ReadText(BETWEEN_DOCUMENTS.join(texts), np.asarray(ids, dtype=np.int64), np.asarray(ends, dtype=np.int64))
