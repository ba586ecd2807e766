"""Reads `vocab.json` with `merges.txt`: byte-level BPE as in RoBERTa's published tokenizer (Radford et al. 2019)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core import storage
from ...core.errors import CorruptFileError, ModelFolderError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

PAIRS = "vocab.json"
MERGES = "merges.txt"
LIMIT_BYTES = 256 << 20
TEXT_END = "<|endoftext|>"  # of GPT-2
DEFAULT_SPECIAL_TOKENS = {"unk": "<unk>", "sep": "</s>", "pad": "<pad>", "cls": "<s>", "mask": "<mask>"}


def byte_level_backend(path: Path, config: dict[str, Any], tokens: dict[str, str | None]) -> Backend:
    """Load the tokenizer of a vocab.json and the merges.txt next to it.

    config: content of tokenizer_config.json; tokens: special tokens by role from it, None for RoBERTa's defaults.
    Special tokens are added to texts if the vocabulary has a first and a last token. Raises ModelFolderError without a
    merges.txt, CorruptFileError for invalid files.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

    if not path.with_name(MERGES).is_file():
        raise ModelFolderError(
            f"{path} has no {MERGES} next to it, which byte-level BPE needs (a Marian tokenizer needs source.spm and "
            "target.spm)."
        )
    vocab = read_vocabulary(path)
    try:
        model = models.BPE(vocab, _read_merges(path.with_name(MERGES)), fuse_unk=False)
    except Exception as error:  # the library raises bare Exception for a merge missing from the vocabulary
        raise CorruptFileError(
            f"{path.with_name(MERGES)} does not match {PAIRS} ({error}): restore both from their source."
        ) from None
    backend = Tokenizer(model)
    spaced = bool(config.get("add_prefix_space", False))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spaced)
    backend.decoder = decoders.ByteLevel()
    named = {role: token or DEFAULT_SPECIAL_TOKENS[role] for role, token in tokens.items()}
    if named["cls"] in vocab and named["sep"] in vocab:
        set_roberta_special_tokens(backend, named, config)
    else:
        if TEXT_END in vocab:
            backend.add_special_tokens([AddedToken(TEXT_END, special=True, normalized=False)])
        backend.post_processor = processors.ByteLevel(trim_offsets=True)
    has_special_tokens = named["cls"] in vocab and named["sep"] in vocab
    config.setdefault("tokenizer_class", "RobertaTokenizer" if has_special_tokens else "GPT2Tokenizer")
    return backend


def set_roberta_special_tokens(backend: Backend, tokens: dict[str, str], config: dict[str, Any]) -> None:
    """Register the special tokens and set the template <s> A </s></s> B </s>, all of type 0.

    The mask token absorbs the preceding space unless tokenizer_config.json disables it.
    """
    from tokenizers import AddedToken, processors

    said = config.get("mask_token")
    takes_space = bool(said.get("lstrip", True)) if isinstance(said, dict) else True
    backend.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False, lstrip=takes_space and role == "mask")
            for role, token in tokens.items()
            if role in ("cls", "sep") or backend.token_to_id(token) is not None
        ]
    )
    vocab = backend.get_vocab()
    cls, sep = ((tokens[role], vocab[tokens[role]]) for role in ("cls", "sep"))
    spaced = bool(config.get("add_prefix_space", False))
    backend.post_processor = processors.RobertaProcessing(sep, cls, trim_offsets=True, add_prefix_space=spaced)


def read_vocabulary(path: Path) -> dict[str, int]:
    """Returns the ID of each token in a JSON file. Raises CorruptFileError for other content."""
    vocab = storage.read_json(path, LIMIT_BYTES)
    is_table = isinstance(vocab, dict) and all(type(index) is int and 0 <= index < 1 << 32 for index in vocab.values())
    if not is_table or not vocab:
        raise CorruptFileError(f"{path} is not a mapping of tokens to IDs: restore it from its source.")
    return dict(vocab)


def _read_merges(path: Path) -> list[tuple[str, str]]:
    try:
        lines = storage.read_bytes(path, LIMIT_BYTES).decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"{path} is not UTF-8 (byte {error.start}): restore it from its source.") from None
    merges = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or (number == 1 and line.startswith("#version")):
            continue
        first, _, second = line.rstrip("\r").partition(" ")
        if not first or not second or " " in second:
            raise CorruptFileError(f"{path}, line {number}: expected two symbols to merge. Restore it from its source.")
        merges.append((first, second))
    return merges
