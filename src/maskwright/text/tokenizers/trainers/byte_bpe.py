"""Byte-level BPE (Radford et al. 2019, GPT-2): the alphabet is the 256 bytes, so there are no unknown tokens.

The library learns the merges. All bytes are numbered in advance and ties go to lower numbers, so runs are
deterministic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ....core.errors import InputError
from ...readers.inputs import reject_non_texts
from . import pipelines
from .pipelines import SPECIAL_TOKENS, Trained


def train_byte_bpe(
    texts: Iterable[str], vocab_size: int, *, lowercase: bool = False, min_frequency: int = 1
) -> Trained:
    """Learn merges over bytes until the vocabulary has `vocab_size` tokens, including 256 bytes and 5 special tokens.

    min_frequency: pairs less frequent than this are not merged.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    bytes_as_characters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pipelines.require_vocab_size(vocab_size, len(SPECIAL_TOKENS) + len(bytes_as_characters), "special tokens and bytes")
    learner = Tokenizer(models.BPE())
    pipelines.configure_byte_level(learner, lowercase)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=bytes_as_characters,
        show_progress=False,
    )
    facts: dict[str, Any] = {"vocab_size_wanted": vocab_size, "texts": 0, "characters": 0, "words": 0}
    learner.train_from_iterator(_counted(texts, facts), trainer)
    if not facts["words"]:
        raise InputError("There is no text to train on: the corpus has no words.")
    return pipelines.byte_bpe(learner.model, lowercase, facts)


def _counted(texts: Iterable[str], facts: dict[str, Any]) -> Iterator[str]:
    """Yields texts and counts them."""
    for text in texts:
        try:
            text.encode("utf-8")
        except (AttributeError, UnicodeEncodeError):
            reject_non_texts([text])
        facts["texts"] += 1
        facts["characters"] += len(text)
        facts["words"] += len(text.split())
        yield text
