"""The tokenizer: text to IDs and back, always run by the `tokenizers` library from a `tokenizer.json`.

However it was trained, a tokenizer is saved in the standard files and encodes as in other tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...core import registry, storage
from ...core.errors import ConfigError, InputError
from ..readers.inputs import Text, check_choice, reject_non_texts, split_pairs
from .check import panics_as_errors
from .encoding import (
    TRUNCATIONS,
    Encoding,
    Padding,
    Pieces,
    SpecialTokensTemplate,
    TextCounts,
    Truncation,
    first_window,
    kept_lengths,
    read_template,
)
from .sentencepiece import MarianBackend, set_template
from .tokenizer_files import END_OF_WORD, PAIRS, TEXT_END, files_of, read_tokenizer, special_token_roles, with_record

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

    from ...data.batch import Batch


PathOrPaths = str | Path | Iterable[str | Path]


@dataclass(frozen=True)
class WordMarkers:
    """How tokens mark where a word begins, and what decoding keeps.

    Attributes:
        words: "prefix": a token that continues a word begins with ##; "suffix": the last token of a word ends with
            </w>; "bytes": the first token of a word begins with a space, in the alphabet of byte-level BPE; "space":
            words are separated by a token for the space; "whole": every token is a word; "": not shown.
        keeps_spaces: Whether tokens decode without changing spaces around them.
        line_separator: Text between two lines that the tokenizer preserves; "" if it preserves none.
    """

    words: Literal["prefix", "suffix", "bytes", "space", "whole", ""] = ""
    keeps_spaces: bool = False
    line_separator: str = ""


WORD_MARKERS = {  # any other kind: WordMarkers()
    "wordpiece": WordMarkers("prefix"),
    "wordpiece-score": WordMarkers("prefix"),
    "bpe": WordMarkers("suffix"),
    "byte-bpe": WordMarkers("bytes", keeps_spaces=True, line_separator="\n"),
    "word": WordMarkers("whole"),
    "char": WordMarkers("space", keeps_spaces=True, line_separator=" "),
    "unigram": WordMarkers(keeps_spaces=True),
}


class Tokenizer:
    """Converts text to IDs and back.

    There is no state between calls, so threads may share one tokenizer.

    backend: the library's tokenizer; config: content of `tokenizer_config.json` (special tokens by role; kind and
    training metadata under "maskwright"); special_tokens: role (unk, sep, pad, cls, mask) -> token, for roles that
    exist.
    """

    def __init__(self, backend: Backend | MarianBackend, config: dict[str, Any] | None = None) -> None:
        if not isinstance(backend, MarianBackend):
            backend.no_truncation()
            backend.no_padding()
        self.backend = backend
        self.config = dict(config or {})
        self.special_tokens = special_token_roles(backend, self.config)

    # -- training, loading, saving -------------------------------------------------------------------------

    @classmethod
    def train(
        cls,
        files: PathOrPaths,
        kind: str = "wordpiece",
        vocab_size: int = 8000,
        *,
        skip_bad_rows: bool = False,
        **options: Any,
    ) -> Tokenizer:
        """Train on corpus files, folders or glob patterns; options as in `train_from_iterator`.

        Raises as `text.readers.corpus.read_documents`, and RowErrors for bad rows unless `skip_bad_rows`.
        """
        from .trainers import read_texts

        skipped: dict[str, int] = {}
        tokenizer = cls.train_from_iterator(read_texts(files, skip_bad_rows, skipped), kind, vocab_size, **options)
        tokenizer.facts.update(skipped)
        return tokenizer

    @classmethod
    def train_from_iterator(
        cls, texts: Iterable[str], kind: str = "wordpiece", vocab_size: int = 8000, **options: Any
    ) -> Tokenizer:
        """Train on an iterator of texts, which is read once and never held in memory.

        Args:
            texts: Training texts.
            kind: wordpiece, wordpiece-score, bpe, byte-bpe, word or char.
            vocab_size: Vocabulary size, including special tokens.
            options: lowercase (default True, False for byte-bpe), limit_alphabet (default 1000), and those of the kind
                (see `maskwright.text.tokenizers.trainers`).

        Raises:
            ConfigError: unknown kind or option.
            InputError: no text.
        """
        trainer = registry.resolve("tokenizer", kind)
        known = [name for name in signature(trainer).parameters if name not in ("texts", "vocab_size")]
        for name in options:
            if name not in known:
                raise ConfigError(f"Tokenizer kind '{kind}' does not support {name}; it supports {', '.join(known)}.")
        trained = trainer(texts, vocab_size, **options)
        return cls(trained.backend, trained.config)

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Load a folder with tokenizer.json or vocab.txt (and their configuration), or one of these files.

        A Marian folder loads its source tokenizer; pass its target.spm for the target tokenizer.

        Raises MissingFileError, ModelFolderError (no tokenizer) or CorruptFileError.
        """
        return cls(*read_tokenizer(path))

    def save(self, folder: str | Path) -> None:
        """Write `files()` to a new folder. Raises RunError if it exists and is not empty."""
        with storage.new_folder(folder) as new:
            self.write_to(new)

    def write_to(self, folder: Path) -> None:
        """Write `files()` to a folder created by `storage.new_folder`, and record that it has a manifest."""
        for name, data in with_record(self.files()).items():
            storage.write_bytes(folder / name, data)

    def files(self) -> dict[str, bytes]:
        """Returns name and content of every file, for a tokenizer or model folder; deterministic."""
        return files_of(self.backend, self.config, self.special_tokens)

    # -- encoding ------------------------------------------------------------------------------------------

    def __call__(self, text: str, pair: str | None = None, **options: Any) -> Encoding:
        """Encode one text, or a pair; options as in `encode_batch`."""
        return self.encode_batch([text if pair is None else (text, pair)], **options)[0]

    def encode_batch(
        self,
        texts: Iterable[Text],
        max_length: int | None = None,
        *,
        truncation: str | bool | None = "longest_first",
        stride: int = 0,
        truncation_side: str | None = None,
        padding: str | bool = False,
        padding_side: str = "right",
        add_special_tokens: bool = True,
    ) -> list[Encoding]:
        """Encode texts, or (text, pair) tuples.

        Args:
            texts: Texts or pairs.
            max_length: Maximum number of tokens including special tokens; None: no truncation.
            truncation: longest_first, only_first, only_second, or False.
            stride: Overlap of adjacent windows of `overflowing` in tokens.
            truncation_side: right or left, None as its configuration says (`truncation_side`, right without one).
            padding: False, "longest" or "max_length", for code that needs rectangular batches.

        Raises:
            InputError: an item is not text, contains a lone surrogate, or max_length leaves no tokens for text.
        """
        check_choice("padding_side", padding_side, ("right", "left"))
        firsts, seconds = split_pairs(texts)
        found = self._encodings(firsts, seconds, max_length, truncation, stride, truncation_side, add_special_tokens)
        return self._pad(found, padding, max_length, padding_side)

    def encode_plain(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns IDs without special tokens and offsets (fast path), one list per text."""
        return [raw.ids for raw in self._encode_raw(list(texts), fast=True)]

    def encode_ids(
        self,
        texts: Iterable[Text],
        max_length: int | None = None,
        *,
        pairs: Sequence[str | None] | None = None,
        truncation: str | bool | None = "longest_first",
        counts: TextCounts | None = None,
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Returns IDs and type IDs of texts or pairs with special tokens (fast path).

        The IDs equal those of `encode_batch`. pairs: second texts, if `texts` is the list of the first ones; counts:
        accumulates truncated and unknown tokens.
        """
        firsts: Sequence[Any]
        firsts, pairs = split_pairs(texts) if pairs is None else (list(texts), pairs)
        found = self._encodings(firsts, pairs, max_length, truncation, fast=True)
        if counts is not None:
            for one in found:
                counts.add(len(one.ids), one.num_truncated, one.num_unknown, one.template.num_special)
        return [one.ids for one in found], [one.type_ids for one in found]

    def batch(
        self,
        texts: Iterable[Text],
        max_length: int | None = None,
        *,
        truncation: str | bool | None = "longest_first",
        counts: TextCounts | None = None,
    ) -> Batch:
        """Returns texts or pairs as one packed batch in order; `counts` accumulates truncated and unknown tokens."""
        from ...data.batch import Batch

        ids, types = self.encode_ids(texts, max_length, truncation=truncation, counts=counts)
        has_types = any(1 in row for row in types)
        return Batch.from_sequences(ids, types if has_types else None)

    def with_tokens(self, tokens: Sequence[str]) -> Tokenizer:
        """Returns a copy with further special tokens, which are matched literally."""
        from tokenizers import AddedToken
        from tokenizers import Tokenizer as Made

        if isinstance(self.backend, MarianBackend):
            return Tokenizer(self.backend.with_tokens(tokens, PAIRS), self.config)
        backend = Made.from_str(self.backend.to_str())
        backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in tokens])
        return Tokenizer(backend, self.config)

    def with_template(self, start: str, delimiter: str, end: str) -> Tokenizer:
        """Returns a copy with the template start A end, or start A delimiter B end."""
        copy = self.with_tokens([start, delimiter, end])
        if isinstance(copy.backend, MarianBackend):
            raise InputError("A Marian tokenizer has a fixed special-token template.")
        tokens = {"start": start, "delimiter": delimiter, "end": end}
        set_template(copy.backend, tokens, "{start}:0 $A:0 {end}:0", "{start}:0 $A:0 {delimiter}:0 $B:1 {end}:1")
        return copy

    @property
    def opening_ids(self) -> list[int]:
        """IDs of the special tokens before a text: [CLS] in BERT, none in GPT-2."""
        return list(self._templates[0].gaps[0][0])

    # -- decoding and vocabulary ---------------------------------------------------------------------------

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Decodes `ids` to text; normalization (case, accents, spaces) cannot be reversed."""
        with panics_as_errors():
            return self.backend.decode([int(id) for id in ids], skip_special_tokens=skip_special_tokens)

    def __repr__(self) -> str:
        return f"Tokenizer(kind='{self.kind}', vocab_size={self.vocab_size})"

    # -- vocabulary ----------------------------------------------------------------------------------------

    def token_to_id(self, token: str) -> int | None:
        """Returns the ID of a token, or None."""
        return self.backend.token_to_id(token)

    def id_to_token(self, id: int) -> str | None:
        """Returns the token of an ID, or None."""
        return self.backend.id_to_token(int(id))

    @cached_property
    def vocab_size(self) -> int:
        """Number of embedding rows required: the highest ID + 1."""
        return max(self.backend.get_vocab().values(), default=-1) + 1

    def __len__(self) -> int:
        return self.vocab_size

    @cached_property
    def tokens(self) -> list[str]:
        """Token of every ID, "" for an unused ID."""
        tokens = [""] * self.vocab_size
        for token, id in self.backend.get_vocab().items():
            tokens[id] = token
        return tokens

    def _role_id(self, role: str) -> int | None:
        token = self.special_tokens.get(role)
        return None if token is None else self.backend.token_to_id(token)

    @cached_property
    def cls_id(self) -> int | None:
        """ID of the token at the start of a text; None if there is none. Likewise sep (at its end), mask, pad, unk."""
        return self._role_id("cls")

    sep_id = cached_property[int | None](lambda self: self._role_id("sep"))
    mask_id = cached_property[int | None](lambda self: self._role_id("mask"))
    pad_id = cached_property[int | None](lambda self: self._role_id("pad"))
    unk_id = cached_property[int | None](lambda self: self._role_id("unk"))

    @cached_property
    def bos_id(self) -> int | None:
        """ID of the token at the start of generated text: as configured, else cls, else GPT-2's."""
        return self._generation_id("bos", ("cls", TEXT_END))

    @cached_property
    def eos_id(self) -> int | None:
        """ID of the token at the end of generated text: as configured, else GPT-2's, else sep."""
        return self._generation_id("eos", (TEXT_END, "sep"))

    def _generation_id(self, role: str, others: tuple[str, ...]) -> int | None:
        """Returns the ID of a role in `tokenizer_config.json`, else of the first other role or token that exists."""
        configured = self.config.get(f"{role}_token")
        token = configured.get("content") if isinstance(configured, dict) else configured
        candidates = [token, *(self.special_tokens.get(other, other) for other in others)]
        found = (self.backend.token_to_id(one) for one in candidates if isinstance(one, str))
        return next((id for id in found if id is not None), None)

    @cached_property
    def language_codes(self) -> tuple[str, ...]:
        """Target languages selected by Marian codes such as >>fr<<; empty for any other tokenizer."""
        return tuple(self.backend.codes) if isinstance(self.backend, MarianBackend) else ()

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """IDs that are not text: those of the roles and every token marked special."""
        added = self.backend.get_added_tokens_decoder().items()
        roles = (self.backend.token_to_id(token) for token in self.special_tokens.values())
        return frozenset({id for id, token in added if token.special} | {id for id in roles if id is not None})

    @property
    def facts(self) -> dict[str, Any]:
        """Training metadata: kind, settings, texts, words; empty for a tokenizer from elsewhere."""
        return self.config.get("maskwright", {})

    @cached_property
    def kind(self) -> str:
        """The kind it was trained as, else wordpiece, byte-bpe, bpe, word or unigram, by its model."""
        if named := self.facts.get("kind"):
            return named
        if isinstance(self.backend, MarianBackend):
            return "unigram"
        model = type(self.backend.model).__name__
        if model == "BPE":
            return "byte-bpe" if "ByteLevel" in repr(self.backend.pre_tokenizer) else "bpe"
        return {"WordPiece": "wordpiece", "WordLevel": "word"}.get(model, model.lower())

    @property
    def word_markers(self) -> WordMarkers:
        """How tokens of this kind mark word boundaries."""
        return WORD_MARKERS.get(self.kind, WordMarkers())

    def continues_word(self) -> np.ndarray:
        """Whether each subword continues the preceding word: bool [vocab].

        Determined by the subword itself in WordPiece (##) and byte-level BPE (no leading space, and not punctuation);
        always False for whole words. Raises InputError for kinds where it depends on neighboring tokens (bpe marks the
        end of a word, char nothing): use `word_starts`.
        """
        if self.word_markers.words not in ("prefix", "bytes", "whole"):
            raise InputError(f"A subword of a '{self.kind}' vocabulary does not show whether it continues a word.")
        return self._continues

    def word_starts(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """Returns where words begin in a sequence of IDs: bool [tokens]; a special token is a separate word."""
        ids = np.asarray(ids, dtype=np.int64)
        is_text = self._is_text[ids]
        starts = ~self._continues[ids] | ~is_text
        words = self.word_markers.words
        if words == "suffix":
            starts[1:] = self._ends_word[ids[:-1]] | ~is_text[1:]
        elif words == "space":
            starts[1:] = self._ends_word[ids[:-1]] | self._ends_word[ids[1:]] | ~is_text[1:]
        starts[:1] = True
        starts[1:] |= ~is_text[:-1]
        return starts

    @cached_property
    def _continues(self) -> np.ndarray:
        words = self.word_markers.words
        if words == "bytes":
            return np.array([_continues_bytes(token) for token in self.tokens]) & self._is_text
        if words != "prefix" or isinstance(self.backend, MarianBackend):
            return np.zeros(self.vocab_size, dtype=bool)
        prefix = self.backend.model.continuing_subword_prefix
        return np.array([token.startswith(prefix) for token in self.tokens]) & self._is_text

    @cached_property
    def _ends_word(self) -> np.ndarray:
        """Tokens after which a word begins: those with the end-of-word symbol, or the space of a char vocabulary."""
        end = " " if self.word_markers.words == "space" else END_OF_WORD
        return np.array([token.endswith(end) for token in self.tokens])

    @cached_property
    def _is_text(self) -> np.ndarray:
        """Whether each ID is text: bool [vocab]."""
        is_text = np.ones(self.vocab_size, dtype=bool)
        is_text[list(self.special_ids)] = False
        return is_text

    # -- internals -----------------------------------------------------------------------------------------

    def _encodings(
        self,
        firsts: Sequence[Any],
        seconds: Sequence[str | None],
        max_length: int | None,
        truncation: str | bool | None,
        stride: int = 0,
        truncation_side: str | None = None,
        add_special_tokens: bool = True,
        fast: bool = False,
    ) -> list[Encoding]:
        strategy = _strategy(truncation)
        side = truncation_side or ("left" if self.config.get("truncation_side") == "left" else "right")
        check_choice("truncation_side", side, ("right", "left"))
        if strategy and max_length is not None:
            if stride > _text_limit(max_length, self._templates[0].num_special):
                raise InputError(f"stride={stride} exceeds the tokens for text in max_length={max_length}: lower it.")
        else:
            max_length = None
        unk_id = self.unk_id
        raw = self._encode_raw([*firsts, *(text for text in seconds if text is not None)], fast)
        pairs = iter(raw[len(firsts) :])
        cuts: dict[int, tuple[SpecialTokensTemplate, Truncation]] = {}
        result = []
        for first, second in zip(raw, seconds, strict=False):
            pieces = (Pieces(first),) if second is None else (Pieces(first), Pieces(next(pairs)))
            if len(pieces) not in cuts:
                template = self._templates[len(pieces) - 1 if add_special_tokens else len(pieces) + 1]
                room = None if max_length is None else _text_limit(max_length, template.num_special)
                cuts[len(pieces)] = template, Truncation(room, strategy or "longest_first", stride, side == "left")
            template, cut = cuts[len(pieces)]
            lengths = tuple(map(len, pieces))
            if cut.room is None or sum(lengths) <= cut.room:
                windows = tuple((0, length) for length in lengths)
            else:
                kept = kept_lengths(lengths, cut)
                windows = tuple(first_window(*both, cut) for both in zip(lengths, kept, strict=True))
            result.append(Encoding(pieces, windows, template, unk_id, cut))
        return result

    def _encode_raw(self, texts: list[str], fast: bool = False) -> list[Any]:
        encode = self.backend.encode_batch_fast if fast else self.backend.encode_batch
        try:
            with panics_as_errors():
                return encode(texts, add_special_tokens=False)
        except TypeError:
            reject_non_texts(texts)
            raise

    @cached_property
    def _templates(self) -> tuple[SpecialTokensTemplate, ...]:
        """Templates for one text and a pair, with and without special tokens, from encoding a probe text."""
        probe = next((text for text in ("a", *self.tokens) if self._encode_raw([text])[0].ids), None)
        if probe is None:
            raise InputError("This tokenizer cannot encode text: its vocabulary is empty.")
        with panics_as_errors():
            return tuple(
                read_template(self.backend.encode(probe, pair, add_special_tokens=special), 1 if pair is None else 2)
                for special in (True, False)
                for pair in (None, probe)
            )

    def _pad(self, encodings: list[Encoding], padding: str | bool, max_length: int | None, side: str) -> list[Encoding]:
        check_choice("padding", padding, (False, True, "longest", "max_length"))
        if padding is False or not encodings:
            return encodings
        if padding == "max_length" and max_length is None:
            raise InputError("padding='max_length' needs max_length: pass it, or use padding='longest'.")
        length = max_length if padding == "max_length" else max(len(encoding) for encoding in encodings)
        if self.pad_id is None:
            raise InputError("This tokenizer has no padding token: encode without padding.")
        fill = Padding(length or 0, side == "left", self.pad_id, self.special_tokens["pad"])
        return [replace(encoding, padding=fill) for encoding in encodings]


def _continues_bytes(token: str) -> bool:
    """Whether a byte-level token continues a word: it neither begins with whitespace nor is punctuation."""
    first = token[:1]
    return bool(first) and first not in "ĠĊĉč" and (first.isalnum() or ord(first) > 0x7F)


def _strategy(truncation: str | bool | None) -> str | None:
    """Returns the name of the truncation strategy, or None for no truncation."""
    if truncation is True:
        return "longest_first"
    if truncation in (False, None, "do_not_truncate"):
        return None
    check_choice("truncation", truncation, TRUNCATIONS)
    return str(truncation)


def _text_limit(max_length: int, num_special: int) -> int:
    if max_length < num_special:
        raise InputError(f"max_length={max_length} is too small: the special tokens take {num_special}. Raise it.")
    return max_length - num_special
