"""One side of a Marian tokenizer (Junczys-Dowmunt et al. 2018): SentencePiece with a separate vocabulary.

The tokens of the SentencePiece model and the IDs of `vocab.json` are independent: a token missing from the vocabulary
is unknown, and text that the model cannot encode has an ID if the vocabulary contains it literally. `MarianBackend`
implements the methods of the library's `Tokenizer` that are used here, with the library's Unigram model inside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core import storage
from ...core.errors import CorruptFileError, ModelFolderError
from .merges_files import PAIRS, read_vocabulary
from .sentencepiece import CONTROL, NORMAL, SPACE, USER_DEFINED, Pieces, read_pieces
from .sentencepiece import SentencePieceNormalizer as Normalizer

if TYPE_CHECKING:
    from tokenizers import AddedToken

_UNKNOWN = " <unk>"  # never occurs in text: spaces have been replaced by ▁
_CODE = re.compile(r">>.*?<<", re.DOTALL)  # target-language code at the start of a text


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


@dataclass(frozen=True)
class _Part:
    """A part of a text: an added token, or text to tokenize. start: its first character; text: original text."""

    text: str
    start: int
    is_token: bool


class MarianBackend:
    """Tokenizer of one side.

    pieces: the SentencePiece model for encoding; back: tokens of the model for decoding, and whether each is text;
    vocab: ID of each token; added: tokens matched as a whole, the first three being unknown, end of sentence and
    padding; files: name and content of the files of both sides. Raises ValueError for an unusable model.
    """

    def __init__(
        self,
        pieces: Pieces,
        vocab: Mapping[str, int],
        added: Mapping[str, AddedToken],
        back: Mapping[str, bool],
        files: Mapping[str, bytes],
    ) -> None:
        self.pieces, self.vocab, self.added = pieces, dict(vocab), dict(added)
        self.back, self.files = dict(back), dict(files)
        self.unknown, self.end = list(added)[:2]
        self.normalizer = Normalizer(pieces)
        self._library, own = _unigram(pieces)
        self._ids = [self.vocab.get(piece, self.vocab[self.unknown]) for piece in own]
        self._splits = re.compile(_splitting(added))

    # -- vocabulary ------------------------------------------------------------------------------------------

    @property
    def model(self) -> Any:
        """The library's Unigram model."""
        return self._library.model

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

    def with_tokens(self, tokens: Sequence[str]) -> MarianBackend:
        """Returns a copy with further added tokens, also in its vocab.json."""
        from tokenizers import AddedToken

        vocab = dict(self.vocab)
        for token in tokens:
            vocab.setdefault(token, max(vocab.values()) + 1)
        added = self.added | {token: AddedToken(token, special=True, normalized=False) for token in tokens}
        table = (json.dumps(vocab, ensure_ascii=False, indent=2) + "\n").encode()
        return MarianBackend(self.pieces, vocab, added, self.back, self.files | {PAIRS: table})

    @property
    def codes(self) -> list[str]:
        """Target languages with a code such as `>>fr<<`."""
        return sorted(token[2:-2] for token in self.vocab if len(token) > 4 and _CODE.fullmatch(token))

    def to_str(self) -> str:
        """Serializes everything that affects encoding."""
        parts = {"unigram": json.loads(self._library.to_str()), "vocab": self.vocab, "added": list(self.added)}
        return json.dumps(parts, sort_keys=True)

    def no_truncation(self) -> None:
        """Does nothing: this backend never truncates."""

    def no_padding(self) -> None:
        """Does nothing: this backend never pads."""

    @cached_property
    def _tokens(self) -> dict[int, str]:
        return {id: token for token, id in self.vocab.items()} | {self.vocab[token]: token for token in self.added}

    # -- encoding --------------------------------------------------------------------------------------------

    def encode_batch(self, texts: Sequence[str], add_special_tokens: bool = False) -> list[EncodedText]:
        """Returns IDs, tokens, offsets and words of each text, without special tokens."""
        return [self._found(text) for text in texts]

    def encode_batch_fast(self, texts: Sequence[str], add_special_tokens: bool = False) -> list[EncodedText]:
        """Returns only the IDs of each text."""
        parts = [list(self._parts(text)) for text in texts]
        written = [self.normalizer(part.text) for own in parts for part in own if not part.is_token]
        pieces = self._library.encode_batch_fast(written, add_special_tokens=False)
        cut = iter(zip(pieces, written, strict=True))
        unknown = self.vocab[self.unknown]
        found = []
        for own in parts:
            ids: list[int] = []
            for part in own:
                ids += [self.vocab.get(part.text, unknown)] if part.is_token else self._known(*next(cut))
            found.append(EncodedText(ids))
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

    def _parts(self, text: str) -> Iterator[_Part]:
        """Yields added tokens in a text, a target-language code, and the text between them."""
        place = 0
        for token in self._splits.finditer(text):
            yield from self._language_code(text[place : token.start()], place)
            yield _Part(token[0].strip() if token[0].strip() in self.added else token[0], token.start(), True)
            place = token.end()
        yield from self._language_code(text[place:], place)

    @staticmethod
    def _language_code(text: str, start: int) -> Iterator[_Part]:
        code = _CODE.match(text)
        if code is not None:
            yield _Part(code[0], start, True)
        behind = 0 if code is None else code.end()
        if len(text) > behind:
            yield _Part(text[behind:], start + behind, False)

    def _known(self, cut: Any, written: str) -> list[int]:
        """Returns the IDs of the library's tokens; unknown text is looked up literally."""
        pieces = cut.ids
        if 0 not in pieces:
            return [self._ids[piece] for piece in pieces]
        unknown = self.vocab[self.unknown]
        tokens = self._library.encode(written, add_special_tokens=False).tokens  # not returned by the fast method
        return [
            self._ids[piece] if piece else self.vocab.get(token, unknown)
            for piece, token in zip(pieces, tokens, strict=True)
        ]

    def _found(self, text: str) -> EncodedText:
        found = EncodedText([])
        word = -1
        for part in self._parts(text):
            if part.is_token:
                word += 1
                found.ids.append(self.vocab.get(part.text, self.vocab[self.unknown]))
                found.tokens.append(part.text)
                found.offsets.append((part.start, part.start + len(part.text)))
                found.word_ids.append(word)
                continue
            written, places = self.normalizer.aligned(part.text)
            cut = self._library.encode(written, add_special_tokens=False)
            found.ids.extend(self._known(cut, written))
            found.tokens.extend(cut.tokens)
            for token, (start, end) in zip(cut.tokens, cut.offsets, strict=True):
                word += token.startswith(SPACE) or word < 0
                found.word_ids.append(word)
                found.offsets.append((part.start + places[start][0], part.start + places[end - 1][1]))
        return found

    # -- decoding --------------------------------------------------------------------------------------------

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Decodes IDs; IDs without a token, and tokens that are not text, are skipped."""
        runs = [""]
        for token in (self._tokens.get(id) for id in ids):
            if token in self.added:
                runs += [] if skip_special_tokens else [f"{token} ", ""]
            elif token is not None and self.back.get(token, True):
                is_first = not runs[-1] and token in self.back  # unknown tokens keep their space, as in transformers
                runs[-1] += (token.removeprefix(SPACE) if is_first else token).replace(SPACE, " ")
        return "".join(runs).strip()


def _unigram(pieces: Pieces) -> tuple[Any, list[str]]:
    """Returns the library's Unigram tokenizer (ID 0 for unknown text), and its tokens."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    scores = [score for (_, score), kind in zip(pieces.vocab, pieces.kinds, strict=True) if kind == NORMAL]
    if not scores:
        raise ValueError("its vocabulary is empty")
    own = {_UNKNOWN: min(scores)}  # unknown text costs 10 more than the rarest piece, as in SentencePiece
    highest = max(0.0, *scores)
    for (text, score), kind in zip(pieces.vocab, pieces.kinds, strict=True):
        if kind in (NORMAL, USER_DEFINED) and text:
            own[text] = score if kind == NORMAL else -0.1 + len(text.encode()) * highest
    library = Tokenizer(models.Unigram(list(own.items()), unk_id=0, byte_fallback=False))
    if SPACE in own and not any(SPACE in text[1:] for text in own):  # then words are tokenized one by one and cached
        library.pre_tokenizer = pre_tokenizers.Split(SPACE, "merged_with_next")
    return library, list(own)


def _splitting(added: Mapping[str, AddedToken]) -> str:
    """Returns a pattern that matches added tokens: longest first, including whitespace that a token absorbs."""
    return "|".join(
        (r"\s*" if told.lstrip else "") + re.escape(token) + (r"\s*" if told.rstrip else "")
        for token, told in sorted(added.items(), key=lambda one: -len(one[0]))
    )


# -- Reads and writes `source.spm`, `target.spm` and `vocab.json`: the tokenizer of a Marian translation model -------
#
# Models with separate vocabularies also have `target_vocab.json`.


SOURCE, TARGET = "source.spm", "target.spm"
TARGET_VOCABULARY = "target_vocab.json"
TOKENIZER_CLASS = "MarianTokenizer"
LIMIT_BYTES = 256 << 20
_USUAL = {"unk": "<unk>", "eos": "</s>", "pad": "<pad>"}
# Tokens missing from the vocabulary get their IDs in this order.
_ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
_LISTS = ("extra_special_tokens", "additional_special_tokens")


def marian_backend(path: Path, config: dict[str, Any]) -> MarianBackend:
    """Load one side: source for a source.spm, target for a target.spm. Updates `config` with class and special tokens.

    config: content of tokenizer_config.json. Raises ModelFolderError if a file is missing or the model uses unsupported
    settings, CorruptFileError for invalid files.
    """
    folder = path.parent
    is_separate = bool(config.get("separate_vocabs"))
    names = [SOURCE, TARGET, PAIRS, *([TARGET_VOCABULARY] if is_separate else [])]
    lacking = [name for name in names if not (folder / name).is_file()]
    if lacking:
        raise ModelFolderError(
            f"{folder} lacks {' and '.join(lacking)}: a Marian tokenizer consists of {', '.join(names)}. "
            "Restore it from its source."
        )
    for role, token in _USUAL.items():
        config[f"{role}_token"] = config.get(f"{role}_token") or token
    config["tokenizer_class"] = TOKENIZER_CLASS
    vocab = read_vocabulary(folder / PAIRS)
    if _content(config["unk_token"]) not in vocab:
        raise CorruptFileError(
            f"{folder / PAIRS} has no {_content(config['unk_token'])}: it does not belong to {SOURCE}. Restore both."
        )
    added = _added_tokens(config, vocab)
    if is_separate and path.name == TARGET:
        same = {token: vocab[token] for token in added}  # on both sides, as in transformers
        vocab = read_vocabulary(folder / TARGET_VOCABULARY) | same
    pieces = _pieces(path)
    own = pieces if is_separate else _pieces(folder / SOURCE)  # decoding uses the source model, as in transformers
    back = {text: kind != CONTROL for (text, _), kind in zip(own.vocab, own.kinds, strict=True)}
    files = {name: storage.read_bytes(folder / name, LIMIT_BYTES) for name in names}
    try:
        return MarianBackend(pieces, vocab, added, back, files)
    except Exception as error:  # the library raises bare Exception for an unusable vocabulary
        raise CorruptFileError(f"{path} is not a usable vocabulary ({error}): restore it from its source.") from None


def marian_files(backend: MarianBackend, config: Mapping[str, Any]) -> dict[str, bytes]:
    """Returns name and content of every file of both sides, including tokens added later."""
    named = {f"{role}_token" for role in _ROLES} & config.keys()
    roles = {name: _content(config[name]) for name in named if config[name] is not None}
    later = [token for token in backend.added if token not in roles.values()]
    # `auto_map` names code to run on load: it is never passed on.
    kept = {name: value for name, value in config.items() if name not in ("auto_map", *_LISTS)}
    written = kept | ({_LISTS[1]: later} if later else {})
    return backend.files | {
        "tokenizer_config.json": _json(dict(sorted(written.items()))),
        "special_tokens_map.json": _json(dict(sorted(roles.items()))),
    }


def _pieces(path: Path) -> Pieces:
    pieces = read_pieces(path)
    if not pieces.is_plain:
        raise ModelFolderError(
            f"{path} uses byte fallback or a space handling that differs from Marian's models, which is not supported."
        )
    return pieces


def _added_tokens(config: Mapping[str, Any], vocab: dict[str, int]) -> dict[str, AddedToken]:
    """Returns the added tokens: unknown, end of sentence and padding first, then those of the configuration.

    Tokens missing from the vocabulary get new IDs.
    """
    from tokenizers import AddedToken

    told = {token: (id, flags) for id, token, flags in _listed_with_ids(config)}
    for token, (id, _) in told.items():
        vocab[token] = id
    roles = [config.get(f"{role}_token") for role in _ROLES]
    others = [one for name in _LISTS if isinstance(config.get(name), list) for one in config[name]]
    flags = {_content(one): one for one in [*others, *roles] if isinstance(one, dict)}
    flags |= {token: own for token, (_, own) in told.items()}
    first = [_content(config[f"{role}_token"]) for role in _USUAL]
    named = [_content(one) for one in [*roles, *others]]
    for token in named:
        if token:
            vocab.setdefault(token, max(vocab.values()) + 1)
    return {
        token: AddedToken(
            token,
            special=True,
            normalized=False,
            lstrip=bool(flags.get(token, {}).get("lstrip", False)),
            rstrip=bool(flags.get(token, {}).get("rstrip", False)),
        )
        for token in dict.fromkeys([*first, *told, *named])
        if token
    }


def _listed_with_ids(config: Mapping[str, Any]) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yields ID, token and matching options from `added_tokens_decoder`."""
    listed = config.get("added_tokens_decoder")
    for id, one in listed.items() if isinstance(listed, dict) else ():
        token = _content(one)
        if token and str(id).isdecimal():
            yield int(id), token, one if isinstance(one, dict) else {}


def _content(token: Any) -> str:
    """Returns a token as text; configuration files may also contain {"content": ...}."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else ""


def _json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()
