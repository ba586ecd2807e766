"""A text as a language model reads it: documents end to end, each with what begins and ends it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..text.corpus import read_whole
from ..text.tokenizer import Tokenizer

BETWEEN_DOCUMENTS = "\n\n"


@dataclass(frozen=True)
class ReadText:
    """text: the documents, an empty line between them; ids: int64 [tokens], with what begins and ends each; ends: int64
    [tokens], where in the text each ends, -1 for those that are no text.
    """

    text: str
    ids: np.ndarray
    ends: np.ndarray

    def first(self, most: int) -> ReadText:
        """The first `most` tokens of it, or all."""
        ends = self.ends[:most]
        last = int(ends.max(initial=-1))
        return ReadText(self.text[: max(last, 0)], self.ids[:most], ends)


def documents_of(sources: str | Sequence[str], *, skip_bad_rows: bool = False) -> list[str]:
    """The documents of a corpus, lines as they were. How many bad rows are left out is told."""
    return ["\n".join(document.sentences) for document in read_whole(sources, skip_bad_rows=skip_bad_rows)]


def tokens_of(documents: Iterable[str], tokenizer: Tokenizer) -> ReadText:
    """Tokenise documents as a language model is trained on them."""
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
