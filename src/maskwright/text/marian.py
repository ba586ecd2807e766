"""One side of a Marian translator's tokenizer (Junczys-Dowmunt et al. 2018): SentencePiece cuts, a table gives the ids.

The pieces of its model and the ids of `vocab.json` are two things: a piece that the table lacks is unknown, and what
the model cannot spell has an id where the table knows it as it stands. `MarianBackend` has those calls of the library's
`Tokenizer` that are used here, and runs the library's Unigram inside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .merges_files import PAIRS
from .sentencepiece_model import NORMAL, USER_DEFINED, Pieces
from .sentencepiece_normaliser import SPACE, Normaliser

if TYPE_CHECKING:
    from tokenizers import AddedToken

_UNKNOWN = " <unk>"  # no text is cut into this: spaces are ▁ by then
_CODE = re.compile(r">>.*?<<", re.DOTALL)  # says in which language to write, where a text begins with it


@dataclass(frozen=True)
class Found:
    """The pieces of one text, lists with an entry for each; `type_ids` and `sequence_ids` for framed texts alone."""

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
        """0 everywhere: frames are put around texts elsewhere."""
        return [0] * len(self.ids)


@dataclass(frozen=True)
class _Part:
    """A part of a text: a token of its own, or what is cut. start: its first character; text: as given."""

    text: str
    start: int
    is_token: bool


class MarianBackend:
    """The pieces of one side.

    pieces: the model that cuts; back: the pieces of the model that writes ids out, and whether each stands for text;
    vocab: id of each token; added: tokens that are found whole, wherever they stand, of which the first three are what
    is unknown, ends a text, and fills it up; files: name and content of the files of both sides. Raises ValueError for
    pieces that cannot be used.
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
        self.normaliser = Normaliser(pieces)
        self._library, own = _unigram(pieces)
        self._ids = [self.vocab.get(piece, self.vocab[self.unknown]) for piece in own]
        self._splits = re.compile(_splitting(added))

    # -- the vocabulary --------------------------------------------------------------------------------------

    @property
    def model(self) -> Any:
        """The library's model that cuts."""
        return self._library.model

    def token_to_id(self, token: str) -> int | None:
        """Id of a token, None when the vocabulary lacks it."""
        return self.vocab.get(token)

    def id_to_token(self, id: int) -> str | None:
        """Token of an id, None when there is none."""
        return self._tokens.get(id)

    def get_vocab(self) -> dict[str, int]:
        """Id of each token."""
        return dict(self.vocab)

    def get_added_tokens_decoder(self) -> dict[int, AddedToken]:
        """The tokens that are found whole, by id."""
        return {self.vocab[token]: told for token, told in self.added.items()}

    def with_tokens(self, tokens: Sequence[str]) -> MarianBackend:
        """The same with further tokens that are found whole, and with them in its vocab.json."""
        from tokenizers import AddedToken

        vocab = dict(self.vocab)
        for token in tokens:
            vocab.setdefault(token, max(vocab.values()) + 1)
        added = self.added | {token: AddedToken(token, special=True, normalized=False) for token in tokens}
        table = (json.dumps(vocab, ensure_ascii=False, indent=2) + "\n").encode()
        return MarianBackend(self.pieces, vocab, added, self.back, self.files | {PAIRS: table})

    @property
    def codes(self) -> list[str]:
        """The languages that a text can ask for, as in `>>fr<<`."""
        return sorted(token[2:-2] for token in self.vocab if len(token) > 4 and _CODE.fullmatch(token))

    def to_str(self) -> str:
        """Everything that decides what texts become, as text."""
        parts = {"unigram": json.loads(self._library.to_str()), "vocab": self.vocab, "added": list(self.added)}
        return json.dumps(parts, sort_keys=True)

    def no_truncation(self) -> None:
        """Nothing is ever cut here."""

    def no_padding(self) -> None:
        """Nothing is ever filled up here."""

    @cached_property
    def _tokens(self) -> dict[int, str]:
        return {id: token for token, id in self.vocab.items()} | {self.vocab[token]: token for token in self.added}

    # -- texts to ids ----------------------------------------------------------------------------------------

    def encode_batch(self, texts: Sequence[str], add_special_tokens: bool = False) -> list[Found]:
        """The pieces of each text, without a frame: ids, tokens, offsets and words."""
        return [self._found(text) for text in texts]

    def encode_batch_fast(self, texts: Sequence[str], add_special_tokens: bool = False) -> list[Found]:
        """The same without all but the ids."""
        parts = [list(self._parts(text)) for text in texts]
        written = [self.normaliser(part.text) for own in parts for part in own if not part.is_token]
        pieces = self._library.encode_batch_fast(written, add_special_tokens=False)
        cut = iter(zip(pieces, written, strict=True))
        unknown = self.vocab[self.unknown]
        found = []
        for own in parts:
            ids: list[int] = []
            for part in own:
                ids += [self.vocab.get(part.text, unknown)] if part.is_token else self._known(*next(cut))
            found.append(Found(ids))
        return found

    def encode(self, text: str, pair: str | None = None, *, add_special_tokens: bool = True) -> Found:
        """A text, or two behind one another, with the token that ends it."""
        texts = [self._found(one) for one in (text, pair) if one is not None]
        ids = [id for one in texts for id in one.ids]
        tokens = [token for one in texts for token in one.tokens]
        owners: list[int | None] = [number for number, one in enumerate(texts) for _ in one.ids]
        if add_special_tokens:
            ids, tokens, owners = [*ids, self.vocab[self.end]], [*tokens, self.end], [*owners, None]
        return Found(ids, tokens, type_ids=[0] * len(ids), sequence_ids=owners)

    def _parts(self, text: str) -> Iterator[_Part]:
        """Tokens that stand in a text, the language that a part asks for, and what is between."""
        place = 0
        for token in self._splits.finditer(text):
            yield from self._asking(text[place : token.start()], place)
            yield _Part(token[0].strip() if token[0].strip() in self.added else token[0], token.start(), True)
            place = token.end()
        yield from self._asking(text[place:], place)

    @staticmethod
    def _asking(text: str, start: int) -> Iterator[_Part]:
        code = _CODE.match(text)
        if code is not None:
            yield _Part(code[0], start, True)
        behind = 0 if code is None else code.end()
        if len(text) > behind:
            yield _Part(text[behind:], start + behind, False)

    def _known(self, cut: Any, written: str) -> list[int]:
        """Ids of the pieces that the library found; what it could not spell is looked up as it stands."""
        pieces = cut.ids
        if 0 not in pieces:
            return [self._ids[piece] for piece in pieces]
        unknown = self.vocab[self.unknown]
        tokens = self._library.encode(written, add_special_tokens=False).tokens  # the fast way does not say them
        return [
            self._ids[piece] if piece else self.vocab.get(token, unknown)
            for piece, token in zip(pieces, tokens, strict=True)
        ]

    def _found(self, text: str) -> Found:
        found = Found([])
        word = -1
        for part in self._parts(text):
            if part.is_token:
                word += 1
                found.ids.append(self.vocab.get(part.text, self.vocab[self.unknown]))
                found.tokens.append(part.text)
                found.offsets.append((part.start, part.start + len(part.text)))
                found.word_ids.append(word)
                continue
            written, places = self.normaliser.aligned(part.text)
            cut = self._library.encode(written, add_special_tokens=False)
            found.ids.extend(self._known(cut, written))
            found.tokens.extend(cut.tokens)
            for token, (start, end) in zip(cut.tokens, cut.offsets, strict=True):
                word += token.startswith(SPACE) or word < 0
                found.word_ids.append(word)
                found.offsets.append((part.start + places[start][0], part.start + places[end - 1][1]))
        return found

    # -- ids to text -----------------------------------------------------------------------------------------

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of ids; ids without a token, and pieces that stand for no text, are left out."""
        runs = [""]
        for token in (self._tokens.get(id) for id in ids):
            if token in self.added:
                runs += [] if skip_special_tokens else [f"{token} ", ""]
            elif token is not None and self.back.get(token, True):
                is_first = not runs[-1] and token in self.back  # a piece that the model lacks keeps its space, as there
                runs[-1] += (token.removeprefix(SPACE) if is_first else token).replace(SPACE, " ")
        return "".join(runs).strip()


def _unigram(pieces: Pieces) -> tuple[Any, list[str]]:
    """The library's tokenizer that cuts written texts into pieces, 0 for what it cannot spell; and its pieces."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    scores = [score for (_, score), kind in zip(pieces.vocab, pieces.kinds, strict=True) if kind == NORMAL]
    if not scores:
        raise ValueError("it has no pieces that texts could be cut into")
    own = {_UNKNOWN: min(scores)}  # what is unknown costs 10 more than the rarest piece, as there
    highest = max(0.0, *scores)
    for (text, score), kind in zip(pieces.vocab, pieces.kinds, strict=True):
        if kind in (NORMAL, USER_DEFINED) and text:
            own[text] = score if kind == NORMAL else -0.1 + len(text.encode()) * highest
    library = Tokenizer(models.Unigram(list(own.items()), unk_id=0, byte_fallback=False))
    if SPACE in own and not any(SPACE in text[1:] for text in own):  # then words are cut one by one, and remembered
        library.pre_tokenizer = pre_tokenizers.Split(SPACE, "merged_with_next")
    return library, list(own)


def _splitting(added: Mapping[str, AddedToken]) -> str:
    """What finds added tokens in a text: the longest first, with the white space that a token stands for too."""
    return "|".join(
        (r"\s*" if told.lstrip else "") + re.escape(token) + (r"\s*" if told.rstrip else "")
        for token, told in sorted(added.items(), key=lambda one: -len(one[0]))
    )
