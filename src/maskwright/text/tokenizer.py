"""The tokenizer: text to ids and back, always run by the `tokenizers` library through a `tokenizer.json`.

Whatever trained it, a tokenizer is saved in the files that the ecosystem knows and encodes as they do
elsewhere. Nothing here keeps state between calls, so threads may share one tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import registry, storage
from ..core.errors import ConfigError, InputError
from .encoding import (
    TRUNCATIONS,
    Cut,
    Encoding,
    Padding,
    Pieces,
    Template,
    TextCounts,
    first_window,
    kept_lengths,
    read_template,
)
from .inputs import Text, check_choice, refuse_non_texts, split_pairs
from .marian import MarianBackend
from .tokenizer_files import TokenizerFiles, read_tokenizer
from .vocabulary import Vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

    from ..data.batch import Batch

PathOrPaths = str | Path | Iterable[str | Path]


class Tokenizer(Vocabulary):
    """Text to ids and back.

    backend: the library's tokenizer; config: what `tokenizer_config.json` holds (special tokens by role; kind
    and facts of the training under "maskwright").
    """

    def __init__(self, backend: Backend | MarianBackend, config: dict[str, Any] | None = None) -> None:
        backend.no_truncation()
        backend.no_padding()
        super().__init__(backend, config)

    # -- making, loading, saving ---------------------------------------------------------------------------

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
        """Train on corpus files, folders or patterns; options as in `train_from_iterator`.

        Raises what `text.corpus.read_documents` raises, RowErrors for bad rows unless `skip_bad_rows`.
        """
        from .trainers.texts import read_texts

        skipped: dict[str, int] = {}
        tokenizer = cls.train_from_iterator(read_texts(files, skip_bad_rows, skipped), kind, vocab_size, **options)
        tokenizer.facts.update(skipped)
        return tokenizer

    @classmethod
    def train_from_iterator(
        cls, texts: Iterable[str], kind: str = "wordpiece", vocab_size: int = 8000, **options: Any
    ) -> Tokenizer:
        """Train on an iterator of texts, read once and never held as a whole.

        kind: wordpiece, wordpiece-score, bpe, byte-bpe, word or char; vocab_size: ids in all, special tokens
        included. Options: lowercase (default True, False for byte-bpe), limit_alphabet (1000), and those of
        the kind (see `maskwright.text.trainers`). Raises ConfigError for an unknown kind, InputError for
        empty text.
        """
        trainer = registry.resolve("tokenizer", kind)
        known = [name for name in signature(trainer).parameters if name not in ("texts", "vocab_size")]
        for name in options:
            if name not in known:
                raise ConfigError(f"A tokenizer of kind '{kind}' takes no {name}; it takes {', '.join(known)}.")
        trained = trainer(texts, vocab_size, **options)
        return cls(trained.backend, trained.config)

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """From a folder with tokenizer.json or vocab.txt (and their configuration), or one of these files. Of a Marian
        folder its tokenizer of sources; that of targets by its target.spm.

        Raises MissingFileError, ModelFolderError (no tokenizer there) or CorruptFileError.
        """
        return cls(*read_tokenizer(path))

    def save(self, folder: str | Path) -> None:
        """Write `files()` as a new folder. Raises RunError when it exists and is not empty."""
        with storage.new_folder(folder) as new:
            for name, data in self.files().items():
                storage.write_bytes(new / name, data)

    def files(self) -> dict[str, bytes]:
        """Name and content of every file, for a folder of its own or a model's; always the same bytes."""
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
        truncation_side: str = "right",
        padding: str | bool = False,
        padding_side: str = "right",
        add_special_tokens: bool = True,
    ) -> list[Encoding]:
        """Encode texts, or (text, pair) tuples.

        max_length: tokens in all, special ones included; None cuts nothing. truncation: longest_first,
        only_first, only_second, or False. stride: tokens that neighbouring windows of `overflowing` share.
        padding: False, "longest" or "max_length": rectangles for code that wants them; nothing here needs
        any. Raises InputError for what is not text, a lone surrogate, or a max_length that leaves no room.
        """
        firsts, seconds = split_pairs(texts)
        strategy = _strategy(truncation)
        check_choice("truncation_side", truncation_side, ("right", "left"))
        check_choice("padding_side", padding_side, ("right", "left"))
        if strategy and max_length is not None and stride > _room(max_length, self._template(1, True).num_special):
            raise InputError(f"stride={stride} is more than max_length={max_length} leaves for text: lower it.")
        encoded = [Pieces(raw) for raw in self._encode_raw([*firsts, *(text for text in seconds if text is not None)])]
        pairs = iter(encoded[len(firsts) :])
        result = []
        for first, second in zip(encoded, seconds, strict=False):
            pieces = (first,) if second is None else (first, next(pairs))
            template = self._template(len(pieces), add_special_tokens)
            room = None if max_length is None or strategy is None else _room(max_length, template.num_special)
            cut = Cut(room, strategy or "longest_first", stride, truncation_side == "left")
            lengths = tuple(len(piece) for piece in pieces)
            kept = kept_lengths(lengths, cut)
            windows = tuple(first_window(*both, cut) for both in zip(lengths, kept, strict=True))
            result.append(Encoding(pieces, windows, template, self.unk_id, cut))
        return self._pad(result, padding, max_length, padding_side)

    def encode_plain(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids without special tokens and without offsets: the fast path. One list per text."""
        return [raw.ids for raw in self._encode_raw(list(texts), fast=True)]

    def encode_ids(
        self,
        texts: Iterable[Text],
        max_length: int | None = None,
        *,
        truncation: str | bool | None = "longest_first",
        counts: TextCounts | None = None,
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Ids and type ids of texts or pairs with their special tokens, on the fast path.

        The ids equal those of `encode_batch`; `counts`, when given, adds up what was cut or unknown.
        """
        firsts, seconds = split_pairs(texts)
        strategy = _strategy(truncation)
        plain = self.encode_plain([*firsts, *(text for text in seconds if text is not None)])
        pairs = iter(plain[len(firsts) :])
        all_ids, all_types = [], []
        for first, second in zip(plain, seconds, strict=False):
            own = (first,) if second is None else (first, next(pairs))
            template = self._template(len(own), True)
            room = None if max_length is None or strategy is None else _room(max_length, template.num_special)
            lengths = tuple(len(ids) for ids in own)
            kept = kept_lengths(lengths, Cut(room, strategy or "longest_first"))
            ids, types = list(template.gaps[0][0]), list(template.gaps[0][2])
            for entries, keep, type_id, gap in zip(own, kept, template.type_ids, template.gaps[1:], strict=True):
                ids += entries[:keep]
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
        """Texts or pairs as one packed batch, in the order given; `counts` adds up what was cut."""
        from ..data.batch import Batch

        ids, types = self.encode_ids(texts, max_length, truncation=truncation, counts=counts)
        has_types = any(1 in row for row in types)
        return Batch.from_sequences(ids, types if has_types else None)

    def with_tokens(self, tokens: Sequence[str]) -> Tokenizer:
        """The same tokenizer with further special tokens, which are found in texts as they are."""
        from tokenizers import AddedToken
        from tokenizers import Tokenizer as Made

        if isinstance(self.backend, MarianBackend):
            return Tokenizer(self.backend.with_tokens(tokens), self.config)
        backend = Made.from_str(self.backend.to_str())
        backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in tokens])
        return Tokenizer(backend, self.config)

    def with_frame(self, start: str, delimiter: str, end: str) -> Tokenizer:
        """The same with start A end, or start A delimiter B end, around texts."""
        from tokenizers import processors

        framed = self.with_tokens([start, delimiter, end])
        if isinstance(framed.backend, MarianBackend):
            raise InputError("A Marian tokenizer has a frame of its own, which cannot be changed.")
        framed.backend.post_processor = processors.TemplateProcessing(
            single=f"{start}:0 $A:0 {end}:0",
            pair=f"{start}:0 $A:0 {delimiter}:0 $B:1 {end}:1",
            special_tokens=[(token, framed.backend.token_to_id(token)) for token in (start, delimiter, end)],
        )
        return framed

    @property
    def opening_ids(self) -> list[int]:
        """Ids of the special tokens that stand before a text: [CLS] in BERT, none in GPT-2."""
        return list(self._template(1, True).gaps[0][0])

    # -- decoding and the vocabulary -----------------------------------------------------------------------

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Text of `ids`; what the tokenizer normalised away (case, accents, spaces) does not come back."""
        return self.backend.decode([int(id) for id in ids], skip_special_tokens=skip_special_tokens)

    def __repr__(self) -> str:
        return f"Tokenizer(kind='{self.kind}', vocab_size={self.vocab_size})"

    # -- inside --------------------------------------------------------------------------------------------

    def _encode_raw(self, texts: list[str], fast: bool = False) -> list[Any]:
        encode = self.backend.encode_batch_fast if fast else self.backend.encode_batch
        try:
            return encode(texts, add_special_tokens=False)
        except TypeError:
            refuse_non_texts(texts)
            raise

    def _template(self, num_texts: int, add_special_tokens: bool) -> Template:
        return self._templates[num_texts - 1 if add_special_tokens else num_texts + 1]

    @cached_property
    def _templates(self) -> tuple[Template, ...]:
        """For one text and a pair, with special tokens and without: what the library makes of a probe."""
        probe = next((text for text in ("a", *self.tokens) if self._encode_raw([text])[0].ids), None)
        if probe is None:
            raise InputError("This tokenizer encodes nothing: its vocabulary is empty.")
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
            raise InputError("padding='max_length' needs max_length: give it, or use padding='longest'.")
        length = max_length if padding == "max_length" else max(len(encoding) for encoding in encodings)
        if self.pad_id is None:
            raise InputError("This tokenizer has no padding token: encode without padding.")
        fill = Padding(length or 0, side == "left", self.pad_id, self.special_tokens["pad"])
        return [replace(encoding, padding=fill) for encoding in encodings]


def _strategy(truncation: str | bool | None) -> str | None:
    """The strategy in words, None for no truncation."""
    if truncation is True:
        return "longest_first"
    if truncation in (False, None, "do_not_truncate"):
        return None
    check_choice("truncation", truncation, TRUNCATIONS)
    return str(truncation)


def _room(max_length: int, num_special: int) -> int:
    if max_length < num_special:
        raise InputError(
            f"max_length={max_length} leaves no room: the special tokens alone take {num_special}. Raise it."
        )
    return max_length - num_special
