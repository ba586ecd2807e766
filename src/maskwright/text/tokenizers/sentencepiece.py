"""SentencePiece models as tokenizers of the `tokenizers` library (Kudo and Richardson 2018)."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core import storage
from ...core.errors import CorruptFileError, ModelFolderError
from .check import check_replacements

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend
    from tokenizers.normalizers import Normalizer

# -- Parses a SentencePiece model (Kudo and Richardson 2018): pieces with scores and types, and the normalizer table
#
# The file is a Protocol Buffers message, `sentencepiece_model.proto`, of which few fields are needed. This small parser
# avoids a dependency on sentencepiece and on any protobuf version.


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


# -- SentencePiece normalization: character replacement by a compiled table, spaces as ▁ (Kudo and Richardson 2018,
#
# section 3.2).
#
# At every position the longest entry of the table matches. (The fast tokenizers of other families replace whole
# graphemes instead, which differs for letters with several combining marks.)


SPACE = "▁"
CACHE_SIZE = 1 << 15  # cached parts between spaces, mostly words
_LONGEST_REMEMBERED = 64

Parts = list[tuple[str, int]]  # replacement of each part, and the part's number of characters


class SentencePieceNormalizer:
    """Normalizes texts like the model of `pieces`. Raises ValueError for a damaged table."""

    def __init__(self, pieces: Pieces) -> None:
        self.table = Charsmap(pieces.charsmap)
        self.adds_prefix, self.trims = pieces.adds_prefix, pieces.trims
        kept = (text for (text, _), kind in zip(pieces.vocab, pieces.kinds, strict=True) if kind == USER_DEFINED)
        longest_first = sorted(filter(None, kept), key=len, reverse=True)
        self._kept = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        is_split = not self.table.has_spaces and not any(" " in text for text in longest_first)
        self._split = re.compile(" +|[^ ]+" if is_split else r"(?s:.+)")
        self._cache: dict[str, Parts] = {}

    def __call__(self, text: str) -> str:
        """Returns the normalized text; empty if nothing remains."""
        text = "".join(own for own, _ in self._parts(text))
        if self.trims:
            text = re.sub(" {2,}", " ", text.strip(" "))
        if not text:
            return ""
        written = (SPACE if self.adds_prefix else "") + text.replace(" ", SPACE)
        return written.rstrip(SPACE) if self.trims else written

    def aligned(self, text: str) -> tuple[str, list[tuple[int, int]]]:
        """Returns the normalized text, and the original (start, end) of each of its characters."""
        spans: list[tuple[str, int, int]] = []
        place = 0
        for own, length in self._parts(text):
            spans += [(one, place, place + length) for one in own]
            place += length
        if self.trims:
            before = [" ", *(one for one, _, _ in spans)]
            spans = [span for span, last in zip(spans, before, strict=False) if (span[0], last) != (" ", " ")]
            while spans and spans[-1][0] in (" ", SPACE):
                spans.pop()
        if spans and self.adds_prefix:
            spans.insert(0, (SPACE, spans[0][1], spans[0][1]))
        written = "".join(one for one, _, _ in spans).replace(" ", SPACE)
        return written, [(start, end) for _, start, end in spans]

    def _parts(self, text: str) -> Parts:
        found: Parts = []
        for chunk in self._split.findall(text):
            known = self._cache.get(chunk)
            if known is None:
                known = self._replaced(chunk)
                if len(chunk) <= _LONGEST_REMEMBERED:
                    if len(self._cache) >= CACHE_SIZE:
                        self._cache = {}
                    self._cache[chunk] = known
            found += known
        return found

    def _replaced(self, chunk: str) -> Parts:
        """Replaces by table in a part of a text; user-defined pieces are passed through."""
        found: Parts = []
        place = 0
        for kept in self._kept.finditer(chunk):
            found += self.table.replaced(chunk[place : kept.start()])
            found.append((kept[0], len(kept[0])))
            place = kept.end()
        return found + self.table.replaced(chunk[place:])


class Charsmap:
    """A compiled replacement table.

    Format: size of a double array (uint32), the double-array trie with entries spelled in bytes, and the replacements,
    each NUL-terminated. A trie unit has a label (8 bits, the highest bit marks a value), a leaf flag (bit 8), and the
    offset to its children: the child for byte `c` is at base ^ c if its label is c, the value of an entry at base.
    Raises ValueError for anything else.
    """

    def __init__(self, compiled: bytes) -> None:
        size = int.from_bytes(compiled[:4], "little")
        if compiled and (size % 4 or not 4 <= size <= len(compiled) - 4):
            raise ValueError("the table of its normalizer is truncated")
        units = np.frombuffer(compiled, dtype="<u4", count=size // 4, offset=4 if compiled else 0)
        self.texts = compiled[4 + size :]
        bases = np.arange(len(units)) ^ ((units >> 10) << ((units & 512) >> 6)).astype(np.int64)
        is_number = units >> 31 == 1
        if bool((bases[~is_number] >= len(units)).any()):
            raise ValueError("the table of its normalizer is damaged")
        starts = units[bases[~is_number & (units >> 8 & 1 == 1)]] & 0x7FFFFFFF
        if len(starts) and (int(starts.max()) >= len(self.texts) or not self.texts.endswith(b"\0")):
            raise ValueError("the replacements of its normalizer are truncated")
        self.has_spaces = bool((units & 0x800000FF == ord(" ")).any())
        self.units: list[int] = units.tolist()
        self.bases: list[int] = bases.tolist()

    def replaced(self, text: str) -> Parts:
        """Returns the replacement of the longest entry at each position, else the character itself."""
        if not self.units:
            return [(one, 1) for one in text]
        data = text.encode("utf-8", errors="surrogatepass")
        found: Parts = []
        place = index = 0  # byte and character index
        while index < len(text):
            own, size = self._longest(data, place)
            if own is None:
                own, size = text[index], len(text[index].encode("utf-8", errors="surrogatepass"))
            length = len(data[place : place + size].decode("utf-8", errors="surrogatepass"))
            found.append((own, length))
            place, index = place + size, index + length
        return found

    def _longest(self, data: bytes, place: int) -> tuple[str | None, int]:
        """Returns the replacement of the longest entry at a byte position, and its size in bytes; None if no match."""
        base, start, size = self.bases[0], -1, 0
        for end in range(place, len(data)):
            child = base ^ data[end]
            if child >= len(self.units) or self.units[child] & 0x800000FF != data[end]:
                break
            base = self.bases[child]
            is_whole = end + 1 == len(data) or data[end + 1] & 0xC0 != 0x80  # do not split a character
            if self.units[child] & 256 and is_whole:
                start, size = self.units[base] & 0x7FFFFFFF, end + 1 - place
        if start < 0:
            return None, 0
        own = self.texts[start : self.texts.index(b"\0", start)]
        return own.decode("utf-8", errors="replace"), size


# -- Reads `spiece.model` and `sentencepiece.bpe.model`: a SentencePiece vocabulary as the tokenizer of its family
#
# The pipelines of ALBERT (Lan et al. 2020), XLM-R (Conneau et al. 2020) and BigBird (Zaheer et al. 2020) differ, and
# follow their published fast tokenizers.


NAMES = ("spiece.model", "sentencepiece.bpe.model")
_CLASSES = {"albert": "AlbertTokenizer", "xlm-roberta": "XLMRobertaTokenizer", "big_bird": "BigBirdTokenizer"}
_CLASS_OF_FILE = dict(zip(NAMES, ("AlbertTokenizer", "XLMRobertaTokenizer"), strict=True))
# Special tokens by role, in the order in which tokens missing from the vocabulary get their IDs.
_ALBERT_TOKENS = {
    "bos": "[CLS]", "eos": "[SEP]", "unk": "<unk>", "sep": "[SEP]", "pad": "<pad>", "cls": "[CLS]", "mask": "[MASK]"
}  # fmt: skip
_ROBERTA_TOKENS = {
    "bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "</s>", "pad": "<pad>", "cls": "<s>", "mask": "<mask>"
}  # fmt: skip


def sentencepiece_backend(path: Path, config: dict[str, Any], named: Mapping[str, str | None]) -> Backend:
    """Load the tokenizer of a SentencePiece model; `config` is updated with the class and the special tokens.

    config: content of tokenizer_config.json; named: special tokens by role (those of bert, "bos" and "eos") from it,
    None for the family's defaults. The family is determined by the class in it, else by the model type in a config.json
    next to it, else by the file name. Raises CorruptFileError, and ModelFolderError for another family.
    """
    kind = str(config.get("tokenizer_class") or _class_beside(path)).removesuffix("Fast")
    if kind not in _FAMILIES:
        raise ModelFolderError(f"{path}: SentencePiece is supported for {', '.join(_FAMILIES)}, but not for {kind}.")
    make, usual = _FAMILIES[kind]
    tokens = {role: named.get(role) or token for role, token in usual.items()}
    pieces = read_pieces(path)
    try:
        backend = make(pieces, tokens, config)
    except Exception as error:  # the library raises bare Exception for an unusable vocabulary
        raise CorruptFileError(f"{path} is not a usable vocabulary ({error}): restore it from its source.") from None
    config["tokenizer_class"] = kind
    config |= {f"{role}_token": token for role, token in tokens.items()}
    return backend


def _albert(pieces: Pieces, tokens: dict[str, str], config: dict[str, Any]) -> Backend:
    from tokenizers import normalizers, pre_tokenizers

    steps: list[Normalizer] = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if not config.get("keep_accents", False):
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if config.get("do_lower_case", True):
        steps.append(normalizers.Lowercase())
    if pieces.charsmap:
        steps.append(normalizers.Precompiled(pieces.charsmap))
    backend = _unigram(pieces, pieces.vocab, 1, config, [pre_tokenizers.WhitespaceSplit()])
    backend.normalizer = normalizers.Sequence(steps)
    _add_tokens(backend, pieces, tokens, config)
    _set_template(backend, tokens, "{cls}:0 $A:0 {sep}:0", "{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1")
    return backend


def _big_bird(pieces: Pieces, tokens: dict[str, str], config: dict[str, Any]) -> Backend:
    from tokenizers import Regex, normalizers

    unknown = (tokens["unk"], 0.0)
    unk_id = pieces.vocab.index(unknown) if unknown in pieces.vocab else 100
    backend = _unigram(pieces, pieces.vocab, unk_id, config, [])
    backend.normalizer = normalizers.Sequence([normalizers.Replace(Regex(" {2,}"), "▁")])
    _add_tokens(backend, pieces, tokens, config, mask_takes_space=True)
    _set_template(backend, tokens, "{cls}:0 $A:0 {sep}:0", "{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1")
    return backend


def _xlm_roberta(pieces: Pieces, tokens: dict[str, str], config: dict[str, Any]) -> Backend:
    """Creates XLM-R's tokenizer with fairseq's IDs: four special tokens, the pieces from the fourth on, the mask."""
    from tokenizers import normalizers, pre_tokenizers

    first = [(tokens[role], 0.0) for role in ("bos", "pad", "eos", "unk")]
    vocab = [*first, *pieces.vocab[3:], (tokens["mask"], 0.0)]
    backend = _unigram(pieces, vocab, 3, config, [pre_tokenizers.WhitespaceSplit()])
    if pieces.charsmap:
        backend.normalizer = normalizers.Precompiled(pieces.charsmap)
    _add_tokens(backend, pieces, tokens, config)
    _set_template(backend, tokens, "{bos}:0 $A:0 {eos}:0", "{bos}:0 $A:0 {eos}:0 {eos}:0 $B:0 {eos}:0")
    return backend


_FAMILIES: dict[str, tuple[Callable[[Pieces, dict[str, str], dict[str, Any]], Backend], dict[str, str]]] = {
    "AlbertTokenizer": (_albert, _ALBERT_TOKENS),
    "XLMRobertaTokenizer": (_xlm_roberta, _ROBERTA_TOKENS),
    "BigBirdTokenizer": (_big_bird, _ALBERT_TOKENS | {"bos": "<s>", "eos": "</s>"}),
}


def _unigram(
    pieces: Pieces, vocab: list[tuple[str, float]], unk_id: int, config: dict[str, Any], splits: list[Any]
) -> Backend:
    """Creates a Unigram tokenizer whose words begin with ▁, and its decoder. vocab: the pieces by ID."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    scheme = "always" if config.get("add_prefix_space", True) else "never"
    backend = Tokenizer(models.Unigram(vocab, unk_id=unk_id, byte_fallback=pieces.has_bytes))
    words = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=scheme)
    backend.pre_tokenizer = pre_tokenizers.Sequence([*splits, words]) if splits else words
    decoder = decoders.Metaspace(replacement="▁", prepend_scheme=scheme)
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoder]) if pieces.has_bytes else decoder
    return backend


def _add_tokens(
    backend: Backend, pieces: Pieces, tokens: dict[str, str], config: dict[str, Any], mask_takes_space: bool = False
) -> None:
    """Add special tokens, then pieces that the model marks as control or user-defined; all are matched as a whole.

    Matching options (such as absorbing the preceding space) come from `added_tokens_decoder` in tokenizer_config.json.
    Otherwise pieces marked in the model are matched literally, and other tokens as their role in tokenizer_config.json
    defines.
    """
    from tokenizers import AddedToken

    listed = config.get("added_tokens_decoder")
    said = _by_content(listed.values() if isinstance(listed, dict) else [])
    roles = _by_content(config.get(f"{role}_token") for role in tokens)
    if mask_takes_space:
        roles.setdefault(tokens["mask"], {"lstrip": True})
    marked = {
        text: kind == CONTROL
        for (text, _), kind in zip(pieces.vocab, pieces.kinds, strict=True)
        if kind in (CONTROL, USER_DEFINED)
    }
    special = dict.fromkeys(tokens.values(), True)
    for token, is_special in (special | marked | special).items():
        told = said.get(token, {} if token in marked else roles.get(token, {}))
        flags = {name: bool(told.get(name, False)) for name in ("lstrip", "rstrip", "single_word", "normalized")}
        backend.add_tokens([AddedToken(token, special=is_special, **flags)])


def _by_content(entries: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """Returns token objects of a configuration by their text."""
    return {str(entry.get("content")): entry for entry in entries if isinstance(entry, dict)}


def _set_template(backend: Backend, tokens: dict[str, str], single: str, pair: str) -> None:
    from tokenizers import processors

    found = [(token, backend.token_to_id(token)) for token in dict.fromkeys(tokens.values())]
    backend.post_processor = processors.TemplateProcessing(
        single=single.format(**tokens), pair=pair.format(**tokens), special_tokens=found
    )


def _class_beside(path: Path) -> str:
    """Returns the tokenizer class from the config.json next to a file, else from the file name."""
    beside = path.with_name("config.json")
    content = storage.read_json(beside) if beside.is_file() else {}
    model_type = content.get("model_type") if isinstance(content, dict) else None
    if model_type is None:
        return _CLASS_OF_FILE.get(path.name, "AlbertTokenizer")
    return _CLASSES.get(str(model_type), f"a model of type '{model_type}'")
