"""SentencePiece models (Kudo and Richardson 2018): as tokenizers of the `tokenizers` library, and Marian's pairs.

The pipelines of ALBERT (Lan et al. 2020), XLM-R (Conneau et al. 2020) and BigBird (Zaheer et al. 2020) differ, and
follow their published fast tokenizers; the few fields of the file that they need are parsed here. A Marian tokenizer
(Junczys-Dowmunt et al. 2018) runs the library `sentencepiece`, as in transformers.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core import storage
from ...core.errors import CorruptFileError, MissingExtraError, ModelFolderError
from .check import check_replacements

if TYPE_CHECKING:
    from tokenizers import AddedToken
    from tokenizers import Tokenizer as Backend
    from tokenizers.normalizers import Normalizer

LIMIT_BYTES = 256 << 20
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4
SPACE = "▁"
_UNIGRAM = 1
_OWN_BYTES, _CHARSMAP = 35, 2  # fields of trainer_spec: byte fallback; of normalizer_spec: the compiled table


@dataclass
class Pieces:
    """Parsed model: pieces as (text, score), types of pieces, the normalizer table (may be empty).

    has_bytes: characters without a piece become the pieces of their UTF-8 bytes (byte fallback), not the unknown token.
    """

    vocab: list[tuple[str, float]] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    charsmap: bytes = b""
    model_type: int = _UNIGRAM
    has_bytes: bool = False


def read_pieces(path: Path) -> Pieces:
    """Read a SentencePiece model. Raises CorruptFileError for an invalid file, ModelFolderError if not Unigram."""
    data = storage.read_bytes(path, LIMIT_BYTES)
    pieces = Pieces()
    try:
        for number, value in _fields(memoryview(data)):
            if number == 1:
                own = dict(_fields(value))
                if not math.isfinite(score := own.get(2, 0.0)):
                    raise ValueError(f"the score of piece {len(pieces.vocab)} is not a number")
                pieces.vocab.append((str(own[1], "utf-8") if 1 in own else "", score))
                pieces.kinds.append(own.get(3, NORMAL))
            elif number == 2:
                trainer = dict(_fields(value))
                pieces.model_type = trainer.get(3, _UNIGRAM)
                pieces.has_bytes = bool(trainer.get(_OWN_BYTES))
            elif number == 3:
                pieces.charsmap = bytes(dict(_fields(value)).get(_CHARSMAP, b""))
                check_replacements(pieces.charsmap)
    except (ValueError, TypeError, struct.error) as error:
        raise CorruptFileError(f"{path} is not a SentencePiece model ({error}): restore it from its source.") from None
    if not pieces.vocab:
        raise CorruptFileError(f"{path} is not a SentencePiece model (it has no pieces): restore it from its source.")
    if pieces.model_type != _UNIGRAM:
        raise ModelFolderError(f"{path} is a SentencePiece model of a type other than Unigram, which is not supported.")
    return pieces


def _fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """Yields number and value of each field of a Protocol Buffers message: an integer, a float, or bytes."""
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


# -- the tokenizers of ALBERT, XLM-R, BigBird, CamemBERT and DeBERTa 2 ---------------------------------------


NAMES = ("spiece.model", "sentencepiece.bpe.model", "spm.model")
_CLASSES = {
    "albert": "AlbertTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
    "xmod": "XLMRobertaTokenizer",
    "big_bird": "BigBirdTokenizer",
    "camembert": "CamembertTokenizer",
    "deberta-v2": "DebertaV2Tokenizer",
}
_CLASS_OF_FILE = dict(zip(NAMES, ("AlbertTokenizer", "XLMRobertaTokenizer", "DebertaV2Tokenizer"), strict=True))
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
    set_template(backend, tokens, "{cls}:0 $A:0 {sep}:0", "{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1")
    return backend


def _big_bird(pieces: Pieces, tokens: dict[str, str], config: dict[str, Any]) -> Backend:
    from tokenizers import Regex, normalizers

    unknown = (tokens["unk"], 0.0)
    unk_id = pieces.vocab.index(unknown) if unknown in pieces.vocab else 100
    backend = _unigram(pieces, pieces.vocab, unk_id, config, [])
    backend.normalizer = normalizers.Sequence([normalizers.Replace(Regex(" {2,}"), "▁")])
    _add_tokens(backend, pieces, tokens, config, mask_takes_space=True)
    set_template(backend, tokens, "{cls}:0 $A:0 {sep}:0", "{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1")
    return backend


def _xlm_roberta(pieces: Pieces, tokens: dict[str, str], config: dict[str, Any]) -> Backend:
    """Creates XLM-R's tokenizer with fairseq's IDs: four special tokens, the pieces from the fourth on, the mask."""
    first = [(tokens[role], 0.0) for role in ("bos", "pad", "eos", "unk")]
    return _fairseq([*first, *pieces.vocab[3:]], pieces, tokens, config)


def _camembert(pieces: Pieces, tokens: dict[str, str], config: dict[str, Any]) -> Backend:
    """Creates CamemBERT's tokenizer: three names of fairseq that no text uses, and all pieces after the unknown one."""
    first = [("<s>NOTUSED", 0.0), (tokens["pad"], 0.0), ("</s>NOTUSED", 0.0), (tokens["unk"], 0.0)]
    return _fairseq([*first, ("<unk>NOTUSED", -100.0), *pieces.vocab[1:]], pieces, tokens, config, takes_space=True)


def _fairseq(
    known: list[tuple[str, float]],
    pieces: Pieces,
    tokens: dict[str, str],
    config: dict[str, Any],
    takes_space: bool = False,
) -> Backend:
    """Creates a tokenizer of the pieces `known`, of which the fourth is the unknown one, and the mask."""
    from tokenizers import normalizers, pre_tokenizers

    vocab = [*known, (tokens["mask"], 0.0)]
    backend = _unigram(pieces, vocab, 3, config, [pre_tokenizers.WhitespaceSplit()])
    if pieces.charsmap:
        backend.normalizer = normalizers.Precompiled(pieces.charsmap)
    _add_tokens(backend, pieces, tokens, config, mask_takes_space=takes_space)
    set_template(backend, tokens, "{bos}:0 $A:0 {eos}:0", "{bos}:0 $A:0 {eos}:0 {eos}:0 $B:0 {eos}:0")
    return backend


def _deberta(pieces: Pieces, tokens: dict[str, str], config: dict[str, Any]) -> Backend:
    from tokenizers import Regex, normalizers, pre_tokenizers

    steps: list[Normalizer] = [normalizers.Lowercase()] if config.get("do_lower_case") else []
    if pieces.charsmap:
        steps.append(normalizers.Precompiled(pieces.charsmap))
    steps += [normalizers.Replace(Regex(r"\s{2,}|[\n\r\t]"), " "), normalizers.NFC(), normalizers.Strip(left=False)]
    splits = [pre_tokenizers.Punctuation("isolated")] if config.get("split_by_punct") else []
    backend = _unigram(pieces, pieces.vocab, [text for text, _ in pieces.vocab].index(tokens["unk"]), config, splits)
    backend.normalizer = normalizers.Sequence(steps)
    _add_tokens(backend, pieces, tokens, config)
    set_template(backend, tokens, "{cls}:0 $A:0 {sep}:0", "{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1")
    return backend


_FAMILIES: dict[str, tuple[Callable[[Pieces, dict[str, str], dict[str, Any]], Backend], dict[str, str]]] = {
    "AlbertTokenizer": (_albert, _ALBERT_TOKENS),
    "XLMRobertaTokenizer": (_xlm_roberta, _ROBERTA_TOKENS),
    "CamembertTokenizer": (_camembert, _ROBERTA_TOKENS),
    "DebertaV2Tokenizer": (_deberta, _ALBERT_TOKENS | {"unk": "[UNK]", "pad": "[PAD]"}),
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


def set_template(backend: Backend, tokens: Mapping[str, str], single: str, pair: str) -> None:
    """Sets the special tokens of a text and of a pair. tokens: name -> token; single, pair: as in "{cls}:0 $A:0"."""
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


# -- one side of a Marian tokenizer --------------------------------------------------------------------------
#
# The tokens of the SentencePiece model and the IDs of `vocab.json` are independent: a token missing from the vocabulary
# is unknown, and text that the model cannot encode has an ID if the vocabulary contains it literally.

_CODE = re.compile(r">>.*?<<", re.DOTALL)  # target-language code at the start of a text


def processor_of(data: bytes) -> Any:
    """Returns the library's processor of a model. Raises MissingExtraError, ValueError for another file."""
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError:
        raise MissingExtraError("Reading the tokenizer of a Marian model", "sentencepiece") from None
    try:
        made = SentencePieceProcessor(model_proto=data) if data else ()
    except RuntimeError:
        made = ()
    if not made:
        raise ValueError("it has no pieces")
    return made


@dataclass(frozen=True)
class EncodedText:
    """The tokens of one text, lists with one entry each; `type_ids` and `sequence_ids` only with special tokens."""

    ids: list[int]
    tokens: list[str] = field(default_factory=list)
    offsets: list[tuple[int, int]] = field(default_factory=list)
    word_ids: list[int | None] = field(default_factory=list)
    type_ids: list[int] = field(default_factory=list)
    sequence_ids: list[int | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def special_tokens_mask(self) -> list[int]:
        """All 0: special tokens are added elsewhere."""
        return [0] * len(self.ids)


class MarianBackend:
    """Tokenizer of one side, with the methods of the library's `Tokenizer` that are used here.

    side: name of the model file that encodes; back: of the one that decodes; vocab: ID of each token; added: tokens
    matched as a whole, the first three being unknown, end of sentence and padding; files: name and content of the files
    of both sides. Raises ValueError for an unusable model.
    """

    def __init__(
        self,
        side: str,
        back: str,
        vocab: Mapping[str, int],
        added: Mapping[str, AddedToken],
        files: Mapping[str, bytes],
    ) -> None:
        self.side, self.back, self.files = side, back, dict(files)
        self.vocab, self.added = dict(vocab), dict(added)
        self.unknown, self.end = list(added)[:2]
        self.unknown_id = self.vocab[self.unknown]
        self.processor = processor_of(files[side])
        self.decoder = self.processor if back == side else processor_of(files[back])
        # Longest first, including whitespace that a token absorbs.
        self._splits = re.compile(
            "|".join(
                (r"\s*" if told.lstrip else "") + re.escape(token) + (r"\s*" if told.rstrip else "")
                for token, told in sorted(added.items(), key=lambda one: -len(one[0]))
            )
        )

    def token_to_id(self, token: str) -> int | None:
        """Returns the ID of a token, or None."""
        return self.vocab.get(token)

    def id_to_token(self, id: int) -> str | None:
        """Returns the token of an ID, or None."""
        return self._tokens.get(id)

    def get_vocab(self) -> dict[str, int]:
        """Returns the ID of each token."""
        return dict(self.vocab)

    def get_added_tokens_decoder(self) -> dict[int, AddedToken]:
        """Returns the added tokens by ID."""
        return {self.vocab[token]: told for token, told in self.added.items()}

    def with_tokens(self, tokens: Sequence[str], vocabulary: str) -> MarianBackend:
        """Returns a copy with further added tokens, also in the file `vocabulary`."""
        from tokenizers import AddedToken

        vocab = dict(self.vocab)
        for token in tokens:
            vocab.setdefault(token, max(vocab.values()) + 1)
        added = self.added | {token: AddedToken(token, special=True, normalized=False) for token in tokens}
        table = (json.dumps(vocab, ensure_ascii=False, indent=2) + "\n").encode()
        return MarianBackend(self.side, self.back, vocab, added, self.files | {vocabulary: table})

    @property
    def codes(self) -> list[str]:
        """Target languages with a code such as `>>fr<<`."""
        return sorted(token[2:-2] for token in self.vocab if len(token) > 4 and _CODE.fullmatch(token))

    def to_str(self) -> str:
        """Serializes everything that affects encoding."""
        model = hashlib.sha256(self.files[self.side]).hexdigest()
        return json.dumps({"model": model, "vocab": self.vocab, "added": list(self.added)}, sort_keys=True)

    @cached_property
    def _tokens(self) -> dict[int, str]:
        return {id: token for token, id in self.vocab.items()} | {self.vocab[token]: token for token in self.added}

    def encode_batch(self, texts: Sequence[str], add_special_tokens: bool = False) -> list[EncodedText]:
        """Returns IDs, tokens, offsets and words of each text, without special tokens."""
        return [self._found(text) for text in texts]

    def encode_batch_fast(self, texts: Sequence[str], add_special_tokens: bool = False) -> list[EncodedText]:
        """Returns only the IDs of each text."""
        parts = [list(self._parts(text)) for text in texts]
        plain = [text for own in parts for text, _, is_token in own if not is_token]
        cut = iter(self.processor.encode(plain, out_type=str))
        found = []
        for own in parts:
            tokens = [one for text, _, is_token in own for one in ([text] if is_token else next(cut))]
            found.append(EncodedText([self.vocab.get(token, self.unknown_id) for token in tokens]))
        return found

    def encode(self, text: str, pair: str | None = None, *, add_special_tokens: bool = True) -> EncodedText:
        """Encodes a text or two concatenated texts, with the end-of-sentence token."""
        texts = [self._found(one) for one in (text, pair) if one is not None]
        ids = [id for one in texts for id in one.ids]
        tokens = [token for one in texts for token in one.tokens]
        owners: list[int | None] = [number for number, one in enumerate(texts) for _ in one.ids]
        if add_special_tokens:
            ids, tokens, owners = [*ids, self.vocab[self.end]], [*tokens, self.end], [*owners, None]
        return EncodedText(ids, tokens, type_ids=[0] * len(ids), sequence_ids=owners)

    def _parts(self, text: str) -> Iterator[tuple[str, int, bool]]:
        """Yields added tokens, a language code at the start of a part, the text between, with start and is_token."""
        place = 0
        for token in [*self._splits.finditer(text), None]:
            end = len(text) if token is None else token.start()
            if (code := _CODE.match(text, place, end)) is not None:
                yield code[0], place, True
                place = code.end()
            if place < end:
                yield text[place:end], place, False
            if token is not None:
                bare = token[0].strip()
                yield bare if bare in self.added else token[0], end, True
                place = token.end()

    def _found(self, text: str) -> EncodedText:
        found = EncodedText([])
        word = -1
        for part, start, is_token in self._parts(text):
            if is_token:
                tokens, places = [part], [*range(len(part) + 1)]
            else:
                tokens = self.processor.encode(part, out_type=str)
                places = self.processor.normalize(part, with_offsets=True)[1]  # character of each normalized one
            at = 0
            for token in tokens:
                word += is_token or token.startswith(SPACE) or word < 0
                found.tokens.append(token)
                found.word_ids.append(word)
                found.offsets.append((start + places[at], start + places[at + len(token)]))
                at += len(token)
        found.ids.extend(self.vocab.get(token, self.unknown_id) for token in found.tokens)
        return found

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Decodes IDs as transformers does; IDs without a token are skipped."""
        text, run = "", list[str]()
        for token in (self._tokens.get(id) for id in ids):
            if token in self.added:
                if not skip_special_tokens:
                    text, run = f"{text}{self.decoder.decode(run)}{token} ", []
            elif token is not None:
                run.append(token)
        return (text + self.decoder.decode(run)).replace(SPACE, " ").strip()
