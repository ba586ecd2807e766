"""Tokenizer folders: `tokenizer.json`, or a vocabulary with `tokenizer_config.json`, in the common form.

A `vocab.txt` becomes the pipeline of BERT's published fast tokenizer (Devlin et al. 2019): clean, lower-case,
split at spaces and punctuation, longest match first. `vocab.json` with `merges.txt`: see `text.merges_files`; with
`source.spm` and `target.spm`: see `text.marian_files`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import storage
from ..core.errors import CorruptFileError, MissingFileError, ModelFolderError
from .marian import MarianBackend
from .marian_files import SOURCE, TARGET, TARGET_VOCABULARY, marian_backend, marian_files
from .merges_files import MERGES, PAIRS, byte_level_backend, frame_as_roberta
from .sentencepiece_files import NAMES as SENTENCEPIECE
from .sentencepiece_files import sentencepiece_backend

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

TOKENIZER = "tokenizer.json"
VOCABULARY = "vocab.txt"
CONFIG = "tokenizer_config.json"
SPECIAL_TOKENS = "special_tokens_map.json"
MAIN_FILES = (SOURCE, TARGET, TOKENIZER, VOCABULARY, PAIRS, *SENTENCEPIECE)  # the first that is there is read
LIMIT_BYTES = 256 << 20
# The order in which missing special tokens get their ids, and the usual names of each role.
ROLES = {
    "unk": ("[UNK]", "<unk>"),
    "sep": ("[SEP]", "</s>"),
    "pad": ("[PAD]", "<pad>"),
    "cls": ("[CLS]", "<s>"),
    "mask": ("[MASK]", "<mask>"),
}
# Unicode's White_Space: what is trimmed at the end of a vocabulary line. Python's own set has four more.
_WHITE_SPACE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"  # noqa: E501


def read_tokenizer(path: str | Path) -> tuple[Backend | MarianBackend, dict[str, Any]]:
    """The library's tokenizer and its configuration, from a folder or one of its main files.

    A folder with two of them, of sources and of targets, stands for the first; its `target.spm` for the second.
    """
    path = Path(path)
    if not path.exists():
        raise MissingFileError(f"{path} does not exist: give a tokenizer folder, a tokenizer.json or a vocab.txt.")
    if path.is_dir():
        main = next((path / name for name in MAIN_FILES if (path / name).is_file()), None)
        if main is None:
            raise ModelFolderError(f"{path} holds no tokenizer: neither {TOKENIZER} nor {VOCABULARY} is there.")
    else:
        main = path
    _verify(main)
    config = _read_config(main.parent)
    if main.name in (SOURCE, TARGET):
        for name in (SOURCE, TARGET, TARGET_VOCABULARY, PAIRS):
            if main.with_name(name).is_file():
                _verify(main.with_name(name))
        return marian_backend(main, config), config
    if main.name == PAIRS:
        _verify(main.with_name(MERGES))
        tokens = {role: _content(config.get(f"{role}_token")) for role in ROLES}
        return byte_level_backend(main, config, tokens), config
    if main.suffix == ".json":
        return _from_json(main, config), config
    if main.suffix == ".model":
        named = {role: _content(config.get(f"{role}_token")) for role in (*ROLES, "bos", "eos")}
        return sentencepiece_backend(main, config, named), config
    return _from_vocabulary(main, config), config


def special_token_roles(backend: Backend | MarianBackend, config: dict[str, Any]) -> dict[str, str]:
    """Role (unk, sep, pad, cls, mask) to token: as configured, else the usual name in the vocabulary."""
    roles = {}
    for role, usual in ROLES.items():
        configured = _content(config.get(f"{role}_token"))
        candidates: tuple[str | None, ...] = (configured,) if configured else usual
        if role == "unk" and not configured:
            candidates = (getattr(backend.model, "unk_token", None), *usual)
        token = next((token for token in candidates if token and backend.token_to_id(token) is not None), None)
        if token is not None:
            roles[role] = token
    return roles


def bert_backend(vocab: dict[str, int], config: dict[str, Any]) -> Backend:
    """BERT's fast tokenizer over `vocab`, with the settings of a `tokenizer_config.json`."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    is_mpnet = str(config.get("tokenizer_class", "")).startswith("MPNet")
    tokens = {
        role: _content(config.get(f"{role}_token")) or usual[is_mpnet and role != "unk"]
        for role, usual in ROLES.items()
    }
    backend = Tokenizer(models.WordPiece(vocab, unk_token=tokens["unk"]))
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=config.get("tokenize_chinese_chars", True),
        strip_accents=config.get("strip_accents"),
        lowercase=config.get("do_lower_case", True),
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    if is_mpnet:
        frame_as_roberta(backend, tokens, config)
    else:
        frame(backend, tokens)
    return backend


def frame(backend: Backend, tokens: dict[str, str], *, mask_takes_space: bool = False) -> None:
    """Register the special tokens and put [CLS] A [SEP] B [SEP], types 0 and 1, around texts.

    mask_takes_space: the mask stands for the space before it too, as pieces do whose words begin with a space.
    """
    from tokenizers import AddedToken, processors

    backend.add_special_tokens(
        [
            AddedToken(tokens[role], special=True, normalized=False, lstrip=mask_takes_space and role == "mask")
            for role in ROLES
        ]
    )
    cls, sep = tokens["cls"], tokens["sep"]
    backend.post_processor = processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(token, backend.token_to_id(token)) for token in (cls, sep)],
    )


class TokenizerFiles:
    """What a tokenizer's folder holds."""

    def __init__(
        self, backend: Backend | MarianBackend, config: dict[str, Any], roles: dict[str, str], kind: str
    ) -> None:
        self.backend, self.config, self.roles, self.kind = backend, config, roles, kind

    def all(self) -> dict[str, bytes]:
        """Name and content of every file."""
        if isinstance(self.backend, MarianBackend):
            return marian_files(self.backend, self.config)
        special = {f"{role}_token": token for role, token in self.roles.items()}
        # `auto_map` names code to run on load: it is never passed on.
        config = {name: value for name, value in self.config.items() if name != "auto_map"} | special
        config.setdefault("tokenizer_class", "PreTrainedTokenizerFast")
        text = self.backend.to_str(pretty=True)
        files = {
            TOKENIZER: text.encode(),
            CONFIG: _json(dict(sorted(config.items()))),
            SPECIAL_TOKENS: _json(special),
        }
        return files | self._vocabulary_files(json.loads(text)["model"])

    def _vocabulary_files(self, model: dict[str, Any]) -> dict[str, bytes]:
        if model.get("type") == "WordPiece":
            return {VOCABULARY: _lines(_by_id(model["vocab"]))}
        if model.get("type") == "BPE":
            merges = [" ".join(merge) if isinstance(merge, list) else merge for merge in model["merges"]]
            return {PAIRS: _json(model["vocab"]), MERGES: _lines(["#version: 0.2", *merges])}
        if model.get("type") == "WordLevel":
            return {PAIRS: _json(model["vocab"])}
        return {}


def _from_json(path: Path, config: dict[str, Any]) -> Backend:
    from tokenizers import Tokenizer, processors

    data = storage.read_bytes(path, LIMIT_BYTES)
    try:
        backend = Tokenizer.from_str(data.decode("utf-8"))
    except Exception as error:  # the library raises bare Exception for what it cannot parse
        raise CorruptFileError(f"{path} is not a usable tokenizer ({error}): restore it from its source.") from None
    if backend.post_processor is None:
        backend.post_processor = processors.TemplateProcessing(single="$A:0", pair="$A:0 $B:1", special_tokens=[])
    if config.get("tokenizer_class") not in ("PreTrainedTokenizerFast", "TokenizersBackend"):
        _apply_bert_settings(backend, config)
    return backend


def _apply_bert_settings(backend: Backend, config: dict[str, Any]) -> None:
    """Let what `tokenizer_config.json` says of case, accents and CJK win over `tokenizer.json`, as elsewhere.

    What it does not say is filled in, because others take BERT's defaults for it.
    """
    from tokenizers import normalizers

    current = backend.normalizer
    if not isinstance(current, normalizers.BertNormalizer):
        return
    settings = {"clean_text": current.clean_text}
    for said, name in (
        ("do_lower_case", "lowercase"),
        ("strip_accents", "strip_accents"),
        ("tokenize_chinese_chars", "handle_chinese_chars"),
    ):
        settings[name] = config.setdefault(said, getattr(current, name))
    backend.normalizer = normalizers.BertNormalizer(**settings)


def _from_vocabulary(path: Path, config: dict[str, Any]) -> Backend:
    try:
        text = storage.read_bytes(path, LIMIT_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"{path} is not UTF-8 (byte {error.start}): restore it from its source.") from None
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    vocab = {line.rstrip(_WHITE_SPACE): id for id, line in enumerate(lines)}
    if not vocab:
        raise ModelFolderError(f"{path} is empty: a vocabulary has one token a line.")
    backend = bert_backend(vocab, config)
    config.setdefault("tokenizer_class", "BertTokenizer")
    config.setdefault("do_lower_case", True)
    return backend


def _read_config(folder: Path) -> dict[str, Any]:
    """Both configuration files as one; `tokenizer_config.json` wins."""
    config: dict[str, Any] = {}
    for name in (SPECIAL_TOKENS, CONFIG):
        if (folder / name).is_file():
            _verify(folder / name)
            content = storage.read_json(folder / name)
            if not isinstance(content, dict):
                raise CorruptFileError(f"{folder / name} is not a JSON object: restore it from its source.")
            config |= content
    return config


def _verify(path: Path) -> None:
    """Compare one file with its folder's manifest, where there is one."""
    manifest = path.with_name(storage.MANIFEST)
    if not manifest.is_file():
        return
    content = storage.read_json(manifest)
    facts = content.get("files", {}).get(path.name) if isinstance(content, dict) else None
    if isinstance(facts, dict) and facts.get("sha256") != storage.sha256(path):
        raise CorruptFileError(f"{path} has changed since it was written: restore it from a copy.")


def _content(token: Any) -> str | None:
    """A special token as text; configuration files also write it as {"content": ...}."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) and token else None


def _by_id(vocab: dict[str, int]) -> list[str]:
    return sorted(vocab, key=lambda token: vocab[token])


def _lines(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()
