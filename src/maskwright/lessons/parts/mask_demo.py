"""The masking of one sentence, word by word: which words are selected, and what replaces them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ...core.randomness import generator
from ...data.batch import Batch
from ...objectives.audit import AuditedSequence, audit
from ...objectives.masking import Masker

MASK = "[MASK]"


def mask_words(words: Sequence[str], vocabulary: Sequence[str], seed: int, rate: float = 0.15) -> AuditedSequence:
    """Mask a sentence of whole words with the masker of training.

    vocabulary: further words for random replacements; seed: random seed; rate: masking probability.
    """
    known = [MASK, *dict.fromkeys([*words, *vocabulary])]
    number = {word: index for index, word in enumerate(known)}
    masker = Masker(0, frozenset({0}), len(known), rate)
    ids = np.array([number[word] for word in words], dtype=np.int64)
    masked = masker(ids, np.array([len(ids)]), generator(seed, "mask demo"))
    labels = {"mlm_positions": torch.from_numpy(masked.positions), "mlm": torch.from_numpy(masked.labels)}
    batch = Batch.from_sequences([masked.input_ids], labels=labels)
    return audit(batch, known.__getitem__, masker.mask_id)[0]
