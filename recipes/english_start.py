"""The initial student of recipes/english.py: layers of the teacher (Sanh et al. 2019), with another vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from maskwright.hub.folders import load_model
from maskwright.models.model import Model, tokenizer_of
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.distillation.student import cut


def teachers_layers(teacher_folder: Path, layers: Sequence[int], tokenizer: Tokenizer, seed: int = 0) -> Model:
    """A masked language model with these layers of the teacher, its embeddings, and the vocabulary of `tokenizer`."""
    teacher, _ = load_model(teacher_folder)
    config = replace(teacher.config, num_hidden_layers=len(layers), vocab_size=tokenizer.vocab_size)
    student = cut(teacher, config, layers, "mlm", seed)
    student.tokenizer = tokenizer
    with torch.no_grad():
        student.word_embeddings.copy_(word_rows(teacher, tokenizer))
    return student


def word_rows(teacher: Model, tokenizer: Tokenizer) -> torch.Tensor:
    """The teacher's row of each token of another vocabulary: float [vocab, hidden].

    A token that the teacher lacks has the mean row of the teacher's subword tokens of its text.
    """
    table, known = teacher.word_embeddings.detach(), tokenizer_of(teacher)
    rows = []
    for index in range(tokenizer.vocab_size):
        token = tokenizer.id_to_token(index)
        own = known.token_to_id(token)
        pieces = [own] if own is not None else known.encode_plain([token.removeprefix("##")])[0]
        rows.append(table[pieces].mean(dim=0))
    return torch.stack(rows)
