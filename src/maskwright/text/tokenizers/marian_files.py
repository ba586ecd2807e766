"""Reads and writes `source.spm`, `target.spm` and `vocab.json`: the tokenizer of a Marian translation model.

Models with separate vocabularies also have `target_vocab.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core import storage
from ...core.errors import CorruptFileError, ModelFolderError
from .marian import MarianBackend
from .merges_files import PAIRS, read_vocabulary
from .sentencepiece_model import CONTROL, Pieces, read_pieces

if TYPE_CHECKING:
    from tokenizers import AddedToken

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
