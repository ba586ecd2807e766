"""Small stand-ins for a tokenizer and a model, so that the tasks are tested by themselves."""

from __future__ import annotations

import torch
from torch import nn

from maskwright.text.readers.tables import Row


def row(text, label=None, text_pair=None, line=1, file="rows.tsv"):
    return Row(text, text_pair, label, line, file)


class Words:
    """One token for each character: 1 + its code modulo 50; 0 opens and separates."""

    def encode_ids(self, texts, max_length=None, *, pairs, counts):
        all_ids, all_types = [], []
        for first, second in zip(texts, pairs, strict=True):
            ids = [0] + [1 + ord(c) % 50 for c in first]
            types = [0] * len(ids)
            if second is not None:
                more = [0] + [1 + ord(c) % 50 for c in second]
                ids, types = ids + more, types + [1] * len(more)
            kept = min(len(ids), max_length or len(ids))
            all_ids.append(ids[:kept])
            all_types.append(types[:kept])
            counts.add(kept, len(ids) - kept)
        return all_ids, all_types


class SumModel(nn.Module):
    """Logits of a sequence: the mean of its tokens' rows of a table, so no sequence depends on another."""

    def __init__(self, num_labels=3):
        super().__init__()
        self.seen: list[int] = []
        values = torch.linspace(-1.0, 1.0, 51 * num_labels).view(51, num_labels)
        self.word_embeddings = nn.Parameter(values.sin() * 3)

    def logits(self, batch):
        self.seen.append(batch.num_tokens)
        rows = self.word_embeddings[batch.input_ids]
        if batch.token_type_ids is not None:
            rows = rows * (1 + batch.token_type_ids[:, None])
        return torch.stack([part.mean(0) for part in rows.split(batch.lengths)])
