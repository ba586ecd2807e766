"""The tokenizer: text to IDs and back, always run by the `tokenizers` library from a `tokenizer.json`.

However it was trained, a tokenizer is saved in the standard files and encodes as in other tools. There is no state
between calls, so threads may share one tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from .marian import MarianBackend
from .tokenizer_files import TokenizerFiles, read_tokenizer, with_record
from .vocabulary import Vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

    from ...data.batch import Batch

PathOrPaths = str | Path | Iterable[str | Path]


class Tokenizer(Vocabulary):
    """Converts text to IDs and back.

    backend: the library's tokenizer; config: content of `tokenizer_config.json` (special tokens by role; kind and
    training metadata under "maskwright").
    """

    def __init__(self, backend: Backend | MarianBackend, config: dict[str, Any] | None = None) -> None:
        backend.no_truncation()
        backend.no_padding()
        super().__init__(backend, config)

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
        from .trainers.words import read_texts

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
        return TokenizerFiles(self.backend, self.config, self.special_tokens, self.kind).all()

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
        firsts, seconds = split_pairs(texts)
        strategy = _strategy(truncation)
        truncation_side = truncation_side or self._truncation_side
        check_choice("truncation_side", truncation_side, ("right", "left"))
        check_choice("padding_side", padding_side, ("right", "left"))
        if (
            strategy
            and max_length is not None
            and stride > _text_limit(max_length, self._template(1, True).num_special)
        ):
            raise InputError(f"stride={stride} exceeds the tokens for text in max_length={max_length}: lower it.")
        encoded = [Pieces(raw) for raw in self._encode_raw([*firsts, *(text for text in seconds if text is not None)])]
        pairs = iter(encoded[len(firsts) :])
        result = []
        for first, second in zip(encoded, seconds, strict=False):
            pieces = (first,) if second is None else (first, next(pairs))
            template = self._template(len(pieces), add_special_tokens)
            room = None if max_length is None or strategy is None else _text_limit(max_length, template.num_special)
            cut = Truncation(room, strategy or "longest_first", stride, truncation_side == "left")
            lengths = tuple(len(piece) for piece in pieces)
            kept = kept_lengths(lengths, cut)
            windows = tuple(first_window(*both, cut) for both in zip(lengths, kept, strict=True))
            result.append(Encoding(pieces, windows, template, self.unk_id, cut))
        return self._pad(result, padding, max_length, padding_side)

    def encode_plain(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns IDs without special tokens and offsets (fast path), one list per text."""
        return [raw.ids for raw in self._encode_raw(list(texts), fast=True)]

    def encode_ids(
        self,
        texts: Iterable[Text],
        max_length: int | None = None,
        *,
        truncation: str | bool | None = "longest_first",
        counts: TextCounts | None = None,
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Returns IDs and type IDs of texts or pairs with special tokens (fast path).

        The IDs equal those of `encode_batch`; `counts`, if given, accumulates truncated and unknown tokens.
        """
        firsts, seconds = split_pairs(texts)
        strategy, is_right = _strategy(truncation), self._truncation_side == "right"
        plain = self.encode_plain([*firsts, *(text for text in seconds if text is not None)])
        pairs = iter(plain[len(firsts) :])
        all_ids, all_types = [], []
        for first, second in zip(plain, seconds, strict=False):
            own = (first,) if second is None else (first, next(pairs))
            template = self._template(len(own), True)
            room = None if max_length is None or strategy is None else _text_limit(max_length, template.num_special)
            lengths = tuple(map(len, own))
            fits = room is None or sum(lengths) <= room
            kept = lengths if fits else kept_lengths(lengths, Truncation(room, strategy or "longest_first"))
            ids, types = list(template.gaps[0][0]), list(template.gaps[0][2])
            for entries, keep, type_id, gap in zip(own, kept, template.type_ids, template.gaps[1:], strict=True):
                ids += entries[:keep] if is_right else entries[len(entries) - keep :]
                ids += gap[0]
                types += [type_id] * keep
                types += gap[2]
            all_ids.append(ids)
            all_types.append(types)
            if counts is not None:
                unknown = 0 if self.unk_id is None else ids.count(self.unk_id)
                counts.add(len(ids), sum(lengths) - sum(kept), unknown, template.num_special)
        return all_ids, all_types

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
            return Tokenizer(self.backend.with_tokens(tokens), self.config)
        backend = Made.from_str(self.backend.to_str())
        backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in tokens])
        return Tokenizer(backend, self.config)

    def with_template(self, start: str, delimiter: str, end: str) -> Tokenizer:
        """Returns a copy with the template start A end, or start A delimiter B end."""
        from tokenizers import processors

        copy = self.with_tokens([start, delimiter, end])
        if isinstance(copy.backend, MarianBackend):
            raise InputError("A Marian tokenizer has a fixed special-token template.")
        copy.backend.post_processor = processors.TemplateProcessing(
            single=f"{start}:0 $A:0 {end}:0",
            pair=f"{start}:0 $A:0 {delimiter}:0 $B:1 {end}:1",
            special_tokens=[(token, copy.backend.token_to_id(token)) for token in (start, delimiter, end)],
        )
        return copy

    @property
    def opening_ids(self) -> list[int]:
        """IDs of the special tokens before a text: [CLS] in BERT, none in GPT-2."""
        return list(self._template(1, True).gaps[0][0])

    # -- decoding and vocabulary ---------------------------------------------------------------------------

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Decodes `ids` to text; normalization (case, accents, spaces) cannot be reversed."""
        with panics_as_errors():
            return self.backend.decode([int(id) for id in ids], skip_special_tokens=skip_special_tokens)

    def __repr__(self) -> str:
        return f"Tokenizer(kind='{self.kind}', vocab_size={self.vocab_size})"

    # -- internals -----------------------------------------------------------------------------------------

    def _encode_raw(self, texts: list[str], fast: bool = False) -> list[Any]:
        encode = self.backend.encode_batch_fast if fast else self.backend.encode_batch
        try:
            with panics_as_errors():
                return encode(texts, add_special_tokens=False)
        except TypeError:
            reject_non_texts(texts)
            raise

    @property
    def _truncation_side(self) -> str:
        return "left" if self.config.get("truncation_side") == "left" else "right"

    def _template(self, num_texts: int, add_special_tokens: bool) -> SpecialTokensTemplate:
        return self._templates[num_texts - 1 if add_special_tokens else num_texts + 1]

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
