"""SentencePiece models for tests: trained with the library, and put together byte by byte."""

import io
import struct

from text.tokenizer_samples import CORPUS

FILES = {
    "albert": "spiece.model",
    "xlm-roberta": "sentencepiece.bpe.model",
    "camembert": "sentencepiece.bpe.model",
    "big_bird": "spiece.model",
    "deberta-v2": "spm.model",
}
# As the published vocabularies were trained: which tokens they have, and in which order.
SPECIALS = {
    "albert": {
        "pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1,
        "control_symbols": ["[CLS]", "[SEP]"], "user_defined_symbols": ["[MASK]", "("],
    },
    "xlm-roberta": {"unk_id": 0, "bos_id": 1, "eos_id": 2, "user_defined_symbols": ["<sep>"]},
    "camembert": {"unk_id": 0, "bos_id": 1, "eos_id": 2},
    "big_bird": {
        "pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3,
        "control_symbols": ["[SEP]", "[CLS]"], "user_defined_symbols": ["[MASK]"],
    },
    "deberta-v2": {
        "pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3, "pad_piece": "[PAD]", "bos_piece": "[CLS]",
        "eos_piece": "[SEP]", "unk_piece": "[UNK]", "normalization_rule_name": "identity",
    },
}  # fmt: skip


def trained(family, **options):
    import sentencepiece

    stream = io.BytesIO()
    settings = {"vocab_size": 130, "model_type": "unigram", "character_coverage": 0.98, "hard_vocab_limit": False}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 20),
        model_writer=stream,
        minloglevel=2,
        **(settings | SPECIALS[family] | options),
    )
    return stream.getvalue()


def number(value):
    groups = []
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])


def block(field, content):
    return number(field << 3 | 2) + number(len(content)) + content


def piece(text, score=-1.0, kind=None):
    content = block(1, text.encode()) + b"\x15" + struct.pack("<f", score)
    return block(1, content + (b"" if kind is None else b"\x18" + number(kind)))


SPELT = b"".join(
    [
        piece("<pad>", 0.0, 3),
        piece("<unk>", 0.0, 2),
        piece("[CLS]", 0.0, 3),
        piece("[SEP]", 0.0, 3),
        piece("[MASK]", 0.0, 4),
        *(piece(text) for text in ("▁the", "▁cat", "▁", "a", "s")),
        block(2, b"\x18\x01" + b"\xc0\x02\x01"),  # Unigram, unk_id 1
        block(3, block(1, b"identity")),
    ]
)
