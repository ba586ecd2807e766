"""Parses a SentencePiece model (Kudo and Richardson 2018): pieces with scores and types, and the normalizer table.

The file is a Protocol Buffers message, `sentencepiece_model.proto`, of which few fields are needed. This small parser
avoids a dependency on sentencepiece and on any protobuf version.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core import storage
from ...core.errors import CorruptFileError, ModelFolderError
from .check import check_replacements

LIMIT_BYTES = 256 << 20
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4
_UNIGRAM = 1
_OWN_BYTES, _SPACE_BEHIND = 35, 24  # fields of trainer_spec: byte fallback; ▁ as suffix of words
_CHARSMAP, _PREFIX, _TRIM, _ESCAPE = 2, 3, 4, 5  # fields of normalizer_spec


@dataclass
class Pieces:
    """Parsed model: pieces as (text, score), types of pieces, the normalizer table (may be empty).

    adds_prefix: a space is prepended to texts; trims: surrounding spaces are removed and repeated ones collapsed;
    has_bytes: characters without a piece become the pieces of their UTF-8 bytes (byte fallback), not the unknown token;
    is_plain: False for settings that `text.tokenizers.marian` does not support (byte fallback, whitespace as suffix or
    unescaped, a denormalizer).
    """

    vocab: list[tuple[str, float]] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    charsmap: bytes = b""
    model_type: int = _UNIGRAM
    adds_prefix: bool = True
    trims: bool = True
    has_bytes: bool = False
    is_plain: bool = True


def read_pieces(path: Path) -> Pieces:
    """Read a SentencePiece model. Raises CorruptFileError for an invalid file, ModelFolderError if not Unigram."""
    data = storage.read_bytes(path, LIMIT_BYTES)
    pieces = Pieces()
    try:
        for number, value in _fields(memoryview(data)):
            if number == 1:
                _add_piece(pieces, dict(_fields(value)))
            elif number == 2:
                trainer = dict(_fields(value))
                pieces.model_type = trainer.get(3, _UNIGRAM)
                pieces.has_bytes = bool(trainer.get(_OWN_BYTES))
                pieces.is_plain &= not (pieces.has_bytes or trainer.get(_SPACE_BEHIND))
            elif number == 3:
                _set_normalizer(pieces, dict(_fields(value)))
            elif number == 5:
                pieces.is_plain &= not len(dict(_fields(value)).get(_CHARSMAP, b""))
    except (ValueError, TypeError, struct.error) as error:
        raise CorruptFileError(f"{path} is not a SentencePiece model ({error}): restore it from its source.") from None
    if not pieces.vocab:
        raise CorruptFileError(f"{path} is not a SentencePiece model (it has no pieces): restore it from its source.")
    if pieces.model_type != _UNIGRAM:
        raise ModelFolderError(f"{path} is a SentencePiece model of a type other than Unigram, which is not supported.")
    return pieces


def _add_piece(pieces: Pieces, values: dict[int, Any]) -> None:
    text, score = str(values[1], "utf-8") if 1 in values else "", values.get(2, 0.0)
    if not math.isfinite(score):
        raise ValueError(f"the score of piece {len(pieces.vocab)} is not a number")
    pieces.vocab.append((text, score))
    pieces.kinds.append(values.get(3, NORMAL))


def _set_normalizer(pieces: Pieces, values: dict[int, Any]) -> None:
    pieces.charsmap = bytes(values.get(_CHARSMAP, b""))
    check_replacements(pieces.charsmap)
    pieces.adds_prefix, pieces.trims = bool(values.get(_PREFIX, 1)), bool(values.get(_TRIM, 1))
    pieces.is_plain &= bool(values.get(_ESCAPE, 1))


def _fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """Yields number and value of each field of a message: an integer, a float, or bytes."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind = key & 7
        if kind == 0:
            value, place = _varint(data, place)
            yield key >> 3, value
        elif kind == 2:
            length, place = _varint(data, place)
            if place + length > len(data):
                raise ValueError("it is truncated")
            yield key >> 3, data[place : place + length]
            place += length
        elif kind in (1, 5):
            width, form = (8, "<d") if kind == 1 else (4, "<f")
            yield key >> 3, struct.unpack_from(form, data, place)[0]
            place += width
        else:
            raise ValueError(f"unsupported wire type {kind}")


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    """Returns a varint (groups of seven bits), and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            raise ValueError("it is truncated")
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise ValueError("unterminated varint")
