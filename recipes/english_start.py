"""The initial student of recipes/english.py: layers of the teacher (Sanh et al. 2019) and its most frequent tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from maskwright.core import storage
from maskwright.hub.folders import load_model
from maskwright.models.model import Model, tokenizer_of
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.text.tokenizers.tokenizer_files import VOCABULARY
from maskwright.train.distillation.student import cut

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def write_vocabulary(teacher_folder: Path, files: Sequence[Path], size: int, folder: Path) -> None:
    """Write a WordPiece tokenizer with `size` of the teacher's tokens: special tokens, characters, the most frequent.

    All characters are kept, so that a word without its tokens is split further and does not become [UNK].
    """
    teacher = Tokenizer.load(teacher_folder)
    tokens = [teacher.id_to_token(index) for index in range(teacher.vocab_size)]
    kept = {*SPECIAL, *(token for token in tokens if len(token.removeprefix("##")) == 1)}
    for index, _ in frequencies(teacher, files).most_common():
        if len(kept) >= size:
            break
        kept.add(tokens[index])
    ordered = [*SPECIAL, *(token for token in tokens if token in kept and token not in SPECIAL)]
    with storage.new_folder(folder) as new:
        storage.write_text(new / VOCABULARY, "\n".join(ordered) + "\n")
        storage.write_json(new / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", "do_lower_case": True})


def frequencies(tokenizer: Tokenizer, files: Sequence[Path]) -> Counter[int]:
    """How often each token ID occurs in the lines of these files."""
    counts: Counter[int] = Counter()
    for path in files:
        with path.open(encoding="utf-8") as lines:
            for ids in tokenizer.encode_plain([line for line in lines if line.strip()]):
                counts.update(ids)
    return counts


def teachers_layers(teacher_folder: Path, layers: Sequence[int], tokenizer: Tokenizer, seed: int = 0) -> Model:
    """A masked language model with these layers of the teacher, its embeddings, and the vocabulary of `tokenizer`."""
    teacher, _ = load_model(teacher_folder)
    config = replace(teacher.config, num_hidden_layers=len(layers), vocab_size=tokenizer.vocab_size)
    student = cut(teacher, config, layers, "mlm", seed)
    student.tokenizer = tokenizer
    known = tokenizer_of(teacher)
    rows = [known.token_to_id(tokenizer.id_to_token(index)) for index in range(tokenizer.vocab_size)]
    with torch.no_grad():
        student.word_embeddings.copy_(teacher.word_embeddings[rows])
    return student
